use postrider::{Message, Outbox};

fn handler(pool: &sqlx::PgPool) {
    let _ = Outbox::new().enqueue(pool, Message::new("t", ""));
}

fn main() {}
