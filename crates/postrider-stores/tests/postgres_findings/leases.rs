//! Who holds a lane, and what becomes of its rows when that changes.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{Content, DeadReason, Message, Outcome, RelayId, Row, Start, Store};
use uuid::Uuid;

use super::postgres::{Outbox, Relay, TTL, ids};

/// The reproduction: with the term in the WHERE clause alone, the same statement changes a row of the successor's.
#[tokio::test]
async fn finding_02_a_term_in_the_condition_alone_is_no_fence_and_the_lock_is_one() {
    const NAIVE: &str = "update postrider_outbox o set state = 1 from postrider_lane l
                          where o.lane = l.lane and l.owner = $1 and l.term = $2 and o.state = 0";
    for fenced in [false, true] {
        let outbox = Outbox::fresh().await;
        let mut zombie = Relay::joined(&outbox.store).await;
        outbox.enqueue(&[Message::new("t", "1").key("a")]).await;
        let rows = zombie.read_all().await;
        let held = zombie.held.iter().find(|held| held.lane == rows[0].lane).copied().unwrap();
        // Something holds the zombie up in the middle of its statement: the application has locked the row.
        let application = outbox.client().await;
        application.batch_execute("begin; select from postrider_outbox for update").await.unwrap();
        let (client, me) = (outbox.client().await, zombie.me);
        let settling = tokio::spawn(async move {
            if fenced {
                let dead =
                    Outcome::Dead { reason: DeadReason::Attempts, attempts: 1, waiting_for: None, failures: vec![] };
                zombie.settle(&rows, dead).await.rows.len()
            } else {
                usize::try_from(client.execute(NAIVE, &[&me.0, &held.term.0]).await.unwrap()).unwrap()
            }
        });
        outbox.blocked().await;
        let takeover = format!(
            "begin; select from postrider_lane where lane = {0} for update;
             update postrider_lane set owner = gen_random_uuid(), term = term + 1 where lane = {0}; commit",
            held.lane
        );
        let successor = outbox.client().await;
        let taking = tokio::spawn(async move { successor.batch_execute(&takeover).await.unwrap() });
        if fenced {
            // The settle was first: the lane changes hands when it has ended, and not within it.
            while !outbox.is_blocked(2).await {
                assert!(!taking.is_finished(), "the lane changed hands within a settle");
            }
            application.batch_execute("rollback").await.unwrap();
            assert_eq!(settling.await.unwrap(), 1);
            taking.await.unwrap();
        } else {
            taking.await.unwrap();
            application.batch_execute("rollback").await.unwrap();
            assert_eq!(settling.await.unwrap(), 1, "the reproduction: the successor's row was changed");
        }
    }
}

/// The reproduction: a condition on the members' table is not checked again after the lock, and the lanes are stolen.
#[tokio::test]
async fn finding_14_a_member_that_looked_before_another_acquired_steals_nothing() {
    const NAIVE: &str = "
with c as materialized (
  select l.lane from postrider_lane l
   where not exists (select from postrider_relay r where r.id = l.owner) and postrider_wait() for update skip locked)
update postrider_lane l set owner = $1, term = term + 1 from c where l.lane = c.lane";
    let outbox = Outbox::fresh().await;
    // The second member looks, is held up, and goes on when the first has acquired everything.
    outbox
        .sql(
            "create table gate (n int); insert into gate values (1);
             create function postrider_wait() returns boolean language plpgsql as
             $$ begin lock table gate in share mode; return true; end $$",
        )
        .await;
    let gate = outbox.client().await;
    gate.batch_execute("begin; lock table gate in access exclusive mode").await.unwrap();
    let second = outbox.client().await;
    let thief = Uuid::now_v7();
    let stealing = tokio::spawn(async move { second.execute(NAIVE, &[&thief]).await.unwrap() });
    outbox.blocked().await;
    let relay = Relay::joined(&outbox.store).await;
    assert_eq!(relay.held.len(), 8);
    gate.batch_execute("commit").await.unwrap();
    assert_eq!(stealing.await.unwrap(), 8, "the reproduction: every lane was stolen from a living owner");

    let outbox = Outbox::fresh().await;
    let first = outbox.client().await;
    let me = Uuid::now_v7();
    let mut leases = outbox.store.leases().await.unwrap();
    let other = RelayId(Uuid::now_v7());
    leases.join(other, "second", TTL).await.unwrap();
    first
        .execute("insert into postrider_relay values ($1, 'first', clock_timestamp() + interval '1 minute')", &[&me])
        .await
        .unwrap();
    first.batch_execute("begin").await.unwrap();
    first.execute("update postrider_lane set owner = $1, term = term + 1 where owner is null", &[&me]).await.unwrap();
    assert!(leases.acquire(other, 8).await.unwrap().is_empty(), "what another is about to take is skipped");
    first.batch_execute("commit").await.unwrap();
    assert!(leases.acquire(other, 8).await.unwrap().is_empty());
    assert_eq!(outbox.sql("select count(*) from postrider_lane where term = 1").await, "8");
}

/// A lease is over when the clock says so.
#[tokio::test]
async fn finding_14_an_expired_lease_acquires_nothing() {
    let outbox = Outbox::fresh().await;
    let mut leases = outbox.store.leases().await.unwrap();
    let me = RelayId(Uuid::now_v7());
    leases.join(me, "late", Duration::from_millis(1)).await.unwrap();
    while outbox.sql("select expires_at < clock_timestamp() from postrider_relay").await != "t" {}
    assert!(leases.acquire(me, 8).await.unwrap().is_empty());
}

/// A relay that dies over what it was sending has charged nobody for it, however often; its lanes say how it ended, and
/// the next relay reads the heads alone: it suspects what it takes, and nothing else.
#[tokio::test]
async fn finding_13_a_relay_that_dies_again_and_again_charges_no_message() {
    let outbox = Outbox::fresh().await;
    let messages: Vec<Message> = (0..20).map(|n| Message::new("t", n.to_string()).key(n.to_string())).collect();
    outbox.enqueue(&messages).await;
    let sorted = |rows: &[Row]| ids(rows).into_iter().collect::<BTreeSet<_>>();
    let expected = sorted(&Relay::joined(&outbox.store).await.read_all().await);
    assert_eq!(expected.len(), 20);
    for death in 1..=4 {
        // It has read everything and settled nothing; then its lease runs out.
        outbox.sql("update postrider_relay set expires_at = clock_timestamp() - interval '1 second'").await;
        assert_eq!(outbox.store.leases().await.unwrap().evict().await.unwrap(), 8);
        let mut relay = Relay::joined(&outbox.store).await;
        assert!(relay.held.iter().all(|held| held.start == Start::Careful), "{death}");
        let rows = relay.read_all().await;
        assert_eq!((sorted(&rows), rows.iter().map(|row| row.attempts).sum::<u32>()), (expected.clone(), 0));
        assert!(rows.iter().all(|row| matches!(&row.content, Content::Head(head) if head.suspicion == 0)), "{death}");
    }
    let charged = "select count(*) from postrider_outbox where attempts + suspicion + state > 0";
    assert_eq!(outbox.sql(charged).await, "0");
}
