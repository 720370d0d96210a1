//! Two requests with one key at the same moment, on real servers: never a second effect.

use std::time::Duration;

use futures_util::future::join_all;
use mysql_async::{Conn, TxOpts};
use postrider::{Begun, Epoch, InboxError, StoredAnswer};
use rusqlite::{Connection, TransactionBehavior};
use tokio_postgres::{Client, IsolationLevel, NoTls};

use crate::contention::{until_waiting, until_waiting_on_mysql};
use crate::keys::{ASKED, counting, created, key};
use crate::{mysql, postgres, sqlite};

const MINUTE: Duration = Duration::from_secs(60);
/// Shorter than a server waits for a lock.
const SOON: Duration = Duration::from_secs(20);
const AT_ONCE: usize = 8;

type Answer = Result<Begun<StoredAnswer>, InboxError>;

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn on_postgres(url: &str, lease: Duration) -> Answer {
    let mut client = connect(url).await;
    let tx = client.transaction().await.unwrap();
    let begun = counting().begin(&tx, &key(), ASKED, lease).await;
    // It is not aborted, whatever the answer.
    tx.query_one("select 1", &[]).await.unwrap();
    tx.commit().await.unwrap();
    begun
}

async fn on_mysql(url: &str, lease: Duration) -> Answer {
    let mut connection = Conn::from_url(url).await.unwrap();
    let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
    let begun = counting().begin(&mut tx, &key(), ASKED, lease).await;
    match begun.is_ok() {
        true => tx.commit().await.unwrap(),
        false => tx.rollback().await.unwrap(),
    }
    begun
}

async fn on_sqlite(path: &str, lease: Duration) -> Answer {
    let path = path.to_owned();
    let begin = move || {
        let mut connection = Connection::open(path).unwrap();
        let tx = connection.transaction().unwrap();
        let begun = counting().begin(&tx, &key(), ASKED, lease);
        tx.commit().unwrap();
        begun
    };
    tokio::task::spawn_blocking(begin).await.unwrap()
}

/// One of them works on it, under this epoch; the others are told so, or to ask again.
fn is_one(answers: &[Answer], epoch: u64) {
    let started = answers.iter().filter(|answer| matches!(answer, Ok(Begun::Started(at)) if *at == Epoch(epoch)));
    let others =
        answers.iter().filter(|answer| matches!(answer, Ok(Begun::InProgress { .. }) | Err(InboxError::Contended(_))));
    assert_eq!((started.count(), others.count()), (1, AT_ONCE - 1), "{answers:?}");
}

/// Several begin at once; then, when the lease is over, several again.
macro_rules! rounds {
    ($begin:ident, $place:expr) => {
        let place = $place;
        is_one(&join_all((0..AT_ONCE).map(|_| $begin(&place, MINUTE))).await, 1);
    };
    ($begin:ident, $place:expr, over) => {
        let place = $place;
        assert!(matches!($begin(&place, Duration::ZERO).await, Ok(Begun::Started(Epoch(1)))));
        is_one(&join_all((0..AT_ONCE).map(|_| $begin(&place, MINUTE))).await, 2);
    };
}

#[tokio::test]
async fn on_postgresql_one_of_several_begins_and_no_transaction_is_aborted() {
    let database = postgres::Database::fresh().await;
    rounds!(on_postgres, &database.url);
    let database = postgres::Database::fresh().await;
    rounds!(on_postgres, &database.url, over);
}

#[tokio::test]
async fn on_mysql_one_of_several_begins() {
    let database = mysql::Database::fresh().await;
    rounds!(on_mysql, &database.url);
    let database = mysql::Database::fresh().await;
    rounds!(on_mysql, &database.url, over);
}

#[tokio::test]
async fn on_sqlite_one_of_several_begins() {
    let file = sqlite::File::fresh();
    rounds!(on_sqlite, file.path());
    let file = sqlite::File::fresh();
    rounds!(on_sqlite, file.path(), over);
}

/// Its lease is over, and it is about to commit.
#[tokio::test]
async fn on_postgresql_nobody_waits_for_who_answers_and_nobody_begins_beside_them() {
    let database = postgres::Database::fresh().await;
    assert!(matches!(on_postgres(&database.url, Duration::ZERO).await, Ok(Begun::Started(Epoch(1)))));
    let mut works = connect(&database.url).await;
    let tx = works.transaction().await.unwrap();
    counting().answer(&tx, &key(), Epoch(1), created("done")).await.unwrap();
    let meanwhile = tokio::time::timeout(MINUTE, on_postgres(&database.url, MINUTE)).await.unwrap();
    assert!(matches!(meanwhile, Err(InboxError::Contended(None))), "{meanwhile:?}");
    tx.commit().await.unwrap();
    assert_eq!(on_postgres(&database.url, MINUTE).await.unwrap(), Begun::Replay(created("done")));
}

/// Its lease is over, and it is about to commit.
#[tokio::test]
async fn on_mysql_nobody_waits_for_who_answers_and_nobody_begins_beside_them() {
    let database = mysql::Database::fresh().await;
    assert!(matches!(on_mysql(&database.url, Duration::ZERO).await, Ok(Begun::Started(Epoch(1)))));
    let mut works = Conn::from_url(&database.url).await.unwrap();
    let mut tx = works.start_transaction(TxOpts::default()).await.unwrap();
    counting().answer(&mut tx, &key(), Epoch(1), created("done")).await.unwrap();
    let meanwhile = tokio::time::timeout(SOON, on_mysql(&database.url, MINUTE)).await.unwrap();
    assert!(matches!(meanwhile, Err(InboxError::Contended(None))), "{meanwhile:?}");
    tx.commit().await.unwrap();
    assert_eq!(on_mysql(&database.url, MINUTE).await.unwrap(), Begun::Replay(created("done")));
}

async fn release_on_postgres(url: &str, epoch: Epoch) -> Result<(), InboxError> {
    let mut client = connect(url).await;
    let tx = client.transaction().await.unwrap();
    counting().release(&tx, &key(), epoch).await?;
    tx.commit().await.unwrap();
    Ok(())
}

/// The key is not the caller's any more, so that it waits for nobody who works on it now.
#[tokio::test]
async fn on_postgresql_who_was_taken_over_releases_nothing_and_does_not_wait_for_who_answers() {
    let database = postgres::Database::fresh().await;
    for epoch in [1, 2] {
        assert_eq!(on_postgres(&database.url, Duration::ZERO).await.unwrap(), Begun::Started(Epoch(epoch)));
    }
    let mut works = connect(&database.url).await;
    let tx = works.transaction().await.unwrap();
    counting().answer(&tx, &key(), Epoch(2), created("done")).await.unwrap();
    release_on_postgres(&database.url, Epoch(1)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(on_postgres(&database.url, MINUTE).await.unwrap(), Begun::Replay(created("done")));
}

/// A driver may send the rollback of a transaction that was dropped later than the release.
#[tokio::test]
async fn on_postgresql_a_release_that_comes_before_the_rollback_of_its_own_answer_is_not_lost() {
    let database = postgres::Database::fresh().await;
    assert_eq!(on_postgres(&database.url, MINUTE).await.unwrap(), Begun::Started(Epoch(1)));
    let mut works = connect(&database.url).await;
    let tx = works.transaction().await.unwrap();
    counting().answer(&tx, &key(), Epoch(1), created("done")).await.unwrap();
    let url = database.url.clone();
    let release = tokio::spawn(async move { release_on_postgres(&url, Epoch(1)).await });
    until_waiting(&connect(&database.url).await).await;
    tx.rollback().await.unwrap();
    release.await.unwrap().unwrap();
    assert_eq!(on_postgres(&database.url, MINUTE).await.unwrap(), Begun::Started(Epoch(2)));
}

async fn release_on_mysql(url: &str, epoch: Epoch) -> Result<(), InboxError> {
    let mut connection = Conn::from_url(url).await.unwrap();
    let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
    counting().release(&mut tx, &key(), epoch).await?;
    tx.commit().await.unwrap();
    Ok(())
}

/// The key is not the caller's any more, so that it waits for nobody who works on it now.
#[tokio::test]
async fn on_mysql_who_was_taken_over_releases_nothing_and_does_not_wait_for_who_answers() {
    let database = mysql::Database::fresh().await;
    for epoch in [1, 2] {
        assert_eq!(on_mysql(&database.url, Duration::ZERO).await.unwrap(), Begun::Started(Epoch(epoch)));
    }
    let mut works = Conn::from_url(&database.url).await.unwrap();
    let mut tx = works.start_transaction(TxOpts::default()).await.unwrap();
    counting().answer(&mut tx, &key(), Epoch(2), created("done")).await.unwrap();
    tokio::time::timeout(SOON, release_on_mysql(&database.url, Epoch(1))).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    assert_eq!(on_mysql(&database.url, MINUTE).await.unwrap(), Begun::Replay(created("done")));
}

/// A driver may send the rollback of a transaction that was dropped later than the release.
#[tokio::test]
async fn on_mysql_a_release_that_comes_before_the_rollback_of_its_own_answer_is_not_lost() {
    let database = mysql::Database::fresh().await;
    assert_eq!(on_mysql(&database.url, MINUTE).await.unwrap(), Begun::Started(Epoch(1)));
    let mut works = Conn::from_url(&database.url).await.unwrap();
    let mut tx = works.start_transaction(TxOpts::default()).await.unwrap();
    counting().answer(&mut tx, &key(), Epoch(1), created("done")).await.unwrap();
    let url = database.url.clone();
    let release = tokio::spawn(async move { release_on_mysql(&url, Epoch(1)).await });
    let mut watcher = Conn::from_url(&database.url).await.unwrap();
    until_waiting_on_mysql(&mut watcher).await;
    tx.rollback().await.unwrap();
    release.await.unwrap().unwrap();
    assert_eq!(on_mysql(&database.url, MINUTE).await.unwrap(), Begun::Started(Epoch(2)));
}

/// Who was taken over is refused in the transaction of its effect, which leaves nothing.
#[tokio::test]
async fn who_comes_late_has_no_effect_and_who_took_over_has_it_once() {
    let database = postgres::Database::fresh().await;
    let mut client = connect(&database.url).await;
    client.batch_execute("create table effect (epoch bigint)").await.unwrap();
    for lease in [Duration::ZERO, MINUTE] {
        on_postgres(&database.url, lease).await.unwrap();
    }
    for (epoch, is_mine) in [(1_i64, false), (2, true), (1, false), (2, false)] {
        let tx = client.transaction().await.unwrap();
        tx.execute("insert into effect values ($1)", &[&epoch]).await.unwrap();
        let epoch = Epoch(u64::try_from(epoch).unwrap());
        match counting().answer(&tx, &key(), epoch, created("done")).await {
            Ok(_) if is_mine => tx.commit().await.unwrap(),
            Err(InboxError::Superseded) if !is_mine => tx.rollback().await.unwrap(),
            answer => panic!("{answer:?}"),
        }
    }
    let effects = client.query("select epoch from effect", &[]).await.unwrap();
    assert_eq!(effects.iter().map(|row| row.get(0)).collect::<Vec<i64>>(), [2]);
}

/// An older snapshot is no way around it: what others committed after it began is a failure to serialize.
#[tokio::test]
async fn on_postgresql_an_older_snapshot_neither_answers_nor_begins() {
    let database = postgres::Database::fresh().await;
    let mut client = connect(&database.url).await;
    on_postgres(&database.url, Duration::ZERO).await.unwrap();
    let mut older = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await.unwrap();
    older.query_one("select 1", &[]).await.unwrap();
    on_postgres(&database.url, MINUTE).await.unwrap();
    let savepoint = older.transaction().await.unwrap();
    let answer = counting().answer(&savepoint, &key(), Epoch(1), created("done")).await;
    assert!(matches!(answer, Err(InboxError::Contended(Some(_)))), "{answer:?}");
    savepoint.rollback().await.unwrap();
    let begun = counting().begin(&older, &key(), ASKED, MINUTE).await;
    assert!(matches!(begun, Err(InboxError::Contended(_))), "{begun:?}");
}

#[tokio::test]
async fn on_sqlite_what_is_answered_outside_a_transaction_is_refused() {
    let file = sqlite::File::fresh();
    let mut connection = Connection::open(file.path()).unwrap();
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let keys = counting();
    assert_eq!(keys.begin(&tx, &key(), ASKED, MINUTE).unwrap(), Begun::Started(Epoch(1)));
    tx.execute_batch("commit").unwrap();
    let answer = keys.answer(&tx, &key(), Epoch(1), created("done"));
    assert!(matches!(answer, Err(InboxError::OutsideTransaction)), "{answer:?}");
}
