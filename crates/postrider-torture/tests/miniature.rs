//! A short torture of the real binary, as part of the ordinary tests: half a minute of each profile.
//!
//! Ten minutes of it prove much more: `cargo xtask torture --minutes 10`, whose reports are kept under `docs/reports`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

use postrider_testkit::servers::process::find;

/// Those that come often enough in half a minute.
const FAULTS: &str = "relay-kill,relay-term,relay-pause,broker-cut,broker-answer-lost";

/// The relay's program, which cargo builds beside this crate's.
fn relay() -> Option<PathBuf> {
    let file = Path::new(env!("CARGO_BIN_EXE_torture")).with_file_name("postrider");
    file.is_file().then_some(file)
}

fn torture(arguments: &[&str]) {
    let Some(relay) = relay() else {
        println!("NOT RUN: a short torture: the relay's program is not built; cargo build -p postrider-cli");
        return;
    };
    let out = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_torture"));
    command.args(["--seed", "1", "--minutes", "0.5", "--relays", "3", "--rate", "60", "--mean-gap-ms", "2000"]);
    command.args(["--faults", FAULTS, "--build", "dev", "--relay-bin"]).arg(relay).arg("--out").arg(out.path());
    let run = command.args(arguments).output().unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    println!("{said}");
    assert_eq!(run.status.code(), Some(0), "{said}\n{wrong}");
    for file in ["report.json", "report.svg"] {
        assert!(out.path().join(file).is_file(), "{file}");
    }
}

#[test]
fn half_a_minute_of_torture_from_postgresql_to_nats_breaks_nothing() {
    if !Path::new("/usr/lib/postgresql").exists() && std::env::var_os("POSTRIDER_POSTGRES_BIN").is_none() {
        println!("NOT RUN: a short torture: PostgreSQL is not installed");
        return;
    }
    if let Err(missing) = find("nats-server", &[], "nats-server") {
        println!("NOT RUN: a short torture: {missing}");
        return;
    }
    torture(&["--store", "postgres", "--broker", "nats"]);
}

#[test]
fn half_a_minute_of_torture_from_sqlite_to_http_breaks_nothing() {
    torture(&["--store", "sqlite", "--broker", "http"]);
}
