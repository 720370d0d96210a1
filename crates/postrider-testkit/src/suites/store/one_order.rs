//! An outbox of one lane: all messages have one order, with a key and without.

use std::time::Duration;

use postrider_core::{
    Closed, Content, DestinationName, HeldLane, Key, Message, Outcome, Room, Row, RowId, RowState, Start, Subject,
};

use super::StoreHarness;
use super::bench::{Bench, ROOM, SET_ASIDE, id, keyed, retry, settlement};

const MINUTE: Duration = Duration::from_secs(60);

/// More than a store looks at one by one before it closes a row for everything.
const MANY: usize = 80;

/// Messages of different keys, every third one without a key.
async fn written(bench: &mut Bench, harness: &dyn StoreHarness, count: usize) -> Vec<Row> {
    let message = |n: usize| {
        let message = Message::new("suite.topic", n.to_string());
        if n % 3 == 2 { message } else { message.key(format!("k{n}")) }
    };
    harness.write(&(0..count).map(message).collect::<Vec<_>>()).await;
    let rows = bench.read().await;
    assert_eq!(rows.len(), count);
    rows
}

/// Reads everything anew, as a relay does that has just taken the lane over.
async fn taken_over(bench: &mut Bench, harness: &dyn StoreHarness) -> Vec<Row> {
    bench.source = harness.store().source().await.unwrap();
    bench.read().await
}

fn rows_of(rows: &[Row]) -> Vec<RowId> {
    rows.iter().map(|row| row.id).collect()
}

fn only(names: &[&str]) -> Closed {
    Closed::For(names.iter().map(|name| DestinationName::new(name)).collect())
}

fn aside_for(name: &str) -> Outcome {
    Outcome::SetAside { waiting_for: Some(vec![DestinationName::new(name)]) }
}

/// Whatever the key of either; what stands before it is as open as ever.
pub async fn a_row_behind_an_exceptional_one_of_any_key_is_closed(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let rows = written(&mut bench, harness, 6).await;
    assert!(rows.iter().all(|row| row.closed == Closed::Open), "an ordinary row in front closes nothing");
    bench.settle(&[settlement(&rows[2], SET_ASIDE)]).await;
    let left = taken_over(&mut bench, harness).await;
    assert_eq!(rows_of(&left), [rows[0].id, rows[1].id, rows[3].id, rows[4].id, rows[5].id]);
    let closed: Vec<_> = left.iter().map(|row| row.closed.clone()).collect();
    assert_eq!(closed, [Closed::Open, Closed::Open, Closed::ForAll, Closed::ForAll, Closed::ForAll]);
    bench.settle(&[settlement(&rows[2], Outcome::Delivered)]).await;
    let left = taken_over(&mut bench, harness).await;
    assert!(left.iter().all(|row| row.closed == Closed::Open), "nothing exceptional is left");
}

/// Per destination: what all the rows in front still owe, and no more.
pub async fn a_row_behind_partly_delivered_ones_is_closed_for_what_they_owe(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let rows = written(&mut bench, harness, 4).await;
    bench.settle(&[settlement(&rows[0], retry(MINUTE)), settlement(&rows[2], aside_for("e"))]).await;
    let left = taken_over(&mut bench, harness).await;
    assert_eq!((left[0].id, &left[0].closed), (rows[1].id, &only(&["d"])));
    let Closed::For(mut owed) = left[1].closed.clone() else { panic!("{:?}", left[1].closed) };
    owed.sort();
    assert_eq!((left[1].id, Closed::For(owed)), (rows[3].id, only(&["d", "e"])));
}

/// However many there are: the store may stop looking, and then says so.
pub async fn a_row_behind_many_exceptional_ones_is_closed(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let rows = written(&mut bench, harness, MANY + 2).await;
    let batch: Vec<_> = rows[1..=MANY].iter().map(|row| settlement(row, aside_for("d"))).collect();
    assert_eq!(bench.settle(&batch).await.rows.len(), MANY);
    let left = taken_over(&mut bench, harness).await;
    assert_eq!(rows_of(&left), [rows[0].id, rows[MANY + 1].id]);
    assert_eq!(left[0].closed, Closed::Open);
    let stopped = Closed::ForMany(vec![DestinationName::new("d")]);
    assert!([Closed::ForAll, only(&["d"]), stopped].contains(&left[1].closed), "{:?}", left[1].closed);
}

/// Due rows stand in the same order as all others.
pub async fn a_due_row_behind_an_exceptional_one_of_any_key_is_closed(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let rows = written(&mut bench, harness, 4).await;
    let soon = Duration::from_millis(300);
    bench.settle(&[settlement(&rows[3], retry(soon)), settlement(&rows[1], retry(soon))]).await;
    bench.settle(&[settlement(&rows[2], SET_ASIDE)]).await;
    harness.pass(soon).await;
    let mut due = bench.due().await;
    due.sort_by_key(|row| row.id);
    assert_eq!(rows_of(&due), [rows[1].id, rows[3].id]);
    assert_eq!((&due[0].closed, &due[1].closed), (&Closed::Open, &Closed::ForAll));
}

/// By id, whatever their keys and states, in pages; ordinary rows are not among them.
pub async fn the_exceptional_rows_of_all_keys_come_in_order(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let rows = written(&mut bench, harness, 6).await;
    let batch = [
        settlement(&rows[3], SET_ASIDE),
        settlement(&rows[1], retry(MINUTE)),
        settlement(&rows[2], SET_ASIDE),
        settlement(&rows[5], SET_ASIDE),
    ];
    bench.settle(&batch).await;
    let (lane, everything) = (bench.lanes[0], Key::everything());
    let page = bench.source.key(lane, &everything, ROOM).await.unwrap();
    assert_eq!(rows_of(&page.rows), [rows[1].id, rows[2].id, rows[3].id, rows[5].id]);
    assert!(page.rows.iter().all(|row| row.closed == Closed::Open), "what stands before them is among them");
    assert_eq!((page.rows[0].state, page.rows[1].state), (RowState::Pending, RowState::SetAside));
    assert!(!page.more);
    let page = bench.source.key(lane, &everything, Room { rows: 3, bytes: 1 << 20 }).await.unwrap();
    assert_eq!((rows_of(&page.rows), page.more), (vec![rows[1].id, rows[2].id, rows[3].id], true));
    let page = bench.source.key(lane, &Key::unchecked("k1"), ROOM).await.unwrap();
    assert!(page.rows.is_empty(), "a key by itself has no order here");
}

/// Heads, where a relay died with them in its hands.
pub async fn the_exceptional_rows_of_all_keys_come_as_heads_after_a_death(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let rows = written(&mut bench, harness, 3).await;
    bench.settle(&rows.iter().map(|row| settlement(row, SET_ASIDE)).collect::<Vec<_>>()).await;
    let careful = HeldLane { start: Start::Careful, ..bench.lanes[0] };
    let page = bench.source.key(careful, &Key::everything(), ROOM).await.unwrap();
    assert_eq!(rows_of(&page.rows), rows_of(&rows));
    for (head, whole) in page.rows.iter().zip(&rows) {
        let Content::Head(found) = &head.content else { panic!("not a head: {head:?}") };
        assert_eq!((found.id, found.key.as_ref()), (Some(id(whole)), whole.key()));
    }
}

/// Everything stands together: the walk gives one name for it, once, and none when nothing waits.
pub async fn the_walk_gives_everything_once(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let rows = written(&mut bench, harness, 6).await;
    let (lane, everything) = (bench.lanes[0].lane, Key::everything());
    assert!(bench.source.exceptional_keys(lane, None, 10).await.unwrap().is_empty());
    let batch: Vec<_> = rows[2..5].iter().map(|row| settlement(row, SET_ASIDE)).collect();
    bench.settle(&batch).await;
    assert_eq!(bench.source.exceptional_keys(lane, None, 10).await.unwrap(), std::slice::from_ref(&everything));
    assert!(bench.source.exceptional_keys(lane, Some(&everything), 10).await.unwrap().is_empty());
    // The last one has no key.
    let batch: Vec<_> = rows[2..5].iter().map(|row| settlement(row, Outcome::Delivered)).collect();
    bench.settle(&batch).await;
    bench.settle(&[settlement(&rows[5], SET_ASIDE)]).await;
    assert_eq!(bench.source.exceptional_keys(lane, None, 10).await.unwrap(), [everything]);
    bench.settle(&[settlement(&rows[5], Outcome::Delivered)]).await;
    assert!(bench.source.exceptional_keys(lane, None, 10).await.unwrap().is_empty());
}

/// An operator is told what goes first, whatever its key.
pub async fn a_message_is_explained_by_the_first_exceptional_one_of_all(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let rows = written(&mut bench, harness, 4).await;
    bench.settle(&[settlement(&rows[1], retry(MINUTE)), settlement(&rows[2], SET_ASIDE)]).await;
    let mut behind = Vec::new();
    for row in &rows {
        let found = bench.operator.explain(&Subject::Id(id(row)), MINUTE).await.unwrap();
        behind.push(found[0].held.as_ref().map(|held| (held.behind, held.id)));
    }
    let first = Some((rows[1].id, id(&rows[1])));
    assert_eq!(behind, [None, None, first, first]);
    let free = bench.one_dead(harness, keyed("dead")).await;
    let found = bench.operator.explain(&Subject::Id(id(&free)), MINUTE).await.unwrap();
    assert!(found[0].held.is_none(), "what was given up waits for nothing");
}
