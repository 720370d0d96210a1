//! What the tests of the MySQL store share: an outbox in a fresh database of one MariaDB per test binary.

#![allow(dead_code, reason = "every test binary uses another part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "these helpers are tests")]

pub mod harness;

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, OptsBuilder};
use postrider_core::{
    Attempt, Content, HeldLane, LaneCount, Leases, Message, Operator, Outcome, Page, RelayId, Room, Row, RowId,
    Settled, Settlement, Settler, Source, Store,
};
use postrider_stores::mysql::enqueue::enqueue;
use postrider_stores::mysql::{MysqlOptions, MysqlStore, Names, migrate};
use postrider_testkit::servers::mariadb::{Mariadb, shared};
use uuid::Uuid;

pub const ROOM: Room = Room { rows: 1_000, bytes: 32 << 20 };
pub const TTL: Duration = Duration::from_secs(60);

pub fn lanes(number: u16) -> LaneCount {
    LaneCount::new(number).unwrap()
}

/// A connection of the application's: with the server's own defaults.
pub async fn connection(url: &str) -> Conn {
    let opts = mysql_async::Opts::from_url(url).unwrap();
    Conn::new(OptsBuilder::from_opts(opts).prefer_socket(false)).await.unwrap()
}

/// One relay with its own connections to one outbox.
pub struct Relay {
    pub me: RelayId,
    pub held: Vec<HeldLane>,
    pub leases: Box<dyn Leases>,
    pub source: Box<dyn Source>,
    pub settler: Box<dyn Settler>,
}

impl Relay {
    pub async fn joined(store: &MysqlStore) -> Self {
        let me = RelayId(Uuid::now_v7());
        let mut leases = store.leases().await.unwrap();
        leases.join(me, "test", TTL).await.unwrap();
        let held = leases.acquire(me, u16::MAX).await.unwrap();
        Self { me, held, leases, source: store.source().await.unwrap(), settler: store.settler().await.unwrap() }
    }

    pub async fn read(&mut self) -> Page {
        self.source.read(&self.held, ROOM).await.unwrap()
    }

    /// Everything that can be read now, page by page.
    pub async fn read_all(&mut self) -> Vec<Row> {
        let mut rows = Vec::new();
        loop {
            let page = self.read().await;
            assert!(!page.discontinued);
            rows.extend(page.rows);
            if !page.more {
                return rows;
            }
        }
    }

    pub async fn settle(&mut self, rows: &[Row], outcome: Outcome) -> Settled {
        let batch: Vec<Settlement> = rows.iter().map(|row| settlement(row, outcome.clone())).collect();
        self.settler.settle(self.me, &self.held, &batch).await.unwrap()
    }
}

pub fn settlement(row: &Row, outcome: Outcome) -> Settlement {
    Settlement { row: row.id, message: row.message_id(), lane: row.lane, outcome, attempt: Attempt(1), suspicion: 0 }
}

/// An outbox in a database of its own.
pub struct Outbox<'s> {
    pub server: &'s Mariadb,
    pub database: String,
    pub store: MysqlStore,
}

impl Outbox<'static> {
    pub async fn fresh() -> Self {
        Self::on(shared().await.unwrap(), 8, |options| options).await
    }
}

impl<'s> Outbox<'s> {
    pub async fn on(server: &'s Mariadb, number: u16, change: impl Fn(MysqlOptions) -> MysqlOptions) -> Self {
        let database = server.create_database().await.unwrap();
        let options = change(MysqlOptions::new(&server.url_for(&database)).unwrap());
        migrate(&options.clone().timeout(TTL), lanes(number)).await.unwrap();
        let store = MysqlStore::open(options).await.unwrap();
        Self { server, database, store }
    }

    pub async fn sql(&self, sql: &str) -> String {
        self.server.sql(&self.database, sql).await.unwrap()
    }

    /// A connection of the application's.
    pub async fn connection(&self) -> Conn {
        connection(&self.server.url_for(&self.database)).await
    }

    pub async fn operator(&self) -> Box<dyn Operator> {
        self.store.operator().await.unwrap()
    }

    /// Commits messages in one transaction of the application's.
    pub async fn enqueue(&self, messages: &[Message]) {
        let mut connection = self.connection().await;
        let sql = enqueue(&Names::default(), messages.len());
        connection.exec_drop(sql, harness::values(messages)).await.unwrap();
    }
}

/// Writes one message within whatever transaction is open.
pub async fn insert(connection: &mut Conn, key: &str, payload: &str) {
    let sql = "insert into postrider_outbox (topic, `key`, payload) values ('t', ?, ?)";
    connection.exec_drop(sql, (key, payload)).await.unwrap();
}

pub fn payload(row: &Row) -> String {
    match &row.content {
        Content::Message(message) => String::from_utf8(message.payload.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

pub fn payloads(rows: &[Row]) -> Vec<String> {
    rows.iter().map(payload).collect()
}

pub fn ids(rows: &[Row]) -> Vec<RowId> {
    rows.iter().map(|row| row.id).collect()
}

/// Asks until it is so.
pub async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !so().await {
        assert!(since.elapsed() < Duration::from_secs(60), "{what} does not come");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
