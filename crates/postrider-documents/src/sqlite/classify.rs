//! What kind of thing SQLite's errors are.

use std::path::Path;

use postrider_core::{Error, ErrorKind};
use rusqlite::ErrorCode;

/// An error of SQLite, with what was being done and what a person can do about it.
pub(super) fn classify(file: &Path, doing: &str, error: rusqlite::Error) -> Error {
    let place = file.display();
    let prepare = "call prepare once, or correct the path in the URL";
    let (kind, wrong, step) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            ErrorKind::Unavailable,
            "another process has kept it locked",
            "keep write transactions short; `fuser -v FILE` says who has it open",
        ),
        Some(ErrorCode::DiskFull) => (ErrorKind::Unavailable, "its disk is full", "free some space, nothing is lost"),
        // What was written before it failed may be found after a restart.
        Some(ErrorCode::SystemIoFailure) => (ErrorKind::Unknown, "reading or writing it failed", "look at the disk"),
        Some(ErrorCode::OutOfMemory) => (ErrorKind::Unavailable, "memory is short", "give this process more"),
        Some(ErrorCode::CannotOpen) if !file.exists() => (ErrorKind::Config, "there is no such file", prepare),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => (
            ErrorKind::Config,
            "it cannot be written",
            "give this process write permission on the file and on its folder",
        ),
        Some(ErrorCode::NotADatabase) => (ErrorKind::Config, "it is no SQLite database", "correct the path in the URL"),
        Some(ErrorCode::DatabaseCorrupt) => {
            (ErrorKind::Config, "it is damaged", "run `pragma integrity_check`, and restore it from a backup")
        }
        Some(_) | None if error.to_string().contains("no such table") => {
            (ErrorKind::Config, "it has no table of documents", prepare)
        }
        Some(_) | None => (ErrorKind::Config, "its table is not as prepare makes it", "look at what SQLite says"),
    };
    Error::new(kind, format!("{doing} in {place}: {wrong}")).because(error).advise(step)
}
