//! What the housekeeper forgets, and what it never does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mysql_async::{Conn, TxOpts};
use postrider::brokers::memory::MemoryBroker;
use postrider::stores::{self, StoreOptions};
use postrider::{
    CancellationToken, DestinationName, DestinationTemplate, ErrorKind, Forgotten, Inbox, InboxError, MessageId, Relay,
    Seen,
};
use postrider_core::{Measured, Operator};

use crate::applications::{Application, Mysql};
use crate::{DAY, HOUR, made, on_every_database, timeless};

on_every_database!(
    what_is_kept_is_never_forgotten_and_what_is_older_is,
    what_is_to_be_kept_longer_is_kept_from_the_first_round_on,
    a_round_is_bounded_and_says_that_there_is_more,
    the_inbox_is_shown_by_its_consumers,
    a_relay_forgets_what_is_older_and_keeps_the_rest,
);

/// Rounds until nothing is left to forget; what they did in all.
async fn forget(operator: &mut dyn Operator, keep: Duration) -> Forgotten {
    let mut all = Forgotten::default();
    // On PostgreSQL the first round says what is kept, and ids without a time go by that from the second one on.
    for _ in 0..3 {
        let forgotten = operator.forget(keep, 1_000).await.unwrap();
        assert!(!forgotten.more);
        all.records += forgotten.records;
        all.partitions += forgotten.partitions;
    }
    all
}

pub async fn first(app: &mut impl Application, consumer: &str, ids: &[MessageId]) {
    for id in ids {
        assert_eq!(app.first_seen(consumer, *id).await.unwrap(), Seen::First);
    }
}

async fn what_is_kept_is_never_forgotten_and_what_is_older_is(app: &mut impl Application) {
    let kept = [made(Duration::ZERO), made(HOUR), made(20 * HOUR), timeless()];
    let (old, foreign, kept_foreign) = (made(3 * DAY), timeless(), timeless());
    first(app, "billing", &kept).await;
    first(app, "yesterday", &[kept_foreign]).await;
    first(app, "long ago", &[old, foreign]).await;
    app.age("yesterday", 20 * HOUR).await;
    app.age("long ago", 3 * DAY).await;
    let forgotten = forget(&mut *app.operator().await, DAY).await;
    assert!(matches!(forgotten, Forgotten { records: 1, partitions: 1.., .. } | Forgotten { records: 2, .. }));
    for id in kept {
        assert_eq!(app.first_seen("billing", id).await.unwrap(), Seen::Repeat, "{id}");
    }
    assert_eq!(app.first_seen("yesterday", kept_foreign).await.unwrap(), Seen::Repeat);
    // What is forgotten is refused, as far as its id tells its time.
    assert!(matches!(app.first_seen("long ago", old).await, Err(InboxError::TooOld)));
    assert_eq!(app.first_seen("long ago", foreign).await.unwrap(), Seen::First);
}

async fn what_is_to_be_kept_longer_is_kept_from_the_first_round_on(app: &mut impl Application) {
    let mut operator = app.operator().await;
    operator.forget(DAY, 1_000).await.unwrap();
    let id = timeless();
    first(app, "billing", &[id]).await;
    app.age("billing", 3 * DAY).await;
    assert_eq!(forget(&mut *operator, 7 * DAY).await.records, 0);
    assert_eq!(app.first_seen("billing", id).await.unwrap(), Seen::Repeat);
}

async fn a_round_is_bounded_and_says_that_there_is_more(app: &mut impl Application) {
    let mut operator = app.operator().await;
    operator.forget(DAY, 10).await.unwrap();
    let ids: Vec<_> = (0..25).map(|_| timeless()).collect();
    first(app, "billing", &ids).await;
    app.age("billing", 2 * DAY).await;
    for (records, more) in [(10, true), (10, true), (5, false), (0, false)] {
        assert_eq!(operator.forget(DAY, 10).await.unwrap(), Forgotten { records, partitions: 0, more });
    }
}

async fn the_inbox_is_shown_by_its_consumers(app: &mut impl Application) {
    let mut operator = app.operator().await;
    let fresh = operator.inbox(100).await.unwrap();
    assert!(fresh.consumers.is_empty() && fresh.since.is_none(), "{fresh:?}");
    first(app, "billing", &[made(HOUR), timeless(), MessageId::fresh()]).await;
    first(app, "mail", &[MessageId::fresh()]).await;
    app.refuse("audit", postrider::Message::new("orders.placed", "x")).await;
    operator.forget(DAY, 100).await.unwrap();
    let status = operator.inbox(100).await.unwrap();
    let seen: Vec<_> =
        status.consumers.iter().map(|one| (one.consumer.as_str(), one.remembered, one.refused)).collect();
    let exact = Measured::Exact;
    assert_eq!(seen, [("audit", exact(0), 1), ("billing", exact(3), 0), ("mail", exact(1), 0)]);
    let lasts: Vec<bool> = status.consumers.iter().map(|one| one.last.is_some()).collect();
    assert_eq!(lasts, [false, true, true]);
    assert!(status.since.is_some());
    let consumers = operator.inbox(2).await.unwrap().consumers;
    assert!(consumers.iter().all(|one| matches!(one.remembered, Measured::Estimated(_))), "{consumers:?}");
}

async fn a_relay_forgets_what_is_older_and_keeps_the_rest(app: &mut impl Application) {
    let (kept, old) = (made(HOUR), timeless());
    first(app, "billing", &[kept]).await;
    first(app, "long ago", &[old]).await;
    app.age("long ago", 30 * DAY).await;
    let relay = Relay::builder(stores::open(&app.url(), &StoreOptions::default()).await.unwrap())
        .destination(
            DestinationName::new("memory"),
            Arc::new(MemoryBroker::recording()) as _,
            DestinationTemplate::topic(),
        )
        .inbox(7 * DAY)
        .build()
        .unwrap();
    let stop = CancellationToken::new();
    let relaying = tokio::spawn(relay.run(stop.clone()));
    let mut operator = app.operator().await;
    let begun = Instant::now();
    while operator.inbox(100).await.unwrap().consumers.iter().any(|one| one.consumer == "long ago") {
        assert!(begun.elapsed() < Duration::from_secs(30), "it is not forgotten");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.cancel();
    relaying.await.unwrap().unwrap();
    assert_eq!(app.first_seen("billing", kept).await.unwrap(), Seen::Repeat);
}

/// The first batch of a round says what is forgotten. Those that follow delete it, and wait for no claim.
#[tokio::test]
async fn on_mysql_a_round_of_many_batches_stops_claims_once() {
    let mut app = Mysql::fresh().await;
    let mut operator = app.operator().await;
    let old: Vec<_> = (0..25).map(|_| made(3 * DAY)).collect();
    first(&mut app, "billing", &old).await;
    app.age("billing", 3 * DAY).await;
    // Behind what is old the server looks at one row more, which is no open claim's where messages come all the time.
    first(&mut app, "billing", &[made(HOUR)]).await;
    assert!(operator.forget(DAY, 10).await.unwrap().more);
    let mut other = Conn::from_url(&app.url).await.unwrap();
    let mut slow = other.start_transaction(TxOpts::default()).await.unwrap();
    assert_eq!(Inbox::new().first_seen(&mut slow, "slow", MessageId::fresh()).await.unwrap(), Seen::First);
    for (records, more) in [(10, true), (5, false)] {
        assert_eq!(operator.forget(DAY, 10).await.unwrap(), Forgotten { records, partitions: 0, more });
    }
    slow.commit().await.unwrap();
}

/// New claims queue behind whoever waits for the row that all of them lock.
#[tokio::test]
async fn on_mysql_a_receiver_that_takes_its_time_holds_up_forgetting_and_others_for_moments_only() {
    let mut app = Mysql::fresh().await;
    let mut operator = app.operator().await;
    let mut other = Conn::from_url(&app.url).await.unwrap();
    let mut slow = other.start_transaction(TxOpts::default()).await.unwrap();
    assert_eq!(Inbox::new().first_seen(&mut slow, "slow", MessageId::fresh()).await.unwrap(), Seen::First);
    let begun = Instant::now();
    let round = async { operator.forget(DAY, 10).await.unwrap_err() };
    let claim = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        app.first_seen("billing", MessageId::fresh()).await.unwrap()
    };
    let (refused, seen) = tokio::join!(round, claim);
    assert_eq!((refused.kind(), seen), (ErrorKind::Unavailable, Seen::First));
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    slow.commit().await.unwrap();
    operator.forget(DAY, 10).await.unwrap();
}
