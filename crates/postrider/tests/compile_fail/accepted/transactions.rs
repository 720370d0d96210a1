use postrider::{EnqueueError, Message, Outbox};

async fn every_driver(
    postgres: &mut sqlx::Transaction<'_, sqlx::Postgres>,
    sqlite: &mut sqlx::Transaction<'_, sqlx::Sqlite>,
    shared: &tokio_postgres::Transaction<'_>,
    exclusive: &mut tokio_postgres::Transaction<'_>,
    rusqlite: &rusqlite::Transaction<'_>,
) -> Result<(), EnqueueError> {
    let outbox = Outbox::new();
    let message = || Message::new("t", "");
    outbox.enqueue(&mut *postgres, message()).await?;
    outbox.enqueue_all(&mut *postgres, [message()]).await?;
    outbox.enqueue(&mut *sqlite, message()).await?;
    outbox.enqueue(shared, message()).await?;
    outbox.enqueue(exclusive, message()).await?;
    outbox.enqueue(rusqlite, message())?;
    Ok(())
}

fn spawnable<T: Send>(_: T) {}

fn main() {
    let _ = |pool: sqlx::PgPool| {
        spawnable(async move {
            let mut tx = pool.begin().await.unwrap();
            Outbox::new().enqueue(&mut tx, Message::new("t", "")).await.unwrap();
            tx.commit().await.unwrap();
        });
    };
    let _ = every_driver;
}
