use postrider::{Message, Outbox};

fn handler(tx: sqlx::Transaction<'static, sqlx::Postgres>) {
    let _ = Outbox::new().enqueue(tx, Message::new("t", ""));
}

fn main() {}
