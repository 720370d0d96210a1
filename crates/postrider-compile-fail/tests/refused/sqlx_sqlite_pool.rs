use postrider::{Message, Outbox};

fn handler(pool: &sqlx::SqlitePool) {
    let _ = Outbox::new().enqueue(pool, Message::new("t", ""));
}

fn main() {}
