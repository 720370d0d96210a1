use postrider::{Message, Outbox};

fn handler(connection: &mut rusqlite::Connection) {
    let _ = Outbox::new().enqueue(connection, Message::new("t", ""));
}

fn main() {}
