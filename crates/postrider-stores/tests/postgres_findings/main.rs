//! What broke an earlier design of reading PostgreSQL, each as a test: the reproduction against a real server, with two
//! sessions where it needs them, and what holds now.
//!
//! | finding | what broke | here | elsewhere |
//! |---|---|---|---|
//! | 1 | a crash gives transaction ids again; what was read up to hides new rows | `finding_01_*` | `postgres_faults::a_crash_*`, `a_boot_id_*`, `postgres_pooled::a_crash_*` |
//! | 2 | a term in a WHERE clause is no fence | `finding_02_*` | `postgres_settling::a_zombie_*`, `a_lane_whose_settle_is_in_flight_*` |
//! | 3 | paging by LIMIT is quadratic; the obvious join scans the outbox; a volatile clock uses no index | `finding_03_*` | `postgres_reading::no_read_scans_*`, `a_large_transaction_*` |
//! | 4 | a row is known before it is visible, and its settle finds nothing | `finding_04_*` | the tailing half when the log is read |
//! | 5 | a slot waits for open writers; a row that is read again was settled meanwhile | `finding_05_*` | the machine: `reads::tests::*`, `tests::crossing::*` |
//! | 6 | a slot holds the log for every open writer | `finding_06_*` | |
//! | 7 | rows behind a closed key fill the window | `finding_07_*` | the machine: `tests::waiting::*`; the suite: `waiting::*` |
//! | 8 | a message enqueued by the statement that waits for the lock is doubled and reordered | `finding_08_*` | |
//! | 9 | an unknown outcome has no end | | the machine: `tests::blame::*`; `judge::tests::*` |
//! | 10 | rows restored from another cluster are not visible | `finding_10_*`: also those of a subscription | `postgres_faults::rows_from_the_future_*` |
//! | 11 | what an operator replays is found by no source | `finding_11_*` | the suite: `retaining::*` |
//! | 12 | the order of delayed messages | `finding_12_*` | `postrider-relay: expiring::a_delayed_*` |
//! | 13 | a careful start kills innocents | `finding_13_*`: a death charges nobody | the machine: `tests::careful::*`; the suite: `careful::*`, `leasing::a_lane_after_an_unclean_end_*` |
//! | 14 | a lane with two owners | `finding_14_*` | the suite: `leasing::*` |
//! | 15 | the sweep reports what is no find | `finding_15_*` | `postgres_sweeping::a_sweep_*` |
//! | 16 | a held snapshot makes reads slow; settings of the tables | `finding_16_*` | |

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod crashes;
mod enqueueing;
mod leases;
#[path = "../postgres/mod.rs"]
mod postgres;
mod reading;
mod slots;
mod waiting;

use tokio_postgres::Client;

async fn number(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}
