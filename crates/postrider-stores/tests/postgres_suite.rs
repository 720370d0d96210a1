//! PostgreSQL against the suite of stores.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod postgres;

use postgres::harness::Harness;
use postrider_stores::postgres::PostgresOptions;
use postrider_testkit::servers::postgres::shared;
use postrider_testkit::store_suite;

async fn start() -> Harness {
    let server = shared().await.unwrap();
    Harness::fresh(server, async |database| PostgresOptions::new(&server.url_for(database)).unwrap()).await
}

store_suite!(start);
