//! Messages whose time passes.

use std::time::Duration;

use postrider_core::{
    DeadFilter, DeadReason, Expires, Key, Message, Outcome, Position, Row, RowId, Settlement, Standing, Subject,
    Timestamp,
};

use super::StoreHarness;
use super::bench::{Bench, SET_ASIDE, dead, id, keyed, retry, settlement};

const SOON: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(600);

/// The database measures: the relay's clock and its zone say nothing.
pub async fn the_database_says_how_old_a_message_is_and_how_long_it_has(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let now = now(&mut bench, harness).await;
    let ends = keyed("ends").expires_at(after(now, LONG));
    let past = keyed("past").expires_at(Timestamp(now.0 - 1));
    harness.write(&[ends, past, keyed("none"), keyed("never").expires_at(Timestamp::NEVER)]).await;
    harness.pass(SOON).await;
    let rows = bench.read().await;
    let of = |key: &str| rows.iter().find(|row| row.key().unwrap().as_str() == key).unwrap().lifetime;
    assert!(
        matches!(of("ends").expires, Expires::In(left) if left <= LONG - SOON && left > LONG / 2),
        "{:?}",
        of("ends")
    );
    assert_eq!(of("past").expires, Expires::In(Duration::ZERO));
    assert_eq!((of("none").expires, of("never").expires), (Expires::ByPolicy, Expires::Never));
    assert!(rows.iter().all(|row| row.lifetime.age >= SOON && row.lifetime.age < LONG), "{rows:?}");
}

/// New, due by its delay, due by its retry, set aside, swept.
pub async fn a_message_whose_time_has_passed_says_so_wherever_it_is_found(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let now = now(&mut bench, harness).await;
    let mortal = |key: &str| keyed(key).expires_at(after(now, SOON));
    let delayed = mortal("delayed").deliver_at(after(now, SOON));
    harness.write(&[mortal("retrying"), mortal("aside"), mortal("old"), delayed]).await;
    let rows = bench.read().await;
    let of = |key: &str| rows.iter().find(|row| row.key().unwrap().as_str() == key).unwrap();
    bench.settle(&[settlement(of("retrying"), retry(SOON)), settlement(of("aside"), SET_ASIDE)]).await;
    harness.pass(SOON * 2).await;
    let over = |rows: &[Row]| {
        assert!(rows.iter().all(|row| row.lifetime.expires == Expires::In(Duration::ZERO)), "{rows:?}");
        let mut keys: Vec<String> = rows.iter().map(|row| row.key().unwrap().as_str().to_owned()).collect();
        keys.sort();
        keys
    };
    assert_eq!(over(&bench.due().await), ["delayed", "retrying"]);
    let waits = bench.held(of("aside").lane);
    let aside = bench.source.key(waits, &Key::unchecked("aside"), super::bench::ROOM).await.unwrap();
    assert_eq!(over(&aside.rows), ["aside"]);
    let swept = bench.source.sweep(&bench.lanes, RowId(of("old").id.0 - 1), super::bench::ROOM).await.unwrap();
    assert!(over(&swept.rows).contains(&"old".to_owned()));
    let mut anew = Bench { source: harness.store().source().await.unwrap(), ..bench };
    let read: Vec<Row> = anew.read().await.into_iter().filter(|row| row.key().unwrap().as_str() == "old").collect();
    assert_eq!(over(&read), ["old"]);
}

/// Gone from the outbox and in no history, because it was not delivered; its neighbours in the batch are settled too.
pub async fn a_dropped_row_is_gone_and_in_no_history(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    for mixed in [false, true] {
        harness.write(&["dropped", "delivered", "aside", "dead"].map(keyed)).await;
        let rows = bench.read().await;
        let outcomes = [Outcome::Dropped, Outcome::Delivered, SET_ASIDE, dead()];
        let batch: Vec<Settlement> = rows.iter().zip(outcomes).map(|(row, outcome)| settlement(row, outcome)).collect();
        let settled = if mixed { bench.settle(&batch).await } else { bench.settle(&batch[..1]).await };
        let mut changed = settled.rows.clone();
        changed.sort();
        let expected: Vec<RowId> = batch.iter().take(if mixed { 4 } else { 1 }).map(|one| one.row).collect();
        assert_eq!(changed, expected);
        assert!(settled.lanes.contains(&rows[0].lane), "{settled:?}");
        assert!(bench.operator.explain(&Subject::Id(id(&rows[0])), LONG).await.unwrap().is_empty());
        if mixed {
            let found = bench.operator.explain(&Subject::Id(id(&rows[1])), LONG).await.unwrap();
            assert!(matches!(found[0].standing, Standing::Delivered { .. }), "{found:?}");
        } else {
            bench.settle(&batch[1..]).await;
        }
    }
}

/// The fence holds for what is dropped too.
pub async fn a_relay_that_lost_its_lease_drops_nothing(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let row = bench.one(harness, keyed("k")).await;
    harness.steal(row.lane).await;
    let settled = bench.settle(&[settlement(&row, Outcome::Dropped)]).await;
    assert!(settled.rows.is_empty() && settled.lanes.is_empty(), "{settled:?}");
    assert_eq!(bench.operator.explain(&Subject::Id(id(&row)), LONG).await.unwrap().len(), 1);
}

/// No attempt was made at it, and none is recorded.
pub async fn a_death_by_time_is_recorded_without_an_attempt(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let row = bench.one(harness, keyed("k")).await;
    let expired = Outcome::Dead { reason: DeadReason::Expired, attempts: 0, waiting_for: None, failures: vec![] };
    assert_eq!(bench.settle(&[settlement(&row, expired)]).await.rows, [row.id]);
    let filter = DeadFilter { reason: Some(DeadReason::Expired), ..DeadFilter::default() };
    let listed = bench.operator.dead(&filter, Position { after: RowId(i64::MIN), limit: 10 }).await.unwrap();
    assert_eq!((listed.len(), listed[0].attempts, listed[0].last_attempt_at), (1, 0, None));
    assert!(listed[0].dead_at.is_some());
}

/// Whatever it died of: an operator wants it sent.
pub async fn a_replayed_dead_letter_never_expires(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let now = now(&mut bench, harness).await;
    bench.operator.discard(&DeadFilter::default(), 10).await.unwrap();
    for message in [keyed("a").expires_at(Timestamp(now.0 - 1)), keyed("b")] {
        bench.one_dead(harness, message).await;
    }
    assert_eq!(bench.operator.replay(&DeadFilter::default(), 10).await.unwrap().len(), 2);
    let due = bench.due().await;
    assert_eq!(due.len(), 2);
    assert!(due.iter().all(|row| row.lifetime.expires == Expires::Never), "{due:?}");
}

fn after(now: Timestamp, time: Duration) -> Timestamp {
    Timestamp(now.0 + i64::try_from(time.as_micros()).unwrap())
}

/// The database's clock, as an explanation tells it.
async fn now(bench: &mut Bench, harness: &dyn StoreHarness) -> Timestamp {
    let row = bench.one_dead(harness, Message::new("suite.topic", "x").key("clock")).await;
    bench.operator.explain(&Subject::Id(id(&row)), LONG).await.unwrap()[0].now
}
