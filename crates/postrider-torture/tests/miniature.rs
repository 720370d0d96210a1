//! A short torture of the real binary, as part of the ordinary tests: half a minute of each profile.
//!
//! Ten minutes of it prove much more: `cargo xtask torture --minutes 10`, whose reports are kept under `docs/reports`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use postrider_testkit::command::relay_beside;
use postrider_testkit::servers::process::find;
use postrider_testkit::servers::{installed, kafka};

/// Those that come often enough in half a minute.
const FAULTS: &str = "relay-kill,relay-term,relay-pause,broker-cut,broker-answer-lost";

/// In half a minute it is luck whether the kills find messages in flight: a run that proves too little is repeated with
/// another seed, one that breaks a promise is not.
const SEEDS: [&str; 3] = ["1", "2", "3"];
/// The torturer's exit code for a run that proves too little.
const INCONCLUSIVE: i32 = 3;

/// Each has relays, servers and writers of its own that its bounds of time are meant for.
static ALONE: Mutex<()> = Mutex::new(());

fn torture(store: &str, broker: &str, more: &[&str]) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // The feature of MariaDB's store is called after its protocol.
    let features = [if store == "mariadb" { "mysql" } else { store }, broker];
    let relay = match relay_beside(Path::new(env!("CARGO_BIN_EXE_torture")), &features) {
        Ok(relay) => relay,
        Err(unbuilt) => {
            println!("NOT RUN: a short torture: {unbuilt}");
            return;
        }
    };
    for seed in SEEDS {
        let out = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_torture"));
        command.args(["--seed", seed, "--minutes", "0.5", "--relays", "3", "--rate", "60", "--mean-gap-ms", "2000"]);
        command.args(["--faults", FAULTS, "--build", "dev", "--relay-bin"]).arg(&relay).arg("--out").arg(out.path());
        let run = command.args(["--store", store, "--broker", broker]).args(more).output().unwrap();
        let (said, wrong) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        println!("{said}");
        if run.status.code() == Some(INCONCLUSIVE) {
            continue;
        }
        if run.status.code() != Some(0) {
            // Its logs are what there is to look at.
            let kept = out.keep();
            panic!("kept in {}: {}\n{said}\n{wrong}", kept.display(), run.status);
        }
        for file in ["report.json", "report.svg"] {
            assert!(out.path().join(file).is_file(), "{file}");
        }
        return;
    }
    panic!("{} runs in a row proved too little", SEEDS.len());
}

#[test]
fn half_a_minute_of_torture_from_postgresql_to_nats_breaks_nothing() {
    from_postgresql_to_nats(&[]);
}

#[test]
fn half_a_minute_of_torture_of_receivers_with_tokens_leaves_no_token() {
    from_postgresql_to_nats(&["--consumer", "token"]);
}

fn from_postgresql_to_nats(more: &[&str]) {
    if !Path::new("/usr/lib/postgresql").exists() && std::env::var_os("POSTRIDER_POSTGRES_BIN").is_none() {
        println!("NOT RUN: a short torture: PostgreSQL is not installed");
        return;
    }
    if installed("a short torture", find("nats-server", &[], "nats-server")).is_none() {
        return;
    }
    torture("postgres", "nats", more);
}

#[test]
fn half_a_minute_of_torture_from_mariadb_to_kafka_breaks_nothing() {
    let what = "a short torture";
    if installed(what, find("mariadb-install-db", &[], "mariadb-server")).is_none()
        || installed(what, find("java", &[], "default-jre-headless")).is_none()
        || installed(what, kafka::libraries()).is_none()
    {
        return;
    }
    torture("mariadb", "kafka", &[]);
}

#[test]
fn half_a_minute_of_torture_from_sqlite_to_http_breaks_nothing() {
    torture("sqlite", "http", &[]);
}
