use postrider::{Message, Outbox};

fn handler(connection: &mut sqlx::PgConnection) {
    let _ = Outbox::new().enqueue(connection, Message::new("t", ""));
}

fn main() {}
