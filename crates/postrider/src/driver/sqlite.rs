//! What the two drivers of SQLite share: what a refusal means.

use postrider_core::{Error, ErrorKind};

use crate::inbox::InboxError;
use crate::outbox::Outbox;

pub(super) const BUSY: i32 = 5;
pub(super) const LOCKED: i32 = 6;
pub(super) const NO_MEMORY: i32 = 7;
pub(super) const READONLY: i32 = 8;
pub(super) const IO: i32 = 10;
pub(super) const FULL: i32 = 13;
#[cfg(feature = "consume")]
const CANNOT_OPEN: i32 = 14;

const MIGRATE: &str = "run `postrider migrate` or call postrider::migrate before the application writes, and check the \
                       configured schema and prefix";

/// Whether a result code says that another connection was at work.
#[cfg(any(feature = "sqlx-sqlite", feature = "rusqlite"))]
pub(super) fn is_busy(code: Option<i32>) -> bool {
    code.map(|code| code & 0xff) == Some(BUSY)
}

/// Whether an error of any statement, by its result code, says nothing of what was asked.
#[cfg(feature = "consume")]
pub(super) fn is_trouble(code: i32) -> bool {
    matches!(code & 0xff, BUSY | LOCKED | NO_MEMORY | READONLY | IO | FULL | CANNOT_OPEN)
}

/// A refusal by SQLite, by its result code and its message.
pub(super) fn refused(table: &str, code: Option<i32>, message: &str) -> Error {
    let missing = message.contains("no such table") || message.contains("has no column");
    let (kind, text) = match code.map(|code| code & 0xff) {
        Some(_) if missing => (ErrorKind::Config, format!("the outbox table {table} is not as expected: {MIGRATE}")),
        Some(BUSY | LOCKED) => (
            ErrorKind::Throttled,
            format!(
                "enqueueing into {table}: somebody else is writing; begin with BEGIN IMMEDIATE, set a busy timeout of \
                 5 s or more, and run the transaction again"
            ),
        ),
        Some(READONLY) => {
            (ErrorKind::Config, format!("enqueueing into {table}: the database file or its folder cannot be written"))
        }
        Some(IO | FULL | NO_MEMORY) => {
            (ErrorKind::Unavailable, format!("enqueueing into {table}: the disk is full or fails, or memory is short"))
        }
        Some(_) => (ErrorKind::Rejected, format!("enqueueing into {table}: roll the transaction back")),
        None => (ErrorKind::Unavailable, format!("enqueueing into {table}: the connection failed")),
    };
    Error::new(kind, text)
}

/// A refusal of what an inbox was asked, by its result code and its message.
pub(super) fn not_received(code: Option<i32>, said: String) -> InboxError {
    let missing = said.contains("no such table") || said.contains("no such column");
    let (kind, text) = match code.map(|code| code & 0xff) {
        Some(_) if missing => (ErrorKind::Config, format!("the inbox is not there, or is older: {MIGRATE}")),
        Some(BUSY | LOCKED) => {
            let text = "asking the inbox: somebody else is writing; begin with BEGIN IMMEDIATE, set a busy timeout of 5 s \
                        or more, and run the transaction again";
            return InboxError::Contended(Some(Error::new(ErrorKind::Throttled, text).because(said)));
        }
        Some(READONLY) => {
            (ErrorKind::Config, "asking the inbox: the database file or its folder cannot be written".to_owned())
        }
        Some(IO | FULL | NO_MEMORY) => {
            (ErrorKind::Unavailable, "asking the inbox: the disk is full or fails, or memory is short".to_owned())
        }
        Some(_) => (ErrorKind::Rejected, "asking the inbox: roll the transaction back".to_owned()),
        None => (ErrorKind::Unavailable, "asking the inbox: the connection failed".to_owned()),
    };
    Error::new(kind, text).because(said).into()
}

/// A refusal of a statement of the migration.
#[cfg(any(feature = "sqlx-sqlite", feature = "rusqlite"))]
pub(super) fn not_migrated(code: Option<i32>) -> Error {
    let (kind, text) = match code.map(|code| code & 0xff) {
        Some(BUSY | LOCKED) => (
            ErrorKind::Throttled,
            "migrating the outbox: somebody else is writing for longer than the connection's busy timeout; nothing was \
             changed, run it again",
        ),
        Some(READONLY) => (
            ErrorKind::Config,
            "migrating the outbox: the database file or its folder cannot be written; check its owner",
        ),
        Some(_) => (ErrorKind::Rejected, "migrating the outbox: nothing was changed"),
        None => (ErrorKind::Unavailable, "migrating the outbox: the connection failed"),
    };
    Error::new(kind, text)
}

/// What the names of the tables begin with.
pub(super) fn prefix(tables: &Outbox) -> Result<String, Error> {
    Ok(tables.prefix.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trouble_of_the_disk_is_not_the_fault_of_a_message() {
        for code in [IO, FULL, NO_MEMORY, IO | (3 << 8)] {
            assert_eq!(refused("outbox", Some(code), "").kind(), ErrorKind::Unavailable, "{code}");
            let InboxError::Database(error) = not_received(Some(code), String::new()) else { panic!("{code}") };
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{code}");
        }
        assert_eq!(refused("outbox", Some(19), "").kind(), ErrorKind::Rejected);
    }
}
