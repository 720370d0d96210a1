//! Rows that cannot go now, and how they are found again.

use std::time::Duration;

use postrider_core::{
    Closed, DeadFilter, DeadReason, Due, HeldLane, Lane, Message, Outcome, Room, RowId, RowState, Store,
};

use super::postgres::{Outbox, ROOM, Relay, payload, payloads, settlement};

fn held(relay: &Relay, lane: Lane) -> HeldLane {
    *relay.held.iter().find(|held| held.lane == lane).unwrap()
}

/// Rows behind a closed key say so, leave memory for the table, and are found again by their key.
#[tokio::test]
async fn finding_07_rows_behind_a_closed_key_are_told_by_the_read_and_found_by_their_key() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    outbox.enqueue(&[Message::new("t", "head").key("hot")]).await;
    let head = relay.read_all().await;
    let retry = Outcome::Retry {
        after: Duration::from_secs(600),
        attempts: 1,
        waiting_for: None,
        progress: [].into(),
        failures: vec![],
    };
    relay.settle(&head, retry).await;
    outbox.sql("insert into postrider_outbox (topic, key, payload) select 't', 'hot', n::text::bytea from generate_series(1, 3000) n").await;
    outbox.enqueue(&[Message::new("t", "free").key("cold")]).await;
    let rows = relay.read_all().await;
    let (open, closed): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.closed == Closed::Open);
    assert_eq!((payloads(&open), closed.len()), (vec!["free".to_owned()], 3_000));
    for page in closed.chunks(1_000) {
        assert_eq!(relay.settle(page, Outcome::SetAside { waiting_for: None }).await.rows.len(), page.len());
    }
    // A relay that knows nothing finds the key, whatever read its dead or retrying head.
    let mut anew = Relay { source: outbox.store.source().await.unwrap(), ..relay };
    assert_eq!(payloads(&anew.read_all().await), ["free"]);
    let lane = head[0].lane;
    let keys = anew.source.exceptional_keys(lane, None, 10).await.unwrap();
    assert_eq!(keys.iter().map(|key| key.as_str()).collect::<Vec<_>>(), ["hot"]);
    let page = anew.source.key(held(&anew, lane), &keys[0], Room { rows: 100, bytes: 1 << 20 }).await.unwrap();
    assert_eq!((page.rows.len(), page.more, page.rows[0].id), (100, true, head[0].id));
    assert!(page.rows[1..].iter().all(|row| row.state == RowState::SetAside));
}

/// Another process makes old rows pending: no difference of snapshots has them, and the due query brings them in order.
#[tokio::test]
async fn finding_11_what_another_process_replays_is_found_in_order_and_not_by_the_sweep() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    let messages: Vec<Message> = (0..5).map(|n| Message::new("t", n.to_string()).key("k")).collect();
    outbox.enqueue(&messages).await;
    let rows = relay.read_all().await;
    let dead = Outcome::Dead { reason: DeadReason::Attempts, attempts: 1, waiting_for: None, failures: vec![] };
    relay.settle(&rows, dead).await;
    assert!(relay.read_all().await.is_empty());
    assert_eq!(outbox.operator().await.replay(&DeadFilter::default(), 100).await.unwrap().len(), 5);
    assert!(relay.read_all().await.is_empty(), "the reproduction: an old row is in no difference");
    assert!(relay.source.sweep(&relay.held, RowId(0), ROOM).await.unwrap().rows.is_empty());
    let due = relay.source.due(&relay.held, ROOM, &[]).await.unwrap();
    assert_eq!(due.rows.iter().map(payload).collect::<Vec<_>>(), ["0", "1", "2", "3", "4"]);
}

/// A delayed message is no head of its key, and equal moments go by the number.
#[tokio::test]
async fn finding_12_a_delayed_message_holds_back_nothing_and_equal_moments_go_by_the_number() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    outbox
        .sql(
            "insert into postrider_outbox (topic, key, payload, deliver_at)
             select 't', 'k', convert_to('week ' || n, 'UTF8'), now() + interval '7 days' from generate_series(1, 3) n;
             insert into postrider_outbox (topic, key, payload) values ('t', 'k', 'now')",
        )
        .await;
    let ready: Vec<_> = relay.read_all().await.into_iter().filter(|row| row.due == Due::Now).collect();
    assert_eq!(
        (ready.iter().map(payload).collect::<Vec<_>>(), &ready[0].closed),
        (vec!["now".to_owned()], &Closed::Open)
    );
    assert!(relay.source.exceptional_keys(ready[0].lane, None, 10).await.unwrap().is_empty(), "no closed key");
    outbox.sql("update postrider_outbox set deliver_at = now() where deliver_at is not null").await;
    let due = relay.source.due(&relay.held, ROOM, &[]).await.unwrap();
    assert_eq!(due.rows.iter().map(payload).collect::<Vec<_>>(), ["week 1", "week 2", "week 3"]);
}

/// Only ordinary rows that were visible long ago are finds.
#[tokio::test]
async fn finding_15_the_sweep_leaves_out_what_waits_is_due_or_is_new() {
    let outbox = Outbox::with(|options| options).await;
    let mut relay = Relay::joined(&outbox.store).await;
    outbox
        .sql(
            "insert into postrider_outbox (topic, key, payload, state, next_attempt_at, deliver_at) values
             ('t', 'k', 'ordinary', 0, null, null), ('t', 'k', 'aside', 2, null, null), ('t', 'k', 'dead', 1, null, null),
             ('t', 'k', 'holding', 3, null, null), ('t', 'k', 'retrying', 0, now(), null), ('t', 'k', 'delayed', 0, null, now())",
        )
        .await;
    relay.read_all().await;
    outbox.sql("insert into postrider_outbox (topic, key, payload) values ('t', 'k', 'new')").await;
    let swept = relay.source.sweep(&relay.held, RowId(0), ROOM).await.unwrap();
    assert_eq!(payloads(&swept.rows), ["ordinary"]);
    let settled = [settlement(&swept.rows[0], Outcome::Delivered)];
    relay.settler.settle(relay.me, &relay.held, &settled).await.unwrap();
    assert!(relay.source.sweep(&relay.held, RowId(0), ROOM).await.unwrap().rows.is_empty());
}
