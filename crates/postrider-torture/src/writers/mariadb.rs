//! Writers on MariaDB: one message by the procedure, many by plain INSERTs.

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Opts, Params, Value};
use postrider::Message;
use uuid::Uuid;

use super::acts::{Answer, Session, Transaction};
use crate::record::Key;

/// The row is there already: two that inserted it would lock what is beside it too.
const LOCK: &str = "update torture_counter set n = last_insert_id(n + ?) where `key` = ?";
const NOTE: &str = "insert into torture_ledger (message_id, `key`, n) values ";
const NAME: &str = "set @message_id = ?";
const ENQUEUE: &str = "call postrider_enqueue(?, ?, ?, ?, null, null, ?, ?, @message_id)";
const INSERT: &str =
    "insert into postrider_outbox (topic, `key`, payload, headers, deliver_at, expires_at, message_id) values ";
/// Rows of one statement.
const MANY: usize = 500;

/// A transaction. A session that is dropped with it open is closed, and nothing of it is kept.
pub(super) struct Open<'a>(&'a mut Conn);

impl Session for Conn {
    type Open<'a> = Open<'a>;

    async fn connect(url: &str) -> Answer<Self> {
        Ok(Self::new(Opts::from_url(url)?).await?)
    }

    async fn begin(&mut self) -> Answer<Open<'_>> {
        self.query_drop("start transaction").await?;
        Ok(Open(self))
    }
}

impl Transaction for Open<'_> {
    const EARLY: &'static str = "insert into torture_scratch (note) values ('early')";

    async fn run(&mut self, statement: &str) -> Answer<()> {
        Ok(self.0.query_drop(statement).await?)
    }

    async fn lock(&mut self, key: Key, count: u32) -> Answer<u32> {
        self.0.exec_drop(LOCK, (count, key.to_string())).await?;
        let n = self.0.last_insert_id().ok_or_else(|| format!("the key {key} has no row"))?;
        Ok(u32::try_from(n)?)
    }

    async fn enqueue(&mut self, message: Message) -> Answer<()> {
        self.0.exec_drop(NAME, (message.id.to_string(),)).await?;
        Ok(self.0.exec_drop(ENQUEUE, Params::Positional(values(&message).into())).await?)
    }

    async fn enqueue_all(&mut self, messages: Vec<Message>) -> Answer<()> {
        for some in messages.chunks(MANY) {
            let sql = format!("{INSERT}{}", vec!["(?, ?, ?, ?, ?, ?, ?)"; some.len()].join(", "));
            let each = |message: &Message| values(message).into_iter().chain([message.id.to_string().into()]);
            self.0.exec_drop(sql, Params::Positional(some.iter().flat_map(each).collect())).await?;
        }
        Ok(())
    }

    async fn note(&mut self, rows: &[(Uuid, Key, u32)]) -> Answer<()> {
        for some in rows.chunks(MANY) {
            let each: Vec<String> = some.iter().map(|(id, key, n)| format!("('{id}', '{key}', {n})")).collect();
            self.0.query_drop(format!("{NOTE}{}", each.join(", "))).await?;
        }
        Ok(())
    }

    async fn commit(self) -> Answer<()> {
        Ok(self.0.query_drop("commit").await?)
    }

    async fn roll_back(self) -> Answer<()> {
        Ok(self.0.query_drop("rollback").await?)
    }

    fn leave_open(self) {}
}

/// What both ways to write take of a message, in their order.
fn values(message: &Message) -> [Value; 6] {
    [
        message.topic.as_str().into(),
        message.key.as_ref().map(|key| key.as_str()).into(),
        message.payload.to_vec().into(),
        message.headers.to_json().into(),
        message.deliver_at.map(|at| at.0).into(),
        message.expires_at.map(|at| at.0).into(),
    ]
}
