//! The MySQL store against the suite of stores, on MariaDB, and on MySQL where `POSTRIDER_TESTS_ON=mysql` says so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod mysql;

use mysql::harness::Harness;
use postrider_testkit::servers::mariadb::shared;
use postrider_testkit::suites::store::LANES;
use postrider_testkit::{one_order_suite, store_suite};

async fn start() -> Harness {
    Harness::fresh(shared().await.unwrap(), LANES).await
}

async fn start_of_one_lane() -> Harness {
    Harness::fresh(shared().await.unwrap(), 1).await
}

store_suite!(start);
one_order_suite!(start_of_one_lane);
