//! A fresh outbox as the suite of stores wants it, reached directly or through a pooler.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Lane, Message, Store};
use postrider_stores::History;
use postrider_stores::postgres::enqueue::{Columns, ENQUEUE};
use postrider_stores::postgres::{PostgresOptions, PostgresStore, migrate};
use postrider_testkit::servers::postgres::Postgres;
use postrider_testkit::suites::store::StoreHarness;

use super::{client, lanes};

/// What the suite runs against.
pub struct Harness {
    pub server: &'static Postgres,
    pub database: String,
    pub store: PostgresStore,
}

impl Harness {
    /// A fresh database of the server, with so many lanes; `reached` says how the store gets there.
    pub async fn fresh(server: &'static Postgres, number: u16, reached: impl AsyncFn(&str) -> PostgresOptions) -> Self {
        let database = server.create_database().await.unwrap();
        migrate(&PostgresOptions::new(&server.url_for(&database)).unwrap(), lanes(number)).await.unwrap();
        let options = reached(&database).await.history(History::Kept);
        Self { server, store: PostgresStore::open(options).await.unwrap(), database }
    }

    async fn sql(&self, sql: &str) -> String {
        self.server.psql(&self.database, sql).await.unwrap()
    }
}

#[async_trait]
impl StoreHarness for Harness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn write(&self, messages: &[Message]) {
        let (client, columns) = (client(&self.server.url_for(&self.database)).await, Columns::of(messages));
        let sql = ENQUEUE.replace("{outbox}", "postrider_outbox");
        client
            .execute(
                &sql,
                &[
                    &columns.message_ids,
                    &columns.topics,
                    &columns.keys,
                    &columns.payloads,
                    &columns.content_types,
                    &columns.headers,
                    &columns.attributes,
                    &columns.deliver_at,
                    &columns.expires_at,
                    &columns.retries,
                ],
            )
            .await
            .unwrap();
    }

    async fn write_nonsense(&self) -> Vec<String> {
        let spoilt = [
            ("key", "E'a\\nb'"),
            ("key", "''"),
            ("content_type", "'nonsense'"),
            ("headers", "'[1]'"),
            ("headers", "'\"text\"'"),
            ("headers", "'{\"a\": \"\\u0000\"}'"),
            ("headers", "'{\"a\": {}}'"),
            ("headers", "'{\"a\": \"1\", \"a\": \"2\"}'"),
            ("attributes", "'3'"),
            ("attributes", "'{\"noprefix\": \"x\"}'"),
            ("retry", "'{\"max_attempts\": \"many\"}'"),
            ("retry", "'[]'"),
            ("waiting_for", "array[array['a'], array['b']]"),
            ("waiting_for", "array[null]"),
            ("progress", "'[\"x\"]'"),
            ("topic", "'no topic'"),
        ];
        let client = client(&self.server.url_for(&self.database)).await;
        for (column, value) in spoilt {
            let sql = format!(
                "begin; insert into postrider_outbox (topic, key, payload) values ('suite.topic', 'nonsense', 'x');
                 update postrider_outbox set {column} = {value} where id = lastval(); commit"
            );
            client.batch_execute(&sql).await.unwrap();
        }
        spoilt.iter().map(|(column, value)| format!("{column} = {value}")).collect()
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time + Duration::from_millis(2)).await;
    }

    async fn steal(&self, lane: Lane) {
        self.sql(&format!(
            "begin; select from postrider_lane where lane = {lane} for update;
             update postrider_lane set owner = gen_random_uuid(), term = term + 1, clean = false where lane = {lane};
             commit"
        ))
        .await;
    }
}
