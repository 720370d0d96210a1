//! SeaORM on a real PostgreSQL, a real MariaDB and SQLite files.

use postrider::{EnqueueError, Inbox, InboxError, Message, MessageId, Outbox, Seen};
use sea_orm::{ConnectionTrait, Database, DatabaseConnection, TransactionTrait};

use crate::cases::{Asked, Driver, End, Written};
use crate::inbox::{Answers as Told, Question, Receiver};
use crate::{mysql, postgres, sqlite};

type Answers = Vec<Result<Vec<MessageId>, EnqueueError>>;

async fn transact(connection: &DatabaseConnection, asked: Vec<Asked>, end: End) -> Answers {
    let outbox = Outbox::new();
    let tx = connection.begin().await.unwrap();
    let mut answers = Vec::new();
    for asked in asked {
        answers.push(match asked {
            Asked::One(message) => outbox.enqueue(&tx, message).await.map(|id| vec![id]),
            Asked::Many(messages) => outbox.enqueue_all(&tx, messages).await,
        });
    }
    match end {
        End::Commit => tx.commit().await.unwrap(),
        End::Rollback => tx.rollback().await.unwrap(),
    }
    answers
}

struct OnPostgres(postgres::Database, DatabaseConnection);
struct OnMysql(mysql::Database, DatabaseConnection);
struct OnSqlite(sqlite::File, DatabaseConnection);

async fn on_postgres() -> OnPostgres {
    let database = postgres::Database::fresh().await;
    let connection = Database::connect(&database.url).await.unwrap();
    OnPostgres(database, connection)
}

async fn on_mysql() -> OnMysql {
    let database = mysql::Database::fresh().await;
    let connection = Database::connect(&database.url).await.unwrap();
    OnMysql(database, connection)
}

async fn on_sqlite() -> OnSqlite {
    let file = sqlite::File::fresh();
    let connection = Database::connect(format!("sqlite:{}", file.path())).await.unwrap();
    OnSqlite(file, connection)
}

impl Driver for OnPostgres {
    async fn transact(&self, asked: Vec<Asked>, end: End) -> Answers {
        transact(&self.1, asked, end).await
    }

    async fn written(&self) -> Vec<Written> {
        self.0.written().await
    }
}

impl Driver for OnMysql {
    async fn transact(&self, asked: Vec<Asked>, end: End) -> Answers {
        transact(&self.1, asked, end).await
    }

    async fn written(&self) -> Vec<Written> {
        self.0.written().await
    }
}

impl Driver for OnSqlite {
    async fn transact(&self, asked: Vec<Asked>, end: End) -> Answers {
        transact(&self.1, asked, end).await
    }

    async fn written(&self) -> Vec<Written> {
        self.0.written()
    }
}

macro_rules! receiver {
    ($driver:ty) => {
        impl Receiver for $driver {
            async fn receive(&self, questions: Vec<Question>, end: End) -> Told {
                let tx = self.1.begin().await.unwrap();
                crate::inbox::received!(tx, &tx, questions, end)
            }
        }
    };
}
receiver!(OnPostgres);
receiver!(OnMysql);
receiver!(OnSqlite);

mod sea_orm_postgres {
    crate::cases::every_case!(super::on_postgres());
    crate::inbox::every_inbox_case!(super::on_postgres());
    crate::keys::every_key_case!(super::on_postgres());
}

mod sea_orm_mysql {
    crate::cases::every_case!(super::on_mysql());
    crate::inbox::every_inbox_case!(super::on_mysql());
    crate::keys::every_key_case!(super::on_mysql());
}

mod sea_orm_sqlite {
    crate::cases::every_case!(super::on_sqlite());
    crate::inbox::every_inbox_case!(super::on_sqlite());
    crate::keys::every_key_case!(super::on_sqlite());
}

/// What waits for a lock is handled elsewhere, and is no fault of the message.
#[tokio::test]
async fn on_mysql_a_wait_that_was_too_long_asks_to_run_again() {
    let database = on_mysql().await;
    let (inbox, id) = (Inbox::new(), MessageId::fresh());
    let first = database.1.begin().await.unwrap();
    assert_eq!(inbox.first_seen(&first, "billing", id).await.unwrap(), Seen::First);
    let second = database.1.begin().await.unwrap();
    second.execute_unprepared("set session innodb_lock_wait_timeout = 1").await.unwrap();
    let seen = inbox.first_seen(&second, "billing", id).await;
    assert!(matches!(seen, Err(InboxError::Contended(Some(_)))), "{seen:?}");
}

#[tokio::test]
async fn a_database_of_sea_orm_without_tables_says_what_to_do() {
    let other = Outbox::new().prefix("nobody_").unwrap();
    for connection in [on_postgres().await.1, on_mysql().await.1, on_sqlite().await.1] {
        let tx = connection.begin().await.unwrap();
        let error = other.enqueue(&tx, Message::new("t", "secret payload")).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("postrider migrate") && !text.contains("secret"), "{text}");
    }
}
