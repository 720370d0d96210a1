//! Applications that receive: a transaction of their own for every question.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, TxOpts};
use postrider::stores::{self, StoreOptions};
use postrider::{Inbox, InboxError, Message, MessageId, Seen};
use postrider_core::Operator;
use postrider_testkit::servers::{mariadb, postgres};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

/// An application with an inbox of its own.
pub trait Application {
    /// Where its tables are.
    fn url(&self) -> String;

    async fn first_seen(&mut self, consumer: &str, id: MessageId) -> Result<Seen, InboxError>;

    async fn refuse(&mut self, consumer: &str, message: Message);

    /// Whatever a consumer saw, it saw so much earlier.
    async fn age(&mut self, consumer: &str, by: Duration);

    /// The operator's side of the store.
    async fn operator(&self) -> Box<dyn Operator> {
        stores::open(&self.url(), &StoreOptions::default()).await.unwrap().operator().await.unwrap()
    }
}

pub struct Postgres {
    pub url: String,
    pub client: Client,
}

impl Postgres {
    pub async fn fresh() -> Self {
        let url = postgres::shared().await.unwrap().fresh_database().await.unwrap();
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        postrider::migrate(&client).await.unwrap();
        Self { url, client }
    }
}

impl Application for Postgres {
    fn url(&self) -> String {
        self.url.clone()
    }

    async fn first_seen(&mut self, consumer: &str, id: MessageId) -> Result<Seen, InboxError> {
        let tx = self.client.transaction().await.unwrap();
        let seen = Inbox::new().first_seen(&tx, consumer, id).await;
        if seen.is_ok() {
            tx.commit().await.unwrap()
        } else {
            tx.rollback().await.unwrap()
        }
        seen
    }

    async fn refuse(&mut self, consumer: &str, message: Message) {
        let tx = self.client.transaction().await.unwrap();
        Inbox::new().refuse(&tx, consumer, message, "too old").await.unwrap();
        tx.commit().await.unwrap();
    }

    async fn age(&mut self, consumer: &str, by: Duration) {
        let by = format!("interval '{} s'", by.as_secs());
        for update in older(consumer, &by) {
            self.client.batch_execute(&update).await.unwrap();
        }
    }
}

pub struct Mysql {
    pub url: String,
    pub connection: Conn,
}

impl Mysql {
    pub async fn fresh() -> Self {
        let server = mariadb::shared().await.unwrap();
        let url = server.url_for(&server.create_database().await.unwrap());
        let mut connection = Conn::from_url(&url).await.unwrap();
        postrider::migrate(&mut connection).await.unwrap();
        Self { url, connection }
    }
}

impl Application for Mysql {
    fn url(&self) -> String {
        self.url.clone()
    }

    async fn first_seen(&mut self, consumer: &str, id: MessageId) -> Result<Seen, InboxError> {
        let mut tx = self.connection.start_transaction(TxOpts::default()).await.unwrap();
        let seen = Inbox::new().first_seen(&mut tx, consumer, id).await;
        if seen.is_ok() {
            tx.commit().await.unwrap()
        } else {
            tx.rollback().await.unwrap()
        }
        seen
    }

    async fn refuse(&mut self, consumer: &str, message: Message) {
        let mut tx = self.connection.start_transaction(TxOpts::default()).await.unwrap();
        Inbox::new().refuse(&mut tx, consumer, message, "too old").await.unwrap();
        tx.commit().await.unwrap();
    }

    async fn age(&mut self, consumer: &str, by: Duration) {
        for update in older(consumer, &by.as_micros().to_string()) {
            self.connection.query_drop(update).await.unwrap();
        }
    }
}

/// Of ids with a time, and of those without one.
fn older(consumer: &str, by: &str) -> [String; 2] {
    ["postrider_inbox", "postrider_inbox_foreign"]
        .map(|table| format!("update {table} set seen_at = seen_at - {by} where consumer = '{consumer}'"))
}

pub struct Sqlite {
    folder: TempDir,
    connection: rusqlite::Connection,
}

impl Sqlite {
    #[expect(clippy::unused_async, reason = "as the others")]
    pub async fn fresh() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let connection = rusqlite::Connection::open(folder.path().join("app.db")).unwrap();
        connection.busy_timeout(Duration::from_secs(5)).unwrap();
        postrider::migrate(&connection).unwrap();
        Self { folder, connection }
    }
}

impl Application for Sqlite {
    fn url(&self) -> String {
        format!("sqlite://{}/app.db", self.folder.path().display())
    }

    async fn first_seen(&mut self, consumer: &str, id: MessageId) -> Result<Seen, InboxError> {
        let tx = self.connection.transaction().unwrap();
        let seen = Inbox::new().first_seen(&tx, consumer, id);
        if seen.is_ok() {
            tx.commit().unwrap()
        } else {
            tx.rollback().unwrap()
        }
        seen
    }

    async fn refuse(&mut self, consumer: &str, message: Message) {
        let tx = self.connection.transaction().unwrap();
        Inbox::new().refuse(&tx, consumer, message, "too old").unwrap();
        tx.commit().unwrap();
    }

    async fn age(&mut self, consumer: &str, by: Duration) {
        for update in older(consumer, &by.as_micros().to_string()) {
            self.connection.execute_batch(&update).unwrap();
        }
    }
}
