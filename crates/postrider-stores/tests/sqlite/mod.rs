//! A fresh file with an outbox, and what a test does to it from outside.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Lane, LaneCount, Message, Store};
use postrider_stores::History;
use postrider_stores::sqlite::enqueue::{Fields, enqueue};
use postrider_stores::sqlite::{SqliteOptions, SqliteStore, migrate};
use postrider_testkit::suites::store::{LANES, StoreHarness};
use rusqlite::{Connection, params};
use tempfile::TempDir;

/// An outbox in a folder of its own.
pub struct Sqlite {
    folder: TempDir,
    store: SqliteStore,
}

impl Sqlite {
    pub async fn new(lanes: u16, history: History) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions { history, ..SqliteOptions::new(folder.path().join("app.db")) };
        migrate(&options, LaneCount::new(lanes)).await.unwrap();
        let store = SqliteStore::open(options).await.unwrap();
        Self { folder, store }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("app.db")
    }

    /// A connection of the application's.
    pub fn application(&self) -> Connection {
        let connection = Connection::open(self.path()).unwrap();
        connection.busy_timeout(Duration::from_secs(5)).unwrap();
        connection
    }
}

/// Inserts messages on a connection that may be in a transaction.
pub fn insert(connection: &Connection, messages: &[Message]) {
    let sql = enqueue("\"postrider_outbox\"", 1);
    for message in messages {
        let f = Fields::of(message);
        let mut statement = connection.prepare_cached(&sql).unwrap();
        let values = params![
            f.message_id,
            f.topic,
            f.key,
            f.payload,
            f.content_type,
            f.headers,
            f.attributes,
            f.deliver_at,
            f.expires_at,
            f.retry
        ];
        statement.execute(values).unwrap();
    }
}

#[async_trait]
impl StoreHarness for Sqlite {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn write(&self, messages: &[Message]) {
        let mut connection = self.application();
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
        insert(&transaction, messages);
        transaction.commit().unwrap();
    }

    async fn write_nonsense(&self) -> Vec<String> {
        let connection = self.application();
        let spoilt = [
            ("key", "x'00ff'"),
            ("key", "cast(x'ff' as text)"),
            ("content_type", "x'00'"),
            ("headers", "'not json'"),
            ("headers", "'[1]'"),
            ("headers", "'{\"a\": \"1\", \"a\": \"2\"}'"),
            ("headers", "cast(x'7bff7d' as text)"),
            ("attributes", "'{\"a\": {}}'"),
            ("deliver_at", "'tomorrow'"),
            ("deliver_at", "1.5"),
            ("expires_at", "x'01'"),
            ("retry", "'{\"max\": 1}'"),
            ("last_attempt_at", "'yesterday'"),
            ("next_attempt_at", "'never'"),
            ("next_attempt_at", "x'ff'"),
            ("waiting_for", "'{'"),
            ("progress", "'[]'"),
            ("errors", "x'ff'"),
            ("dead_at", "'x'"),
            ("dead_reason", "'x'"),
            ("payload", "17"),
            ("topic", "x'ff'"),
            ("message_id", "'no uuid'"),
            ("attempts", "'many'"),
            ("created_at", "'now'"),
        ];
        for (column, value) in spoilt {
            let message = Message::new("suite.topic", "x").key("nonsense");
            insert(&connection, &[message]);
            let spoil = format!(
                "update postrider_outbox set {column} = {value} where id = (select max(id) from postrider_outbox)"
            );
            connection.execute(&spoil, []).unwrap();
        }
        spoilt.iter().map(|(column, value)| format!("{column} = {value}")).collect()
    }

    async fn pass(&self, time: Duration) {
        // The database's clock is this machine's, in whole milliseconds.
        tokio::time::sleep(time + Duration::from_millis(2)).await;
    }

    async fn steal(&self, lane: Lane) {
        let changed = self.application().execute(
            "update postrider_lane set owner = 'somebody-else', term = term + 1, clean = 0 where lane = ?1",
            [lane.0],
        );
        assert_eq!(changed.unwrap(), 1);
    }
}

/// An outbox as the suite wants it.
pub async fn start() -> Sqlite {
    Sqlite::new(LANES, History::Kept).await
}
