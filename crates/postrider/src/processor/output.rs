//! A message that waits in a document to be sent, as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use postrider_core::{Attributes, Error, ErrorKind, Headers, Message, Result, TOKEN_HEADER, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The message, field by field. What it says of retries is not kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Output {
    id: Uuid,
    topic: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    /// The payload, where it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    /// The payload in Base64, where it is none, or one that JSON in PostgreSQL does not take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    /// Pairs, because a store may order the names of an object anew, and what is sent again is sent with the same bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<(String, String)>,
    /// In microseconds since 1970, as every time here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deliver_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
    /// The right to process it, where tokens are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<Uuid>,
}

fn pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(String, String)> {
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

impl Output {
    pub(super) fn of(message: &Message) -> Self {
        let text = std::str::from_utf8(&message.payload).ok().filter(|text| !text.contains('\0'));
        Self {
            id: message.id.0,
            topic: message.topic.as_str().to_owned(),
            key: message.key.as_ref().map(|key| key.as_str().to_owned()),
            content_type: message.content_type.clone(),
            payload: text.map(str::to_owned),
            payload_base64: text.is_none().then(|| STANDARD.encode(&message.payload)),
            headers: pairs(message.headers.iter()),
            attributes: pairs(message.attributes.iter()),
            deliver_at: message.deliver_at.map(|at| at.0),
            expires_at: message.expires_at.map(|at| at.0),
            token: None,
        }
    }

    /// Whether it is not to be sent any more.
    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now.0)
    }

    /// The same output with a token.
    pub(super) fn with(self, token: Uuid) -> Self {
        Self { token: Some(token), ..self }
    }

    pub(super) const fn token(&self) -> Option<Uuid> {
        self.token
    }

    /// When it is to be sent, where that is not at once.
    pub(super) fn deliver_at(&self) -> Option<Timestamp> {
        self.deliver_at.map(Timestamp)
    }

    /// The message.
    ///
    /// # Errors
    /// When the payload is not what was written.
    pub(super) fn message(&self) -> Result<Message> {
        let payload = match (&self.payload, &self.payload_base64) {
            (Some(text), None) => text.clone().into_bytes(),
            (None, Some(encoded)) => STANDARD.decode(encoded).map_err(|error| {
                let text = format!("the output {} has a payload that is no Base64; it was changed by hand", self.id);
                Error::new(ErrorKind::Config, text).because(error)
            })?,
            _ => {
                let text = format!("the output {} has no payload, or two; it was changed by hand", self.id);
                return Err(Error::new(ErrorKind::Config, text));
            }
        };
        let mut message = Message::new(self.topic.as_str(), payload).id(self.id);
        if let Some(key) = &self.key {
            message = message.key(key);
        }
        let (mut headers, mut attributes) = (Headers::default(), Attributes::default());
        self.headers.iter().for_each(|(name, value)| headers.set(name, value));
        self.attributes.iter().for_each(|(name, value)| attributes.set(name, value));
        if let Some(token) = self.token {
            headers.set(TOKEN_HEADER, token.to_string());
        }
        Ok(Message {
            content_type: self.content_type.clone(),
            headers,
            attributes,
            deliver_at: self.deliver_at.map(Timestamp),
            expires_at: self.expires_at.map(Timestamp),
            ..message
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(message: &Message) -> Message {
        let json = serde_json::to_string(&Output::of(message)).unwrap();
        assert!(!json.contains("\\u0000"), "{json}");
        serde_json::from_str::<Output>(&json).unwrap().message().unwrap()
    }

    #[test]
    fn a_message_comes_back_as_it_was_whatever_its_bytes() {
        let message = Message::new("orders.placed", "{\"order\":7}")
            .key("o 7")
            .content_type("application/json")
            .header("b", "1")
            .header("a", "\u{e9}")
            .attribute("nats.subject", "x")
            .deliver_at(Timestamp(5))
            .expires_at(Timestamp::NEVER);
        assert_eq!(there_and_back(&message), message);
        for payload in [&b""[..], b"\xff\x00", b"a\0b", "\u{1f600}".as_bytes()] {
            let message = Message::new("t", payload.to_vec());
            assert_eq!(there_and_back(&message), message);
        }
    }

    #[test]
    fn what_was_changed_by_hand_is_an_error_and_no_other_message() {
        let with = |more: &str| {
            let json = format!("{{\"id\":\"{}\",\"topic\":\"t\"{more}}}", Uuid::nil());
            serde_json::from_str::<Output>(&json).unwrap().message().unwrap_err().to_string()
        };
        assert!(with("").contains("no payload"));
        assert!(with(",\"payload\":\"a\",\"payload_base64\":\"YQ==\"").contains("or two"));
        assert!(with(",\"payload_base64\":\"?\"").contains("no Base64"));
    }
}
