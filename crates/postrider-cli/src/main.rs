//! The `postrider` binary: the relay daemon and its tools.
//!
//! [`cli`] says what can be typed, [`config`] reads files, variables and flags, [`verbs`] has one file per verb,
//! [`admin`] serves `/metrics`, `/livez`, `/readyz` and `/status`, [`wiring`] opens stores and brokers, [`demo`] shows the
//! whole of it at work.

mod admin;
mod built_in;
mod cli;
mod config;
#[cfg(feature = "demo")]
mod demo;
mod exit;
#[cfg(feature = "failpoints")]
mod failpoints;
mod failure;
mod logs;
mod mistyped;
mod notify;
mod ordinary;
mod output;
mod redact;
mod running;
mod signals;
mod verbs;
mod wiring;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use cli::{Cli, ConfigVerb, Verb};
use config::Config;
use config::layers::{FILE_VARIABLE, Layers};
use exit::Exit;
use failure::{Failure, Outcome};

fn main() -> ExitCode {
    // A client that takes the process's provider would panic at the first handshake where a dependency brings a second one.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    #[cfg(feature = "failpoints")]
    if let Some(exit) = failpoints::begin() {
        return exit;
    }
    match understood().and_then(run) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "{}", redact::scrub(&failure.lines()));
            failure.exit.into()
        }
    }
}

/// What was typed; help and the version are printed and end the process.
fn understood() -> Outcome<Cli> {
    let typed: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    Cli::try_parse().map_err(|error| {
        let is_verbose = typed.iter().any(|word| word == cli::VERBOSE);
        if error.kind() == ErrorKind::DisplayVersion && is_verbose {
            return match output::print(&built_in::told()) {
                Ok(()) => std::process::exit(Exit::Good.code().into()),
                Err(failure) => failure,
            };
        }
        match mistyped::failure(&error, typed) {
            Some(failure) => failure,
            None => error.exit(),
        }
    })
}

fn run(cli: Cli) -> Outcome<Exit> {
    match &cli.verb {
        Verb::Init(init) => return init.run(&cli.global),
        Verb::Completions(completions) => return completions.run(),
        #[cfg(feature = "demo")]
        Verb::Demo(demo) => return block_on(demo.run(&cli.global)),
        _ => {}
    }
    let config = configured(&cli)?;
    redact::remember(config.secrets(), &config.names());
    logs::start(&config.log);
    block_on(perform(cli.verb, &config))
}

fn block_on(verb: impl Future<Output = Outcome<Exit>>) -> Outcome<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
        Failure::usage(format!("cannot start: {error}"), "free memory or raise the limit of threads")
    })?;
    let exit = runtime.block_on(verb);
    // A thread that is stuck in a system call must not keep the process.
    runtime.shutdown_background();
    exit
}

async fn perform(verb: Verb, config: &Config) -> Outcome<Exit> {
    match verb {
        Verb::Init(_) | Verb::Completions(_) => Ok(Exit::Good),
        #[cfg(feature = "demo")]
        Verb::Demo(_) => Ok(Exit::Good),
        Verb::Migrate(verb) => verb.run(config).await,
        Verb::Relay(verb) => verb.run(config).await,
        Verb::Enqueue(verb) => verb.run(config).await,
        Verb::Status(verb) => verb.run(config).await,
        Verb::Explain(verb) => verb.run(config).await,
        Verb::Dead(verb) => verb.run(config).await,
        Verb::Inbox(verb) => verb.run(config).await,
        Verb::Prune(verb) => verb.run(config).await,
        Verb::Check(verb) => verb.run(config).await,
        Verb::Bench(verb) => verb.run(config).await,
        Verb::Config(ConfigVerb::Show(verb)) => verb.run(config),
    }
}

fn configured(cli: &Cli) -> Outcome<Config> {
    let named = cli.global.config.clone().or_else(|| std::env::var_os(FILE_VARIABLE).map(PathBuf::from));
    let file = config::file_to_read(named);
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
    let flags = cli.global.settings().into_iter().chain(cli.verb.settings());
    Config::from_layers(Layers::read(file.as_deref(), variables, flags)?)
}
