//! Two deliveries of one message that take its token at the same moment, on real servers: never a second effect.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, IsolationLevel as MysqlIsolation, TxOpts};
use postrider::{Inbox, InboxError, Message, MessageId, Outbox, Seen};
use rusqlite::TransactionBehavior;
use tokio_postgres::IsolationLevel;

use crate::contention::{By, connect, second_on_mysql, second_on_postgres};
use crate::{mysql, postgres, sqlite};

const CONSUMER: &str = "billing";

#[tokio::test]
async fn on_postgresql_who_takes_a_token_second_waits_and_finds_none() {
    let seen = second_on_postgres(By::Token, IsolationLevel::ReadCommitted, true).await;
    assert!(matches!(seen, Ok(Seen::Repeat)), "{seen:?}");
    for isolation in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let seen = second_on_postgres(By::Token, isolation, true).await;
        assert!(matches!(seen, Err(InboxError::Contended(Some(_)))), "{seen:?}");
    }
}

#[tokio::test]
async fn on_postgresql_who_takes_a_token_second_has_it_when_the_first_is_rolled_back() {
    for isolation in [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let seen = second_on_postgres(By::Token, isolation, false).await;
        assert!(matches!(seen, Ok(Seen::First)), "{seen:?}");
    }
}

#[tokio::test]
async fn on_mysql_who_takes_a_token_second_waits_for_the_first() {
    for (commits, expected) in [(true, Seen::Repeat), (false, Seen::First)] {
        let seen = second_on_mysql(By::Token, MysqlIsolation::RepeatableRead, commits).await;
        assert_eq!(seen.unwrap(), expected);
    }
}

/// A delete does not see it, and its message would be lost.
#[tokio::test]
async fn on_postgresql_a_token_that_is_younger_than_the_snapshot_is_not_missed() {
    for isolation in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let database = postgres::Database::fresh().await;
        let (mut one, mut two) = (connect(&database).await, connect(&database).await);
        let receiver = two.build_transaction().isolation_level(isolation).start().await.unwrap();
        let tokens = receiver.query_one("select count(*) from postrider_inbox_token", &[]).await.unwrap();
        assert_eq!(tokens.get::<_, i64>(0), 0);
        let inbox = Inbox::new();
        let sender = one.transaction().await.unwrap();
        let id = Outbox::new().enqueue(&sender, Message::new("orders", "book")).await.unwrap();
        inbox.issue_token(&sender, CONSUMER, id).await.unwrap();
        sender.commit().await.unwrap();
        let seen = inbox.take_token(&receiver, CONSUMER, id).await;
        assert!(matches!(seen, Err(InboxError::Contended(Some(_)))), "{seen:?}");
        receiver.rollback().await.unwrap();
        for expected in [Seen::First, Seen::Repeat] {
            let receiver = two.build_transaction().isolation_level(isolation).start().await.unwrap();
            assert_eq!(inbox.take_token(&receiver, CONSUMER, id).await.unwrap(), expected);
            receiver.commit().await.unwrap();
        }
        let left = two.query_one("select count(*) from postrider_inbox_token", &[]).await.unwrap();
        assert_eq!(left.get::<_, i64>(0), 0, "a repeat leaves nothing");
    }
}

/// Under REPEATABLE READ a look would not see it, and its message would be lost. MariaDB 11.6 and later let it run again.
#[tokio::test]
async fn on_mysql_a_token_that_is_younger_than_the_snapshot_is_taken() {
    let database = mysql::Database::fresh().await;
    let (mut one, mut two) =
        (Conn::from_url(&database.url).await.unwrap(), Conn::from_url(&database.url).await.unwrap());
    let mut options = TxOpts::default();
    options.with_isolation_level(MysqlIsolation::RepeatableRead).with_consistent_snapshot(true);
    let mut receiver = one.start_transaction(options).await.unwrap();
    let tokens: Option<i64> = receiver.query_first("select count(*) from postrider_inbox_token").await.unwrap();
    assert_eq!(tokens, Some(0));
    let mut sender = two.start_transaction(TxOpts::default()).await.unwrap();
    let inbox = Inbox::new();
    let id = Outbox::new().enqueue(&mut sender, Message::new("orders", "book")).await.unwrap();
    inbox.issue_token(&mut sender, CONSUMER, id).await.unwrap();
    sender.commit().await.unwrap();
    let mut taken = inbox.take_token(&mut receiver, CONSUMER, id).await;
    if matches!(taken, Err(InboxError::Contended(Some(_)))) {
        receiver.rollback().await.unwrap();
        receiver = one.start_transaction(TxOpts::default()).await.unwrap();
        taken = inbox.take_token(&mut receiver, CONSUMER, id).await;
    }
    assert!(matches!(taken, Ok(Seen::First)), "{taken:?}");
    receiver.commit().await.unwrap();
}

#[tokio::test]
async fn on_sqlite_of_many_that_take_a_token_at_once_one_has_it() {
    let file = sqlite::File::fresh();
    let (inbox, id) = (Inbox::new(), MessageId::fresh());
    let mut sender = rusqlite::Connection::open(file.path()).unwrap();
    let tx = sender.transaction().unwrap();
    inbox.issue_token(&tx, CONSUMER, id).unwrap();
    tx.commit().unwrap();
    let takers: Vec<_> = (0..8)
        .map(|_| {
            let path = file.path().to_owned();
            std::thread::spawn(move || {
                let mut connection = rusqlite::Connection::open(path).unwrap();
                connection.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
                let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
                let seen = Inbox::new().take_token(&tx, CONSUMER, id).unwrap();
                tx.commit().unwrap();
                seen
            })
        })
        .collect();
    let taken = takers.into_iter().map(|taker| taker.join().unwrap()).filter(|seen| *seen == Seen::First).count();
    assert_eq!(taken, 1);
}
