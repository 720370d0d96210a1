//! `torture`: real relays, real servers, faults drawn from a seed, a recorder, and a verdict.
//!
//! A black box: it knows the SDK, SQL, the relay's program, its admin address and what a broker hands to consumers.
//! `cargo xtask torture` builds and runs it.

mod director;
mod fleet;
mod judge;
mod moment;
mod operator;
mod place;
mod plan;
mod random;
mod receivers;
mod record;
mod report;
mod run;
mod settings;
mod watch;
mod ways;
mod writers;

use std::process::ExitCode;

use clap::Parser;

use judge::Verdict;
use settings::Settings;

/// An answer, or a sentence about why the harness could not go on.
type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main(flavor = "multi_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some((receivers::receive::VERB, words)) = words.split_first().map(|(verb, words)| (verb.as_str(), words)) {
        return match receivers::receive::receive(words).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let settings = Settings::parse();
    match run::run(&settings).await {
        Ok(Verdict::Pass) => ExitCode::SUCCESS,
        Ok(Verdict::Violation) => ExitCode::from(1),
        Ok(Verdict::Inconclusive) => ExitCode::from(3),
        Err(error) => {
            eprintln!("torture: the harness could not go on: {error}");
            ExitCode::from(2)
        }
    }
}
