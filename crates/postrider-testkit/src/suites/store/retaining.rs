//! Dead letters and retention.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{
    DeadFilter, DeadReason, Key, Message, MessageId, Outcome, Position, Pruned, Retention, RowId, RowState,
};

use super::StoreHarness;
use super::bench::{Bench, ROOM, dead, id, keyed, retry, settlement};

const EVERY: Position = Position { after: RowId(i64::MIN), limit: 1_000 };

async fn bury(bench: &mut Bench, harness: &dyn StoreHarness, messages: &[Message]) -> Vec<MessageId> {
    harness.write(messages).await;
    let rows = bench.read().await;
    let batch: Vec<_> = rows.iter().map(|row| settlement(row, dead())).collect();
    assert_eq!(bench.settle(&batch).await.rows.len(), messages.len());
    messages.iter().map(|message| message.id).collect()
}

/// Every condition of the filter, and the pages.
pub async fn dead_letters_are_listed_by_filter_and_page(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let messages =
        [keyed("a"), Message::new("other.topic", "x").key("a"), keyed("b"), Message::new("other.topic", "y")];
    let buried = bury(&mut bench, harness, &messages).await;
    harness.write(&[keyed("alive")]).await;
    let malformed = bench.read().await.remove(0);
    let reason = Outcome::Dead { reason: DeadReason::Malformed, attempts: 0, waiting_for: None, failures: vec![] };
    bench.settle(&[settlement(&malformed, reason)]).await;
    let any = DeadFilter::default;
    let by = |filter: DeadFilter, expected: Vec<MessageId>| (filter, expected);
    let cases = [
        by(any(), buried.iter().copied().chain([id(&malformed)]).collect()),
        by(DeadFilter { ids: vec![buried[1], buried[3]], ..any() }, vec![buried[1], buried[3]]),
        by(DeadFilter { topic: Some("other.topic".to_owned()), ..any() }, vec![buried[1], buried[3]]),
        by(DeadFilter { key: Some(Key::unchecked("a")), ..any() }, vec![buried[0], buried[1]]),
        by(DeadFilter { reason: Some(DeadReason::Malformed), ..any() }, vec![id(&malformed)]),
        by(DeadFilter { older_than: Some(Duration::from_secs(3_600)), ..any() }, vec![]),
        by(
            DeadFilter { key: Some(Key::unchecked("a")), topic: Some("other.topic".to_owned()), ..any() },
            vec![buried[1]],
        ),
    ];
    for (filter, expected) in cases {
        let listed = bench.operator.dead(&filter, EVERY).await.unwrap();
        assert_eq!(listed.iter().map(|view| view.message.id).collect::<Vec<_>>(), expected, "{filter:?}");
    }
    let page = bench.operator.dead(&any(), Position { limit: 2, ..EVERY }).await.unwrap();
    assert_eq!(page.len(), 2);
    let rest = bench.operator.dead(&any(), Position { after: page[1].row, limit: 10 }).await.unwrap();
    assert_eq!(rest.len(), 3);
    assert_eq!(page[0].message.payload, messages[0].payload);
}

/// Counts per topic and reason.
pub async fn dead_letters_are_grouped_by_topic_and_reason(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    bury(&mut bench, harness, &[keyed("a"), keyed("b"), Message::new("other.topic", "x")]).await;
    harness.pass(Duration::from_millis(20)).await;
    let mut groups = bench.operator.dead_groups(&DeadFilter::default()).await.unwrap();
    groups.sort_by(|a, b| a.topic.cmp(&b.topic));
    let seen: Vec<_> = groups.iter().map(|group| (group.topic.as_str(), group.reason, group.count)).collect();
    let reason = Some(DeadReason::Attempts);
    assert_eq!(seen, [("other.topic", reason, 1), ("suite.topic", reason, 2)]);
    assert!(groups.iter().all(|group| group.oldest >= Duration::from_millis(20)));
}

/// Pending again, with a clean slate.
pub async fn a_replayed_dead_letter_keeps_its_id_and_is_due_at_once(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let buried = bury(&mut bench, harness, &[keyed("a"), keyed("b"), keyed("c")]).await;
    let first = bench.operator.replay(&DeadFilter::default(), 2).await.unwrap();
    assert_eq!(first, buried[..2], "the oldest first, up to the limit");
    assert_eq!(bench.operator.replay(&DeadFilter::default(), 10).await.unwrap(), buried[2..]);
    assert!(bench.operator.replay(&DeadFilter::default(), 10).await.unwrap().is_empty());
    let due = bench.due().await;
    assert_eq!(due.iter().map(id).collect::<BTreeSet<_>>(), buried.iter().copied().collect());
    for row in &due {
        assert_eq!((row.state, row.attempts, row.progress.len()), (RowState::Pending, 0, 0));
    }
    let batch: Vec<_> = due.iter().map(|row| settlement(row, Outcome::Delivered)).collect();
    assert_eq!(bench.settle(&batch).await.rows.len(), 3);
}

/// Each is replayed by one of them.
pub async fn two_replays_at_once_replay_each_message_once(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let messages: Vec<Message> = (0..600).map(|n| keyed(&format!("k{n}"))).collect();
    let buried = bury(&mut bench, harness, &messages).await;
    let mut other = harness.store().operator().await.unwrap();
    let filter = DeadFilter::default();
    let (one, two) = tokio::join!(bench.operator.replay(&filter, 1_000), other.replay(&filter, 1_000));
    let mut all = one.unwrap();
    all.extend(two.unwrap());
    let distinct: BTreeSet<MessageId> = all.iter().copied().collect();
    assert_eq!((all.len(), distinct), (600, buried.into_iter().collect()));
}

/// Gone for good.
pub async fn a_discarded_dead_letter_is_gone(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let buried = bury(&mut bench, harness, &[keyed("a"), keyed("b")]).await;
    let filter = DeadFilter { ids: vec![buried[0]], ..DeadFilter::default() };
    assert_eq!(bench.operator.discard(&filter, 10).await.unwrap(), [buried[0]]);
    assert!(bench.operator.discard(&filter, 10).await.unwrap().is_empty());
    let left = bench.operator.dead(&DeadFilter::default(), EVERY).await.unwrap();
    assert_eq!(left.iter().map(|view| view.message.id).collect::<Vec<_>>(), [buried[1]]);
    assert!(bench.due().await.is_empty());
}

/// Ten rows: two delivered, three dead, the others alive.
async fn mixed(bench: &mut Bench, harness: &dyn StoreHarness) {
    harness.write(&(0..10).map(|n| keyed(&format!("k{n}"))).collect::<Vec<_>>()).await;
    let rows = bench.read().await;
    bench
        .settle(&[
            settlement(&rows[0], Outcome::Delivered),
            settlement(&rows[1], Outcome::Delivered),
            settlement(&rows[2], dead()),
            settlement(&rows[3], dead()),
            settlement(&rows[4], dead()),
            settlement(&rows[5], retry(Duration::from_secs(60))),
            settlement(&rows[6], super::bench::SET_ASIDE),
        ])
        .await;
}

const AT_ONCE: Retention = Retention { delivered: Some(Duration::ZERO), dead: Some(Duration::ZERO) };

/// Never a pending row, whatever its age.
pub async fn prune_removes_only_what_is_settled_and_past_its_time(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    mixed(&mut bench, harness).await;
    harness.pass(Duration::from_millis(20)).await;
    let day = Some(Duration::from_secs(86_400));
    let kept = Retention { delivered: day, dead: day };
    assert_eq!(bench.operator.prune(&kept, 100).await.unwrap(), Pruned::default(), "nothing is that old");
    assert_eq!(bench.operator.prune(&Retention::default(), 100).await.unwrap(), Pruned::default());
    let delivered = Retention { delivered: Some(Duration::ZERO), dead: None };
    assert_eq!(bench.operator.prune(&delivered, 100).await.unwrap(), Pruned { delivered: 2, dead: 0 });
    assert_eq!(bench.operator.prune(&AT_ONCE, 100).await.unwrap(), Pruned { delivered: 0, dead: 3 });
    let status = bench.operator.status(100).await.unwrap();
    assert_eq!((status.pending.value(), status.dead.value()), (5, 0));
    let mut anew = harness.store().source().await.unwrap();
    assert_eq!(anew.read(&bench.lanes, ROOM).await.unwrap().rows.len(), 3);
}

/// The dry run tells the truth.
pub async fn prunable_is_what_prune_removes(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    mixed(&mut bench, harness).await;
    harness.pass(Duration::from_millis(20)).await;
    let said = bench.operator.prunable(&AT_ONCE).await.unwrap();
    assert_eq!(said, Pruned { delivered: 2, dead: 3 });
    assert_eq!(bench.operator.prunable(&Retention::default()).await.unwrap(), Pruned::default());
    assert_eq!(bench.operator.prune(&AT_ONCE, 100).await.unwrap(), said);
    assert_eq!(bench.operator.prunable(&AT_ONCE).await.unwrap(), Pruned::default());
}

/// One relay prunes at a time; where two do, by hand or while a lane changes hands, they share the work.
pub async fn two_prunes_at_once_remove_each_row_once_and_nothing_else(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    mixed(&mut bench, harness).await;
    harness.pass(Duration::from_millis(20)).await;
    let mut other = harness.store().operator().await.unwrap();
    let (mut delivered, mut dead) = (0, 0);
    for _ in 0..4 {
        let (one, two) = tokio::join!(bench.operator.prune(&AT_ONCE, 2), other.prune(&AT_ONCE, 2));
        for pruned in [one.unwrap(), two.unwrap()] {
            delivered += pruned.delivered;
            dead += pruned.dead;
        }
    }
    assert_eq!((delivered, dead), (2, 3), "each is counted once");
    assert_eq!(bench.operator.status(100).await.unwrap().pending.value(), 5);
}

/// So many rows of each kind, and no more.
pub async fn prune_is_bounded(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    mixed(&mut bench, harness).await;
    harness.pass(Duration::from_millis(20)).await;
    assert_eq!(bench.operator.prune(&AT_ONCE, 1).await.unwrap(), Pruned { delivered: 1, dead: 1 });
    assert_eq!(bench.operator.prune(&AT_ONCE, 1).await.unwrap(), Pruned { delivered: 1, dead: 1 });
    assert_eq!(bench.operator.prune(&AT_ONCE, 10).await.unwrap(), Pruned { delivered: 0, dead: 1 });
}
