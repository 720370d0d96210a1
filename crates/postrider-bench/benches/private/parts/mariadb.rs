//! A MariaDB of our own, filled by its own hand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Opts};
use postrider_bench::load::Load;
use postrider_core::Store;
use postrider_stores::{MigrateOptions, StoreOptions, migrate, open};
use postrider_testkit::servers::mariadb::Mariadb;
use tokio::sync::Mutex;

/// How long a condition may take to hold.
const PATIENCE: Duration = Duration::from_secs(300);

/// Outboxes in a server of our own, one after the other.
pub struct MariadbServer {
    server: Mariadb,
    /// The database of the last outbox.
    last: Mutex<Option<String>>,
}

/// One outbox, which nobody has seen before.
pub struct MariadbOutbox {
    pub url: String,
    connection: Conn,
}

/// A connection over TCP, as an application on another machine has it.
pub async fn connect(url: &str) -> Conn {
    Conn::new(Opts::from_url(&format!("{url}?prefer_socket=false")).unwrap()).await.unwrap()
}

impl MariadbServer {
    pub async fn start() -> Self {
        Self { server: Mariadb::start().await.unwrap(), last: Mutex::default() }
    }

    /// What it is, for the page.
    pub async fn note(&self) -> String {
        let version = self.server.sql("mysql", "select version()").await.unwrap();
        format!("MariaDB {version} as installed, with innodb_buffer_pool_size of 128 MB and no binary log.")
    }

    /// An empty outbox, in the place of the one before: what of that is still to be written to disk falls on nothing that
    /// is measured.
    pub async fn outbox(&self) -> MariadbOutbox {
        let database = self.server.create_database().await.unwrap();
        let before = self.last.lock().await.replace(database.clone());
        if let Some(before) = before {
            self.server.sql("mysql", &format!("drop database {before}")).await.unwrap();
        }
        let url = self.server.url_for(&database);
        migrate(&url, &MigrateOptions::default()).await.unwrap();
        MariadbOutbox { connection: connect(&url).await, url }
    }

    /// An outbox with the messages of a load and nothing else, as a backlog that has been there for a while.
    pub async fn filled(&self, load: &Load) -> MariadbOutbox {
        let mut outbox = self.outbox().await;
        outbox.append(load).await;
        outbox.run("analyze table postrider_outbox").await;
        // All of its pages are on disk then.
        outbox.run("flush tables postrider_outbox for export").await;
        outbox.run("unlock tables").await;
        outbox
    }
}

impl MariadbOutbox {
    pub async fn store(&self) -> Arc<dyn Store> {
        open(&self.url, &StoreOptions::default()).await.unwrap()
    }

    /// Runs a statement of this measurement's own.
    pub async fn run(&mut self, sql: &str) {
        self.connection.query_drop(sql).await.unwrap();
    }

    async fn append(&mut self, load: &Load) {
        let filler = load.payload.saturating_sub(8);
        // Keys by a hash, so that no window of the table holds a pattern of them.
        let sql = format!(
            "insert into postrider_outbox (topic, `key`, payload, message_id)
             select '{}', concat('key-', crc32(seq) % {}), concat(unhex(lpad(hex(seq), 16, '0')), repeat('a', {filler})), uuid()
               from seq_0_to_{}",
            load.topic,
            load.keys,
            load.messages - 1
        );
        self.run(&sql).await;
    }

    pub async fn left(&mut self) -> u64 {
        self.connection.query_first("select count(*) from postrider_outbox").await.unwrap().unwrap()
    }

    /// What is left once nothing is, or once somebody who delivers has had time enough for it.
    pub async fn left_after(&mut self, patience: Duration) -> u64 {
        let until = Instant::now() + patience;
        while Instant::now() < until && self.left().await > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.left().await
    }

    /// Waits until every lane is held by one relay.
    pub async fn lanes_are_held(&mut self) {
        let until = Instant::now() + PATIENCE;
        let free = "select count(*) from postrider_lane where owner is null";
        while self.connection.query_first::<u64, _>(free).await.unwrap() != Some(0) {
            assert!(Instant::now() < until, "not within {PATIENCE:?}: a relay holds every lane");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
