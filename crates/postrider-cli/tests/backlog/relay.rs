//! The real relay, with its time and its memory measured.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a run took.
#[derive(Debug)]
pub struct Measured {
    pub took: Duration,
    /// The largest resident set, in bytes.
    pub most_memory: u64,
}

fn command(arguments: &[&str]) -> Command {
    let mut command = postrider_testkit::command::command(env!("CARGO_BIN_EXE_postrider"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    command
}

pub fn migrate(store: &str) {
    assert!(command(&["migrate", "--store", store]).status().unwrap().success());
}

/// Runs the relay until the outbox is empty.
pub fn drain(store: &str, broker: &str) -> Measured {
    run(store, broker, &["--until-empty"], None)
}

/// Runs the relay for a time and kills it.
pub fn run_for(store: &str, broker: &str, time: Duration) -> Measured {
    run(store, broker, &[], Some(time))
}

fn run(store: &str, broker: &str, arguments: &[&str], limit: Option<Duration>) -> Measured {
    let folder = tempfile::tempdir().unwrap();
    let config = super::config(folder.path(), store, broker);
    let started = Instant::now();
    let mut child = command(&["relay", "--log-level", "warn", "--relay-lease", "2s", "--config"])
        .arg(config)
        .args(arguments)
        .spawn()
        .unwrap();
    let mut most_memory = 0;
    let status = loop {
        most_memory = most_memory.max(resident(&child));
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if limit.is_some_and(|limit| started.elapsed() >= limit) {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        assert!(started.elapsed() < Duration::from_secs(3600), "the relay does not end");
        std::thread::sleep(Duration::from_millis(20));
    };
    if let Some(status) = status {
        assert!(status.success(), "the relay ended with {status}");
    }
    Measured { took: started.elapsed(), most_memory }
}

/// The peak of the resident set as the kernel counts it.
fn resident(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
