//! PostgreSQL against the suite of stores.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod postgres;

use postgres::harness::Harness;
use postrider_stores::postgres::PostgresOptions;
use postrider_testkit::servers::postgres::shared;
use postrider_testkit::suites::store::LANES;
use postrider_testkit::{one_order_suite, store_suite};

async fn of_lanes(lanes: u16) -> Harness {
    let server = shared().await.unwrap();
    Harness::fresh(server, lanes, async |database| PostgresOptions::new(&server.url_for(database)).unwrap()).await
}

async fn start() -> Harness {
    of_lanes(LANES).await
}

async fn start_of_one_lane() -> Harness {
    of_lanes(1).await
}

store_suite!(start);
one_order_suite!(start_of_one_lane);
