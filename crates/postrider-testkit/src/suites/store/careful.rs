//! The careful start: heads, suspicion, and messages by their rows.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{
    Content, Expires, HeldLane, Message, Outcome, Page, RetryOverride, Room, Row, RowId, Settlement, Start, Timestamp,
};

use super::StoreHarness;
use super::bench::{Bench, ROOM, SET_ASIDE, dead, id, ids, keyed, message, retry, settlement};

const SOON: Duration = Duration::from_millis(200);

/// The same lanes as after an unclean takeover.
fn careful(lanes: &[HeldLane]) -> Vec<HeldLane> {
    lanes.iter().map(|held| HeldLane { start: Start::Careful, ..*held }).collect()
}

/// Asserts that a row is the head of a whole one, with this suspicion.
fn is_head_of(head: &Row, whole: &Row, suspicion: u16) {
    let (Content::Head(found), message) = (&head.content, message(whole)) else { panic!("not a head: {head:?}") };
    assert_eq!((found.id, &found.topic, &found.key), (Some(message.id), &message.topic, &message.key));
    assert_eq!((found.suspicion, found.has_retry), (suspicion, message.retry.is_some()));
    let (known, when_read) = (head.lifetime, whole.lifetime);
    assert!(known.age >= when_read.age, "its age is known: {known:?}");
    assert!(
        match (known.expires, when_read.expires) {
            (Expires::In(left), Expires::In(before)) => left <= before && !left.is_zero(),
            (known, when_read) => known == when_read,
        },
        "its end is known: {known:?}"
    );
    assert_eq!((head.id, head.lane), (whole.id, whole.lane));
    assert!(head.weight >= message.payload.len(), "it weighs what it would weigh whole");
}

/// Messages with an end, without one, with a policy of their own, and without one.
fn various(n: i64) -> Message {
    let message = keyed(&format!("k{n}"));
    let message = match n % 3 {
        0 => message.expires_at(Timestamp(4_102_444_800_000_000)),
        1 => message.expires_at(Timestamp::NEVER),
        _ => message,
    };
    if n % 2 == 0 { message.retry(RetryOverride { max_age_ms: Some(0), ..RetryOverride::default() }) } else { message }
}

/// Reads everything anew, as a relay does that has just taken the lanes over.
async fn taken_over(bench: &mut Bench, harness: &dyn StoreHarness) -> Vec<Row> {
    bench.source = harness.store().source().await.unwrap();
    let lanes = careful(&bench.lanes);
    bench.read_of(&lanes, ROOM).await
}

/// Whichever way it is found; a clean lane beside it is read whole.
pub async fn rows_of_a_lane_that_starts_carefully_come_as_heads(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    harness.write(&(0..20).map(various).collect::<Vec<_>>()).await;
    let rows = bench.read().await;
    let heads = taken_over(&mut bench, harness).await;
    assert_eq!(heads.len(), rows.len());
    for (head, row) in heads.iter().zip(&rows) {
        is_head_of(head, row, 0);
    }
    bench.source = harness.store().source().await.unwrap();
    let mut mixed = careful(&bench.lanes);
    mixed[0].start = Start::Clean;
    for row in bench.read_of(&mixed, ROOM).await {
        assert_eq!(matches!(row.content, Content::Message(_)), row.lane == mixed[0].lane, "{row:?}");
    }
    let lane = |row: &Row| *careful(&bench.lanes).iter().find(|held| held.lane == row.lane).unwrap();
    let (mut after, mut swept) = (RowId(0), 0);
    while after.0 < i64::MAX {
        let page: Page = bench.source.sweep(&careful(&bench.lanes), after, ROOM).await.unwrap();
        assert!(page.rows.iter().all(|row| matches!(row.content, Content::Head(_))), "{:?}", page.rows);
        swept += page.rows.len();
        after = *page.reached.values().next().unwrap();
    }
    assert_eq!(swept, rows.len());
    let held = [lane(&rows[0]), lane(&rows[1])];
    bench.settle(&[settlement(&rows[0], SET_ASIDE), settlement(&rows[1], retry(SOON))]).await;
    let page = bench.source.key(held[0], rows[0].key().unwrap(), ROOM).await.unwrap();
    is_head_of(&page.rows[0], &rows[0], 0);
    harness.pass(SOON).await;
    let lanes = careful(&bench.lanes);
    let page = bench.source.due(&lanes, ROOM, &[]).await.unwrap();
    assert_eq!(page.rows.len(), 1);
    is_head_of(&page.rows[0], &rows[1], 0);
    assert_eq!(page.rows[0].attempts, 1, "what a decision needs is there");
}

/// Whole, by ascending row, in pages bounded by bytes; those that are gone or dead are missing.
pub async fn messages_are_fetched_by_their_rows(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    harness.write(&(0..6).map(|n| keyed(&format!("k{n}"))).collect::<Vec<_>>()).await;
    let mut rows = bench.read().await;
    rows.sort_by_key(|row| row.id);
    let batch =
        [settlement(&rows[0], Outcome::Delivered), settlement(&rows[1], dead()), settlement(&rows[2], SET_ASIDE)];
    bench.settle(&batch).await;
    let wanted: Vec<RowId> = rows.iter().rev().map(|row| row.id).collect();
    let page = bench.source.load(&wanted, ROOM).await.unwrap();
    assert_eq!((ids(&page.rows), page.more), (ids(&rows[2..]), false));
    assert_eq!(message(&page.rows[0]), message(&rows[2]), "everything of it");
    let page = bench.source.load(&wanted, Room { rows: 10, bytes: 1 }).await.unwrap();
    assert_eq!((page.rows.iter().map(id).collect::<Vec<_>>(), page.more), (vec![id(&rows[2])], true));
    assert!(bench.source.load(&[], ROOM).await.unwrap().rows.is_empty());
}

/// It is read back with the heads, and every other outcome clears it.
pub async fn suspicion_is_recorded_and_any_other_outcome_clears_it(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    harness.write(&(0..4).map(|n| keyed(&format!("k{n}"))).collect::<Vec<_>>()).await;
    let rows = bench.read().await;
    let suspect = |row: &Row, suspicion| settlement(row, Outcome::Suspected { suspicion });
    let batch: Vec<_> = rows.iter().map(|row| suspect(row, 2)).collect();
    assert_eq!(bench.settle(&batch).await.rows.len(), 4);
    for (head, row) in taken_over(&mut bench, harness).await.iter().zip(&rows) {
        is_head_of(head, row, 2);
    }
    let batch = [
        suspect(&rows[0], 3),
        settlement(&rows[1], retry(Duration::ZERO)),
        settlement(&rows[2], SET_ASIDE),
        settlement(&rows[3], Outcome::Delivered),
    ];
    let settled = bench.settle(&batch).await;
    let changed: BTreeSet<RowId> = settled.rows.into_iter().collect();
    assert_eq!(changed, rows.iter().map(|row| row.id).collect::<BTreeSet<_>>(), "one batch of everything");
    let heads = taken_over(&mut bench, harness).await;
    assert_eq!(heads.len(), 1, "suspicion moves a row nowhere");
    is_head_of(&heads[0], &rows[0], 3);
    harness.pass(Duration::from_millis(5)).await;
    let due = bench.source.due(&careful(&bench.lanes), ROOM, &[]).await.unwrap();
    is_head_of(&due.rows[0], &rows[1], 0);
    let lane = *careful(&bench.lanes).iter().find(|held| held.lane == rows[2].lane).unwrap();
    let aside = bench.source.key(lane, rows[2].key().unwrap(), ROOM).await.unwrap();
    is_head_of(&aside.rows[0], &rows[2], 0);
}

/// Of a row that this relay never sent nothing is known that was not known before.
pub async fn a_row_that_goes_back_keeps_the_suspicion_that_its_settlement_says(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    harness.write(&[keyed("k0"), keyed("k1")]).await;
    let rows = bench.read().await;
    let with = |row: &Row, outcome| Settlement { suspicion: 2, ..settlement(row, outcome) };
    bench.settle(&[with(&rows[0], retry(Duration::ZERO)), with(&rows[1], SET_ASIDE)]).await;
    assert!(taken_over(&mut bench, harness).await.is_empty());
    harness.pass(Duration::from_millis(5)).await;
    let due = bench.source.due(&careful(&bench.lanes), ROOM, &[]).await.unwrap();
    is_head_of(&due.rows[0], &rows[0], 2);
    let lane = *careful(&bench.lanes).iter().find(|held| held.lane == rows[1].lane).unwrap();
    let aside = bench.source.key(lane, rows[1].key().unwrap(), ROOM).await.unwrap();
    is_head_of(&aside.rows[0], &rows[1], 2);
}

/// P6 holds for suspicion as for every outcome.
pub async fn a_relay_that_lost_its_lease_suspects_nobody(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let row = bench.one(harness, keyed("k")).await;
    harness.steal(row.lane).await;
    let settled = bench.settle(&[settlement(&row, Outcome::Suspected { suspicion: 1 })]).await;
    assert!(settled.rows.is_empty() && settled.lanes.is_empty(), "{settled:?}");
    let heads = taken_over(&mut bench, harness).await;
    is_head_of(&heads[0], &row, 0);
}
