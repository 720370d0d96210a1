//! The migration of MySQL and MariaDB, on a connection of whichever driver.

use postrider_core::{Error, ErrorKind};
use postrider_stores::mysql::Names;
use postrider_stores::mysql::upgrade::{self, AS_BEFORE, Facts, NO_SUCH_TABLE, STRICT};

use super::mysql;
use crate::outbox::Outbox;

/// A connection, as far as a migration asks something of it.
pub(super) trait Session: Send {
    /// What the driver answers when it has no answer.
    type Failed: std::error::Error + Send + Sync + 'static;

    /// The server's number of an error; none when the connection failed.
    fn number(error: &Self::Failed) -> Option<u16>;

    /// The one value of the one row.
    fn turn(&mut self, sql: String) -> impl Future<Output = Result<Option<i64>, Self::Failed>> + Send;

    /// The row of [`upgrade::facts`].
    fn facts(&mut self, sql: String) -> impl Future<Output = Result<Option<Facts>, Self::Failed>> + Send;

    /// Runs a statement without parameters.
    fn run(&mut self, sql: String) -> impl Future<Output = Result<(), Self::Failed>> + Send;
}

/// Creates the tables, or brings them up to date.
pub(super) async fn run<S: Session>(session: &mut S, outbox: &Outbox) -> Result<(), Error> {
    let names = mysql::names(outbox)?;
    if session.turn(upgrade::take_turn(&names)).await.map_err(not_migrated::<S>)? != Some(1) {
        return Err(not_my_turn());
    }
    let done = steps(session, &names, outbox).await;
    // The connection goes back to the application as it was, whatever became of the steps.
    let ended = session.run(upgrade::end_turn(&names)).await;
    done.and_then(|()| ended.map_err(not_migrated::<S>))
}

async fn steps<S: Session>(session: &mut S, names: &Names, outbox: &Outbox) -> Result<(), Error> {
    let found = match session.facts(upgrade::facts(names)).await {
        Err(error) if S::number(&error) == Some(NO_SUCH_TABLE) => None,
        answer => answer.map_err(not_migrated::<S>)?,
    };
    let script = upgrade::script(names, found, outbox.lanes)?;
    if script.is_empty() {
        return Ok(());
    }
    session.run(STRICT.to_owned()).await.map_err(not_migrated::<S>)?;
    let mut ran = Ok(());
    for statement in script {
        ran = session.run(statement).await;
        if ran.is_err() {
            break;
        }
    }
    let restored = session.run(AS_BEFORE.to_owned()).await;
    ran.and(restored).map_err(not_migrated::<S>)
}

/// A refusal of a statement of the migration.
pub(super) fn not_migrated<S: Session>(refused: S::Failed) -> Error {
    let (kind, text) = match S::number(&refused) {
        Some(1205) => (
            ErrorKind::Throttled,
            "migrating the outbox: the application held a table for too long; run it again, it goes on where it broke off",
        ),
        Some(1044 | 1142 | 1227 | 1370 | 1419) => {
            (ErrorKind::Config, "migrating the outbox: the user may not create these tables; use the owner's")
        }
        Some(1290 | 1792 | 1836) => {
            (ErrorKind::Config, "migrating the outbox: this is a replica; connect to the primary")
        }
        Some(1046) => (ErrorKind::Config, "migrating the outbox: the connection names no database"),
        Some(_) => (ErrorKind::Rejected, "migrating the outbox: run it again when the cause is mended"),
        None => (ErrorKind::Unavailable, "migrating the outbox: the connection failed; run it again"),
    };
    Error::new(kind, text).because(refused)
}

/// Another starter kept its turn for longer than this one waits.
fn not_my_turn() -> Error {
    let text =
        "migrating the outbox: another migration of it is under way and did not end within a minute; run it again";
    Error::new(ErrorKind::Throttled, text)
}
