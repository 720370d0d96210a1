//! Two deliveries of one message at the same moment, on real servers: never a second effect.

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, IsolationLevel as MysqlIsolation, TxOpts};
use postrider::{Advance, Begun, Fingerprint, IdempotencyKeys, Inbox, InboxError, MessageId, ScopedKey, Seen};
use rusqlite::TransactionBehavior;
use tokio::sync::Mutex;
use tokio_postgres::{Client, IsolationLevel, NoTls};
use uuid::Uuid;

use crate::{mysql, postgres, sqlite};

const CONSUMER: &str = "billing";

pub async fn connect(database: &postgres::Database) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Until somebody waits for a lock.
pub async fn until_waiting(client: &Client) {
    let waiting =
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    let given_up = Instant::now() + Duration::from_secs(60);
    while client.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(Instant::now() < given_up, "nobody waits for a lock");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// By what a receiver tells a repeat.
#[derive(Debug, Clone, Copy)]
pub enum By {
    /// The record that the first delivery leaves.
    Record,
    /// The token that the first delivery takes.
    Token,
}

impl By {
    async fn on_postgres(self, tx: &tokio_postgres::Transaction<'_>, id: MessageId) -> Result<Seen, InboxError> {
        match self {
            Self::Record => Inbox::new().first_seen(tx, CONSUMER, id).await,
            Self::Token => Inbox::new().take_token(tx, CONSUMER, id).await,
        }
    }

    async fn on_mysql(self, tx: &mut mysql_async::Transaction<'_>, id: MessageId) -> Result<Seen, InboxError> {
        match self {
            Self::Record => Inbox::new().first_seen(tx, CONSUMER, id).await,
            Self::Token => Inbox::new().take_token(tx, CONSUMER, id).await,
        }
    }
}

/// A second delivery asks while the first one's transaction is open, which then ends; what the second is told.
pub async fn second_on_postgres(by: By, isolation: IsolationLevel, commits: bool) -> Result<Seen, InboxError> {
    let database = postgres::Database::fresh().await;
    let (mut one, watcher) = (connect(&database).await, connect(&database).await);
    let id = MessageId::fresh();
    let sender = one.transaction().await.unwrap();
    Inbox::new().issue_token(&sender, CONSUMER, id).await.unwrap();
    sender.commit().await.unwrap();
    let first = one.transaction().await.unwrap();
    assert_eq!(by.on_postgres(&first, id).await.unwrap(), Seen::First);
    let mut two = connect(&database).await;
    let second = tokio::spawn(async move {
        let tx = two.build_transaction().isolation_level(isolation).start().await.unwrap();
        let seen = by.on_postgres(&tx, id).await;
        if seen.is_ok() {
            tx.commit().await.unwrap();
        }
        seen
    });
    until_waiting(&watcher).await;
    if commits {
        first.commit().await.unwrap();
    } else {
        first.rollback().await.unwrap();
    }
    second.await.unwrap()
}

#[tokio::test]
async fn on_postgresql_a_second_delivery_waits_for_the_first_and_is_a_repeat() {
    let seen = second_on_postgres(By::Record, IsolationLevel::ReadCommitted, true).await;
    assert!(matches!(seen, Ok(Seen::Repeat)), "{seen:?}");
}

/// Its snapshot is older than the first one's commit: it may not say repeat, and it may not say first.
#[tokio::test]
async fn on_postgresql_a_second_delivery_in_an_older_snapshot_runs_again() {
    for isolation in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let seen = second_on_postgres(By::Record, isolation, true).await;
        assert!(matches!(seen, Err(InboxError::Contended(Some(_)))), "{seen:?}");
    }
}

#[tokio::test]
async fn on_postgresql_a_second_delivery_is_the_first_when_the_first_is_rolled_back() {
    for isolation in [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let seen = second_on_postgres(By::Record, isolation, false).await;
        assert!(matches!(seen, Ok(Seen::First)), "{seen:?}");
    }
}

#[tokio::test]
async fn on_postgresql_the_wait_for_another_delivery_is_bounded() {
    let database = postgres::Database::fresh().await;
    let (mut one, mut two) = (connect(&database).await, connect(&database).await);
    let (inbox, id) = (Inbox::new(), MessageId::fresh());
    let first = one.transaction().await.unwrap();
    assert_eq!(inbox.first_seen(&first, CONSUMER, id).await.unwrap(), Seen::First);
    let second = two.transaction().await.unwrap();
    // Five seconds are promised.
    let waiting = tokio::time::timeout(Duration::from_secs(30), inbox.first_seen(&second, CONSUMER, id));
    let seen = waiting.await.unwrap();
    assert!(matches!(seen, Err(InboxError::Contended(Some(_)))), "{seen:?}");
}

/// Whoever has it may hang with its transaction open.
#[tokio::test]
async fn on_postgresql_the_wait_for_a_token_a_place_and_a_key_is_bounded() {
    let database = postgres::Database::fresh().await;
    let (mut one, mut two) = (connect(&database).await, connect(&database).await);
    let (inbox, keys, id) = (Inbox::new(), IdempotencyKeys::new(), MessageId::fresh());
    let (key, print) = (ScopedKey::new("ann", "POST /orders", "k").unwrap(), Fingerprint([1; 32]));
    let lease = Duration::from_secs(60);
    let sender = one.transaction().await.unwrap();
    inbox.issue_token(&sender, CONSUMER, id).await.unwrap();
    assert_eq!(inbox.advance(&sender, CONSUMER, "orders", 1, 1).await.unwrap(), Advance::Next);
    sender.commit().await.unwrap();
    let first = one.transaction().await.unwrap();
    assert_eq!(inbox.take_token(&first, CONSUMER, id).await.unwrap(), Seen::First);
    assert_eq!(inbox.advance(&first, CONSUMER, "orders", 1, 2).await.unwrap(), Advance::Next);
    assert_eq!(inbox.advance(&first, CONSUMER, "orders", 2, 1).await.unwrap(), Advance::Next);
    assert!(matches!(keys.begin(&first, &key, print, lease).await.unwrap(), Begun::Started(_)));
    let mut answers = Vec::new();
    for what in ["token", "place", "first place", "key"] {
        let second = two.transaction().await.unwrap();
        let asked = async {
            match what {
                "token" => inbox.take_token(&second, CONSUMER, id).await.map(drop),
                "place" => inbox.advance(&second, CONSUMER, "orders", 1, 2).await.map(drop),
                "first place" => inbox.advance(&second, CONSUMER, "orders", 2, 1).await.map(drop),
                _ => keys.begin(&second, &key, print, lease).await.map(drop),
            }
        };
        // Five seconds are promised.
        let told = tokio::time::timeout(Duration::from_secs(30), asked).await.expect(what);
        answers.push((what, matches!(told, Err(InboxError::Contended(Some(_))))));
    }
    assert!(answers.iter().all(|(_, contended)| *contended), "{answers:?}");
}

#[tokio::test]
async fn on_postgresql_two_that_advance_at_once_do_not_both_go_on() {
    let database = postgres::Database::fresh().await;
    let (mut one, watcher) = (connect(&database).await, connect(&database).await);
    for sequence in [1, 2] {
        let first = one.transaction().await.unwrap();
        let next = Inbox::new().advance(&first, CONSUMER, "orders", 0, sequence).await.unwrap();
        assert_eq!(next, Advance::Next);
        let mut two = connect(&database).await;
        let second = tokio::spawn(async move {
            let tx = two.transaction().await.unwrap();
            Inbox::new().advance(&tx, CONSUMER, "orders", 0, sequence).await
        });
        until_waiting(&watcher).await;
        first.commit().await.unwrap();
        let told = second.await.unwrap();
        assert!(matches!(told, Ok(Advance::Repeat)), "{told:?}");
    }
}

/// The server ends the connection before the commit: claim and effect are gone together.
#[tokio::test]
async fn on_postgresql_a_connection_that_dies_leaves_neither_claim_nor_effect() {
    let database = postgres::Database::fresh().await;
    let (mut one, other) = (connect(&database).await, connect(&database).await);
    other.batch_execute("create table effect (id uuid)").await.unwrap();
    let (inbox, id) = (Inbox::new(), MessageId::fresh());
    let tx = one.transaction().await.unwrap();
    assert_eq!(inbox.first_seen(&tx, CONSUMER, id).await.unwrap(), Seen::First);
    tx.execute("insert into effect values ($1)", &[&id.0]).await.unwrap();
    let pid: i32 = tx.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    other.execute("select pg_terminate_backend($1)", &[&pid]).await.unwrap();
    assert!(tx.commit().await.is_err());
    let mut again = connect(&database).await;
    let tx = again.transaction().await.unwrap();
    assert_eq!(inbox.first_seen(&tx, CONSUMER, id).await.unwrap(), Seen::First);
    assert_eq!(tx.query_one("select count(*) from effect", &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// What docs/sql.md warns of: a claim is a statement of its own.
#[tokio::test]
async fn on_postgresql_a_claim_within_an_update_that_waits_is_asked_twice() {
    let database = postgres::Database::fresh().await;
    let (mut one, watcher) = (connect(&database).await, connect(&database).await);
    one.batch_execute("create table account (id int, balance int); insert into account values (7, 0)").await.unwrap();
    let other = one.transaction().await.unwrap();
    other.execute("update account set balance = 1", &[]).await.unwrap();
    let two = connect(&database).await;
    let update = format!(
        "update account set balance = balance + 10 where id = 7 and postrider_first_seen('billing', '{}')",
        MessageId::fresh()
    );
    let updating = tokio::spawn(async move { two.execute(&update, &[]).await.unwrap() });
    until_waiting(&watcher).await;
    other.commit().await.unwrap();
    assert_eq!(updating.await.unwrap(), 0, "the documents say so");
}

fn options(isolation: MysqlIsolation) -> TxOpts {
    let mut options = TxOpts::default();
    options.with_isolation_level(isolation);
    options
}

/// The server tells what it told last until nobody has asked for a tenth of a second, whoever asks:
/// <https://bugs.mysql.com/bug.php?id=48883>. So the tests of this program ask one after another.
static ASKED_LAST: Mutex<()> = Mutex::const_new(());

/// Until somebody waits for a lock in the database of that connection.
pub async fn until_waiting_on_mysql(watcher: &mut Conn) {
    let waiting = "select count(*) from information_schema.innodb_trx t join information_schema.processlist p \
                   on p.id = t.trx_mysql_thread_id where t.trx_state = 'LOCK WAIT' and p.db = database()";
    // A wait for a lock has ended by then, whatever came of it.
    let given_up = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < given_up, "nobody waits for a lock");
        let turn = ASKED_LAST.lock().await;
        tokio::time::sleep(Duration::from_millis(150)).await;
        if watcher.query_first::<i64, _>(waiting).await.unwrap() > Some(0) {
            return;
        }
        drop(turn);
    }
}

/// As [`second_on_postgres`].
pub async fn second_on_mysql(by: By, isolation: MysqlIsolation, commits: bool) -> Result<Seen, InboxError> {
    let database = mysql::Database::fresh().await;
    let mut one = Conn::from_url(&database.url).await.unwrap();
    let mut watcher = Conn::from_url(&database.url).await.unwrap();
    let id = MessageId::fresh();
    let mut sender = one.start_transaction(TxOpts::default()).await.unwrap();
    Inbox::new().issue_token(&mut sender, CONSUMER, id).await.unwrap();
    sender.commit().await.unwrap();
    let mut first = one.start_transaction(TxOpts::default()).await.unwrap();
    assert_eq!(by.on_mysql(&mut first, id).await.unwrap(), Seen::First);
    let url = database.url.clone();
    let second = tokio::spawn(async move {
        let mut two = Conn::from_url(&url).await.unwrap();
        let mut tx = two.start_transaction(options(isolation)).await.unwrap();
        let seen = by.on_mysql(&mut tx, id).await;
        if seen.is_ok() {
            tx.commit().await.unwrap();
        }
        seen
    });
    until_waiting_on_mysql(&mut watcher).await;
    if commits {
        first.commit().await.unwrap();
    } else {
        first.rollback().await.unwrap();
    }
    second.await.unwrap()
}

#[tokio::test]
async fn on_mysql_a_second_delivery_waits_for_the_first_and_is_a_repeat() {
    for isolation in [MysqlIsolation::ReadCommitted, MysqlIsolation::RepeatableRead, MysqlIsolation::Serializable] {
        let seen = second_on_mysql(By::Record, isolation, true).await;
        assert!(matches!(seen, Ok(Seen::Repeat) | Err(InboxError::Contended(Some(_)))), "{seen:?}");
    }
}

#[tokio::test]
async fn on_mysql_a_second_delivery_is_the_first_when_the_first_is_rolled_back() {
    for isolation in [MysqlIsolation::ReadCommitted, MysqlIsolation::RepeatableRead, MysqlIsolation::Serializable] {
        let seen = second_on_mysql(By::Record, isolation, false).await;
        assert!(matches!(seen, Ok(Seen::First)), "{seen:?}");
    }
}

/// Several that wait for one that is rolled back may meet in a deadlock: who loses runs again, and one of them is the first.
#[tokio::test]
async fn on_mysql_of_many_deliveries_at_once_one_is_the_first() {
    let database = mysql::Database::fresh().await;
    let mut watcher = Conn::from_url(&database.url).await.unwrap();
    for round in 0..10 {
        let id = MessageId::fresh();
        let mut one = Conn::from_url(&database.url).await.unwrap();
        let mut first = one.start_transaction(TxOpts::default()).await.unwrap();
        assert_eq!(Inbox::new().first_seen(&mut first, CONSUMER, id).await.unwrap(), Seen::First);
        let others: Vec<_> = (0..4)
            .map(|_| {
                let url = database.url.clone();
                tokio::spawn(async move {
                    let mut connection = Conn::from_url(&url).await.unwrap();
                    loop {
                        let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
                        match Inbox::new().first_seen(&mut tx, CONSUMER, id).await {
                            Ok(seen) => {
                                tx.commit().await.unwrap();
                                return seen;
                            }
                            Err(InboxError::Contended(_)) => tx.rollback().await.unwrap(),
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                })
            })
            .collect();
        until_waiting_on_mysql(&mut watcher).await;
        first.rollback().await.unwrap();
        let mut firsts = 0;
        for other in others {
            firsts += u32::from(other.await.unwrap() == Seen::First);
        }
        assert_eq!(firsts, 1, "round {round}");
    }
}

/// The look at how much is forgotten is none of an old snapshot; MariaDB 11.6 and later end that transaction there.
#[tokio::test]
async fn on_mysql_what_was_forgotten_after_a_transaction_began_is_refused_in_it() {
    let database = mysql::Database::fresh().await;
    let mut one = Conn::from_url(&database.url).await.unwrap();
    let mut two = Conn::from_url(&database.url).await.unwrap();
    let (inbox, id) = (Inbox::new(), made_ten_seconds_ago());
    let mut tx = two.start_transaction(TxOpts::default()).await.unwrap();
    assert_eq!(inbox.first_seen(&mut tx, CONSUMER, id).await.unwrap(), Seen::First);
    tx.commit().await.unwrap();
    two.query_drop("update postrider_inbox set seen_at = seen_at - 10000000").await.unwrap();
    let mut old = one.start_transaction(options(MysqlIsolation::RepeatableRead)).await.unwrap();
    old.query_drop("select count(*) from postrider_inbox").await.unwrap();
    let mut tx = two.start_transaction(TxOpts::default()).await.unwrap();
    assert_eq!(inbox.forget(&mut tx, Duration::from_secs(5)).await.unwrap().records, 1);
    tx.commit().await.unwrap();
    let seen = inbox.first_seen(&mut old, CONSUMER, id).await;
    if !matches!(seen, Err(InboxError::Contended(Some(_)))) {
        assert!(matches!(seen, Err(InboxError::TooOld)), "{seen:?}");
    }
    old.rollback().await.unwrap();
    let mut again = one.start_transaction(TxOpts::default()).await.unwrap();
    let seen = inbox.first_seen(&mut again, CONSUMER, id).await;
    assert!(matches!(seen, Err(InboxError::TooOld)), "{seen:?}");
}

/// So is the look at a record that is older by its id than what is remembered.
#[tokio::test]
async fn on_mysql_what_was_handled_late_after_a_transaction_began_is_a_repeat_in_it() {
    let database = mysql::Database::fresh().await;
    let mut one = Conn::from_url(&database.url).await.unwrap();
    let mut two = Conn::from_url(&database.url).await.unwrap();
    let (inbox, id) = (Inbox::new(), made_ten_seconds_ago());
    let mut old = one.start_transaction(options(MysqlIsolation::RepeatableRead)).await.unwrap();
    old.query_drop("select count(*) from postrider_inbox").await.unwrap();
    let mut tx = two.start_transaction(TxOpts::default()).await.unwrap();
    assert_eq!(inbox.first_seen(&mut tx, CONSUMER, id).await.unwrap(), Seen::First);
    assert_eq!(inbox.forget(&mut tx, Duration::from_secs(5)).await.unwrap().records, 0);
    tx.commit().await.unwrap();
    let seen = inbox.first_seen(&mut old, CONSUMER, id).await;
    assert!(matches!(seen, Ok(Seen::Repeat) | Err(InboxError::Contended(Some(_)))), "{seen:?}");
}

fn made_ten_seconds_ago() -> MessageId {
    let fresh = MessageId::fresh().0.as_u128();
    MessageId(Uuid::from_u128(fresh - (10_000 << 80)))
}

#[test]
fn on_sqlite_a_second_delivery_runs_again_while_the_first_is_open() {
    let file = sqlite::File::fresh();
    let open = || {
        let connection = rusqlite::Connection::open(file.path()).unwrap();
        connection.busy_timeout(Duration::ZERO).unwrap();
        connection
    };
    let (mut one, mut two) = (open(), open());
    let (inbox, id) = (Inbox::new(), MessageId::fresh());
    let first = one.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    assert_eq!(inbox.first_seen(&first, CONSUMER, id).unwrap(), Seen::First);
    let second = two.transaction().unwrap();
    let seen = inbox.first_seen(&second, CONSUMER, id);
    assert!(matches!(seen, Err(InboxError::Contended(Some(_)))), "{seen:?}");
    second.rollback().unwrap();
    first.commit().unwrap();
    let second = two.transaction().unwrap();
    assert_eq!(inbox.first_seen(&second, CONSUMER, id).unwrap(), Seen::Repeat);
}

#[test]
fn on_sqlite_what_is_forgotten_is_gone_and_refused_and_ids_without_a_time_begin_anew() {
    let file = sqlite::File::fresh();
    let mut connection = rusqlite::Connection::open(file.path()).unwrap();
    let inbox = Inbox::new();
    let ids = [made_ten_seconds_ago(), MessageId::fresh(), MessageId(Uuid::nil())];
    let tx = connection.transaction().unwrap();
    for id in ids {
        assert_eq!(inbox.first_seen(&tx, CONSUMER, id).unwrap(), Seen::First);
    }
    for table in ["postrider_inbox", "postrider_inbox_foreign"] {
        tx.execute(&format!("update {table} set seen_at = seen_at - 10000000"), ()).unwrap();
    }
    let forgotten = inbox.forget(&tx, Duration::from_secs(5)).unwrap();
    assert_eq!((forgotten.records, forgotten.partitions, forgotten.more), (2, 0, false));
    // Keeping for longer brings nothing back.
    inbox.forget(&tx, Duration::from_secs(3_600)).unwrap();
    assert!(matches!(inbox.first_seen(&tx, CONSUMER, ids[0]), Err(InboxError::TooOld)));
    assert_eq!(inbox.first_seen(&tx, CONSUMER, ids[1]).unwrap(), Seen::Repeat);
    assert_eq!(inbox.first_seen(&tx, CONSUMER, ids[2]).unwrap(), Seen::First);
}

#[test]
fn outside_a_transaction_nothing_is_recorded() {
    let file = sqlite::File::fresh();
    let mut connection = rusqlite::Connection::open(file.path()).unwrap();
    let tx = connection.transaction().unwrap();
    tx.execute_batch("rollback").unwrap();
    let seen = Inbox::new().first_seen(&tx, CONSUMER, MessageId::fresh());
    assert!(matches!(seen, Err(InboxError::OutsideTransaction)), "{seen:?}");
}

#[tokio::test]
async fn tables_without_an_inbox_say_what_to_do() {
    let other = Inbox::new().prefix("nobody_").unwrap();
    let id = MessageId::fresh();
    let mut client = connect(&postgres::Database::fresh().await).await;
    let tx = client.transaction().await.unwrap();
    let on_postgres = other.first_seen(&tx, CONSUMER, id).await.unwrap_err();
    let database = mysql::Database::fresh().await;
    let mut connection = Conn::from_url(&database.url).await.unwrap();
    let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
    let on_mysql = other.first_seen(&mut tx, CONSUMER, id).await.unwrap_err();
    let mut connection = rusqlite::Connection::open_in_memory().unwrap();
    let tx = connection.transaction().unwrap();
    let on_sqlite = other.first_seen(&tx, CONSUMER, id).unwrap_err();
    for error in [on_postgres, on_mysql, on_sqlite] {
        assert!(error.to_string().contains("postrider migrate"), "{error}");
    }
}

const V4: &str = "0f6f7a30-8a4b-4a8e-9d0e-2f4a5b6c7d8e";

/// Nothing of the library wrote to that table.
#[tokio::test]
async fn what_an_application_put_into_the_inbox_of_an_earlier_version_is_taken_over() {
    let (fresh, v4) = (MessageId::fresh(), MessageId(V4.parse().unwrap()));
    let inbox = Inbox::new();

    let mut client = connect(&postgres::Database::fresh().await).await;
    let earlier = format!(
        "drop table postrider_inbox, postrider_inbox_foreign, postrider_inbox_span, postrider_inbox_token,
           postrider_idempotency;
         create table postrider_inbox (consumer text not null, message_id uuid not null,
           seen_at timestamptz not null default clock_timestamp(), primary key (consumer, message_id));
         insert into postrider_inbox (consumer, message_id) values ('billing', '{fresh}'), ('billing', '{v4}');
         update postrider_meta set version = 3"
    );
    client.batch_execute(&earlier).await.unwrap();
    postrider::migrate(&client).await.unwrap();
    let tx = client.transaction().await.unwrap();
    for id in [fresh, v4] {
        assert_eq!(inbox.first_seen(&tx, CONSUMER, id).await.unwrap(), Seen::Repeat);
    }
    drop(tx);

    let database = mysql::Database::fresh().await;
    let mut connection = Conn::from_url(&database.url).await.unwrap();
    for statement in [
        "drop table postrider_inbox_foreign, postrider_inbox_span, postrider_inbox_cursor, postrider_inbox_refused, \
         postrider_inbox_token, postrider_idempotency",
        "alter table postrider_inbox modify message_id varchar(64) not null, drop primary key, add primary key (consumer, message_id)",
        &format!(
            "insert into postrider_inbox (consumer, message_id) values ('billing', '{fresh}'), ('billing', '{v4}')"
        ),
        "update postrider_meta set version = 1",
    ] {
        connection.query_drop(statement).await.unwrap();
    }
    postrider::migrate(&mut connection).await.unwrap();
    let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
    for id in [fresh, v4] {
        assert_eq!(inbox.first_seen(&mut tx, CONSUMER, id).await.unwrap(), Seen::Repeat);
    }
    tx.rollback().await.unwrap();

    let file = sqlite::File::fresh();
    let mut connection = rusqlite::Connection::open(file.path()).unwrap();
    let earlier = format!(
        "drop table postrider_inbox; drop table postrider_inbox_foreign; drop table postrider_inbox_span;
         drop table postrider_inbox_cursor; drop table postrider_inbox_refused; drop table postrider_inbox_token;
         drop table postrider_idempotency;
         create table postrider_inbox (consumer text not null, message_id text not null, seen_at integer not null default 0,
           primary key (consumer, message_id)) without rowid;
         insert into postrider_inbox (consumer, message_id) values ('billing', '{fresh}'), ('billing', '{v4}');
         update postrider_meta set value = 1 where name = 'version'"
    );
    connection.execute_batch(&earlier).unwrap();
    postrider::migrate(&connection).unwrap();
    let tx = connection.transaction().unwrap();
    for id in [fresh, v4] {
        assert_eq!(inbox.first_seen(&tx, CONSUMER, id).unwrap(), Seen::Repeat);
    }
}
