//! Rows that wait: retrying, delayed, set aside.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{Closed, DestinationName, Due, Key, Message, Outcome, Room, RowId, RowState, Timestamp};

use super::StoreHarness;
use super::bench::{Bench, ROOM, SET_ASIDE, id, ids, keyed, retry, settlement};

const SOON: Duration = Duration::from_millis(400);
/// More rows than a store looks at before another one.
const MANY: usize = 80;

/// Not before its time, and then at once.
pub async fn a_retry_is_found_exactly_when_it_is_due(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let row = bench.one(harness, keyed("k")).await;
    // Far enough that a slow machine still looks before it comes.
    bench.settle(&[settlement(&row, retry(Duration::from_secs(3)))]).await;
    assert!(bench.due().await.is_empty());
    harness.pass(Duration::from_secs(3)).await;
    let due = bench.due().await;
    assert_eq!((due.len(), due[0].id, due[0].due), (1, row.id, Due::Now));
}

/// A delayed row is no obstacle for its key.
pub async fn a_delayed_row_is_found_when_it_is_due_and_holds_back_nothing(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let now = now(&mut bench, harness).await;
    let wait = Duration::from_secs(3);
    let delayed = keyed("k").deliver_at(Timestamp(now.0 + i64::try_from(wait.as_micros()).unwrap()));
    let behind = keyed("k");
    harness.write(&[delayed.clone(), behind.clone()]).await;
    let rows = bench.read().await;
    let next = rows.iter().find(|row| id(row) == behind.id).unwrap();
    assert_eq!((next.due, &next.closed), (Due::Now, &Closed::Open));
    for row in rows.iter().filter(|row| id(row) == delayed.id) {
        assert!(matches!(row.due, Due::In(left) if left <= wait), "a delayed row that comes is marked: {row:?}");
    }
    assert!(bench.due().await.is_empty());
    harness.pass(wait).await;
    assert_eq!(ids(&bench.due().await), [delayed.id]);
}

/// The window's rows are known already.
pub async fn due_rows_in_the_window_are_left_out(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let rows = retried(&mut bench, harness, 3).await;
    let page = bench.source.due(&bench.lanes, ROOM, &[rows[0], rows[2]]).await.unwrap();
    assert_eq!(page.rows.iter().map(|row| row.id).collect::<Vec<_>>(), [rows[1]]);
}

/// Due rows belong to the owner of their lane.
pub async fn due_rows_of_lanes_that_are_not_held_are_left_out(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let rows = retried(&mut bench, harness, 20).await;
    let mut found = BTreeSet::new();
    for held in bench.lanes.clone() {
        let due = bench.due_of(&[held]).await.rows;
        assert!(due.iter().all(|row| row.lane == held.lane));
        found.extend(due.iter().map(|row| row.id));
    }
    assert_eq!(found, rows.into_iter().collect::<BTreeSet<_>>());
    assert!(bench.due_of(&[]).await.rows.is_empty());
}

/// Rows and bytes, and `more`.
pub async fn a_page_of_due_rows_is_bounded(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let rows = retried(&mut bench, harness, 5).await;
    let page = bench.source.due(&bench.lanes, Room { rows: 2, bytes: 1 << 20 }, &[]).await.unwrap();
    assert_eq!((page.rows.len(), page.more), (2, true));
    let page = bench.source.due(&bench.lanes, Room { rows: 10, bytes: 1 }, &[]).await.unwrap();
    assert_eq!((page.rows.len(), page.more), (1, true));
    let page = bench.source.due(&bench.lanes, ROOM, &rows[..4]).await.unwrap();
    assert_eq!((page.rows.len(), page.more), (1, false));
}

/// By id, whatever their state; ordinary rows are not among them.
pub async fn the_exceptional_rows_of_a_key_come_in_order(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    harness.write(&[keyed("k"), keyed("other"), keyed("k"), keyed("k"), keyed("k")]).await;
    let rows = bench.read().await;
    let of_key: Vec<_> = rows.iter().filter(|row| row.key().is_some_and(|key| key.as_str() == "k")).collect();
    bench
        .settle(&[
            settlement(of_key[2], SET_ASIDE),
            settlement(of_key[0], retry(Duration::from_secs(60))),
            settlement(of_key[1], SET_ASIDE),
        ])
        .await;
    let key = Key::unchecked("k");
    let lane = bench.held(of_key[0].lane);
    let page = bench.source.key(lane, &key, ROOM).await.unwrap();
    let expected: Vec<RowId> = of_key[..3].iter().map(|row| row.id).collect();
    assert_eq!(page.rows.iter().map(|row| row.id).collect::<Vec<_>>(), expected);
    assert_eq!(page.rows[0].state, RowState::Pending);
    assert!(matches!(page.rows[0].due, Due::In(_)), "a head that is not due yet says so");
    assert_eq!((page.rows[1].state, page.more), (RowState::SetAside, false));
    let page = bench.source.key(lane, &key, Room { rows: 2, bytes: 1 << 20 }).await.unwrap();
    assert_eq!((page.rows.len(), page.more), (2, true));
}

/// In pages, over every lane: each key once, in order, none of another lane.
pub async fn the_walk_over_exceptional_keys_meets_each_once(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let keys: Vec<String> = (0..50).map(|n| format!("key {n:02} é")).collect();
    let messages: Vec<Message> = keys.iter().flat_map(|key| [keyed(key), keyed(key), keyed(key)]).collect();
    harness.write(&messages).await;
    let rows = bench.read().await;
    let batch: Vec<_> = rows
        .iter()
        .enumerate()
        .map(|(n, row)| settlement(row, if n.is_multiple_of(2) { SET_ASIDE } else { retry(Duration::from_secs(60)) }))
        .collect();
    bench.settle(&batch).await;
    harness.write(&[keyed("ordinary")]).await;
    let mut met = BTreeSet::new();
    for held in bench.lanes.clone() {
        let mut after: Option<Key> = None;
        loop {
            let page = bench.source.exceptional_keys(held.lane, after.as_ref(), 3).await.unwrap();
            assert!(page.len() <= 3);
            for key in &page {
                let row = rows.iter().find(|row| row.key() == Some(key)).unwrap();
                assert_eq!(row.lane, held.lane);
                assert!(after.as_ref() < Some(key), "the walk goes up");
                assert!(met.insert(key.as_str().to_owned()), "{key} twice");
                after = Some(key.clone());
            }
            if page.is_empty() {
                break;
            }
        }
    }
    assert_eq!(met, keys.into_iter().collect::<BTreeSet<_>>());
}

/// The probe: a row says that it must wait.
pub async fn a_row_behind_an_exceptional_one_is_closed(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let head = bench.one(harness, keyed("k")).await;
    bench.settle(&[settlement(&head, SET_ASIDE)]).await;
    harness.write(&[keyed("k"), keyed("other")]).await;
    let rows = bench.read().await;
    let closed = |key: &str| {
        let row = rows.iter().find(|row| row.key().is_some_and(|k| k.as_str() == key)).unwrap();
        row.closed.clone()
    };
    assert_eq!((closed("k"), closed("other")), (Closed::ForAll, Closed::Open));
    bench.settle(&[settlement(&head, Outcome::Delivered)]).await;
    let row = bench.one(harness, keyed("k")).await;
    assert_eq!(row.closed, Closed::Open, "an ordinary row in front closes nothing");
}

/// Per destination: what the rows in front still owe, and no more.
pub async fn a_row_behind_a_partly_delivered_one_is_closed_for_the_rest(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let first = bench.one(harness, keyed("k")).await;
    bench.settle(&[settlement(&first, retry(Duration::from_secs(60)))]).await;
    let second = bench.one(harness, keyed("k")).await;
    let d = DestinationName::new("d");
    assert_eq!(second.closed, Closed::For(vec![d.clone()]));
    let e = DestinationName::new("e");
    bench.settle(&[settlement(&second, Outcome::SetAside { waiting_for: Some(vec![e.clone()]) })]).await;
    let third = bench.one(harness, keyed("k")).await;
    let Closed::For(mut owed) = third.closed else { panic!("{:?}", third.closed) };
    owed.sort();
    assert_eq!(owed, [d, e]);
}

/// However many there are: the store may stop looking, and then says so. Where what it saw is owed to everybody, so is the
/// row.
pub async fn a_row_behind_many_partly_delivered_ones_is_told_that_there_are_more(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let d = DestinationName::new("d");
    for (key, owed) in [("some", Some(vec![d.clone()])), ("all", None)] {
        harness.write(&(0..MANY).map(|_| keyed(key)).collect::<Vec<_>>()).await;
        let rows = bench.read().await;
        let aside = Outcome::SetAside { waiting_for: owed.clone() };
        let batch: Vec<_> = rows.iter().map(|row| settlement(row, aside.clone())).collect();
        assert_eq!(bench.settle(&batch).await.rows.len(), MANY);
        let closed = bench.one(harness, keyed(key)).await.closed;
        match owed {
            Some(owed) => {
                assert!([Closed::For(owed.clone()), Closed::ForMany(owed)].contains(&closed), "{closed:?}");
            }
            None => assert_eq!(closed, Closed::ForAll),
        }
    }
}

/// Rows of different keys, tried once and due again now, by id.
async fn retried(bench: &mut Bench, harness: &dyn StoreHarness, n: usize) -> Vec<RowId> {
    harness.write(&(0..n).map(|n| keyed(&format!("k{n}"))).collect::<Vec<_>>()).await;
    let rows = bench.read().await;
    let batch: Vec<_> = rows.iter().map(|row| settlement(row, retry(SOON))).collect();
    assert_eq!(bench.settle(&batch).await.rows.len(), n);
    harness.pass(SOON).await;
    rows.iter().map(|row| row.id).collect()
}

/// The database's clock, as a dead letter tells it.
async fn now(bench: &mut Bench, harness: &dyn StoreHarness) -> Timestamp {
    let row = bench.one_dead(harness, keyed("clock")).await;
    let subject = postrider_core::Subject::Id(id(&row));
    bench.operator.explain(&subject, Duration::from_secs(5)).await.unwrap()[0].now
}
