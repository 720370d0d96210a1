//! What the drivers of PostgreSQL share: what a refusal means, and the script that creates the tables.

use postrider_core::{Error, ErrorKind};
use postrider_stores::postgres::Names;
use postrider_stores::postgres::inbox::{FUTURE, NO_PARTITION, TOO_OLD, asks_again};

use crate::inbox::InboxError;
use crate::outbox::Outbox;

const MIGRATE: &str = "run `postrider migrate` or call postrider::migrate before the application writes, and check the \
                       configured schema and prefix";

/// Whether it is the server's trouble and no message's: its disk or memory is full, its disk fails, an operator intervened,
/// the connection broke. <https://www.postgresql.org/docs/current/errcodes-appendix.html>
fn is_away(sqlstate: &str) -> bool {
    ["08", "53", "57", "58"].iter().any(|class| sqlstate.starts_with(class))
}

/// Whether an error of any statement, by its SQLSTATE, says nothing of what was asked.
#[cfg(feature = "consume")]
pub(super) fn is_trouble(sqlstate: &str) -> bool {
    // A limit of time on a statement may be the fault of what it was to do; 25006 is a replica, after a failover.
    sqlstate != "57014" && (is_away(sqlstate) || asks_again(sqlstate) || sqlstate == "25006")
}

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
        Some(state) if is_away(state) => {
            (ErrorKind::Unavailable, format!("enqueueing into {table}: the server is out of something or going away"))
        }
        Some(_) => (ErrorKind::Rejected, format!("enqueueing into {table}: roll the transaction back")),
        None => (
            ErrorKind::Unavailable,
            format!("enqueueing into {table}: the connection failed, the transaction is lost; run it again"),
        ),
    };
    Error::new(kind, text)
}

/// A refusal of what an inbox was asked, by its SQLSTATE, with what the server said; none when the connection failed.
pub(super) fn not_received(sqlstate: Option<&str>, said: String) -> InboxError {
    let (kind, text) = match sqlstate {
        Some(TOO_OLD | NO_PARTITION) => return InboxError::TooOld,
        Some(FUTURE) => return InboxError::Future,
        Some(state) if asks_again(state) => {
            let error = Error::new(ErrorKind::Throttled, "asking the inbox: run the transaction again").because(said);
            return InboxError::Contended(Some(error));
        }
        Some("42P01" | "3F000" | "42883" | "42703") => {
            (ErrorKind::Config, format!("the inbox is not there, or is older: {MIGRATE}"))
        }
        Some("42501") => (
            ErrorKind::Config,
            "the application's role may not use the inbox: grant it what the receiver role of `postrider migrate --roles` \
             has"
                .to_owned(),
        ),
        Some("25P02") => (
            ErrorKind::Rejected,
            "asking the inbox in a transaction that has failed already: roll it back, look at its first error".to_owned(),
        ),
        Some("25006") => {
            (ErrorKind::Config, "asking the inbox in a read-only transaction or on a replica".to_owned())
        }
        Some(state) if is_away(state) => {
            (ErrorKind::Unavailable, "asking the inbox: the server is out of something or going away".to_owned())
        }
        Some(_) => (ErrorKind::Rejected, "asking the inbox: roll the transaction back".to_owned()),
        None => (
            ErrorKind::Unavailable,
            "asking the inbox: the connection failed, the transaction is lost; run it again".to_owned(),
        ),
    };
    Error::new(kind, text).because(said).into()
}

/// The schema and what the names of the tables begin with.
pub(super) fn names(tables: &Outbox) -> Result<Names, Error> {
    Names::new(&tables.schema, &tables.prefix)
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
            let text = "migrating the outbox: the role may not create or change these tables; use the owner's, or leave \
                        this out and run `postrider migrate` as the owner";
            (ErrorKind::Config, text)
        }
        Some("25006") => (ErrorKind::Config, "migrating the outbox: this is a replica; connect to the primary"),
        Some(_) => (ErrorKind::Rejected, "migrating the outbox: nothing was changed"),
        None => (ErrorKind::Unavailable, "migrating the outbox: the connection failed; run it again"),
    };
    Error::new(kind, text)
}

/// Whether the script stopped at a right that the role lacks, as one does that may change no tables.
#[cfg(any(feature = "sqlx-postgres", feature = "tokio-postgres"))]
pub(super) fn is_forbidden(sqlstate: Option<&str>) -> bool {
    sqlstate == Some("42501")
}

/// Whether the tables are those of this library, with the lanes that were asked for: a row with a truth.
#[cfg(any(feature = "sqlx-postgres", feature = "tokio-postgres"))]
pub(super) fn is_current_statement(outbox: &Outbox) -> String {
    let version = postrider_stores::postgres::schema::VERSION;
    let lanes = outbox.lanes.map(|lanes| format!("and lanes = {lanes} ", lanes = lanes.get())).unwrap_or_default();
    format!("select version = {version} {lanes}from \"{}\".\"{}meta\"", outbox.schema, outbox.prefix)
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
    use postrider_stores::postgres::schema;

    const DEFAULT: LaneCount = match LaneCount::new(64) {
        Some(lanes) => lanes,
        None => LaneCount::ONE,
    };
    let found = found.and_then(|lanes| LaneCount::new(u16::try_from(lanes).ok()?));
    Ok(schema::ddl(&names(outbox)?, outbox.lanes.or(found).unwrap_or(DEFAULT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trouble_of_the_server_is_not_the_fault_of_a_message() {
        for state in ["53100", "53200", "57P01", "57014", "58030", "08006"] {
            assert_eq!(refused("outbox", Some(state)).kind(), ErrorKind::Unavailable, "{state}");
            let InboxError::Database(error) = not_received(Some(state), String::new()) else { panic!("{state}") };
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{state}");
        }
        assert_eq!(refused("outbox", Some("23505")).kind(), ErrorKind::Rejected);
    }
}
