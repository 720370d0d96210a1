//! sqlx and rusqlite on SQLite files.

use postrider::{EnqueueError, Message, MessageId, Outbox};
use rusqlite::Connection;
use sqlx::SqlitePool;
use tempfile::TempDir;

use crate::cases::{Asked, Driver, End, Written};
use crate::inbox::{Answers, Question, Receiver};

/// A file of its own with an empty outbox.
pub struct File {
    folder: TempDir,
}

impl File {
    pub fn fresh() -> Self {
        let file = Self { folder: tempfile::tempdir().unwrap() };
        postrider::migrate(&file.open()).unwrap();
        file
    }

    pub fn path(&self) -> String {
        self.folder.path().join("app.db").to_str().unwrap().to_owned()
    }

    fn open(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    pub fn written(&self) -> Vec<Written> {
        let connection = self.open();
        let mut select = connection
            .prepare(
                "select id, message_id, topic, key, payload, content_type, headers, attributes, deliver_at, retry, state
                 from postrider_outbox order by id",
            )
            .unwrap();
        let rows = select.query_map((), |row| {
            Ok(Written {
                row: row.get(0)?,
                id: row.get::<_, String>(1)?.parse().unwrap(),
                topic: row.get(2)?,
                key: row.get(3)?,
                payload: row.get(4)?,
                content_type: row.get(5)?,
                headers: row.get(6)?,
                attributes: row.get(7)?,
                deliver_at: row.get(8)?,
                retry: row.get(9)?,
                state: row.get(10)?,
            })
        });
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }
}

struct Sqlx(File, SqlitePool);

impl Sqlx {
    async fn fresh() -> Self {
        let file = File::fresh();
        let pool = SqlitePool::connect(&format!("sqlite:{}", file.path())).await.unwrap();
        Self(file, pool)
    }
}

impl Driver for Sqlx {
    async fn transact(&self, asked: Vec<Asked>, end: End) -> Vec<Result<Vec<MessageId>, EnqueueError>> {
        let mut tx = self.1.begin_with("begin immediate").await.unwrap();
        crate::cases::transacted!(tx, asked, end)
    }

    async fn written(&self) -> Vec<Written> {
        self.0.written()
    }
}

impl Driver for File {
    async fn transact(&self, asked: Vec<Asked>, end: End) -> Vec<Result<Vec<MessageId>, EnqueueError>> {
        let outbox = Outbox::new();
        let mut connection = self.open();
        let tx = connection.transaction().unwrap();
        let mut answers = Vec::new();
        for asked in asked {
            answers.push(match asked {
                Asked::One(message) => outbox.enqueue(&tx, message).map(|id| vec![id]),
                Asked::Many(messages) => outbox.enqueue_all(&tx, messages),
            });
        }
        match end {
            End::Commit => tx.commit().unwrap(),
            End::Rollback => tx.rollback().unwrap(),
        }
        answers
    }

    async fn written(&self) -> Vec<Written> {
        File::written(self)
    }
}

impl Receiver for Sqlx {
    async fn receive(&self, questions: Vec<Question>, end: End) -> Answers {
        let mut tx = self.1.begin_with("begin immediate").await.unwrap();
        crate::inbox::received!(tx, &mut tx, questions, end)
    }
}

impl Receiver for File {
    async fn receive(&self, questions: Vec<Question>, end: End) -> Answers {
        let mut connection = self.open();
        let tx = connection.transaction().unwrap();
        let answers = questions.into_iter().map(|question| crate::inbox::told!(&tx, question)).collect();
        match end {
            End::Commit => tx.commit().unwrap(),
            End::Rollback => tx.rollback().unwrap(),
        }
        answers
    }
}

mod sqlx_sqlite {
    crate::cases::every_case!(super::Sqlx::fresh());
    crate::inbox::every_inbox_case!(super::Sqlx::fresh());
    crate::keys::every_key_case!(super::Sqlx::fresh());
}

mod rusqlite_ {
    crate::cases::every_case!(async { super::File::fresh() });
    crate::inbox::every_inbox_case!(async { super::File::fresh() });
    crate::keys::every_key_case!(async { super::File::fresh() });
}

#[test]
fn a_savepoint_that_is_rolled_back_takes_its_message_with_it() {
    let file = File::fresh();
    let mut connection = file.open();
    let mut tx = connection.transaction().unwrap();
    let outbox = Outbox::new();
    let kept = outbox.enqueue(&mut tx, Message::new("t", "kept")).unwrap();
    let mut savepoint = tx.savepoint().unwrap();
    outbox.enqueue(&savepoint, Message::new("t", "dropped")).unwrap();
    savepoint.rollback().unwrap();
    drop(savepoint);
    tx.commit().unwrap();
    assert_eq!(file.written().iter().map(|row| row.id).collect::<Vec<_>>(), [kept.0]);
}

#[test]
fn a_transaction_that_was_ended_by_sql_is_refused_at_run_time() {
    let file = File::fresh();
    let mut connection = file.open();
    let tx = connection.transaction().unwrap();
    tx.execute_batch("rollback").unwrap();
    let error = Outbox::new().enqueue(&tx, Message::new("t", "")).unwrap_err();
    assert!(matches!(error, EnqueueError::OutsideTransaction));
    drop(tx);
    assert_eq!(file.written(), []);
}

#[test]
fn a_file_without_tables_says_what_to_do() {
    let mut connection = Connection::open_in_memory().unwrap();
    let tx = connection.transaction().unwrap();
    let text = Outbox::new().enqueue(&tx, Message::new("t", "")).unwrap_err().to_string();
    assert!(text.contains("postrider migrate") && text.contains("no such table"), "{text}");
}
