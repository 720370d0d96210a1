//! Writing messages: one statement, whichever driver sends it.

use postrider_core::{Message, RetryOverride};

use super::Names;

/// Messages that one statement takes: each needs ten of the 65,535 parameters that the protocol allows.
pub const ROWS_PER_STATEMENT: usize = 1_000;

/// Writes messages; numbers are drawn in the order of the rows.
const ENQUEUE: &str = "\
insert into {outbox}
  (message_id, topic, `key`, payload, content_type, headers, attributes, deliver_at, expires_at, retry)
values ";

const ROW: &str = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// The statement that writes `rows` messages, in their order, into the outbox of these names.
///
/// Its parameters are the values of each [`Fields`] in turn.
pub fn enqueue(names: &Names, rows: usize) -> String {
    let mut sql = names.fill(ENQUEUE);
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
    /// The payload.
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

    /// The values as the driver of this store takes them.
    pub(super) fn values(self) -> [mysql_async::Value; 10] {
        use mysql_async::Value;
        let text = |text: Option<String>| text.map_or(Value::NULL, Value::from);
        let number = |number: Option<i64>| number.map_or(Value::NULL, Value::from);
        [
            Value::from(self.message_id),
            Value::from(self.topic),
            text(self.key.map(str::to_owned)),
            Value::from(self.payload),
            text(self.content_type.map(str::to_owned)),
            text(self.headers),
            text(self.attributes),
            number(self.deliver_at),
            number(self.expires_at),
            text(self.retry),
        ]
    }
}
