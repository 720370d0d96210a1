//! Counting an outbox in PostgreSQL, and what that costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod postgres;

use std::time::{Duration, Instant};

use postgres::Outbox;
use postrider_core::Measured;

const PATIENCE: Duration = Duration::from_secs(20);
const SCANS: &str = "select seq_scan, idx_scan from pg_stat_user_tables where relname = 'postrider_outbox'";

async fn scans(outbox: &Outbox) -> (i64, i64) {
    let row = outbox.client().await.query_one(SCANS, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

/// A million of them are 300 MB, which nothing may remove and nobody should read every ten seconds.
#[tokio::test]
async fn what_is_gone_and_cannot_be_vacuumed_is_passed_by_the_primary_key_alone() {
    let outbox = Outbox::fresh().await;
    let holder = outbox.holder().await;
    outbox
        .sql(
            "insert into postrider_outbox (topic, key, payload) select 't', 'k', '' from generate_series(1, 50000);
             delete from postrider_outbox;
             insert into postrider_outbox (topic, key, payload, created_at)
             values ('t', 'k', 'first', clock_timestamp() - interval '1 minute'), ('t', 'k', 'second', default);
             insert into postrider_outbox (topic, key, payload, deliver_at)
             values ('t', 'k', 'later', clock_timestamp() + interval '1 hour');
             analyze postrider_outbox",
        )
        .await;
    // The server is told what a session read when that ends.
    outbox.sessions_ended().await;
    let before = scans(&outbox).await;
    let mut operator = outbox.operator().await;
    let status = operator.status(10).await.unwrap();
    assert_eq!((status.pending, status.delayed), (Measured::Exact(3), Measured::Exact(1)));
    let age = status.oldest_age.unwrap();
    assert!((60..120).contains(&age.as_secs()), "{age:?}");
    drop(operator);
    let until = Instant::now() + PATIENCE;
    let after = loop {
        let after = scans(&outbox).await;
        if after.1 > before.1 {
            break after;
        }
        assert!(Instant::now() < until, "the server tells nothing of what it read: {before:?}, {after:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(after.0, before.0, "the whole table was read");
    holder.batch_execute("rollback").await.unwrap();
}
