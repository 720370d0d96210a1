//! SQLite against the suite of stores.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by a panic")]

mod sqlite;

use postrider_stores::History;
use postrider_testkit::{one_order_suite, store_suite};
use sqlite::{Sqlite, start};

async fn start_of_one_lane() -> Sqlite {
    Sqlite::new(1, History::Kept).await
}

store_suite!(start);
one_order_suite!(start_of_one_lane);
