//! sqlx and tokio-postgres on a real PostgreSQL.

use postrider::testing::enqueued;
use postrider::{Message, Outbox};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::postgres::shared;
use sqlx::PgPool;

use crate::messages;

#[tokio::test]
async fn what_both_drivers_wrote_to_postgresql_is_read_back() {
    let Some(server) = installed("what is read back from PostgreSQL", shared().await) else { return };
    let url = server.fresh_database().await.unwrap();
    let pool = PgPool::connect(&url).await.unwrap();
    let outbox = Outbox::new();
    outbox.migrate(&pool).await.unwrap();
    let messages = messages();
    let mut tx = pool.begin().await.unwrap();
    outbox.enqueue_all(&mut tx, messages.clone()).await.unwrap();
    assert_eq!(enqueued(&outbox, &mut *tx).await.unwrap(), messages);
    tx.commit().await.unwrap();

    let (mut client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let more = vec![Message::new("b", "more")];
    let both = [messages, more.clone()].concat();
    let tx = client.transaction().await.unwrap();
    outbox.enqueue_all(&tx, more).await.unwrap();
    assert_eq!(enqueued(&outbox, &tx).await.unwrap(), both);
    tx.commit().await.unwrap();
    assert_eq!(enqueued(&outbox, &client).await.unwrap(), both);
    assert_eq!(enqueued(&outbox, &pool).await.unwrap(), both);
}
