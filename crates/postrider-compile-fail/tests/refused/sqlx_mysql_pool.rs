use postrider::{Message, Outbox};

fn handler(pool: &sqlx::MySqlPool) {
    let _ = Outbox::new().enqueue(pool, Message::new("t", ""));
}

fn main() {}
