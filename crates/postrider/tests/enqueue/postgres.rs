//! sqlx and tokio-postgres on a real PostgreSQL.

use postrider::{EnqueueError, Message, MessageId, Outbox};
use postrider_testkit::servers::postgres::shared;
use sqlx::PgPool;
use tokio_postgres::{Client, NoTls};

use crate::cases::{Asked, Driver, End, Written};
use crate::inbox::{Answers, Question, Receiver};

/// A database of its own with an empty outbox.
pub struct Database {
    pub url: String,
    reader: Client,
}

pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

impl Database {
    pub async fn fresh() -> Self {
        let url = shared().await.unwrap().fresh_database().await.unwrap();
        let reader = connect(&url).await;
        postrider::migrate(&reader).await.unwrap();
        Self { url, reader }
    }

    pub async fn written(&self) -> Vec<Written> {
        let rows = self
            .reader
            .query(
                "select id, message_id, topic, key, payload, content_type, headers::text, attributes::text,
                        (extract(epoch from deliver_at) * 1000000)::bigint, retry::text, state
                 from postrider_outbox order by id",
                &[],
            )
            .await
            .unwrap();
        rows.iter()
            .map(|row| Written {
                row: row.get(0),
                id: row.get(1),
                topic: row.get(2),
                key: row.get(3),
                payload: row.get(4),
                content_type: row.get(5),
                headers: row.get(6),
                attributes: row.get(7),
                deliver_at: row.get(8),
                retry: row.get(9),
                state: row.get(10),
            })
            .collect()
    }
}

struct Sqlx(Database, PgPool);

impl Sqlx {
    async fn fresh() -> Self {
        let database = Database::fresh().await;
        let pool = PgPool::connect(&database.url).await.unwrap();
        Self(database, pool)
    }
}

impl Driver for Sqlx {
    async fn transact(&self, asked: Vec<Asked>, end: End) -> Vec<Result<Vec<MessageId>, EnqueueError>> {
        let mut tx = self.1.begin().await.unwrap();
        crate::cases::transacted!(tx, asked, end)
    }

    async fn written(&self) -> Vec<Written> {
        self.0.written().await
    }
}

struct TokioPostgres(Database);

impl Driver for TokioPostgres {
    async fn transact(&self, asked: Vec<Asked>, end: End) -> Vec<Result<Vec<MessageId>, EnqueueError>> {
        let outbox = Outbox::new();
        let mut client = connect(&self.0.url).await;
        let mut tx = client.transaction().await.unwrap();
        let mut answers = Vec::new();
        for asked in asked {
            answers.push(match asked {
                Asked::One(message) => outbox.enqueue(&tx, message).await.map(|id| vec![id]),
                Asked::Many(messages) => outbox.enqueue_all(&mut tx, messages).await,
            });
        }
        match end {
            End::Commit => tx.commit().await.unwrap(),
            End::Rollback => tx.rollback().await.unwrap(),
        }
        answers
    }

    async fn written(&self) -> Vec<Written> {
        self.0.written().await
    }
}

impl Receiver for Sqlx {
    async fn receive(&self, questions: Vec<Question>, end: End) -> Answers {
        let mut tx = self.1.begin().await.unwrap();
        crate::inbox::received!(tx, &mut tx, questions, end)
    }
}

impl Receiver for TokioPostgres {
    async fn receive(&self, questions: Vec<Question>, end: End) -> Answers {
        let mut client = connect(&self.0.url).await;
        let tx = client.transaction().await.unwrap();
        crate::inbox::received!(tx, &tx, questions, end)
    }
}

mod sqlx_postgres {
    crate::cases::every_case!(super::Sqlx::fresh());
    crate::inbox::every_inbox_case!(super::Sqlx::fresh());
    crate::keys::every_key_case!(super::Sqlx::fresh());
}

mod tokio_postgres_ {
    crate::cases::every_case!(async { super::TokioPostgres(super::Database::fresh().await) });
    crate::inbox::every_inbox_case!(async { super::TokioPostgres(super::Database::fresh().await) });
    crate::keys::every_key_case!(async { super::TokioPostgres(super::Database::fresh().await) });
}

#[tokio::test]
async fn a_database_without_tables_says_what_to_do() {
    let url = shared().await.unwrap().fresh_database().await.unwrap();
    let mut client = connect(&url).await;
    let tx = client.transaction().await.unwrap();
    let error = Outbox::new().enqueue(&tx, Message::new("t", "secret payload")).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, EnqueueError::Database(_)));
    assert!(text.contains("postrider migrate") && text.contains("42P01") && !text.contains("secret"), "{text}");
}

#[tokio::test]
async fn a_refusal_by_the_database_does_not_quote_the_row() {
    let database = Database::fresh().await;
    let checked = "alter table postrider_outbox add constraint never check (topic <> 't')";
    database.reader.batch_execute(checked).await.unwrap();
    let pool = PgPool::connect(&database.url).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let with_sqlx = Outbox::new().enqueue(&mut tx, Message::new("t", "secret payload")).await.unwrap_err();
    let mut client = connect(&database.url).await;
    let tx = client.transaction().await.unwrap();
    let with_tokio = Outbox::new().enqueue(&tx, Message::new("t", "secret payload")).await.unwrap_err();
    for text in [with_sqlx.to_string(), with_tokio.to_string()] {
        assert!(text.contains("never") && !text.contains("736563726574") && !text.contains("secret"), "{text}");
    }
}

#[tokio::test]
async fn many_messages_are_one_statement() {
    let database = Database::fresh().await;
    let counter = "create table statements (); create function counted() returns trigger language plpgsql as
                   $$ begin insert into statements default values; return null; end $$;
                   create trigger counted after insert on postrider_outbox for each statement execute function counted()";
    database.reader.batch_execute(counter).await.unwrap();
    let messages = || (0..10).map(|n| Message::new("t", n.to_string()));
    let pool = PgPool::connect(&database.url).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    Outbox::new().enqueue_all(&mut tx, messages()).await.unwrap();
    tx.commit().await.unwrap();
    let mut client = connect(&database.url).await;
    let tx = client.transaction().await.unwrap();
    Outbox::new().enqueue_all(&tx, messages()).await.unwrap();
    tx.commit().await.unwrap();
    let statements: i64 = database.reader.query_one("select count(*) from statements", &[]).await.unwrap().get(0);
    assert_eq!((statements, database.written().await.len()), (2, 20));
}
