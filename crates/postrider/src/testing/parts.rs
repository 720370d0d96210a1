//! A message as the columns of its row.
#![cfg_attr(
    not(any(feature = "rusqlite", feature = "sqlx-sqlite", feature = "sqlx-postgres", feature = "tokio-postgres")),
    allow(dead_code, reason = "without a driver nothing reads a row")
)]

use postrider_core::{Attributes, Error, ErrorKind, Headers, Message, RetryOverride, Timestamp};
use uuid::Uuid;

/// The messages in a table of SQLite; its quoted name stands for `{outbox}`. The columns are those of [`Parts`].
#[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
pub(super) const SQLITE: &str = "\
select message_id, topic, key, payload, content_type, headers, attributes, deliver_at, expires_at, retry
  from {outbox} order by id";

/// The messages in a table of PostgreSQL; its quoted name stands for `{outbox}`. The columns are those of [`Parts`].
#[cfg(any(feature = "sqlx-postgres", feature = "tokio-postgres"))]
pub(super) const POSTGRES: &str = "\
select message_id::text, topic, key, payload, content_type, headers::text, attributes::text,
       (extract(epoch from deliver_at) * 1000000)::bigint,
       case when expires_at = 'infinity' then 9223372036854775807 else (extract(epoch from expires_at) * 1000000)::bigint end,
       retry::text
  from {outbox} order by id";

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

/// A table that could not be read.
pub(super) fn unreadable(table: &str, kind: ErrorKind) -> Error {
    let text = format!("reading the outbox table {table}; call postrider::migrate at the beginning of the test");
    Error::new(kind, text)
}
