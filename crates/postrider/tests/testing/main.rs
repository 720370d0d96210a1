//! What an application's own tests read back: every part of a message, through every driver, also before the commit.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod diesel;
mod mysql;
mod postgres;
mod sea_orm;
mod sqlite;

use postrider::{Error, ErrorKind, Message, RetryOverride, Timestamp};

/// Messages of which every part says something, and the plainest one.
fn messages() -> Vec<Message> {
    let mut full = Message::json("orders.placed", &serde_json::json!({ "order": 7 })).unwrap().key("ann \u{1F4D6}");
    full = full.header("tenant", "blue").header("a", "b").attribute("http.path", "orders/7");
    full.deliver_at = Some(Timestamp(1_800_000_000_123_456));
    full.expires_at = Some(Timestamp(1_900_000_000_654_321));
    full.retry = Some(RetryOverride::from_json(r#"{"max_attempts": 3}"#).unwrap());
    let mut never = Message::new("orders.placed", vec![0, 0xff]);
    never.expires_at = Some(Timestamp::NEVER);
    vec![full, Message::new("a", ""), never]
}

/// What a driver answers where the tables are missing.
fn says_what_to_do(answer: Result<Vec<Message>, Error>) {
    let missing = answer.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Config);
    assert!(missing.to_string().contains("postrider::migrate"), "{missing}");
}
