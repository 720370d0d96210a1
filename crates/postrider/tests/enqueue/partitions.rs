//! The partitions of the inbox on a real PostgreSQL: made ahead, dropped whole, and never in anybody's way.

use std::time::Duration;

use postrider::{Inbox, InboxError, MessageId, Seen};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::contention::connect;
use crate::postgres;

const CONSUMER: &str = "billing";
/// Keeps records for a second, in partitions of a second.
const A_SECOND: &str = "select postrider_inbox_keep(interval '1 s', interval '1 s')";

/// What a consumer is told of a message, in a transaction that is committed.
async fn claimed(client: &mut Client, id: MessageId) -> Seen {
    let tx = client.transaction().await.unwrap();
    let seen = Inbox::new().first_seen(&tx, CONSUMER, id).await.unwrap();
    tx.commit().await.unwrap();
    seen
}

/// Until the database says so.
async fn until(client: &Client, so: &str) {
    while !client.query_one(so, &[]).await.unwrap().get::<_, bool>(0) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Until nobody has made partitions for so many seconds that a claim must.
async fn until_the_present_has_no_partition(client: &Client, seconds: u32) {
    let so = format!("select newest <= clock_timestamp() - interval '{seconds} s' from postrider_inbox_span");
    until(client, &so).await;
}

/// Records go with their partitions, and what went with them is refused from then on.
#[tokio::test]
async fn on_postgresql_partitions_are_dropped_whole_and_refuse_what_was_in_them() {
    let database = postgres::Database::fresh().await;
    let mut client = connect(&database).await;
    let inbox = Inbox::new();
    client.batch_execute("select postrider_inbox_keep(interval '2 s', interval '1 s')").await.unwrap();
    let id = MessageId::fresh();
    assert_eq!(claimed(&mut client, id).await, Seen::First);
    let mut dropped = 0;
    while dropped < 5 {
        let tx = client.transaction().await.unwrap();
        let seen = inbox.first_seen(&tx, CONSUMER, id).await;
        assert!(matches!(seen, Ok(Seen::Repeat) | Err(InboxError::TooOld)), "{seen:?}");
        let is_gone = seen.is_err();
        tx.rollback().await.unwrap();
        assert_eq!(claimed(&mut client, MessageId::fresh()).await, Seen::First);
        let kept = client.query_one("select postrider_inbox_keep()", &[]).await.unwrap().get::<_, i64>(0);
        dropped += if is_gone { kept.max(1) } else { 0 };
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let left: i64 = client.query_one("select count(*) from postrider_inbox_partitions()", &[]).await.unwrap().get(0);
    assert!((3..=7).contains(&left), "{left}");
}

/// Nothing has kept the inbox for longer than its partitions reach: a claim makes them itself.
#[tokio::test]
async fn on_postgresql_an_inbox_that_nobody_keeps_goes_on() {
    let database = postgres::Database::fresh().await;
    let mut client = connect(&database).await;
    client.batch_execute(A_SECOND).await.unwrap();
    until_the_present_has_no_partition(&client, 2).await;
    let (inbox, id) = (Inbox::new(), MessageId::fresh());
    for expected in [Seen::First, Seen::Repeat] {
        assert_eq!(claimed(&mut client, id).await, expected);
    }
    let in_ten_years = MessageId(Uuid::from_u128(id.0.as_u128() + (315_360_000_000 << 80)));
    let tx = client.transaction().await.unwrap();
    let seen = inbox.first_seen(&tx, CONSUMER, in_ten_years).await;
    assert!(matches!(seen, Err(InboxError::Future)), "{seen:?}");
}

/// It is under way in a transaction that stays open: its partitions are seen by nobody else yet.
#[tokio::test]
async fn on_postgresql_a_claim_beside_one_that_makes_partitions_waits_and_is_not_from_the_future() {
    let database = postgres::Database::fresh().await;
    let (mut one, mut two) = (connect(&database).await, connect(&database).await);
    one.batch_execute(A_SECOND).await.unwrap();
    until_the_present_has_no_partition(&one, 3).await;
    let inbox = Inbox::new();
    let first = one.transaction().await.unwrap();
    assert_eq!(inbox.first_seen(&first, CONSUMER, MessageId::fresh()).await.unwrap(), Seen::First);
    let second = two.transaction().await.unwrap();
    let seen = inbox.first_seen(&second, CONSUMER, MessageId::fresh()).await;
    assert!(matches!(seen, Err(InboxError::Contended(Some(_)))), "{seen:?}");
    second.rollback().await.unwrap();
    first.commit().await.unwrap();
    assert_eq!(claimed(&mut two, MessageId::fresh()).await, Seen::First);
}

/// Nobody kept the inbox nor claimed anything for long: what was sent meanwhile has its place.
#[tokio::test]
async fn on_postgresql_what_was_sent_during_a_long_rest_is_handled_after_it() {
    let database = postgres::Database::fresh().await;
    let mut client = connect(&database).await;
    client.batch_execute(A_SECOND).await.unwrap();
    let newest = "select (extract(epoch from newest) * 1000)::bigint from postrider_inbox_span";
    let newest: i64 = client.query_one(newest, &[]).await.unwrap().get(0);
    until_the_present_has_no_partition(&client, 3).await;
    let during = |milliseconds: i64| {
        let at = u128::try_from(newest + milliseconds).unwrap();
        MessageId(Uuid::from_u128(at << 80 | MessageId::fresh().0.as_u128() & (u128::MAX >> 48)))
    };
    for id in [MessageId::fresh(), during(1), during(1_500)] {
        assert_eq!(claimed(&mut client, id).await, Seen::First, "{id}");
    }
}

/// An application may migrate at each of its starts.
#[tokio::test]
async fn on_postgresql_a_migration_forgets_nothing() {
    let database = postgres::Database::fresh().await;
    let mut client = connect(&database).await;
    client.batch_execute("select postrider_inbox_keep(interval '2 s', interval '1 s')").await.unwrap();
    let id = MessageId::fresh();
    assert_eq!(claimed(&mut client, id).await, Seen::First);
    let over = "select bool_and(ends <= clock_timestamp() - interval '2 s') from postrider_inbox_partitions()";
    until(&client, over).await;
    postrider::migrate(&client).await.unwrap();
    assert_eq!(claimed(&mut client, id).await, Seen::Repeat);
}

/// A transaction that has claimed keeps its partition; whoever drops partitions waits a moment, goes on without it, and says so.
#[tokio::test]
async fn on_postgresql_an_open_claim_keeps_its_partition_and_stops_nobody_for_long() {
    let database = postgres::Database::fresh().await;
    let (mut one, mut other) = (connect(&database).await, connect(&database).await);
    other.batch_execute(A_SECOND).await.unwrap();
    let (inbox, id) = (Inbox::new(), MessageId::fresh());
    let tx = one.transaction().await.unwrap();
    assert_eq!(inbox.first_seen(&tx, CONSUMER, id).await.unwrap(), Seen::First);
    let ends = "select max(ends)::text from postrider_inbox_partitions() where begins <= clock_timestamp()";
    let ends: String = other.query_one(ends, &[]).await.unwrap().get(0);
    until(&other, &format!("select timestamptz '{ends}' <= clock_timestamp() - interval '1 s'")).await;
    let dropped = tokio::time::timeout(Duration::from_secs(5), other.query_one("select postrider_inbox_keep()", &[]));
    assert_eq!(dropped.await.unwrap().unwrap().get::<_, i64>(0), -1);
    let round = other.transaction().await.unwrap();
    let held_up = inbox.forget(&round, Duration::from_secs(1)).await;
    assert!(matches!(held_up, Err(InboxError::Contended(_))), "{held_up:?}");
    drop(round);
    tx.commit().await.unwrap();
    let dropped = other.query_one("select postrider_inbox_keep()", &[]).await.unwrap();
    assert!(dropped.get::<_, i64>(0) > 0);
}

/// Of handlers that take their time one is open at every moment: they end within the second that a drop waits.
#[tokio::test]
async fn on_postgresql_handlers_that_overlap_all_the_time_do_not_keep_what_is_old() {
    let database = postgres::Database::fresh().await;
    let other = connect(&database).await;
    other.batch_execute(A_SECOND).await.unwrap();
    let mut handlers = tokio::task::JoinSet::new();
    for number in 0..8 {
        let mut client = connect(&database).await;
        handlers.spawn(async move {
            tokio::time::sleep(Duration::from_millis(40) * number).await;
            loop {
                let tx = client.transaction().await.unwrap();
                assert_eq!(Inbox::new().first_seen(&tx, CONSUMER, MessageId::fresh()).await.unwrap(), Seen::First);
                tx.batch_execute("select pg_sleep(0.3)").await.unwrap();
                tx.commit().await.unwrap();
            }
        });
    }
    until(&other, "select bool_or(ends <= clock_timestamp() - interval '1 s') from postrider_inbox_partitions()").await;
    let mut dropped = Vec::new();
    while !dropped.iter().any(|dropped| *dropped > 0) {
        assert!(dropped.len() < 10 && handlers.try_join_next().is_none(), "{dropped:?}");
        dropped.push(other.query_one("select postrider_inbox_keep()", &[]).await.unwrap().get::<_, i64>(0));
    }
}

/// What was recorded after a snapshot is not seen under it: a partition that looks unused may be used.
#[tokio::test]
async fn on_postgresql_a_snapshot_from_before_a_claim_does_not_forget_it() {
    for isolation in ["repeatable read", "serializable"] {
        let database = postgres::Database::fresh().await;
        let (mut one, other) = (connect(&database).await, connect(&database).await);
        other
            .batch_execute(&format!("begin isolation level {isolation}; select from postrider_inbox_span"))
            .await
            .unwrap();
        let id = MessageId::fresh();
        assert_eq!(claimed(&mut one, id).await, Seen::First);
        other.batch_execute("select postrider_inbox_keep(interval '3 days'); commit").await.unwrap();
        assert_eq!(claimed(&mut one, id).await, Seen::Repeat, "{isolation}");
    }
}
