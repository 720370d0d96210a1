//! diesel and diesel-async, each on a real PostgreSQL, a real MariaDB and SQLite files.
//!
//! diesel's own connections to the servers need their client libraries. What stands for them is diesel's interface over
//! the connections of diesel-async, which speak the protocols themselves.

use diesel::connection::{LoadConnection, SimpleConnection};
use diesel::result::Error as Failed;
use diesel::{Connection, SqliteConnection};
use diesel_async::async_connection_wrapper::AsyncConnectionWrapper;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, AsyncMysqlConnection, AsyncPgConnection};
use postrider::{Diesel, DieselAsync, DieselBackend, EnqueueError, Message, MessageId, Outbox};

use crate::cases::{Asked, Driver, End, Written};
use crate::inbox::{Answers as Told, Question, Receiver};
use crate::{mysql, postgres, sqlite};

type Answers = Vec<Result<Vec<MessageId>, EnqueueError>>;

fn transact<C>(url: &str, asked: Vec<Asked>, end: End) -> Answers
where
    C: Connection,
    C::Backend: DieselBackend,
{
    let outbox = Outbox::new();
    let mut connection = C::establish(url).unwrap();
    let mut answers = Vec::new();
    let ended = connection.transaction(|tx| {
        for asked in asked {
            answers.push(match asked {
                Asked::One(message) => outbox.enqueue(Diesel(tx), message).map(|id| vec![id]),
                Asked::Many(messages) => outbox.enqueue_all(Diesel(tx), messages),
            });
        }
        match end {
            End::Commit => Ok(()),
            End::Rollback => Err(Failed::RollbackTransaction),
        }
    });
    assert_eq!(ended.is_ok(), end == End::Commit, "{ended:?}");
    answers
}

async fn transact_async<C>(url: &str, asked: Vec<Asked>, end: End) -> Answers
where
    C: AsyncConnection,
    C::Backend: DieselBackend,
{
    use diesel_async::TransactionManager;
    let outbox = Outbox::new();
    let mut connection = C::establish(url).await.unwrap();
    let mut answers = Vec::new();
    C::TransactionManager::begin_transaction(&mut connection).await.unwrap();
    for asked in asked {
        answers.push(match asked {
            Asked::One(message) => outbox.enqueue(DieselAsync(&mut connection), message).await.map(|id| vec![id]),
            Asked::Many(messages) => outbox.enqueue_all(DieselAsync(&mut connection), messages).await,
        });
    }
    match end {
        End::Commit => C::TransactionManager::commit_transaction(&mut connection).await.unwrap(),
        End::Rollback => C::TransactionManager::rollback_transaction(&mut connection).await.unwrap(),
    }
    answers
}

fn receive<C>(url: &str, questions: Vec<Question>, end: End) -> Told
where
    C: LoadConnection,
    C::Backend: DieselBackend,
{
    let mut connection = C::establish(url).unwrap();
    let mut answers = Vec::new();
    let ended = connection.transaction(|tx| {
        answers.extend(questions.into_iter().map(|question| crate::inbox::told!(Diesel(tx), question)));
        match end {
            End::Commit => Ok(()),
            End::Rollback => Err(Failed::RollbackTransaction),
        }
    });
    assert_eq!(ended.is_ok(), end == End::Commit, "{ended:?}");
    answers
}

async fn receive_async<C>(url: &str, questions: Vec<Question>, end: End) -> Told
where
    C: AsyncConnection,
    C::Backend: DieselBackend,
{
    use diesel_async::TransactionManager;
    let mut connection = C::establish(url).await.unwrap();
    let mut answers = Vec::new();
    C::TransactionManager::begin_transaction(&mut connection).await.unwrap();
    for question in questions {
        answers.push(crate::inbox::told!(DieselAsync(&mut connection), question, await));
    }
    match end {
        End::Commit => C::TransactionManager::commit_transaction(&mut connection).await.unwrap(),
        End::Rollback => C::TransactionManager::rollback_transaction(&mut connection).await.unwrap(),
    }
    answers
}

/// Off the runtime's own threads, as every blocking driver has to be.
async fn blocking<A: Send + 'static>(work: impl FnOnce() -> A + Send + 'static) -> A {
    tokio::task::spawn_blocking(work).await.unwrap()
}

macro_rules! receiver {
    ($driver:ty, $connection:ty, |$place:ident| $url:expr) => {
        impl Receiver for $driver {
            async fn receive(&self, questions: Vec<Question>, end: End) -> Told {
                let $place = &self.0;
                let url = $url;
                blocking(move || receive::<$connection>(&url, questions, end)).await
            }
        }
    };
    ($driver:ty, $connection:ty, |$place:ident| $url:expr, async) => {
        impl Receiver for $driver {
            async fn receive(&self, questions: Vec<Question>, end: End) -> Told {
                let $place = &self.0;
                receive_async::<$connection>(&$url, questions, end).await
            }
        }
    };
}
receiver!(OnPostgres, AsyncConnectionWrapper<AsyncPgConnection>, |database| database.url.clone());
receiver!(OnPostgresAsync, AsyncPgConnection, |database| database.url, async);
receiver!(OnMysql, AsyncConnectionWrapper<AsyncMysqlConnection>, |database| database.url.clone());
receiver!(OnMysqlAsync, AsyncMysqlConnection, |database| database.url, async);
receiver!(OnSqlite, SqliteConnection, |file| file.path());
receiver!(OnSqliteAsync, SyncConnectionWrapper<SqliteConnection>, |file| file.path(), async);

struct OnPostgres(postgres::Database);
struct OnPostgresAsync(postgres::Database);
struct OnMysql(mysql::Database);
struct OnMysqlAsync(mysql::Database);
struct OnSqlite(sqlite::File);
struct OnSqliteAsync(sqlite::File);

impl Driver for OnPostgres {
    async fn transact(&self, asked: Vec<Asked>, end: End) -> Answers {
        let url = self.0.url.clone();
        blocking(move || transact::<AsyncConnectionWrapper<AsyncPgConnection>>(&url, asked, end)).await
    }

    async fn written(&self) -> Vec<Written> {
        self.0.written().await
    }
}

impl Driver for OnPostgresAsync {
    async fn transact(&self, asked: Vec<Asked>, end: End) -> Answers {
        transact_async::<AsyncPgConnection>(&self.0.url, asked, end).await
    }

    async fn written(&self) -> Vec<Written> {
        self.0.written().await
    }
}

impl Driver for OnMysql {
    async fn transact(&self, asked: Vec<Asked>, end: End) -> Answers {
        let url = self.0.url.clone();
        blocking(move || transact::<AsyncConnectionWrapper<AsyncMysqlConnection>>(&url, asked, end)).await
    }

    async fn written(&self) -> Vec<Written> {
        self.0.written().await
    }
}

impl Driver for OnMysqlAsync {
    async fn transact(&self, asked: Vec<Asked>, end: End) -> Answers {
        transact_async::<AsyncMysqlConnection>(&self.0.url, asked, end).await
    }

    async fn written(&self) -> Vec<Written> {
        self.0.written().await
    }
}

impl Driver for OnSqlite {
    async fn transact(&self, asked: Vec<Asked>, end: End) -> Answers {
        let path = self.0.path();
        blocking(move || transact::<SqliteConnection>(&path, asked, end)).await
    }

    async fn written(&self) -> Vec<Written> {
        self.0.written()
    }
}

impl Driver for OnSqliteAsync {
    async fn transact(&self, asked: Vec<Asked>, end: End) -> Answers {
        transact_async::<SyncConnectionWrapper<SqliteConnection>>(&self.0.path(), asked, end).await
    }

    async fn written(&self) -> Vec<Written> {
        self.0.written()
    }
}

mod diesel_postgres {
    crate::cases::every_case!(async { super::OnPostgres(super::postgres::Database::fresh().await) });
    crate::inbox::every_inbox_case!(async { super::OnPostgres(super::postgres::Database::fresh().await) });
    crate::keys::every_key_case!(async { super::OnPostgres(super::postgres::Database::fresh().await) });
}

mod diesel_async_postgres {
    crate::cases::every_case!(async { super::OnPostgresAsync(super::postgres::Database::fresh().await) });
    crate::inbox::every_inbox_case!(async { super::OnPostgresAsync(super::postgres::Database::fresh().await) });
    crate::keys::every_key_case!(async { super::OnPostgresAsync(super::postgres::Database::fresh().await) });
}

mod diesel_mysql {
    crate::cases::every_case!(async { super::OnMysql(super::mysql::Database::fresh().await) });
    crate::inbox::every_inbox_case!(async { super::OnMysql(super::mysql::Database::fresh().await) });
    crate::keys::every_key_case!(async { super::OnMysql(super::mysql::Database::fresh().await) });
}

mod diesel_async_mysql {
    crate::cases::every_case!(async { super::OnMysqlAsync(super::mysql::Database::fresh().await) });
    crate::inbox::every_inbox_case!(async { super::OnMysqlAsync(super::mysql::Database::fresh().await) });
    crate::keys::every_key_case!(async { super::OnMysqlAsync(super::mysql::Database::fresh().await) });
}

mod diesel_sqlite {
    crate::cases::every_case!(async { super::OnSqlite(super::sqlite::File::fresh()) });
    crate::inbox::every_inbox_case!(async { super::OnSqlite(super::sqlite::File::fresh()) });
    crate::keys::every_key_case!(async { super::OnSqlite(super::sqlite::File::fresh()) });
}

mod diesel_async_sqlite {
    crate::cases::every_case!(async { super::OnSqliteAsync(super::sqlite::File::fresh()) });
    crate::inbox::every_inbox_case!(async { super::OnSqliteAsync(super::sqlite::File::fresh()) });
    crate::keys::every_key_case!(async { super::OnSqliteAsync(super::sqlite::File::fresh()) });
}

#[tokio::test]
async fn a_connection_of_diesel_outside_a_transaction_is_refused_at_run_time() {
    let file = sqlite::File::fresh();
    let mut connection = SqliteConnection::establish(&file.path()).unwrap();
    let error = Outbox::new().enqueue(Diesel(&mut connection), Message::new("t", "")).unwrap_err();
    assert!(matches!(error, EnqueueError::OutsideTransaction), "{error}");
    connection.transaction(|_| Ok::<_, Failed>(())).unwrap();
    let error = Outbox::new().enqueue(Diesel(&mut connection), Message::new("t", "")).unwrap_err();
    assert!(matches!(error, EnqueueError::OutsideTransaction), "{error}");
    assert_eq!(file.written(), []);

    let database = postgres::Database::fresh().await;
    let mut connection = AsyncPgConnection::establish(&database.url).await.unwrap();
    let error = Outbox::new().enqueue(DieselAsync(&mut connection), Message::new("t", "")).await.unwrap_err();
    assert!(matches!(error, EnqueueError::OutsideTransaction), "{error}");
    assert_eq!(database.written().await, []);
}

#[tokio::test]
async fn a_database_of_diesel_without_tables_says_what_to_do() {
    let mut sqlite = SqliteConnection::establish(":memory:").unwrap();
    let with_sqlite = sqlite
        .transaction::<_, EnqueueErrorOrDiesel, _>(|tx| Ok(Outbox::new().enqueue(Diesel(tx), Message::new("t", ""))?));
    let database = postgres::Database::fresh().await;
    let other = Outbox::new().prefix("nobody_").unwrap();
    let mut connection = AsyncPgConnection::establish(&database.url).await.unwrap();
    let with_postgres = connection
        .transaction(async |tx| {
            Ok::<_, EnqueueErrorOrDiesel>(other.enqueue(DieselAsync(tx), Message::new("t", "")).await?)
        })
        .await;
    let database = mysql::Database::fresh().await;
    let mut connection = AsyncMysqlConnection::establish(&database.url).await.unwrap();
    let with_mysql = connection
        .transaction(async |tx| {
            Ok::<_, EnqueueErrorOrDiesel>(other.enqueue(DieselAsync(tx), Message::new("t", "")).await?)
        })
        .await;
    for answer in [with_sqlite, with_postgres, with_mysql] {
        let EnqueueErrorOrDiesel::Enqueue(error) = answer.unwrap_err() else { panic!("an error of diesel's own") };
        assert!(error.to_string().contains("postrider migrate"), "{error}");
    }
}

#[derive(Debug)]
enum EnqueueErrorOrDiesel {
    Enqueue(EnqueueError),
    Diesel(#[expect(dead_code, reason = "shown when the test fails")] Failed),
}

impl From<EnqueueError> for EnqueueErrorOrDiesel {
    fn from(error: EnqueueError) -> Self {
        Self::Enqueue(error)
    }
}

impl From<Failed> for EnqueueErrorOrDiesel {
    fn from(error: Failed) -> Self {
        Self::Diesel(error)
    }
}

#[test]
fn a_busy_file_is_told_from_a_broken_one() {
    let file = sqlite::File::fresh();
    let mut other = SqliteConnection::establish(&file.path()).unwrap();
    let mut connection = SqliteConnection::establish(&file.path()).unwrap();
    other.batch_execute("begin immediate").unwrap();
    let ended = connection.transaction::<(), EnqueueErrorOrDiesel, _>(|tx| {
        Outbox::new().enqueue(Diesel(tx), Message::new("t", ""))?;
        Ok(())
    });
    let Err(EnqueueErrorOrDiesel::Enqueue(error)) = ended else { panic!("{ended:?}") };
    assert!(error.to_string().contains("BEGIN IMMEDIATE"), "{error}");
}
