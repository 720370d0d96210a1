//! A fresh outbox as the suite of stores wants it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mysql_async::prelude::Queryable as _;
use mysql_async::{Params, Value};
use postrider_core::{Lane, Message, Store};
use postrider_stores::History;
use postrider_stores::mysql::enqueue::{Fields, enqueue};
use postrider_stores::mysql::{MysqlOptions, MysqlStore, Names, migrate};
use postrider_testkit::servers::mariadb::Mariadb;
use postrider_testkit::suites::store::StoreHarness;

use super::{connection, lanes};

/// What the suite runs against.
pub struct Harness {
    pub server: &'static Mariadb,
    pub database: String,
    pub store: MysqlStore,
}

impl Harness {
    /// A fresh database of the server, with so many lanes.
    pub async fn fresh(server: &'static Mariadb, number: u16) -> Self {
        let database = server.create_database().await.unwrap();
        let options = MysqlOptions::new(&server.url_for(&database)).unwrap().history(History::Kept);
        migrate(&options, lanes(number)).await.unwrap();
        Self { server, store: MysqlStore::open(options).await.unwrap(), database }
    }
}

/// The parameters of the statement that writes these messages.
pub fn values(messages: &[Message]) -> Params {
    let text = |text: Option<String>| text.map_or(Value::NULL, Value::from);
    let each = |message: &Message| {
        let fields = Fields::of(message);
        [
            Value::from(fields.message_id),
            Value::from(fields.topic),
            text(fields.key.map(str::to_owned)),
            Value::from(fields.payload),
            text(fields.content_type.map(str::to_owned)),
            text(fields.headers),
            text(fields.attributes),
            Value::from(fields.deliver_at),
            Value::from(fields.expires_at),
            text(fields.retry),
        ]
    };
    Params::Positional(messages.iter().flat_map(each).collect())
}

#[async_trait]
impl StoreHarness for Harness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn write(&self, messages: &[Message]) {
        let mut connection = connection(&self.server.url_for(&self.database)).await;
        let sql = enqueue(&Names::default(), messages.len());
        connection.exec_drop(sql, values(messages)).await.unwrap();
    }

    async fn write_nonsense(&self) -> Vec<String> {
        let spoilt = [
            ("`key`", "'a\\nb'"),
            ("`key`", "''"),
            ("`key`", "repeat('k', 3000)"),
            ("content_type", "'nonsense'"),
            ("headers", "'not json'"),
            ("headers", "'[1]'"),
            ("headers", "'{\"a\": {}}'"),
            ("headers", "'{\"a\": \"1\", \"a\": \"2\"}'"),
            ("attributes", "'3'"),
            ("attributes", "'{\"noprefix\": \"x\"}'"),
            ("retry", "'{\"max_attempts\": \"many\"}'"),
            ("waiting_for", "'{'"),
            ("waiting_for", "'[]'"),
            ("waiting_for", "'[null]'"),
            ("progress", "'[\"x\"]'"),
            ("errors", "'nonsense'"),
            ("topic", "'no topic'"),
            ("message_id", "'no uuid'"),
            ("dead_reason", "77"),
        ];
        let mut connection = connection(&self.server.url_for(&self.database)).await;
        for (column, value) in spoilt {
            connection
                .query_drop(
                    "insert into postrider_outbox (topic, `key`, payload) values ('suite.topic', 'nonsense', 'x')",
                )
                .await
                .unwrap();
            let sql = format!("update postrider_outbox set {column} = {value} where id = last_insert_id()");
            connection.query_drop(sql).await.unwrap();
        }
        spoilt.iter().map(|(column, value)| format!("{column} = {value}")).collect()
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time + Duration::from_millis(2)).await;
    }

    async fn steal(&self, lane: Lane) {
        let sql = format!("update postrider_lane set owner = uuid(), term = term + 1, clean = 0 where lane = {lane}");
        self.server.sql(&self.database, &sql).await.unwrap();
    }
}
