//! Status, explanations, enqueue, the doctor.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider_core::{
    Attempt, DestinationName, ErrorKind, FailedAttempt, Level, Measured, Message, Outcome, Row, RowState, Settlement,
    Standing, Subject, Timestamp,
};

use super::bench::{Bench, SET_ASIDE, dead, failure, id, ids, keyed, message, retry, settlement};
use super::{LANES, StoreHarness};

const LIMIT: Duration = Duration::from_secs(5);
const FAR: Timestamp = Timestamp(4_102_444_800_000_000);

/// Ten rows in every state.
async fn ten(bench: &mut Bench, harness: &dyn StoreHarness) {
    harness.write(&(0..8).map(|n| keyed(&format!("k{n}"))).collect::<Vec<_>>()).await;
    let rows = bench.read().await;
    harness.write(&[keyed("later").deliver_at(FAR), keyed("k0").deliver_at(FAR)]).await;
    let later = Duration::from_secs(60);
    bench
        .settle(&[
            settlement(&rows[0], retry(later)),
            settlement(&rows[1], retry(later)),
            settlement(&rows[2], SET_ASIDE),
            settlement(&rows[3], dead()),
            settlement(&rows[4], Outcome::Delivered),
        ])
        .await;
}

/// Every number of the status, counted.
pub async fn the_status_counts_exactly_up_to_the_bound(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    ten(&mut bench, harness).await;
    harness.pass(Duration::from_millis(20)).await;
    let status = bench.operator.status(100).await.unwrap();
    let numbers = [status.pending, status.retrying, status.delayed, status.set_aside, status.dead, status.holding];
    assert_eq!(numbers, [8, 2, 2, 1, 1, 0].map(Measured::Exact));
    let age = status.oldest_age.unwrap();
    assert!(age >= Duration::from_millis(20) && age < Duration::from_secs(600), "{age:?}");
    let status = bench.operator.status(8).await.unwrap();
    assert_eq!(status.pending, Measured::Exact(8), "the bound itself is counted");
}

/// Above the bound it says so, and never less than it counted.
pub async fn the_status_says_when_it_estimates(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    harness.write(&(0..50).map(|n| keyed(&format!("k{n}"))).collect::<Vec<_>>()).await;
    let rows = bench.read().await;
    let batch: Vec<_> = rows[..20].iter().map(|row| settlement(row, dead())).collect();
    bench.settle(&batch).await;
    let status = bench.operator.status(10).await.unwrap();
    for (measured, what) in [(status.pending, "pending"), (status.dead, "dead")] {
        assert!(matches!(measured, Measured::Estimated(n) if n >= 10), "{what}: {measured:?}");
    }
    assert_eq!(status.retrying, Measured::Exact(0), "each number has its own bound");
}

/// Who is there, who has what, and what went wrong last.
pub async fn the_status_names_members_lanes_and_errors(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    ten(&mut bench, harness).await;
    let status = bench.operator.status(100).await.unwrap();
    assert_eq!(status.members.len(), 1);
    assert_eq!((status.members[0].id, status.members[0].name.as_str()), (bench.me.0, "bench"));
    assert!(status.members[0].lease_left > Duration::from_secs(60));
    assert_eq!(status.lanes.len(), usize::from(LANES));
    for (lane, held) in status.lanes.iter().zip(&bench.lanes) {
        assert_eq!((lane.lane, lane.owner, lane.term), (held.lane, Some(bench.me.0), held.term));
    }
    assert_eq!(status.recent_errors.len(), 2);
    assert!(status.recent_errors[0].contains('d') && status.recent_errors[0].contains("no"));
}

/// Topics of what is tried again because no route led it; a failure at a destination after that is another matter.
pub async fn the_status_names_topics_that_no_route_leads(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let of = |topic: &'static str| Message::new(topic, "x");
    harness.write(&["mail.sent", "mail.sent", "paid", "placed"].map(of)).await;
    let rows = bench.read().await;
    assert_eq!(bench.operator.status(100).await.unwrap().unrouted, Vec::<String>::new());
    let failed = |row: &Row, destination: &str| {
        let failure = FailedAttempt { destination: DestinationName::new(destination), ..failure("no") };
        let (waiting_for, progress) = (None, BTreeMap::new());
        settlement(
            row,
            Outcome::Retry { after: Duration::ZERO, attempts: 0, waiting_for, progress, failures: vec![failure] },
        )
    };
    let batch: Vec<_> =
        rows.iter().map(|row| failed(row, if message(row).topic.as_str() == "placed" { "d" } else { "" })).collect();
    bench.settle(&batch).await;
    assert_eq!(bench.operator.status(100).await.unwrap().unrouted, ["mail.sent", "paid"]);
    let due = bench.due().await;
    let paid = due.iter().find(|row| message(row).topic.as_str() == "paid").unwrap();
    bench.settle(&[Settlement { attempt: Attempt(2), ..failed(paid, "d") }]).await;
    assert_eq!(bench.operator.status(100).await.unwrap().unrouted, ["mail.sent"]);
}

/// Of what is to be delivered, and of nothing else.
pub async fn the_topics_of_what_waits_are_told(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    assert_eq!(bench.operator.topics().await.unwrap(), Vec::<String>::new());
    harness.write(&["placed", "mail.sent", "placed", "paid"].map(|topic| Message::new(topic, "x"))).await;
    assert_eq!(bench.operator.topics().await.unwrap(), ["mail.sent", "paid", "placed"]);
    let rows = bench.read().await;
    let of = |topic: &str| rows.iter().find(|row| message(row).topic.as_str() == topic).unwrap();
    bench.settle(&[settlement(of("paid"), dead()), settlement(of("mail.sent"), Outcome::Delivered)]).await;
    assert_eq!(bench.operator.topics().await.unwrap(), ["placed"]);
}

/// In the outbox, and behind whom.
pub async fn a_pending_a_retrying_and_a_waiting_message_are_explained(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    harness.write(&[keyed("k"), keyed("k"), keyed("free")]).await;
    let rows = bench.read().await;
    let mut of_key = rows.iter().filter(|row| row.key().is_some_and(|key| key.as_str() == "k"));
    let (head, waiting) = (of_key.next().unwrap(), of_key.next().unwrap());
    let free = rows.iter().find(|row| row.key().is_some_and(|key| key.as_str() == "free")).unwrap();
    bench.settle(&[settlement(head, retry(Duration::from_secs(60))), settlement(waiting, SET_ASIDE)]).await;

    let found = bench.operator.explain(&Subject::Id(id(free)), LIMIT).await.unwrap();
    assert_eq!((found.len(), &found[0].held), (1, &None));
    let Standing::Outbox(view) = &found[0].standing else { panic!("{found:?}") };
    assert_eq!((view.row, view.state, view.attempts), (free.id, Some(RowState::Pending), 0));
    assert_eq!(found[0].owner.as_ref().map(|owner| owner.id), Some(bench.me.0));

    let found = bench.operator.explain(&Subject::Key(head.key().unwrap().clone()), LIMIT).await.unwrap();
    assert_eq!(found.len(), 2);
    let Standing::Outbox(view) = &found[0].standing else { panic!("{found:?}") };
    assert!(view.next_attempt_at > Some(found[0].now) && view.last_attempt_at <= Some(found[0].now));
    assert_eq!((view.attempts, view.waiting_for.as_deref()), (1, Some(["d".to_owned()].as_slice())));
    let held = found[1].held.as_ref().unwrap();
    assert_eq!((held.behind, held.id), (head.id, id(head)));
}

/// At the end of the road.
pub async fn a_dead_and_a_delivered_message_are_explained(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let given_up = bench.one_dead(harness, keyed("k")).await;
    let delivered = bench.one(harness, keyed("k")).await;
    bench.settle(&[settlement(&delivered, Outcome::Delivered)]).await;
    let found = bench.operator.explain(&Subject::Id(id(&given_up)), LIMIT).await.unwrap();
    let Standing::Outbox(view) = &found[0].standing else { panic!("{found:?}") };
    assert_eq!(view.state, Some(RowState::Dead));
    assert!(view.dead_at.is_some() && view.errors.as_ref().is_some_and(|errors| errors.contains("never")));
    let found = bench.operator.explain(&Subject::Id(id(&delivered)), LIMIT).await.unwrap();
    assert_eq!(found.len(), 1);
    let Standing::Delivered { row, id: found_id, topic, key, settled_at } = &found[0].standing else {
        panic!("{found:?}")
    };
    assert_eq!((*row, *found_id, topic.as_str()), (delivered.id, id(&delivered), "suite.topic"));
    assert_eq!(key.as_ref(), delivered.key());
    assert!(*settled_at <= found[0].now);
    let by_key = bench.operator.explain(&Subject::Key(delivered.key().unwrap().clone()), LIMIT).await.unwrap();
    assert_eq!(by_key.len(), 2);
    let nobody = bench.operator.explain(&Subject::Id(keyed("x").id), LIMIT).await.unwrap();
    assert!(nobody.is_empty());
}

/// One transaction; nothing of it when one message is bad.
pub async fn enqueue_writes_in_order_and_refuses_what_is_invalid(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let messages: Vec<Message> = (0..10).map(|_| keyed("k").header("n", "v")).collect();
    bench.operator.enqueue(&messages).await.unwrap();
    bench.operator.enqueue(&[]).await.unwrap();
    assert_eq!(ids(&bench.read().await), messages.iter().map(|message| message.id).collect::<Vec<_>>());
    let error = bench.operator.enqueue(&[keyed("good"), keyed("bad\nkey")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    assert!(bench.read().await.is_empty());
}

/// `check` is quiet where all is well.
pub async fn the_doctor_finds_no_failure_in_a_sound_store(harness: &dyn StoreHarness) {
    let mut operator = harness.store().operator().await.unwrap();
    let findings = operator.check().await.unwrap();
    assert!(!findings.is_empty());
    for finding in findings {
        assert_ne!(finding.level, Level::Failure, "{finding:?}");
        assert!(finding.level == Level::Good || !finding.advice.is_empty(), "no advice: {finding:?}");
    }
}
