//! What is past its retention, shown before it is removed.

use std::time::Duration;

use postrider_core::{DeadFilter, DeadReason, Message, MessageId, Outcome, PastRow, Pruned, Retention, Room, RowState};

use super::StoreHarness;
use super::bench::{Bench, ROOM, SET_ASIDE, dead, failure, keyed, settlement};

const AT_ONCE: Retention = Retention { delivered: Some(Duration::ZERO), dead: Some(Duration::ZERO) };

/// What the texts of [`full`] and [`given_up`] are long, each.
const LONG: usize = 600;

/// A message of which every part says something, and whose payload weighs next to nothing.
fn full(key: &str) -> Message {
    Message::new("suite.topic", vec![0, 0xff, b'x'])
        .key(key)
        .header("tenant", "b".repeat(LONG))
        .attribute("suite.note", "n".repeat(LONG))
        .content_type("application/x-suite")
}

/// Given up with a long word about why.
fn given_up() -> Outcome {
    let failures = vec![failure(&"e".repeat(LONG))];
    Outcome::Dead { reason: DeadReason::Attempts, attempts: 1, waiting_for: None, failures }
}

/// Two delivered and three dead messages, and two that are alive.
async fn mixed(bench: &mut Bench, harness: &dyn StoreHarness) -> Vec<Message> {
    let messages: Vec<Message> = (0..7).map(|n| full(&format!("k{n}"))).collect();
    harness.write(&messages).await;
    let rows = bench.read().await;
    let outcomes = [Outcome::Delivered, Outcome::Delivered, given_up(), given_up(), given_up()];
    let batch: Vec<_> = messages
        .iter()
        .zip(outcomes)
        .map(|(message, outcome)| {
            let row = rows.iter().find(|row| super::bench::id(row) == message.id).unwrap();
            settlement(row, outcome)
        })
        .collect();
    assert_eq!(bench.settle(&batch).await.rows.len(), 5);
    harness.pass(Duration::from_millis(20)).await;
    messages
}

fn shown(rows: &[PastRow]) -> (Vec<MessageId>, Vec<MessageId>) {
    let (mut delivered, mut dead) = (Vec::new(), Vec::new());
    for row in rows {
        match row {
            PastRow::Delivered(view) => delivered.push(view.message.id),
            PastRow::Dead(view) => dead.push(view.message.id),
        }
    }
    (delivered, dead)
}

fn sorted(mut ids: Vec<MessageId>) -> Vec<MessageId> {
    ids.sort_unstable_by_key(|id| id.0);
    ids
}

fn ids(messages: &[Message]) -> Vec<MessageId> {
    sorted(messages.iter().map(|message| message.id).collect())
}

/// As they were written, with what became of them.
pub async fn what_is_past_its_retention_is_shown_whole_and_stays(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let messages = mixed(&mut bench, harness).await;
    let day = Some(Duration::from_secs(86_400));
    assert!(bench.operator.past(&Retention { delivered: day, dead: day }, ROOM).await.unwrap().is_empty());
    assert!(bench.operator.past(&Retention::default(), ROOM).await.unwrap().is_empty());
    for _ in 0..2 {
        let rows = bench.operator.past(&AT_ONCE, ROOM).await.unwrap();
        let (delivered, dead) = shown(&rows);
        assert_eq!((sorted(delivered), sorted(dead)), (ids(&messages[..2]), ids(&messages[2..5])));
        for row in &rows {
            let (found, at) = match row {
                PastRow::Delivered(view) => (&view.message, view.settled_at),
                PastRow::Dead(view) => {
                    assert_eq!((view.state, view.dead_reason), (Some(RowState::Dead), Some(DeadReason::Attempts)));
                    (&view.message, view.dead_at.unwrap())
                }
            };
            let written = messages.iter().find(|message| message.id == found.id).unwrap();
            assert_eq!(Message { created_at: None, ..found.clone() }, *written);
            assert!(found.created_at.is_some_and(|created| created <= at), "{found:?} at {at:?}");
        }
    }
    let only = Retention { delivered: Some(Duration::ZERO), dead: None };
    assert_eq!(shown(&bench.operator.past(&only, ROOM).await.unwrap()).1, []);
}

/// By rows and by bytes, each kind by itself; headers, attributes and errors weigh as payloads do.
pub async fn what_is_shown_is_bounded_and_the_first_of_a_kind_comes_whatever_it_weighs(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    mixed(&mut bench, harness).await;
    let whole = bench.operator.past(&AT_ONCE, ROOM).await.unwrap();
    let heaviest = |is_meant: fn(&PastRow) -> bool| whole.iter().filter(|row| is_meant(row)).map(PastRow::weight).max();
    let delivered = heaviest(|row| matches!(row, PastRow::Delivered(_))).unwrap();
    let dead = heaviest(|row| matches!(row, PastRow::Dead(_))).unwrap();
    let mut count = async |rows, bytes| {
        let (delivered, dead) = shown(&bench.operator.past(&AT_ONCE, Room { rows, bytes }).await.unwrap());
        (delivered.len(), dead.len())
    };
    assert_eq!(count(1, 1 << 20).await, (1, 1));
    assert_eq!(count(2, 1 << 20).await, (2, 2));
    assert_eq!(count(100, 1).await, (1, 1));
    // What a store may weigh beside: its texts as they stand in its tables, with braces and quotes.
    let more = LONG / 2;
    assert_eq!(count(100, 2 * delivered - more).await, (1, 1));
    assert_eq!(count(100, 2 * delivered + more).await, (2, 1));
    assert_eq!(count(100, 3 * dead - more).await, (2, 2));
    assert_eq!(count(100, 3 * dead + more).await, (2, 3));
}

/// What is alive stays, and what was not shown.
pub async fn what_was_shown_is_removed_and_nothing_else(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    mixed(&mut bench, harness).await;
    let first = bench.operator.past(&AT_ONCE, Room { rows: 1, ..ROOM }).await.unwrap();
    let day = Some(Duration::from_secs(86_400));
    let kept = Retention { delivered: day, dead: day };
    assert_eq!(bench.operator.remove_past(&kept, &first).await.unwrap(), Pruned::default(), "none is that old");
    assert_eq!(bench.operator.remove_past(&AT_ONCE, &first).await.unwrap(), Pruned { delivered: 1, dead: 1 });
    assert_eq!(bench.operator.remove_past(&AT_ONCE, &first).await.unwrap(), Pruned::default(), "they are gone");
    assert_eq!(bench.operator.remove_past(&AT_ONCE, &[]).await.unwrap(), Pruned::default());
    let rest = bench.operator.past(&AT_ONCE, ROOM).await.unwrap();
    assert!(rest.iter().all(|row| !first.contains(row)) && rest.len() == 3, "{rest:?}");
    assert_eq!(bench.operator.remove_past(&AT_ONCE, &rest).await.unwrap(), Pruned { delivered: 1, dead: 2 });
    let status = bench.operator.status(100).await.unwrap();
    assert_eq!((status.pending.value(), status.dead.value()), (2, 0));
}

/// It is on its way again, whatever was archived of it.
pub async fn what_was_replayed_since_it_was_shown_stays(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let row = bench.one_dead(harness, keyed("a")).await;
    harness.pass(Duration::from_millis(20)).await;
    let second = Some(Duration::from_secs(1));
    let retention = Retention { delivered: second, dead: second };
    harness.pass(Duration::from_secs(1)).await;
    let shown = bench.operator.past(&retention, ROOM).await.unwrap();
    assert_eq!(shown.len(), 1);
    assert_eq!(bench.operator.replay(&DeadFilter::default(), 10).await.unwrap().len(), 1);
    assert_eq!(bench.operator.remove_past(&retention, &shown).await.unwrap(), Pruned::default());
    // It dies anew, and is not that old.
    let again = bench.due().await.remove(0);
    assert_eq!(again.id, row.id);
    bench.settle(&[settlement(&again, dead())]).await;
    assert_eq!(bench.operator.remove_past(&retention, &shown).await.unwrap(), Pruned::default());
    assert_eq!(bench.operator.status(100).await.unwrap().dead.value(), 1);
}

/// As any other end of a head does.
pub async fn a_head_that_was_shown_and_removed_opens_its_key(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    harness.write(&[keyed("k"), keyed("k")]).await;
    let rows = bench.read().await;
    let holding =
        Outcome::Holding { reason: DeadReason::Attempts, attempts: 1, waiting_for: None, failures: Vec::new() };
    bench.settle(&[settlement(&rows[0], holding), settlement(&rows[1], SET_ASIDE)]).await;
    harness.pass(Duration::from_millis(20)).await;
    let shown = bench.operator.past(&AT_ONCE, ROOM).await.unwrap();
    assert!(matches!(&shown[..], [PastRow::Dead(view)] if view.state == Some(RowState::Holding)), "{shown:?}");
    assert_eq!(bench.operator.remove_past(&AT_ONCE, &shown).await.unwrap(), Pruned { delivered: 0, dead: 1 });
    let due = bench.due().await;
    assert_eq!(due.iter().map(|row| row.id).collect::<Vec<_>>(), [rows[1].id]);
}
