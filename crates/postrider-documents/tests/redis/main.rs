//! Documents in Redis, against a real server.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "../counting/mod.rs"]
mod counting;

mod backlog;
mod durability;
mod encrypted;
mod lost;
mod refused;
mod suite;

use postrider_core::{Error, Finding, Level, WriteError};

/// The error of a write that failed.
fn failed<T: std::fmt::Debug>(written: Result<T, WriteError>) -> Error {
    match written {
        Err(WriteError::Failed(error)) => error,
        other => panic!("expected a failure, found {other:?}"),
    }
}

/// How serious what was found of a subject is; none where nothing was.
fn level(findings: &[Finding], subject: &str) -> Option<Level> {
    findings.iter().find(|finding| finding.subject == subject).map(|finding| finding.level)
}
