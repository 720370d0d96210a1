//! What a database's refusal means, and what its user can do about it.

use postrider_core::{Error, ErrorKind};

const MIGRATE: &str = "run `postrider migrate` or call postrider::migrate once before the application writes, and \
                       check the configured schema and prefix";

/// A refusal by PostgreSQL, by its SQLSTATE; none when the connection failed.
#[cfg(any(feature = "sqlx-postgres", feature = "tokio-postgres"))]
pub(super) fn postgres(table: &str, sqlstate: Option<&str>) -> Error {
    let (kind, text) = match sqlstate {
        Some("42P01" | "3F000") => (ErrorKind::Config, format!("the outbox table {table} is not there: {MIGRATE}")),
        Some("42703") => (ErrorKind::Config, format!("the outbox table {table} lacks a column: {MIGRATE}")),
        Some("42501") => (
            ErrorKind::Config,
            format!("the application's role may not insert into {table}: grant it what the writer role has"),
        ),
        Some("25P02") => (
            ErrorKind::Rejected,
            format!(
                "enqueueing into {table} in a transaction that has failed already: roll it back, look at its first error"
            ),
        ),
        Some("25006") => {
            (ErrorKind::Config, format!("enqueueing into {table} in a read-only transaction or on a replica"))
        }
        Some(_) => (ErrorKind::Rejected, format!("enqueueing into {table}: roll the transaction back")),
        None => (
            ErrorKind::Unavailable,
            format!("enqueueing into {table}: the connection failed, the transaction is lost; run it again"),
        ),
    };
    Error::new(kind, text)
}

/// A refusal by SQLite, by its result code and its message.
#[cfg(any(feature = "sqlx-sqlite", feature = "rusqlite"))]
pub(super) fn sqlite(table: &str, code: Option<i32>, message: &str) -> Error {
    const BUSY: i32 = 5;
    const LOCKED: i32 = 6;
    const READONLY: i32 = 8;
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
        Some(_) => (ErrorKind::Rejected, format!("enqueueing into {table}: roll the transaction back")),
        None => (ErrorKind::Unavailable, format!("enqueueing into {table}: the connection failed")),
    };
    Error::new(kind, text)
}
