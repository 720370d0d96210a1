//! Writers on PostgreSQL.

use postrider::{Message, Outbox};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use super::acts::{Answer, Session, Transaction};
use crate::record::Key;

const LOCK: &str = "insert into torture_counter (key, n) values ($1, $2) \
    on conflict (key) do update set n = torture_counter.n + excluded.n returning n";
const NOTE: &str =
    "insert into torture_ledger (message_id, key, n) select * from unnest($1::uuid[], $2::text[], $3::int[])";

impl Session for Client {
    type Open<'a> = tokio_postgres::Transaction<'a>;

    async fn connect(url: &str) -> Answer<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    async fn begin(&mut self) -> Answer<Self::Open<'_>> {
        Ok(self.transaction().await?)
    }
}

impl Transaction for tokio_postgres::Transaction<'_> {
    const EARLY: &'static str = "insert into torture_scratch values (pg_current_xact_id()::text)";

    async fn run(&mut self, statement: &str) -> Answer<()> {
        Ok(self.batch_execute(statement).await?)
    }

    async fn lock(&mut self, key: Key, count: u32) -> Answer<u32> {
        let n: i32 = self.query_one(LOCK, &[&key.to_string(), &i32::try_from(count)?]).await?.get(0);
        Ok(u32::try_from(n)?)
    }

    async fn enqueue(&mut self, message: Message) -> Answer<()> {
        Outbox::new().enqueue(&*self, message).await?;
        Ok(())
    }

    async fn enqueue_all(&mut self, messages: Vec<Message>) -> Answer<()> {
        Outbox::new().enqueue_all(&*self, messages).await?;
        Ok(())
    }

    async fn note(&mut self, rows: &[(Uuid, Key, u32)]) -> Answer<()> {
        let ids: Vec<Uuid> = rows.iter().map(|row| row.0).collect();
        let keys: Vec<String> = rows.iter().map(|row| row.1.to_string()).collect();
        let numbers: Vec<i32> = rows.iter().map(|row| i32::try_from(row.2).unwrap_or(0)).collect();
        self.execute(NOTE, &[&ids, &keys, &numbers]).await?;
        Ok(())
    }

    async fn commit(self) -> Answer<()> {
        Ok(self.commit().await?)
    }

    async fn roll_back(self) -> Answer<()> {
        Ok(self.rollback().await?)
    }

    fn leave_open(self) {
        // Dropped, it would be rolled back before the connection goes away.
        std::mem::forget(self);
    }
}
