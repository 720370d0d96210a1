//! Checks, tests, shows, simulated worlds and breaks of the workspace: `cargo xtask --help`.

mod bench;
mod breaks;
mod bugs;
mod check;
mod circumstances;
mod copy;
mod jobs;
mod mutants;
mod process;
mod reliability;
mod servers;
mod shows;
mod simulate;
mod table;
mod test;
mod torture;
mod tree;

use std::process::ExitCode;

use tree::Tree;

/// What a verb gives back: its exit code, or a sentence that says why it could not even try.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const HELP: &str = "\
cargo xtask VERB [ARGUMENTS]

verbs:
  check [--install] [STEP...]     what can be judged without running the product; every step, or only those named
                                  (cargo xtask check --list prints them). --install builds cargo-deny where it is missing
  test [--install] [--full]       every test once, bounded in time and parallelism; ends with the table of suites and the
       [--jobs N] [--only TEXT]   named rows. --full adds the long tests; --only runs the test binaries whose name
                                  contains TEXT (and judges no named row)
  servers [--install]             the servers that the tests use, found or not. --install installs the missing ones as
                                  root with apt-get, without starting any service
  show [--report] NAME.N...       runs Show N of the work called NAME; a command that several of them have is run once.
                                  --report keeps each under docs/reports/
  show                            lists the shows
  simulate [--seeds N] [--start S] [--jobs N]
  simulate --seed S               plays simulated worlds, one per seed: relays, a store, brokers and faults without any
                                  I/O; 2000 seeds unless told otherwise. --seed plays one and prints what happens in it
  torture [--dev] [--report]      real relays and servers under faults drawn from a seed, and a verdict; further arguments
       [--beside COMMIT]          are those of the torturer (--seed --minutes --store --broker --relays --faults ...).
       [ARGUMENTS...]             --report keeps report and picture under docs/reports/; with --beside every other relay is
                                  one of that commit, as in a rolling upgrade
  torture --bugs [NAME...]        applies each patch of crates/postrider-torture/bugs/ to a copy of HEAD and demands that
                                  torture finds it
  reliability                     writes the summary in docs/reliability.md anew from the kept reports
  bench [--quick] [--report]      measures drain, latency, transactions, cost, memory, scaling, held (a transaction held open)
       [--only PART,PART]         and mysql-kafka, beside the limit of this machine, with servers of its own. --report keeps
       [--runs N] [--held S]      each part under docs/reports/ and makes docs/performance.md of all that are kept;
       [--backlog N]              --only-page does that alone
  breaks [--jobs N] [NAME...]     applies each patch of crates/postrider-testkit/breaks/ to a copy of HEAD and demands
                                  that the test named in its header turns red; in N copies at once, one per core unless
                                  told otherwise
  breaks --list                   lists the breaks
  mutants [--package NAME]        changes the core's machine and the relay in one place after the other, and demands that a
          [--report] [--fresh]    test notices, or that crates/postrider-testkit/survivors.toml says why none can; an hour or
          [--jobs N]              two long, it goes on where it was ended; --report keeps the judgement

examples:
  cargo xtask check fmt clippy
  cargo xtask test --only postgres
  cargo xtask breaks the_fence_is_open

exit codes: 0 all well, 1 something failed, 2 a wrong argument, 3 something must be installed by root first
The last line of `check` and `test` counts: `N passed, N failed, N skipped`.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (verb, rest) = match arguments.split_first() {
        Some((verb, rest)) => (verb.as_str(), rest),
        None => ("--help", [].as_slice()),
    };
    if verb == "--help" || verb == "-h" || verb == "help" || rest.iter().any(|word| word == "--help" || word == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let answer = match verb {
        // It needs no tree, so that somebody without a cargo of his own can be told what to install.
        "servers" => servers::main(rest),
        verb => Tree::find().and_then(|tree| in_tree(&tree, verb, rest)),
    };
    answer.unwrap_or_else(|error| {
        eprintln!("cargo xtask {verb}: {error}");
        ExitCode::FAILURE
    })
}

fn in_tree(tree: &Tree, verb: &str, rest: &[String]) -> Result<ExitCode> {
    match verb {
        "check" => check::main(tree, rest),
        "test" => test::main(tree, rest),
        "show" => shows::main(tree, rest),
        "simulate" => simulate::main(tree, rest),
        "breaks" => breaks::main(tree, rest),
        "bench" => bench::main(tree, rest),
        "torture" => torture::main(tree, rest),
        "mutants" => mutants::main(tree, rest),
        "reliability" => reliability::main(tree, rest),
        other => {
            eprintln!("there is no verb {other:?}\n\n{HELP}");
            Ok(ExitCode::from(2))
        }
    }
}
