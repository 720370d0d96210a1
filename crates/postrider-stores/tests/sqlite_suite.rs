//! SQLite against the suite of stores.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by a panic")]

mod sqlite;

use postrider_testkit::store_suite;
use sqlite::start;

store_suite!(start);
