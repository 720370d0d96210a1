//! diesel with MySQL and MariaDB.

use diesel::connection::Connection;
use diesel::mysql::Mysql;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::result::Error as Failed;
use diesel::{QueryResult, RunQueryDsl};
use postrider_core::{Error, Message};
use postrider_stores::mysql::Names;
use postrider_stores::mysql::enqueue::{ROWS_PER_STATEMENT, enqueue};

use super::diesel::{DieselBackend, ask_by, asked, bound, changed, found, is_lost, is_read_only, key, said};
use super::mysql;
use crate::inbox::InboxError;
use crate::outbox::Outbox;

impl crate::batch::Sealed for Mysql {}

impl DieselBackend for Mysql {
    const ROWS: usize = ROWS_PER_STATEMENT;

    fn insert<C: Connection<Backend = Self>>(
        connection: &mut C,
        outbox: &Outbox,
        rows: &[Message],
    ) -> Result<(), Error> {
        let names = mysql::names(outbox)?;
        recorded(&names, statement(&names, rows).execute(connection))
    }

    #[cfg(feature = "diesel-async")]
    async fn insert_async<C: diesel_async::AsyncConnection<Backend = Self>>(
        connection: &mut C,
        outbox: &Outbox,
        rows: &[Message],
    ) -> Result<(), Error> {
        let names = mysql::names(outbox)?;
        recorded(&names, diesel_async::RunQueryDsl::execute(statement(&names, rows), connection).await)
    }

    ask_by!(mysql::names, mysql, not_received);
}

fn statement<'m>(names: &Names, rows: &'m [Message]) -> BoxedSqlQuery<'m, Mysql, SqlQuery> {
    bound(enqueue(names, rows.len()), rows)
}

fn recorded(names: &Names, answer: QueryResult<usize>) -> Result<(), Error> {
    let refused = |error| {
        let number = number(&error);
        mysql::told(mysql::refused(names, number), number, error)
    };
    answer.map(drop).map_err(refused)
}

fn not_received(error: Failed) -> InboxError {
    mysql::not_received(number(&error), error)
}

/// The number of the error, which diesel keeps to itself, as far as the server's words tell it.
pub(super) fn number(error: &Failed) -> Option<u16> {
    let said = said(error);
    match error {
        _ if is_lost(error) => None,
        _ if is_read_only(error) => Some(1792),
        _ if said.starts_with("Table ") && said.ends_with("doesn't exist") => Some(1146),
        _ if said.starts_with("Unknown column ") => Some(1054),
        _ if said.contains("command denied to user") => Some(1142),
        _ if said.starts_with("Deadlock found") => Some(1213),
        _ if said.starts_with("Record has changed since last read") => Some(1020),
        _ if said.starts_with("Lock wait timeout exceeded") => Some(1205),
        _ if said.starts_with("Incorrect ") => Some(1366),
        _ => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use diesel::result::DatabaseErrorKind;

    use super::*;

    /// In the words of MariaDB 11.8 and MySQL 9.7.
    #[test]
    fn what_asks_to_run_again_is_told_by_the_servers_words() {
        for (words, expected) in [
            ("Deadlock found when trying to get lock; try restarting transaction", 1213),
            ("Lock wait timeout exceeded; try restarting transaction", 1205),
            ("Record has changed since last read in table 'postrider_inbox'; try restarting transaction", 1020),
        ] {
            let error = Failed::DatabaseError(DatabaseErrorKind::Unknown, Box::new(words.to_owned()));
            assert_eq!(number(&error), Some(expected), "{words}");
            let error = not_received(error);
            assert!(matches!(error, InboxError::Contended(Some(_))), "{error:?}");
        }
    }
}
