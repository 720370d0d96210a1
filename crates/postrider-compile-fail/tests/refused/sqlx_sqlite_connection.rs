use postrider::{Message, Outbox};

fn handler(connection: &mut sqlx::SqliteConnection) {
    let _ = Outbox::new().enqueue(connection, Message::new("t", ""));
}

fn main() {}
