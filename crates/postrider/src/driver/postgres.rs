//! What the two drivers of PostgreSQL share: what a refusal means, and the script that creates the tables.

use postrider_core::{Error, ErrorKind};

#[cfg(any(feature = "sqlx-postgres", feature = "tokio-postgres"))]
use crate::outbox::Outbox;

const MIGRATE: &str = "run `postrider migrate` or call postrider::migrate before the application writes, and check the \
                       configured schema and prefix";

/// A refusal by PostgreSQL, by its SQLSTATE; none when the connection failed.
pub(super) fn refused(table: &str, sqlstate: Option<&str>) -> Error {
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

/// Whether the script stopped because the tables are newer and this library works on them as they are.
#[cfg(any(feature = "sqlx-postgres", feature = "tokio-postgres"))]
pub(super) fn is_up_to_date(sqlstate: Option<&str>) -> bool {
    sqlstate == Some("PR003")
}

/// A refusal of the script that creates the tables.
#[cfg(any(feature = "sqlx-postgres", feature = "tokio-postgres"))]
pub(super) fn not_migrated(sqlstate: Option<&str>) -> Error {
    let (kind, text) = match sqlstate {
        // Raised by the script itself: its message says what is wrong.
        Some("PR001") => (ErrorKind::Config, "migrating the outbox: use a newer postrider"),
        Some("PR002") => (ErrorKind::Config, "migrating the outbox: leave the number of lanes out or name that one"),
        Some("55P03") => (
            ErrorKind::Throttled,
            "migrating the outbox: the application held a table for more than 2 s; nothing was changed, run it again",
        ),
        Some("42501") => {
            (ErrorKind::Config, "migrating the outbox: the role may not create these tables; use the owner's")
        }
        Some("25006") => (ErrorKind::Config, "migrating the outbox: this is a replica; connect to the primary"),
        Some(_) => (ErrorKind::Rejected, "migrating the outbox: nothing was changed"),
        None => (ErrorKind::Unavailable, "migrating the outbox: the connection failed; run it again"),
    };
    Error::new(kind, text)
}

/// The number of lanes of an outbox that is there; no row, or SQLSTATE `42P01`, when it is not.
#[cfg(any(feature = "sqlx-postgres", feature = "tokio-postgres"))]
pub(super) fn lanes_statement(outbox: &Outbox) -> String {
    format!("select lanes from \"{}\".\"{}meta\"", outbox.schema, outbox.prefix)
}

/// The script for an outbox that has this number of lanes already, or is not there.
#[cfg(any(feature = "sqlx-postgres", feature = "tokio-postgres"))]
pub(super) fn script(outbox: &Outbox, found: Option<i32>) -> Result<String, Error> {
    use postrider_core::LaneCount;
    use postrider_stores::postgres::{Names, schema};

    const DEFAULT: LaneCount = match LaneCount::new(64) {
        Some(lanes) => lanes,
        None => LaneCount::ONE,
    };
    let found = found.and_then(|lanes| LaneCount::new(u16::try_from(lanes).ok()?));
    let names = Names::new(&outbox.schema, &outbox.prefix)?;
    Ok(schema::ddl(&names, outbox.lanes.or(found).unwrap_or(DEFAULT)))
}
