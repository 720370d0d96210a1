//! What orders two transactions, and what doubles a message.

use super::postgres::{Outbox, Relay, payload};

/// The limit that the guarantees name, and the ways that are right.
#[tokio::test]
async fn finding_08_a_message_enqueued_by_the_statement_that_waits_is_doubled_and_the_documented_ways_are_not() {
    const CALL: &str = "postrider_enqueue('t', 'k', 'B')";
    let doubled = [
        format!("select {CALL} from acct where id = 1 for update"),
        format!("update acct set note = {CALL}::text where id = 1"),
        format!("update acct set n = n + 1 where id = 1 and {CALL} is not null"),
    ];
    let right = [
        format!("update acct set n = n + 1 where id = 1 returning {CALL}"),
        format!("begin; select from acct where id = 1 for update; select {CALL}; commit"),
        "with u as (update acct set n = n + 1 where id = 1 returning id)
         insert into postrider_outbox (topic, key, payload) select 't', 'k', 'B' from u"
            .to_owned(),
        "insert into postrider_outbox (topic, key, payload) select 't', 'k', 'B' from acct where id = 1 for update"
            .to_owned(),
    ];
    for (statement, expected) in doubled.iter().map(|sql| (sql, "B A B")).chain(right.iter().map(|sql| (sql, "A B"))) {
        let outbox = Outbox::fresh().await;
        outbox
            .sql("create table acct (id int primary key, n int, note text); insert into acct values (1, 0, '')")
            .await;
        let (a, b) = (outbox.client().await, outbox.client().await);
        a.batch_execute("begin; select from acct where id = 1 for update").await.unwrap();
        let sql = statement.clone();
        let waiting = tokio::spawn(async move { b.batch_execute(&sql).await.unwrap() });
        outbox.blocked().await;
        a.batch_execute("update acct set n = n + 1; select postrider_enqueue('t', 'k', 'A'); commit").await.unwrap();
        waiting.await.unwrap();
        let mut relay = Relay::joined(&outbox.store).await;
        let order: Vec<String> = relay.read_all().await.iter().map(payload).collect();
        assert_eq!(order.join(" "), expected, "{statement}");
    }
}

/// What orders two transactions is a conflicting lock before the first message, and nothing less.
#[tokio::test]
async fn finding_08_share_locks_and_messages_before_the_lock_do_not_order() {
    let outbox = Outbox::fresh().await;
    outbox.sql("create table acct (id int primary key); insert into acct values (1)").await;
    let (a, b) = (outbox.client().await, outbox.client().await);
    let mut relay = Relay::joined(&outbox.store).await;
    for share in ["for share", "for key share"] {
        a.batch_execute(&format!("begin; select from acct {share}; select postrider_enqueue('t', 'k', 'A1')"))
            .await
            .unwrap();
        b.batch_execute(&format!("begin; select from acct {share}; select postrider_enqueue('t', 'k', 'B'); commit"))
            .await
            .unwrap();
        a.batch_execute("select postrider_enqueue('t', 'k', 'A2'); commit").await.unwrap();
        let order: Vec<String> = relay.read_all().await.iter().map(payload).collect();
        assert_eq!(order, ["A1", "B", "A2"], "{share}");
    }
    a.batch_execute("begin; select postrider_enqueue('t', 'k', 'A1')").await.unwrap();
    b.batch_execute("begin; select from acct for update; select postrider_enqueue('t', 'k', 'B'); commit")
        .await
        .unwrap();
    a.batch_execute("select from acct for update; select postrider_enqueue('t', 'k', 'A2'); commit").await.unwrap();
    let order: Vec<String> = relay.read_all().await.iter().map(payload).collect();
    assert_eq!(order, ["A1", "B", "A2"], "a message before the lock");
}
