//! A PostgreSQL of our own, filled by its own hand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_bench::load::Load;
use postrider_core::Store;
use postrider_stores::{MigrateOptions, StoreOptions, migrate, open};
use postrider_testkit::servers::postgres::Postgres;
use tokio_postgres::{Client, NoTls, Row};

/// How long a condition may take to hold.
const PATIENCE: Duration = Duration::from_secs(300);

/// One outbox in a cluster of our own.
pub struct Database {
    pub server: Postgres,
    pub url: String,
    pub client: Client,
}

pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn append(client: &Client, load: &Load) {
    let filler = load.payload.saturating_sub(8);
    // Keys by a hash, so that no window of the table holds a pattern of them.
    let sql = format!(
        "insert into postrider_outbox (topic, key, payload, message_id)
         select '{}', 'key-' || (hashint8(n) & 2147483647) % {}, int8send(n) || convert_to(repeat('a', {filler}), 'UTF8'),
                gen_random_uuid()
           from generate_series(0::bigint, {}) n",
        load.topic,
        load.keys,
        load.messages - 1
    );
    client.batch_execute(&sql).await.unwrap();
}

impl Database {
    pub async fn start() -> Self {
        let server = Postgres::start().await.unwrap();
        let url = server.fresh_database().await.unwrap();
        migrate(&url, &MigrateOptions::default()).await.unwrap();
        let client = connect(&url).await;
        Self { server, url, client }
    }

    /// What it is, for the page.
    pub async fn note(&self) -> String {
        let row = self.client.query_one("show server_version", &[]).await.unwrap();
        format!(
            "PostgreSQL {} as installed, with shared_buffers of 128 MB and wal_level = logical.",
            row.get::<_, &str>(0)
        )
    }

    pub async fn store(&self) -> Arc<dyn Store> {
        Self::store_at(&self.url).await
    }

    /// The URL of another database of the cluster, whose outbox has the messages of a load and was never seen by a relay.
    pub async fn another_filled(&self, load: &Load) -> String {
        let url = self.server.fresh_database().await.unwrap();
        migrate(&url, &MigrateOptions::default()).await.unwrap();
        let client = connect(&url).await;
        append(&client, load).await;
        client.batch_execute("vacuum analyze postrider_outbox").await.unwrap();
        client.batch_execute("checkpoint").await.unwrap();
        url
    }

    /// The store at a URL.
    pub async fn store_at(url: &str) -> Arc<dyn Store> {
        open(url, &StoreOptions::default()).await.unwrap()
    }

    /// Empties the outbox.
    pub async fn empty(&self) {
        self.client.batch_execute("truncate postrider_outbox").await.unwrap();
        self.flushed().await;
    }

    /// Fills the outbox with the messages of a load and nothing else, as a backlog that has been there for a while.
    pub async fn fill(&self, load: &Load) {
        self.client.batch_execute("truncate postrider_outbox").await.unwrap();
        self.append(load).await;
        // Together they would be one transaction, in which nothing can be vacuumed.
        self.client.batch_execute("vacuum analyze postrider_outbox").await.unwrap();
        self.flushed().await;
    }

    /// What was written before is on disk, so that its writing falls on nothing that is measured after it.
    pub async fn flushed(&self) {
        self.client.batch_execute("checkpoint").await.unwrap();
    }

    /// Writes the messages of a load in one transaction.
    pub async fn append(&self, load: &Load) {
        append(&self.client, load).await;
    }

    pub async fn left(&self) -> u64 {
        let row = self.client.query_one("select count(*) from postrider_outbox", &[]).await.unwrap();
        u64::try_from(row.get::<_, i64>(0)).unwrap()
    }

    /// What is left once nothing is, or once somebody who delivers has had time enough for it.
    pub async fn left_after(&self, patience: Duration) -> u64 {
        let until = Instant::now() + patience;
        while Instant::now() < until && self.left().await > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.left().await
    }

    /// Waits until every lane is held, by so many relays.
    pub async fn lanes_are_shared_by(&self, relays: usize) {
        let sql = "select count(distinct owner), count(*) filter (where owner is null) from postrider_lane";
        self.until(&format!("{relays} relays share the lanes"), sql, |row| {
            (row.get::<_, i64>(0), row.get::<_, i64>(1)) == (i64::try_from(relays).unwrap(), 0)
        })
        .await;
    }

    /// Waits until nothing is left.
    pub async fn is_drained(&self) {
        let sql = "select not exists (select from postrider_outbox)";
        self.until("the outbox is empty", sql, |row| row.get(0)).await;
    }

    /// Waits until so many messages stand set aside.
    pub async fn has_set_aside(&self, messages: u64) {
        let sql = "select count(*) from postrider_outbox where state = 2";
        let all = i64::try_from(messages).unwrap();
        self.until("messages are set aside", sql, |row| row.get::<_, i64>(0) == all).await;
    }

    async fn until(&self, what: &str, sql: &str, holds: impl Fn(&Row) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !holds(&self.client.query_one(sql, &[]).await.unwrap()) {
            assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
