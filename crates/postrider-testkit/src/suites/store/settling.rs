//! Outcomes.

use std::slice;
use std::time::Duration;

use postrider_core::{
    Attempt, DeadFilter, DeadReason, DestinationName, FailedAttempt, HeldLane, MessageId, Outcome, Position, Retrying,
    RowId, Settlement, Subject, Term,
};

use super::StoreHarness;
use super::bench::{Bench, SET_ASIDE, dead, failure, id, keyed, message, retry, settlement};

const SOON: Duration = Duration::from_millis(300);

/// Delivered: nowhere in the outbox.
pub async fn a_delivered_row_is_gone(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let row = bench.one(harness, keyed("k")).await;
    bench.settle(&[settlement(&row, Outcome::Delivered)]).await;
    let mut fresh = Bench::new(harness).await;
    assert!(fresh.read_of(&bench.lanes, super::bench::ROOM).await.is_empty());
    assert_eq!(bench.operator.status(100).await.unwrap().pending.value(), 0);
}

/// Retry: not among the new rows, due later, with attempts, progress and what is owed.
pub async fn a_retried_row_waits_for_its_time_with_what_was_recorded(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let row = bench.one(harness, keyed("k")).await;
    bench.settle(&[settlement(&row, retry(SOON))]).await;
    let mut anew = harness.store().source().await.unwrap();
    assert!(anew.read(&bench.lanes, super::bench::ROOM).await.unwrap().rows.is_empty());
    harness.pass(SOON).await;
    let due = bench.due().await;
    assert_eq!(due.len(), 1);
    let d = DestinationName::new("d");
    assert_eq!((due[0].id, due[0].attempts, due[0].retrying), (row.id, 1, Retrying::Yes));
    assert_eq!((due[0].waiting_for.as_deref(), due[0].progress.get(&d)), (Some([d.clone()].as_slice()), Some(&1)));
    assert_eq!(message(&due[0]), message(&row), "the same message on every attempt");
}

/// Set aside: only its key's query brings it.
pub async fn a_row_set_aside_is_exceptional_and_not_due(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let row = bench.one(harness, keyed("k")).await;
    bench.settle(&[settlement(&row, SET_ASIDE)]).await;
    let mut anew = harness.store().source().await.unwrap();
    assert!(anew.read(&bench.lanes, super::bench::ROOM).await.unwrap().rows.is_empty());
    assert!(bench.due().await.is_empty());
    let key = row.key().unwrap();
    let lane = bench.held(row.lane);
    let rows = bench.source.key(lane, key, super::bench::ROOM).await.unwrap().rows;
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [row.id]);
    let settled = bench.settle(&[settlement(&rows[0], Outcome::Delivered)]).await;
    assert_eq!(settled.rows, [row.id], "and from there it can be delivered");
}

/// Dead: for operators only.
pub async fn a_dead_row_is_never_read_again(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let row = bench.one_dead(harness, keyed("k")).await;
    let mut anew = harness.store().source().await.unwrap();
    assert!(anew.read(&bench.lanes, super::bench::ROOM).await.unwrap().rows.is_empty());
    assert!(bench.due().await.is_empty());
    let lane = bench.held(row.lane);
    assert!(bench.source.key(lane, row.key().unwrap(), super::bench::ROOM).await.unwrap().rows.is_empty());
    let position = Position { after: RowId(i64::MIN), limit: 10 };
    let listed = bench.operator.dead(&DeadFilter::default(), position).await.unwrap();
    assert_eq!((listed.len(), listed[0].row, listed[0].attempts), (1, row.id, 1));
}

/// P6.
pub async fn a_relay_that_lost_its_lease_changes_nothing(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let row = bench.one(harness, keyed("k")).await;
    harness.steal(row.lane).await;
    for outcome in [Outcome::Delivered, retry(Duration::ZERO), SET_ASIDE, dead()] {
        let settled = bench.settle(&[settlement(&row, outcome.clone())]).await;
        assert!(settled.rows.is_empty() && settled.lanes.is_empty(), "{outcome:?}: {settled:?}");
    }
    let mut anew = harness.store().source().await.unwrap();
    let rows = anew.read(&bench.lanes, super::bench::ROOM).await.unwrap().rows;
    assert_eq!((rows.len(), id(&rows[0])), (1, id(&row)), "it stands as it stood");
}

/// The term counts, not only the owner.
pub async fn a_settle_under_an_older_term_changes_nothing(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let row = bench.one(harness, keyed("k")).await;
    let older: Vec<HeldLane> =
        bench.lanes.iter().map(|held| HeldLane { term: Term(held.term.0 - 1), ..*held }).collect();
    let settled = bench.settler.settle(bench.me, &older, &[settlement(&row, Outcome::Delivered)]).await.unwrap();
    assert!(settled.rows.is_empty() && settled.lanes.is_empty());
    assert_eq!(bench.settle(&[settlement(&row, Outcome::Delivered)]).await.rows, [row.id]);
}

/// A settlement needs its lane among the leases given.
pub async fn a_lane_that_was_not_given_is_not_settled(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let row = bench.one(harness, keyed("k")).await;
    let others: Vec<HeldLane> = bench.lanes.iter().copied().filter(|held| held.lane != row.lane).collect();
    let settled = bench.settler.settle(bench.me, &others, &[settlement(&row, Outcome::Delivered)]).await.unwrap();
    assert!(settled.rows.is_empty() && !settled.lanes.contains(&row.lane));
}

/// Changed; gone already; somebody else's.
pub async fn the_three_answers_of_a_settle_can_be_told_apart(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    harness.write(&(0..40).map(|n| keyed(&format!("k{n}"))).collect::<Vec<_>>()).await;
    let rows = bench.read().await;
    let lost = rows[0].lane;
    let mut kept = rows.iter().filter(|row| row.lane != lost);
    let (gone, changed) = (kept.next().unwrap(), kept.next().unwrap());
    bench.settle(&[settlement(gone, Outcome::Delivered)]).await;
    harness.steal(lost).await;
    let batch = [&rows[0], gone, changed].map(|row| settlement(row, Outcome::Delivered));
    let settled = bench.settle(&batch).await;
    assert_eq!(settled.rows, [changed.id]);
    assert!(settled.lanes.contains(&gone.lane) && settled.lanes.contains(&changed.lane), "{settled:?}");
    assert!(!settled.lanes.contains(&lost), "{settled:?}");
}

/// What is told twice, because the first answer was lost, is recorded once.
pub async fn the_same_settlement_twice_is_harmless(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    harness.write(&[keyed("a"), keyed("b"), keyed("c"), keyed("d")]).await;
    let rows = bench.read().await;
    let outcomes = [Outcome::Delivered, retry(Duration::ZERO), SET_ASIDE, dead()];
    let batch: Vec<Settlement> = rows.iter().zip(outcomes).map(|(row, outcome)| settlement(row, outcome)).collect();
    assert_eq!(bench.settle(&batch).await.rows.len(), 4);
    let again = bench.settle(&batch).await;
    assert!(rows.iter().all(|row| again.lanes.contains(&row.lane)), "{again:?}");
    let retried = explain(&mut bench, &rows[1]).await;
    assert_eq!(retried.attempts, 1);
    assert_eq!(errors(&retried).len(), 1, "{:?}", retried.errors);
    let given_up = explain(&mut bench, &rows[3]).await;
    assert_eq!(errors(&given_up).len(), 1, "{:?}", given_up.errors);
    assert_eq!(bench.operator.status(100).await.unwrap().pending.value(), 2);
}

/// After a replay attempts are counted from 1 again, and the same may be said once more: whoever mended one cause and
/// replayed must not be told of it again.
pub async fn what_fails_again_after_a_replay_is_recorded(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let row = bench.one(harness, keyed("k")).await;
    for (moment, said) in [(1, "cause"), (2, "cause"), (3, "another")] {
        let failures = vec![FailedAttempt { moment, ..failure(said) }];
        let dead = Outcome::Dead { reason: DeadReason::Attempts, attempts: 1, waiting_for: None, failures };
        bench.settle(&[settlement(&row, dead)]).await;
        let view = explain(&mut bench, &row).await;
        let errors = errors(&view);
        assert_eq!(errors.len(), usize::try_from(moment).unwrap(), "{errors:?}");
        assert!(errors.last().unwrap().contains(said), "{errors:?}");
        assert_eq!(bench.operator.replay(&DeadFilter::default(), 10).await.unwrap().len(), 1);
    }
}

/// The `errors` column is bounded and keeps the newest.
pub async fn the_last_ten_failures_are_kept(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let row = bench.one(harness, keyed("k")).await;
    for n in 1..=13 {
        let outcome = Outcome::Retry {
            after: Duration::ZERO,
            attempts: n,
            waiting_for: None,
            progress: [].into(),
            failures: vec![failure(&format!("failure {n} \"quoted\""))],
        };
        bench.settle(&[Settlement { attempt: Attempt(n), ..settlement(&row, outcome) }]).await;
    }
    let view = explain(&mut bench, &row).await;
    let errors = errors(&view);
    assert_eq!(errors.len(), 10, "{errors:?}");
    assert!(errors[0].contains("failure 4 ") && errors[9].contains("failure 13 "), "{errors:?}");
}

/// More than one transaction's worth.
pub async fn a_large_batch_is_settled_whole(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    harness.write(&(0..1_000).map(|n| keyed(&format!("k{n}"))).collect::<Vec<_>>()).await;
    let rows = bench.read().await;
    let outcome = |n: usize| if n.is_multiple_of(2) { Outcome::Delivered } else { retry(Duration::from_secs(60)) };
    let batch: Vec<Settlement> = rows.iter().enumerate().map(|(n, row)| settlement(row, outcome(n))).collect();
    let settled = bench.settle(&batch).await;
    assert_eq!(settled.rows.len(), 1_000);
    assert_eq!(bench.operator.status(1_000).await.unwrap().retrying.value(), 500);
}

/// A table that was emptied or restored draws its numbers again, while a settle whose answer was lost is made again.
pub async fn what_becomes_of_a_message_is_never_recorded_of_another_one_that_got_its_number(
    harness: &dyn StoreHarness,
) {
    let mut bench = Bench::new(harness).await;
    harness.write(&[keyed("a"), keyed("b"), keyed("c")]).await;
    let rows = bench.read().await;
    let suspected = Outcome::Suspected { suspicion: 3 };
    for outcome in [Outcome::Delivered, Outcome::Dropped, retry(Duration::ZERO), SET_ASIDE, suspected, dead()] {
        let of_another = Settlement { message: Some(MessageId::fresh()), ..settlement(&rows[1], outcome.clone()) };
        let settled = bench.settle(slice::from_ref(&of_another)).await;
        assert_eq!((settled.rows, settled.lanes), (vec![], vec![rows[1].lane]), "{outcome:?}: as one that is gone");
        let others = [&rows[0], &rows[2]].map(|row| settlement(row, retry(Duration::from_secs(60))));
        let batch = [others[0].clone(), of_another, others[1].clone()];
        assert_eq!(bench.settle(&batch).await.rows, [rows[0].id, rows[2].id], "{outcome:?}: beside others");
    }
    let mut fresh = Bench::new(harness).await;
    let left = fresh.read_of(&bench.lanes, super::bench::ROOM).await;
    assert_eq!(left.iter().map(id).collect::<Vec<_>>(), [id(&rows[1])], "it is as it was");
    let by_number_alone = Settlement { message: None, ..settlement(&rows[1], Outcome::Delivered) };
    assert_eq!(bench.settle(&[by_number_alone]).await.rows, [rows[1].id], "where the id cannot be read");
}

async fn explain(bench: &mut Bench, row: &postrider_core::Row) -> postrider_core::RowView {
    let found = bench.operator.explain(&Subject::Id(id(row)), Duration::from_secs(5)).await.unwrap();
    assert_eq!(found.len(), 1);
    match &found[0].standing {
        postrider_core::Standing::Outbox(view) => (**view).clone(),
        delivered @ postrider_core::Standing::Delivered { .. } => panic!("{delivered:?}"),
    }
}

/// The texts of the entries, one by one: each is an object that begins with a brace.
fn errors(view: &postrider_core::RowView) -> Vec<String> {
    let column = view.errors.clone().unwrap_or_default();
    let entries: Vec<serde_json::Value> = serde_json::from_str(&column).unwrap();
    entries.iter().map(|entry| entry["text"].as_str().unwrap().to_owned()).collect()
}
