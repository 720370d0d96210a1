//! Plays seeds of the simulator: `cargo xtask simulate --help`.

use std::process::ExitCode;
use std::time::Instant;

use postrider_testkit::simulator::{Campaign, News, replay};

const HELP: &str = "\
cargo xtask simulate [--seeds N] [--start S] [--jobs N]
cargo xtask simulate --seed S

  --seeds N   how many seeds to play; default 2000
  --start S   the first of them; default 0
  --jobs N    how many at once; default: one per core
  --seed S    plays one seed and prints everything that happened in it

exit codes: 0 every promise held and every interesting event was seen in more than one of a hundred seeds (asked from
1000 seeds on), 1 otherwise, 2 a wrong argument";

struct Asked {
    seeds: u64,
    start: u64,
    jobs: usize,
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|word| word == "--help" || word == "-h") {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let asked = match read(&arguments) {
        Ok(asked) => asked,
        Err(wrong) => {
            eprintln!("{wrong}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    // A panic of the product is a broken promise of its seed, and told there.
    std::panic::set_hook(Box::new(|_| ()));
    if let Some(seed) = asked.seed {
        return one(seed);
    }
    let started = Instant::now();
    let shown = std::sync::atomic::AtomicU64::new(0);
    let seeds = asked.start..asked.start.saturating_add(asked.seeds);
    let campaign = Campaign::play(seeds, asked.jobs, |news| match news {
        News::Broken(seed, violation) => eprintln!("seed {seed} broke {}: {}", violation.promise, violation.text),
        News::Played(done) => {
            let seconds = started.elapsed().as_secs();
            let last = shown.swap(seconds / 10, std::sync::atomic::Ordering::Relaxed);
            if last != seconds / 10 {
                eprintln!("{done} of {} seeds after {seconds} s", asked.seeds);
            }
        }
    });
    print!("{}", campaign.report());
    if campaign.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(seed: u64) -> ExitCode {
    let (run, history) = replay(seed);
    history.iter().for_each(|line| println!("{line}"));
    println!(
        "\nseed {seed}: {} events, {} faults, {:.3} simulated seconds, hash {:016x}",
        run.events,
        run.faults,
        run.lasted as f64 / 1e6,
        run.hash
    );
    match run.violation {
        None => {
            println!("every promise held");
            ExitCode::SUCCESS
        }
        Some(violation) => {
            println!("{} is broken: {}", violation.promise, violation.text);
            ExitCode::FAILURE
        }
    }
}

fn read(arguments: &[String]) -> Result<Asked, String> {
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut asked = Asked { seeds: 2_000, start: 0, jobs, seed: None };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().and_then(|value| value.replace('_', "").parse::<u64>().ok());
        let value = value.ok_or_else(|| format!("{word} wants a number"))?;
        match word.as_str() {
            "--seeds" => asked.seeds = value,
            "--start" => asked.start = value,
            "--seed" => asked.seed = Some(value),
            "--jobs" => asked.jobs = usize::try_from(value).unwrap_or(1).max(1),
            other => return Err(format!("there is no option {other:?}")),
        }
    }
    Ok(asked)
}
