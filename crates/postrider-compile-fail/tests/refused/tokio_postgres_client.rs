use postrider::{Message, Outbox};

fn handler(client: &mut tokio_postgres::Client) {
    let _ = Outbox::new().enqueue(client, Message::new("t", ""));
}

fn main() {}
