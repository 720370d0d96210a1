//! The values of one message that a statement writes, whichever database it is for.

use postrider_core::{Message, RetryOverride};

/// The ten values of one message, in the order of the parameters of every statement that enqueues.
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

    /// The values as a driver takes them that has one type for all of them.
    pub fn values<V>(self) -> [V; 10]
    where
        V: From<String>
            + From<&'m str>
            + From<&'m [u8]>
            + From<Option<&'m str>>
            + From<Option<String>>
            + From<Option<i64>>,
    {
        [
            self.message_id.into(),
            self.topic.into(),
            self.key.into(),
            self.payload.into(),
            self.content_type.into(),
            self.headers.into(),
            self.attributes.into(),
            self.deliver_at.into(),
            self.expires_at.into(),
            self.retry.into(),
        ]
    }
}
