//! MariaDB ends a transaction that meets what was committed after its snapshot (`innodb_snapshot_isolation`, which 11.6 and
//! later have switched on): it is run again, and no message is blamed for it.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, IsolationLevel, TxOpts};
use postrider::{Advance, Begun, InboxError, MessageId, Seen};
use postrider_testkit::servers::mariadb::{Family, shared};

use crate::inbox::{Question, Told, told};
use crate::keys::{ASKED, Asked, Reply, key};
use crate::mysql::Database;

type Answer = Result<Told, InboxError>;

async fn connect(database: &Database) -> Conn {
    let mut connection = Conn::from_url(&database.url).await.unwrap();
    // As MariaDB 11.6 and later have it; MySQL has no such thing.
    if shared().await.unwrap().family() == Family::Mariadb {
        connection.query_drop("set session innodb_snapshot_isolation = on").await.unwrap();
    }
    connection
}

async fn committed(connection: &mut Conn, question: Question) -> Answer {
    let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
    let answer = told!(&mut tx, question, await);
    tx.commit().await.unwrap();
    answer
}

/// One asks in a snapshot that is older than what another one told; both ask the same. Then it runs again.
async fn asked_late(before: Option<Question>, question: Question) -> (Answer, Answer) {
    let database = Database::fresh().await;
    let (mut late, mut other) = (connect(&database).await, connect(&database).await);
    if let Some(question) = before {
        committed(&mut other, question).await.unwrap();
    }
    let mut options = TxOpts::default();
    options.with_isolation_level(IsolationLevel::RepeatableRead);
    let mut tx = late.start_transaction(options).await.unwrap();
    tx.query_drop("select count(*) from postrider_inbox").await.unwrap();
    committed(&mut other, question.clone()).await.unwrap();
    let in_older = told!(&mut tx, question.clone(), await);
    tx.rollback().await.unwrap();
    (in_older, committed(&mut late, question).await)
}

#[tokio::test]
async fn on_mysql_what_was_committed_after_the_snapshot_runs_again_or_is_seen() {
    let (id, foreign) = (MessageId::fresh(), MessageId(uuid::Uuid::nil()));
    let begin = Question::Key(Asked::Begin(key(), ASKED, Duration::from_secs(60)));
    let cases = [
        ("claim", None, Question::Seen("billing", id)),
        ("claim without a time", None, Question::Seen("billing", foreign)),
        ("token", Some(Question::Issue("billing", id)), Question::Take("billing", id)),
        ("place", Some(Question::Next(1)), Question::Next(2)),
        ("key", None, begin),
    ];
    for (what, before, question) in cases {
        let (in_older, again) = asked_late(before, question).await;
        let is_repeat = |answer: &Answer| match answer {
            Ok(Told::Seen(seen)) => *seen == Seen::Repeat,
            Ok(Told::By(advance)) => *advance == Advance::Repeat,
            Ok(Told::Key(Reply::Begun(begun))) => matches!(begun, Begun::InProgress { .. }),
            _ => false,
        };
        let runs_again = matches!(in_older, Err(InboxError::Contended(Some(_))));
        assert!(runs_again || is_repeat(&in_older), "{what} in an older snapshot: {in_older:?}");
        assert!(is_repeat(&again), "{what} again: {again:?}");
        // A token that is gone is no row that could have changed.
        let is_mariadb = shared().await.unwrap().family() == Family::Mariadb;
        assert!(runs_again || !is_mariadb || what == "token", "{what} in an older snapshot: {in_older:?}");
    }
}

/// A round of forgetting between its snapshot and its claim.
#[tokio::test]
async fn on_mysql_a_first_claim_in_a_snapshot_older_than_a_round_of_forgetting_is_never_refused_for_good() {
    let database = Database::fresh().await;
    let (mut late, mut other) = (connect(&database).await, connect(&database).await);
    let mut options = TxOpts::default();
    options.with_isolation_level(IsolationLevel::RepeatableRead);
    let mut tx = late.start_transaction(options).await.unwrap();
    tx.query_drop("select count(*) from postrider_inbox").await.unwrap();
    committed(&mut other, Question::Forget(Duration::from_secs(3_600))).await.unwrap();
    let question = Question::Seen("billing", MessageId::fresh());
    let told = told!(&mut tx, question.clone(), await);
    match shared().await.unwrap().family() {
        Family::Mariadb => assert!(matches!(told, Err(InboxError::Contended(Some(_)))), "{told:?}"),
        Family::Mysql => assert!(matches!(told, Ok(Told::Seen(Seen::First))), "{told:?}"),
    }
    tx.rollback().await.unwrap();
    let again = committed(&mut late, question).await;
    assert!(matches!(again, Ok(Told::Seen(Seen::First))), "{again:?}");
}
