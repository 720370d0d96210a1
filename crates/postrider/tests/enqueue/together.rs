//! On PostgreSQL a claim shares a round trip with the effect of its message.

use std::task::Poll;

use futures_util::poll;
use postrider::{Inbox, InboxError, MessageId, Seen};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};
use uuid::Uuid;

use crate::contention::connect;
use crate::postgres::Database;

const EFFECT: &str = "insert into invoices (message) values ($1)";

/// A database in which messages have an effect, which none may have twice.
async fn with_invoices() -> (Database, Client) {
    let database = Database::fresh().await;
    let client = connect(&database).await;
    client.batch_execute("create table invoices (message uuid primary key)").await.unwrap();
    (database, client)
}

async fn invoices(client: &Client) -> i64 {
    client.query_one("select count(*) from invoices", &[]).await.unwrap().get(0)
}

/// What both were told, and the transaction ended as the page has it.
async fn handled(client: &mut Client, id: MessageId) -> (Result<Seen, InboxError>, Result<u64, Error>) {
    let tx = client.transaction().await.unwrap();
    let (seen, written) = tokio::join! {
        biased;
        Inbox::new().first_seen(&tx, "billing", id),
        async { tx.execute(EFFECT, &[&id.0]).await },
    };
    match seen {
        Ok(Seen::First) => tx.commit().await.unwrap(),
        Ok(Seen::Repeat) | Err(_) => tx.rollback().await.unwrap(),
    }
    (seen, written)
}

#[tokio::test]
async fn on_postgresql_a_repeat_takes_back_what_was_sent_with_it() {
    let (_database, mut client) = with_invoices().await;
    let id = MessageId::fresh();
    let (seen, written) = handled(&mut client, id).await;
    assert_eq!((seen.unwrap(), written.unwrap()), (Seen::First, 1));
    let (seen, written) = handled(&mut client, id).await;
    assert_eq!(seen.unwrap(), Seen::Repeat, "also where its effect is refused: {written:?}");
    assert_eq!(written.unwrap_err().code(), Some(&SqlState::UNIQUE_VIOLATION));
    assert_eq!(invoices(&client).await, 1);
}

#[tokio::test]
async fn on_postgresql_behind_a_refusal_nothing_is_written() {
    let (_database, mut client) = with_invoices().await;
    let far_ahead = MessageId(Uuid::from_u128((0xffff_ffff_ffff << 80) | (7 << 76) | (2 << 62)));
    let (seen, written) = handled(&mut client, far_ahead).await;
    assert!(matches!(seen, Err(InboxError::Future)), "{seen:?}");
    assert_eq!(written.unwrap_err().code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
    assert_eq!(invoices(&client).await, 0);
}

#[tokio::test]
async fn on_postgresql_a_claim_is_sent_when_it_is_first_polled() {
    let (_database, mut client) = with_invoices().await;
    let tx = client.transaction().await.unwrap();
    let mut claim = Inbox::new().first_seen(&tx, "billing", MessageId::fresh());
    assert!(matches!(poll!(&mut claim), Poll::Pending));
    // Sent later, it is there already, though nobody waited for the claim.
    let claims: i64 = tx.query_one("select count(*) from postrider_inbox", &[]).await.unwrap().get(0);
    assert_eq!((claims, claim.await.unwrap()), (1, Seen::First));
}
