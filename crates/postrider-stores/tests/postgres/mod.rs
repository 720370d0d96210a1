//! What the PostgreSQL tests share: an outbox in a fresh database of one server per test binary.

#![allow(dead_code, reason = "every test binary uses another part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "these helpers are tests")]

pub mod harness;

use std::time::{Duration, Instant};

use postrider_core::{
    Attempt, Content, HeldLane, LaneCount, Leases, Message, Operator, Outcome, Page, RelayId, Room, Row, RowId,
    Settled, Settlement, Settler, Source, Store,
};
use postrider_stores::postgres::{PostgresOptions, PostgresStore, migrate};
use postrider_testkit::servers::postgres::{Postgres, shared};
use uuid::Uuid;

pub const ROOM: Room = Room { rows: 1_000, bytes: 32 << 20 };
pub const TTL: Duration = Duration::from_secs(60);

pub fn lanes(number: u16) -> LaneCount {
    LaneCount::new(number).unwrap()
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
    pub async fn joined(store: &PostgresStore) -> Self {
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
pub struct Outbox {
    pub server: &'static Postgres,
    pub database: String,
    pub store: PostgresStore,
}

impl Outbox {
    pub async fn fresh() -> Self {
        Self::with(|options| options).await
    }

    pub async fn with(change: impl Fn(PostgresOptions) -> PostgresOptions) -> Self {
        Self::of(8, change).await
    }

    pub async fn of(number: u16, change: impl Fn(PostgresOptions) -> PostgresOptions) -> Self {
        let server = shared().await.unwrap();
        let database = server.create_database().await.unwrap();
        Self::within(server, database, number, change).await
    }

    /// An outbox in a database that is there.
    pub async fn within(
        server: &'static Postgres,
        database: String,
        number: u16,
        change: impl Fn(PostgresOptions) -> PostgresOptions,
    ) -> Self {
        let options = change(PostgresOptions::new(&server.url_for(&database)).unwrap());
        // The time limit is for what comes after.
        migrate(&options.clone().timeout(TTL), lanes(number)).await.unwrap();
        Self { server, store: PostgresStore::open(options).await.unwrap(), database }
    }

    pub fn url(&self) -> String {
        self.server.url_for(&self.database)
    }

    pub fn options(&self) -> PostgresOptions {
        PostgresOptions::new(&self.url()).unwrap()
    }

    pub async fn sql(&self, sql: &str) -> String {
        self.server.psql(&self.database, sql).await.unwrap()
    }

    pub async fn client(&self) -> tokio_postgres::Client {
        client(&self.url()).await
    }

    /// A client with a transaction open that has written: until it ends nothing that goes now can be vacuumed.
    pub async fn holder(&self) -> tokio_postgres::Client {
        let holder = self.client().await;
        holder.batch_execute("begin; select pg_current_xact_id()").await.unwrap();
        holder
    }

    pub async fn operator(&self) -> Box<dyn Operator> {
        self.store.operator().await.unwrap()
    }

    pub async fn enqueue(&self, messages: &[Message]) {
        self.operator().await.enqueue(messages).await.unwrap();
    }

    /// Whether so many sessions wait for a lock in this database.
    pub async fn is_blocked(&self, sessions: u32) -> bool {
        let sql = format!(
            "select count(*) >= {sessions} from pg_stat_activity where datname = '{}' and wait_event_type = 'Lock'",
            self.database
        );
        self.sql(&sql).await == "t"
    }

    /// Waits until a session waits for a lock.
    pub async fn blocked(&self) {
        let start = Instant::now();
        while !self.is_blocked(1).await {
            assert!(start.elapsed() < Duration::from_secs(40), "nobody waits");
        }
    }

    /// Waits until every session of the relays and of psql has ended: then their counters are told.
    pub async fn sessions_ended(&self) {
        const GONE: &str = "select count(*) = 0 from pg_stat_activity where datname = current_database() \
                            and application_name in ('postrider', 'psql') and pid <> pg_backend_pid()";
        let until = Instant::now() + Duration::from_secs(20);
        while self.sql(GONE).await != "t" {
            assert!(Instant::now() < until, "a session does not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Scans of the index of exceptional rows, told when the sessions of the relay have ended.
    pub async fn probes(&self, relay: Relay) -> i64 {
        drop(relay);
        self.sessions_ended().await;
        let sql = "select idx_scan from pg_stat_user_indexes where indexrelname = 'postrider_outbox_exceptional'";
        self.sql(sql).await.parse().unwrap()
    }
}

pub async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Inserts one message with this key and payload in whatever transaction the client is in.
pub async fn insert(client: &tokio_postgres::Client, key: &str, payload: &str) {
    let sql = format!("insert into postrider_outbox (topic, key, payload) values ('t', '{key}', '{payload}')");
    client.batch_execute(&sql).await.unwrap();
}

pub fn payload(row: &Row) -> String {
    match &row.content {
        Content::Message(message) => String::from_utf8(message.payload.to_vec()).unwrap(),
        Content::Malformed { reason, .. } => panic!("malformed: {reason}"),
        Content::Head(_) => panic!("a head only"),
    }
}

pub fn payloads(rows: &[Row]) -> Vec<String> {
    let mut payloads: Vec<String> = rows.iter().map(payload).collect();
    payloads.sort();
    payloads
}

pub fn ids(rows: &[Row]) -> Vec<RowId> {
    rows.iter().map(|row| row.id).collect()
}
