//! Messages that wait for their moment and messages whose time passes, through real databases; and what both cost
//! where nobody uses them: nothing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "the bench serves other tests too")]

#[path = "bad_input/bench.rs"]
mod bench;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bench::{Outbox, Running, delivered, keyed, relay};
use postrider_brokers::memory::{Answer, MemoryBroker};
use postrider_core::{
    DeadFilter, DeadReason, ErrorKind, Message, OnExpire, Position, RetryPolicy, RowId, Subject, Timestamp,
    TopicPattern,
};
use postrider_relay::Summary;
use tokio_util::sync::CancellationToken;

async fn each(test: impl AsyncFn(Outbox)) {
    test(Outbox::sqlite().await).await;
    test(Outbox::postgres().await).await;
}

/// The database's clock.
async fn now(outbox: &Outbox) -> i64 {
    let sql = if outbox.is_sqlite() {
        "select cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000"
    } else {
        "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"
    };
    outbox.sql(sql).await.unwrap().trim().parse().unwrap()
}

fn after(now: i64, millis: i64) -> Timestamp {
    Timestamp(now + millis * 1_000)
}

/// A broker that is away until it is told otherwise.
fn away() -> (MemoryBroker, Arc<AtomicBool>) {
    let back = Arc::new(AtomicBool::new(false));
    let is_back = Arc::clone(&back);
    let broker = MemoryBroker::recording().with_script(move |_, _| {
        if is_back.load(Ordering::SeqCst) { Answer::Accept } else { Answer::Fail(ErrorKind::Unavailable) }
    });
    (broker, back)
}

fn payloads(broker: &MemoryBroker) -> Vec<String> {
    broker.messages().iter().map(|sent| String::from_utf8_lossy(&sent.message.payload).into_owned()).collect()
}

/// Relays until the outbox is empty, under a policy for every topic.
async fn drain(outbox: &Outbox, broker: &Arc<MemoryBroker>, policy: RetryPolicy) -> Summary {
    let relay = relay(outbox.store().await.unwrap(), broker).retry(TopicPattern::every(), policy);
    let relay = relay.until_empty().build().unwrap();
    tokio::time::timeout(Duration::from_secs(60), relay.run(CancellationToken::new())).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delayed_message_takes_its_place_when_it_is_due_and_holds_back_nothing() {
    each(async |outbox| {
        let running = Running::start(outbox.store().await.unwrap(), MemoryBroker::recording()).await;
        let begun = now(&outbox).await;
        let far = after(begun, 3_600_000);
        let (second, first) = (keyed("k", "second").deliver_at(far), keyed("k", "first").deliver_at(far));
        outbox.enqueue(&[second.clone(), first.clone(), keyed("k", "at once")]).await;
        running.until_delivered(&["at once"]).await;
        let moment = now(&outbox).await;
        let at = |millis: i64| {
            let at = after(moment, millis).0;
            if outbox.is_sqlite() { at.to_string() } else { format!("to_timestamp({at} / 1000000.0)") }
        };
        let sql = format!(
            "update postrider_outbox set deliver_at = case when message_id = '{}' then {} else {} end
              where message_id in ('{0}', '{}'); select 1",
            first.id,
            at(600),
            at(900),
            second.id
        );
        outbox.sql(&sql).await.unwrap();
        running.until_delivered(&["first", "second"]).await;
        assert!(now(&outbox).await >= moment + 900_000, "a delayed message left before its moment");
        assert_eq!(payloads(&running.broker), ["at once", "first", "second"], "by the moment, not by the number");
        outbox.enqueue(&[keyed("k", "last")]).await;
        running.until_delivered(&["last"]).await;
        running.stop_unharmed().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delayed_message_that_is_due_waits_behind_its_keys_retrying_head() {
    each(async |outbox| {
        let refused = Arc::new(AtomicBool::new(true));
        let refuses = Arc::clone(&refused);
        let broker = MemoryBroker::recording().with_script(move |sent, _| {
            let head = sent.message.payload.as_ref() == b"head";
            if head && refuses.load(Ordering::SeqCst) { Answer::Fail(ErrorKind::Rejected) } else { Answer::Accept }
        });
        let running = Running::start(outbox.store().await.unwrap(), broker).await;
        let begun = now(&outbox).await;
        outbox.enqueue(&[keyed("k", "head"), keyed("k", "delayed").deliver_at(after(begun, 500))]).await;
        running.until("a retry of the head", |relay| relay.retried >= 1).await;
        outbox.enqueue(&[keyed("other", "passes").deliver_at(after(begun, 900))]).await;
        running.until_delivered(&["passes"]).await;
        assert!(!delivered(&running.broker).contains("delayed"), "it overtook the head of its key");
        refused.store(false, Ordering::SeqCst);
        running.until_delivered(&["head", "delayed"]).await;
        assert_eq!(payloads(&running.broker), ["passes", "head", "delayed"]);
        running.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_ends_only_the_messages_that_have_an_end_and_their_keys_go_on() {
    each(async |outbox| {
        let (broker, back) = away();
        let running = Running::start(outbox.store().await.unwrap(), broker).await;
        let end = after(now(&outbox).await, 4_000);
        let mortal: Vec<Message> = (0..20).map(|n| keyed(&format!("k{n}"), "over").expires_at(end)).collect();
        let others: Vec<Message> = (0..20).map(|n| keyed(&format!("k{n}"), &format!("after {n}"))).collect();
        outbox.enqueue(&mortal).await;
        outbox.enqueue(&others).await;
        running.until("a pause", |relay| relay.destinations[0].paused.is_some()).await;
        running.until("the first end", |relay| relay.dead > 0).await;
        assert!(now(&outbox).await >= end.0, "given up before its time");
        let ended = running.until("the end of what expires", |relay| relay.dead == 20).await;
        assert!(ended.destinations[0].paused.is_some(), "it was found while the destination was paused");
        back.store(true, Ordering::SeqCst);
        running.until("the others", |relay| relay.delivered == 20).await;
        assert!(!delivered(&running.broker).contains("over"), "sent after its time");
        let summary = running.stop().await;
        assert_eq!((summary.dead, summary.dropped, summary.retried), (20, 0, 0), "no attempt was charged");
        let filter = DeadFilter { reason: Some(DeadReason::Expired), ..DeadFilter::default() };
        let mut operator = outbox.operator().await;
        let dead = operator.dead(&filter, Position { after: RowId(0), limit: 100 }).await.unwrap();
        assert!(dead.len() == 20 && dead.iter().all(|view| view.attempts == 0), "{dead:?}");
        assert_eq!(operator.replay(&filter, 100).await.unwrap().len(), 20);
        let broker = Arc::new(MemoryBroker::recording());
        assert_eq!(
            drain(&outbox, &broker, RetryPolicy::default()).await.delivered,
            20,
            "an operator's replay goes out"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_maximum_age_counts_from_when_the_message_was_written_and_drops_where_it_is_told_to() {
    each(async |outbox| {
        let message = keyed("k", "old");
        outbox.enqueue(std::slice::from_ref(&message)).await;
        let written = if outbox.is_sqlite() { "created_at - 3600000000" } else { "created_at - interval '1 hour'" };
        outbox.sql(&format!("update postrider_outbox set created_at = {written}; select 1")).await.unwrap();
        outbox.enqueue(&[keyed("k", "young")]).await;
        let max_age = Some(Duration::from_secs(1_800));
        let policy = RetryPolicy { max_age, on_expire: OnExpire::Drop, ..RetryPolicy::default() };
        let broker = Arc::new(MemoryBroker::recording());
        let summary = drain(&outbox, &broker, policy).await;
        assert_eq!((summary.delivered, summary.dropped, summary.dead), (1, 1, 0));
        assert_eq!(payloads(&broker), ["young"]);
        let mut operator = outbox.operator().await;
        let found = operator.explain(&Subject::Id(message.id), Duration::from_secs(10)).await.unwrap();
        assert!(found.is_empty(), "{found:?}");
    })
    .await;
}

/// An index that never had an entry is its first page alone, whatever vacuum did since.
const ENTRIES: &str = "
select count(*) from pg_class i join pg_index x on x.indexrelid = i.oid
 where x.indrelid = 'postrider_outbox'::regclass and x.indpred is not null and pg_relation_size(i.oid) > 8192";
const UPDATED: &str = "select n_tup_upd from pg_stat_user_tables where relname = 'postrider_outbox'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_quiet_running_no_row_is_set_aside_and_the_exceptional_indexes_stay_empty() {
    let outbox = Outbox::postgres().await;
    assert_eq!(outbox.sql(ENTRIES).await.unwrap(), "0", "the measure itself");
    let slow = MemoryBroker::recording().with_delay(Duration::from_millis(1));
    let running = Running::start(outbox.store().await.unwrap(), slow).await;
    // A hot key, many cold ones and messages without a key: more of each than the window takes.
    for round in 0..30 {
        let message = |n: usize| match n % 4 {
            0 => keyed("hot", "x"),
            1 => Message::new("t", "x"),
            _ => keyed(&format!("k{}", (round * 7 + n) % 501), "x"),
        };
        outbox.enqueue(&(0..1_000).map(message).collect::<Vec<_>>()).await;
    }
    running.until("everything", |relay| relay.delivered == 30_000).await;
    running.stop_unharmed().await;
    assert_eq!(outbox.sql(ENTRIES).await.unwrap(), "0", "a row was exceptional");
    let removed = "select n_tup_del = 30000 from pg_stat_user_tables where relname = 'postrider_outbox'";
    while outbox.sql(removed).await.unwrap() != "t" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(outbox.sql(UPDATED).await.unwrap(), "0", "a row was written twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_measure_of_quiet_running_sees_a_row_that_waits() {
    let outbox = Outbox::postgres().await;
    let broker = MemoryBroker::recording().with_script(|sent, before| {
        if before == 0 && sent.message.payload.as_ref() == b"0" {
            Answer::Fail(ErrorKind::Rejected)
        } else {
            Answer::Accept
        }
    });
    outbox.enqueue(&(0..10).map(|n| keyed("k", &n.to_string())).collect::<Vec<_>>()).await;
    let summary = drain(&outbox, &Arc::new(broker), RetryPolicy::default()).await;
    assert_eq!((summary.delivered, summary.retried), (10, 1));
    assert_ne!(outbox.sql(ENTRIES).await.unwrap(), "0");
}

#[tokio::test]
async fn no_index_is_kept_for_the_ends_of_messages() {
    each(async |outbox| {
        let sql = if outbox.is_sqlite() {
            "select count(*) from sqlite_schema where type = 'index' and sql like '%expires_at%'"
        } else {
            "select count(*) from pg_indexes where tablename = 'postrider_outbox' and indexdef like '%expires_at%'"
        };
        assert_eq!(outbox.sql(sql).await.unwrap(), "0");
    })
    .await;
}
