//! One message as one line of JSON, the form of the stdout and file brokers.
//!
//! `{"id", "topic", "destination", "key"?, "content_type"?, "headers", "attributes"?, "payload" | "payload_base64"}`:
//! `headers` carries the user's own and then the `postrider-*` ones; the payload is `payload` when it is UTF-8 and
//! `payload_base64` otherwise. A line never contains a line break of its own.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use postrider_core::{Message, Outgoing};
use serde::Serialize;

#[derive(Serialize)]
struct Line<'a> {
    id: String,
    topic: &'a str,
    destination: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    headers: Pairs<'a>,
    #[serde(skip_serializing_if = "Pairs::is_empty")]
    attributes: Pairs<'a>,
    #[serde(flatten)]
    payload: Payload<'a>,
}

/// The bytes of a message, as a text where they are one.
#[derive(Serialize)]
pub(crate) enum Payload<'a> {
    #[serde(rename = "payload")]
    Text(&'a str),
    #[serde(rename = "payload_base64")]
    Bytes(String),
}

impl<'a> Payload<'a> {
    pub(crate) fn of(message: &'a Message) -> Self {
        match std::str::from_utf8(&message.payload) {
            Ok(text) => Self::Text(text),
            Err(_) => Self::Bytes(STANDARD.encode(&message.payload)),
        }
    }
}

/// Names with their values, as one object in their order.
pub(crate) struct Pairs<'a>(Vec<(&'a str, &'a str)>);

impl Pairs<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Pairs<'a> {
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str)>>(pairs: T) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl Serialize for Pairs<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

/// Appends a message and its line break.
///
/// # Errors
/// Never with the messages of this crate's types; the writer's word for it is passed on.
pub(crate) fn write(outgoing: &Outgoing, into: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    let message = &outgoing.message;
    let wire = outgoing.wire_headers();
    let headers = message.headers.iter().chain(wire.iter().map(|(name, value)| (*name, value.as_str())));
    let line = Line {
        id: message.id.to_string(),
        topic: message.topic.as_str(),
        destination: outgoing.destination.as_str(),
        key: message.key.as_ref().map(postrider_core::Key::as_str),
        content_type: message.content_type.as_deref(),
        headers: headers.collect(),
        attributes: message.attributes.iter().collect(),
        payload: Payload::of(message),
    };
    serde_json::to_writer(&mut *into, &line)?;
    into.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postrider_core::{Attempt, Destination, Lane, Term};
    use serde_json::Value;

    use super::*;

    fn line(message: Message) -> Value {
        let outgoing = Outgoing {
            message: Arc::new(message),
            destination: Destination::new("orders"),
            attempt: Attempt(2),
            lane: Lane(7),
            term: Term(3),
            given_up: None,
        };
        let mut text = Vec::new();
        write(&outgoing, &mut text).unwrap();
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 1);
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn text_stays_text_and_bytes_become_base64() {
        let text = line(Message::new("t", "a\nb\u{2028}\0").key("k").header("h", "v").attribute("x.y", "z"));
        assert_eq!(text["payload"], "a\nb\u{2028}\0");
        assert_eq!(text["key"], "k");
        assert_eq!(text["headers"]["h"], "v");
        assert_eq!(text["headers"]["postrider-attempt"], "2");
        assert_eq!(text["attributes"]["x.y"], "z");
        let bytes = line(Message::new("t", vec![0u8, 0xff]));
        assert_eq!(bytes["payload_base64"], "AP8=");
        assert!(bytes.get("payload").is_none() && bytes.get("key").is_none() && bytes.get("attributes").is_none());
    }
}
