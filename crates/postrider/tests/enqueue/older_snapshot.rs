//! MariaDB ends a transaction that meets what was committed after its snapshot (`innodb_snapshot_isolation`, which 11.6 and
//! later have switched on): it is run again, and no message is blamed for it.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, IsolationLevel, TxOpts};
use postrider::{Advance, Begun, Epoch, InboxError, MessageId, Seen};
use postrider_testkit::servers::mariadb::{Family, shared};

use crate::inbox::{Question, Told, told};
use crate::keys::{ASKED, Asked, OTHER, Reply, created, key};
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

/// Its transaction saw the answer to another request, which was forgotten since.
#[tokio::test]
async fn on_mysql_a_key_that_was_used_again_after_the_snapshot_is_what_it_stands_for_now() {
    let begin = |fingerprint| Question::Key(Asked::Begin(key(), fingerprint, Duration::from_secs(60)));
    let answer = |body: &str| Question::Key(Asked::Answer(key(), Epoch(1), created(body)));
    let database = Database::fresh().await;
    for (asked, expected) in [(OTHER, Begun::Replay(created("other"))), (ASKED, Begun::Mismatch)] {
        // As MySQL and MariaDB before 11.6 have it, too: the transaction is not ended.
        let (mut late, mut other) = (Conn::from_url(&database.url).await.unwrap(), connect(&database).await);
        for question in [begin(ASKED), answer("asked")] {
            committed(&mut other, question).await.unwrap();
        }
        let mut options = TxOpts::default();
        options.with_isolation_level(IsolationLevel::RepeatableRead);
        let mut tx = late.start_transaction(options).await.unwrap();
        tx.query_drop("select count(*) from postrider_idempotency").await.unwrap();
        for question in [Question::Key(Asked::ForgetKey(key())), begin(OTHER), answer("other")] {
            committed(&mut other, question).await.unwrap();
        }
        let in_older = told!(&mut tx, begin(asked), await);
        tx.rollback().await.unwrap();
        let runs_again = matches!(in_older, Err(InboxError::Contended(_)));
        let is_current = |told: &Answer| matches!(told, Ok(Told::Key(Reply::Begun(begun))) if *begun == expected);
        assert!(runs_again || is_current(&in_older), "in an older snapshot: {in_older:?}");
        assert!(is_current(&committed(&mut late, begin(asked)).await));
        committed(&mut other, Question::Key(Asked::ForgetKey(key()))).await.unwrap();
    }
}
