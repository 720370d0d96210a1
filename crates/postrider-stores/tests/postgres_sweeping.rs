//! Sweeping PostgreSQL: what a sweep finds, and how quickly it passes what is none.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod postgres;

use postgres::{Outbox, ROOM, Relay, payloads};
use postrider_core::{Message, RowId};

#[tokio::test]
async fn a_sweep_finds_only_what_everything_else_missed() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    outbox.enqueue(&[Message::new("t", "read").key("a")]).await;
    assert!(relay.source.sweep(&relay.held, RowId(0), ROOM).await.unwrap().rows.is_empty(), "nothing is read yet");
    let rows = relay.read_all().await;
    assert_eq!(payloads(&relay.source.sweep(&relay.held, RowId(0), ROOM).await.unwrap().rows), ["read"]);
    assert!(relay.source.sweep(&relay.held, rows[0].id, ROOM).await.unwrap().rows.is_empty());
    outbox.enqueue(&[Message::new("t", "new").key("a")]).await;
    assert_eq!(
        payloads(&relay.source.sweep(&relay.held, RowId(0), ROOM).await.unwrap().rows),
        ["read"],
        "new rows are not swept"
    );
    outbox.sql("update postrider_outbox set state = 2 where payload = 'read'").await;
    assert!(
        relay.source.sweep(&relay.held, RowId(0), ROOM).await.unwrap().rows.is_empty(),
        "waiting rows are not swept"
    );
}

#[tokio::test]
async fn a_sweep_passes_rows_that_nothing_may_remove_in_steps() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    let holder = outbox.holder().await;
    outbox
        .sql(
            "insert into postrider_outbox (topic, key, payload) select 't', 'k', '' from generate_series(1, 100000);
             delete from postrider_outbox;
             insert into postrider_outbox (topic, key, payload) values ('t', 'k', 'behind')",
        )
        .await;
    relay.read_all().await;
    let (mut after, mut steps, mut found) = (RowId(0), 0, Vec::new());
    while after.0 < i64::MAX {
        let page = relay.source.sweep(&relay.held, after, ROOM).await.unwrap();
        assert_eq!(page.reached.len(), relay.held.len(), "lanes that share their point are swept together");
        let reached = *page.reached.values().next().unwrap();
        found.extend(payloads(&page.rows));
        (after, steps) = (reached, steps + 1);
    }
    assert_eq!(found, ["behind"]);
    assert!(steps > 1, "one statement passed everything");
    holder.batch_execute("rollback").await.unwrap();
}

/// The numbers of all that ever went through an outbox lie below the rows that are there.
#[tokio::test]
async fn a_sweep_passes_numbers_that_are_gone_in_few_steps() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    outbox.enqueue(&[Message::new("t", "oldest").key("k")]).await;
    outbox.sql("alter table postrider_outbox alter column id restart with 30000000000").await;
    outbox.enqueue(&[Message::new("t", "new").key("k")]).await;
    relay.read_all().await;
    let (mut after, mut steps, mut found) = (RowId(0), 0, Vec::new());
    while after.0 < i64::MAX {
        let page = relay.source.sweep(&relay.held, after, ROOM).await.unwrap();
        found.extend(payloads(&page.rows));
        (after, steps) = (*page.reached.values().next().unwrap(), steps + 1);
        assert!(steps < 2_000, "it came to {after:?}");
    }
    assert_eq!(found, ["oldest", "new"]);
}
