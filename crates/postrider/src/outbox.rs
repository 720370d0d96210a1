//! Writing messages inside the caller's transaction.

use postrider_core::{LaneCount, Message, MessageId};

use crate::batch::Batch;
use crate::enqueue::Enqueue;
use crate::error::NameError;
use crate::migrate::MigrateTarget;

/// Which outbox an application writes to: the names of its tables, and nothing else.
///
/// It holds no connection and opens none: messages go through the transaction that the caller hands in, so that they
/// are committed, or rolled back, together with the caller's own data. Cheap to clone; make one at start.
///
/// The defaults are the schema `public` (PostgreSQL) and the table prefix `postrider_`, as in the relay's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbox {
    pub(crate) schema: String,
    pub(crate) prefix: String,
    pub(crate) lanes: Option<LaneCount>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { schema: "public".to_owned(), prefix: "postrider_".to_owned(), lanes: None }
    }
}

impl Outbox {
    /// The outbox with the default names.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same outbox in a PostgreSQL schema; MySQL, MariaDB and SQLite, which have none inside a database, ignore it.
    ///
    /// # Errors
    /// When the name is not a lower-case letter or `_`, followed by lower-case letters, digits or `_`; at most 63.
    pub fn schema(mut self, schema: &str) -> Result<Self, NameError> {
        self.schema = identifier("schema", schema, 63)?;
        Ok(self)
    }

    /// The same outbox with another prefix of its tables, such as `billing_` for `billing_outbox`.
    ///
    /// # Errors
    /// When the prefix is not a lower-case letter or `_`, followed by lower-case letters, digits or `_`; at most 30.
    pub fn prefix(mut self, prefix: &str) -> Result<Self, NameError> {
        self.prefix = identifier("prefix", prefix, 30)?;
        Ok(self)
    }

    /// The same outbox with a number of lanes for [`migrate`](Self::migrate) to create it with.
    ///
    /// 8 on SQLite and 64 on the others unless it is set; fixed once the tables are there. With one lane, one relay
    /// at a time does all the work. One order of all messages is one key for all of them.
    #[must_use]
    pub fn lanes(mut self, lanes: LaneCount) -> Self {
        self.lanes = Some(lanes);
        self
    }

    /// Writes one message inside `tx` and answers its [`MessageId`].
    ///
    /// The message is delivered once `tx` is committed, and never when it is rolled back. It costs one INSERT. With an
    /// asynchronous driver the answer is a future, and nothing is written before it is awaited; with rusqlite it is the
    /// result. Errors are [`EnqueueError`](crate::EnqueueError)s.
    ///
    /// Messages of one key are delivered in the order of their transactions when these are themselves ordered: lock
    /// the row that the message is about *before* this call. A message whose id was enqueued before is a second
    /// message with that id; nothing refuses it.
    ///
    /// A transaction that already is a reference is handed on as `&mut *tx`.
    ///
    /// # Errors
    /// [`Invalid`](crate::EnqueueError::Invalid) before anything is written, so `tx` can go on;
    /// [`Database`](crate::EnqueueError::Database) when the database refused the INSERT (PostgreSQL then refuses
    /// everything until `tx` is rolled back); [`OutsideTransaction`](crate::EnqueueError::OutsideTransaction) when
    /// `tx` has already ended.
    pub fn enqueue<T: Enqueue>(&self, tx: T, message: Message) -> T::Answer<MessageId> {
        tx.write(self, Batch::one(message))
    }

    /// Writes many messages inside `tx`, in their order, in one statement, and answers their ids in that order.
    ///
    /// All of them are checked before the first is written. No messages are no statement. SQLite takes 3,000 messages
    /// in a statement, MySQL, and PostgreSQL through SeaORM, 1,000, so more of them are several.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue); [`Invalid`](crate::EnqueueError::Invalid) says which message it is.
    pub fn enqueue_all<T: Enqueue>(
        &self,
        tx: T,
        messages: impl IntoIterator<Item = Message>,
    ) -> T::Answer<Vec<MessageId>> {
        tx.write(self, Batch::many(messages))
    }

    /// Creates the tables, or brings older ones to this library's version; harmless when nothing is to do.
    ///
    /// Runs the same SQL as `postrider migrate`. Several starters at once are safe. With an asynchronous driver the
    /// answer is a future, with rusqlite it is the result. On PostgreSQL a role that may change nothing finds tables of this
    /// version as they are; it needs to read them, as the relay's role does.
    ///
    /// # Errors
    /// `Config` when the tables are newer than this library, have another number of lanes than was asked for, or the
    /// role may not create or change them; `Throttled` when the application held a table, or the write lock of SQLite, for too
    /// long: then nothing was changed, and it can be run again; `Unavailable` when the connection failed.
    pub fn migrate<T: MigrateTarget>(&self, target: T) -> T::Answer {
        target.migrate(self)
    }

    /// The quoted name of the outbox table in PostgreSQL.
    #[cfg(feature = "_postgres")]
    pub(crate) fn postgres_table(&self) -> String {
        format!("\"{}\".\"{}outbox\"", self.schema, self.prefix)
    }

    /// The quoted name of the outbox table in MySQL and MariaDB.
    #[cfg(all(feature = "_mysql", feature = "testing"))]
    pub(crate) fn mysql_table(&self) -> String {
        format!("`{}outbox`", self.prefix)
    }

    /// The quoted name of the outbox table in SQLite.
    #[cfg(feature = "_sqlite")]
    pub(crate) fn sqlite_table(&self) -> String {
        format!("\"{}outbox\"", self.prefix)
    }
}

fn identifier(what: &'static str, name: &str, longest: usize) -> Result<String, NameError> {
    let first = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let rest = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if first && rest && name.len() <= longest {
        Ok(name.to_owned())
    } else {
        Err(NameError { what, longest, found: name.chars().take(60).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_break_out_of_their_quotes_are_refused() {
        for bad in ["", "1a", "A", "a b", "a\"", "a.b", "a;", "ä", &"a".repeat(64)] {
            assert!(Outbox::new().schema(bad).is_err(), "{bad:?}");
            assert!(Outbox::new().prefix(bad).is_err(), "{bad:?}");
        }
        assert!(Outbox::new().schema("_billing9").unwrap().prefix("b_").is_ok());
    }
}
