//! A message as the columns of its row.

use postrider_core::{Attributes, Error, ErrorKind, Headers, Message, RetryOverride, Timestamp};
use uuid::Uuid;

/// The columns of a row, in the order of the statements.
pub(super) type Parts = (
    String,
    String,
    Option<String>,
    Vec<u8>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<i64>,
    Option<i64>,
    Option<String>,
);

/// The message of a row.
///
/// # Errors
/// `Rejected` when it is none.
pub(super) fn message(parts: Parts) -> Result<Message, Error> {
    let (id, topic, key, payload, content_type, headers, attributes, deliver_at, expires_at, retry) = parts;
    let wrong = |what: String| Error::new(ErrorKind::Rejected, format!("the message {id} in the outbox: {what}"));
    let mut message = Message::new(topic, payload);
    message = message.id(Uuid::parse_str(&id).map_err(|error| wrong(format!("message_id: {error}")))?);
    if let Some(key) = key {
        message = message.key(key);
    }
    message.content_type = content_type;
    message.headers = headers.as_deref().map(Headers::from_json).transpose().map_err(wrong)?.unwrap_or_default();
    message.attributes =
        attributes.as_deref().map(Attributes::from_json).transpose().map_err(wrong)?.unwrap_or_default();
    message.deliver_at = deliver_at.map(Timestamp);
    message.expires_at = expires_at.map(Timestamp);
    message.retry = retry.as_deref().map(RetryOverride::from_json).transpose().map_err(wrong)?;
    Ok(message)
}
