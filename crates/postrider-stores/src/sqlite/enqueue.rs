//! Writing messages: one statement, whichever driver sends it.

use postrider_core::{Message, RetryOverride};

/// Messages that one statement takes: each needs ten of the 32,766 parameters that SQLite allows.
pub const ROWS_PER_STATEMENT: usize = 3_000;

/// Writes one message; the table's quoted name stands for `{outbox}`. [`enqueue`] repeats its row for several.
const ENQUEUE: &str = "\
insert into {outbox}
  (message_id, topic, key, payload, content_type, headers, attributes, deliver_at, expires_at, retry)
values ";

const ROW: &str = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// The statement that writes `rows` messages, in their order, into a table given by its quoted name.
///
/// Its parameters are the values of each [`Fields`] in turn.
pub fn enqueue(outbox: &str, rows: usize) -> String {
    let mut sql = ENQUEUE.replace("{outbox}", outbox);
    sql.push_str(&vec![ROW; rows].join(",\n"));
    sql
}

/// The ten values of one message, in the order of the statement's parameters.
#[derive(Debug)]
pub struct Fields<'m> {
    /// The message id, as hyphenated lower-case text.
    pub message_id: String,
    /// The topic.
    pub topic: &'m str,
    /// The key.
    pub key: Option<&'m str>,
    /// The payload, a blob.
    pub payload: &'m [u8],
    /// The media type.
    pub content_type: Option<&'m str>,
    /// The headers, JSON text.
    pub headers: Option<String>,
    /// The attributes, JSON text.
    pub attributes: Option<String>,
    /// Microseconds since 1970 UTC.
    pub deliver_at: Option<i64>,
    /// Microseconds since 1970 UTC.
    pub expires_at: Option<i64>,
    /// The retry settings, JSON text.
    pub retry: Option<String>,
}

impl<'m> Fields<'m> {
    /// The values of a message.
    pub fn of(message: &'m Message) -> Self {
        Self {
            message_id: message.id.to_string(),
            topic: message.topic.as_str(),
            key: message.key.as_ref().map(postrider_core::Key::as_str),
            payload: &message.payload,
            content_type: message.content_type.as_deref(),
            headers: message.headers.to_json(),
            attributes: message.attributes.to_json(),
            deliver_at: message.deliver_at.map(|at| at.0),
            expires_at: message.expires_at.map(|at| at.0),
            retry: message.retry.as_ref().map(RetryOverride::to_json),
        }
    }
}
