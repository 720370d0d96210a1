//! The consumer's own database (`demo --consumer`): an order is shipped once, however often its message comes.

use std::collections::HashMap;
use std::path::Path;

use postrider::{Inbox, MessageId, Seen};
use rusqlite::{Connection, TransactionBehavior};

use super::service::{connect, unusable};
use crate::failure::{Failure, Outcome};

/// Nothing here keeps an order from being shipped twice: that is what the inbox is for.
const TABLE: &str =
    "create table shipments (message_id text not null, customer text not null, number integer not null)";
const SHIP: &str = "insert into shipments (message_id, customer, number) values (?1, ?2, ?3)";
const COUNT: &str = "select message_id, count(*) from shipments group by message_id";
/// What the inbox knows the consumer by.
const CONSUMER: &str = "shipping";

/// The consumer's database.
#[derive(Debug)]
pub(super) struct Effects {
    database: Connection,
    inbox: Inbox,
}

impl Effects {
    /// Creates the tables: its own, and the inbox.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub(super) fn open(path: &Path) -> Outcome<Self> {
        let database = connect(path)?;
        postrider::migrate(&database).map_err(|error| Failure::store(&error))?;
        database.execute_batch(TABLE).map_err(unusable)?;
        Ok(Self { database, inbox: Inbox::new() })
    }

    /// Ships an order, in the transaction that records its message; a repeat ships nothing.
    ///
    /// # Errors
    /// When the database refuses it: then nothing is shipped, and the message must come again.
    pub(super) fn ship(&mut self, id: MessageId, customer: &str, number: i64) -> Outcome<Seen> {
        let transaction = self.database.transaction_with_behavior(TransactionBehavior::Immediate).map_err(unusable)?;
        let refused = |error: postrider::InboxError| Failure::bad(error.to_string(), "please report this");
        let seen = self.inbox.first_seen(&transaction, CONSUMER, id).map_err(refused)?;
        if seen == Seen::First {
            transaction.execute(SHIP, (id.to_string(), customer, number)).map_err(unusable)?;
        }
        transaction.commit().map_err(unusable)?;
        Ok(seen)
    }

    /// How often each order was shipped, by its message.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub(super) fn shipped(&self) -> Outcome<HashMap<MessageId, u64>> {
        let mut statement = self.database.prepare(COUNT).map_err(unusable)?;
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?));
        let rows = statement.query_map((), row).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(unusable)?;
        let read = |(id, count): (String, i64)| Some((MessageId(id.parse().ok()?), u64::try_from(count).ok()?));
        Ok(rows.into_iter().filter_map(read).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_shipped_once_however_often_its_message_comes() {
        let folder = tempfile::tempdir().unwrap();
        let mut effects = Effects::open(&folder.path().join("consumer.db")).unwrap();
        let (one, two) = (MessageId::fresh(), MessageId::fresh());
        assert_eq!(effects.ship(one, "ann", 1).unwrap(), Seen::First);
        assert_eq!(effects.ship(two, "ann", 2).unwrap(), Seen::First);
        assert_eq!(effects.ship(one, "ann", 1).unwrap(), Seen::Repeat);
        assert_eq!(effects.shipped().unwrap(), HashMap::from([(one, 1), (two, 1)]));
    }
}
