//! What kind of thing SQLite's errors are.

use postrider_core::{Error, ErrorKind, Result};
use rusqlite::{Connection, ErrorCode};

use super::SqliteOptions;

/// Classifies an error of SQLite, with what was being done and what a person can do about it.
pub(super) fn classify(options: &SqliteOptions, doing: &str, error: rusqlite::Error) -> Error {
    let file = options.file().display();
    let (kind, advice) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            let what = format!("{doing}: another process has kept {file} locked; keep write transactions short");
            return Error::new(ErrorKind::Unavailable, what).because(error).advise(format!(
                "see which process has the file open (`fuser -v {file}` or `lsof {file}`), let it end its transaction or stop \
                 it, and run this again"
            ));
        }
        // SQLite's own words say the same again.
        Some(ErrorCode::DiskFull) => return full(options, doing),
        Some(ErrorCode::SystemIoFailure) => {
            (ErrorKind::Unavailable, format!("reading or writing {file} failed; look at the disk"))
        }
        Some(ErrorCode::OperationInterrupted) => {
            (ErrorKind::Unavailable, "the time limit of this statement has passed".to_owned())
        }
        Some(ErrorCode::OutOfMemory) => (ErrorKind::Unavailable, "memory is short".to_owned()),
        Some(ErrorCode::CannotOpen) if !options.file().exists() => (
            ErrorKind::Config,
            format!("there is no file {file}; create it with `postrider migrate --store {}`", options.url()),
        ),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            return not_writable(options, &format!("{doing}: ")).because(error);
        }
        Some(ErrorCode::NotADatabase) => {
            (ErrorKind::Config, format!("{file} is not an SQLite database; check the path"))
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            (ErrorKind::Config, format!("{file} is damaged; run `pragma integrity_check` and restore it from a backup"))
        }
        Some(_) | None if error.to_string().contains("no such table") => (ErrorKind::Config, no_tables(options)),
        Some(_) | None => (ErrorKind::Config, format!("{file} was not used as expected; run `postrider check`")),
    };
    Error::new(kind, format!("{doing}: {advice}")).because(error)
}

/// A disk that has no room left.
pub(super) fn full(options: &SqliteOptions, doing: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{doing}: the disk of {} is full", options.file().display()))
        .advise("free some space, nothing is lost")
}

/// Refuses a file that can only be read. Only asking tells: `begin immediate` succeeds on such a file, as a read.
pub(super) fn refuse_read_only(options: &SqliteOptions, connection: &Connection) -> Result<()> {
    match connection.is_readonly(rusqlite::MAIN_DB) {
        Ok(false) => Ok(()),
        Ok(true) => Err(not_writable(options, "")),
        Err(error) => Err(classify(options, "opening the store", error)),
    }
}

fn not_writable(options: &SqliteOptions, doing: &str) -> Error {
    let what = format!("{doing}{} cannot be opened for writing", options.file().display());
    Error::new(ErrorKind::Config, what)
        .advise("give the user that runs this write permission on it and its folder, or run this as one that has it")
}

/// Why a migration failed that left no file behind; none where there is one.
pub(super) fn cannot_create(options: &SqliteOptions) -> Option<Error> {
    let file = options.file();
    let text = format!("cannot create {}: its folder does not exist, or you may not write to it", file.display());
    (!file.exists()).then(|| Error::new(ErrorKind::Config, text))
}

/// What to say where the tables are missing.
pub(super) fn no_tables(options: &SqliteOptions) -> String {
    format!(
        "{} has no outbox tables; create them with `postrider migrate --store {}`",
        options.file().display(),
        options.url()
    )
}
