//! Messages as lines of JSON.

use std::io::BufRead;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use postrider_core::{Attributes, Headers, Message, RetryOverride, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::failure::{Failure, Outcome};
use crate::output::moment;

/// One line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    topic: String,
    key: Option<String>,
    /// A string is the payload itself; anything else is the payload as JSON.
    payload: Option<Value>,
    payload_base64: Option<String>,
    content_type: Option<String>,
    #[serde(default)]
    headers: Headers,
    #[serde(default)]
    attributes: Attributes,
    deliver_at: Option<String>,
    expires_at: Option<String>,
    id: Option<Uuid>,
    retry: Option<RetryOverride>,
}

/// Reads every line, or says which one is wrong: nothing is written then.
pub(crate) fn read(from: impl BufRead) -> Outcome<Vec<Message>> {
    let mut messages = Vec::new();
    for (place, line) in from.split(b'\n').enumerate() {
        let number = place + 1;
        let line = line
            .map_err(|error| Failure::usage(format!("line {number}: {error}"), "look at where the lines come from"))?;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let message = parse(&line).map_err(|what| {
            Failure::usage(
                format!("line {number}: {what}"),
                "correct that line and run this again; nothing was written",
            )
        })?;
        messages.push(message);
    }
    Ok(messages)
}

fn parse(line: &[u8]) -> Result<Message, String> {
    let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let json = !matches!(line.payload, None | Some(Value::String(_)));
    let payload = match (line.payload, line.payload_base64) {
        (Some(_), Some(_)) => return Err("payload and payload_base64 exclude each other".to_owned()),
        (Some(Value::String(text)), None) => text.into_bytes(),
        (Some(value), None) => value.to_string().into_bytes(),
        (None, Some(text)) => STANDARD.decode(text).map_err(|error| format!("payload_base64: {error}"))?,
        (None, None) => Vec::new(),
    };
    let mut message = Message::new(line.topic, payload);
    if let Some(id) = line.id {
        message = message.id(id);
    }
    if let Some(key) = line.key {
        message = message.key(key);
    }
    message.content_type = line.content_type.or_else(|| json.then(|| "application/json".to_owned()));
    message.headers = line.headers;
    message.attributes = line.attributes;
    message.retry = line.retry;
    message.deliver_at = at("deliver_at", line.deliver_at)?;
    message.expires_at = at("expires_at", line.expires_at)?;
    message.validate().map_err(|error| error.to_string())?;
    Ok(message)
}

fn at(name: &str, text: Option<String>) -> Result<Option<Timestamp>, String> {
    let Some(text) = text else { return Ok(None) };
    let at = moment::read(&text).ok_or_else(|| format!("{name} {text:?} is no moment such as 2030-01-31T12:00:00Z"))?;
    Ok(Some(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_the_payload_itself_and_anything_else_is_json() {
        let messages =
            read(&b"{\"topic\":\"a\",\"payload\":\"x\"}\n\n{\"topic\":\"b\",\"payload\":{\"n\":1}}"[..]).unwrap();
        assert_eq!(messages[0].payload.as_ref(), b"x");
        assert_eq!(messages[0].content_type, None);
        assert_eq!(messages[1].payload.as_ref(), b"{\"n\":1}");
        assert_eq!(messages[1].content_type.as_deref(), Some("application/json"));
    }

    #[test]
    fn a_wrong_line_is_named() {
        for bad in [
            "{\"topic\":\"a\"}\n{\"topik\":\"a\"}",
            "{\"topic\":\"a\"}\nnonsense",
            "{\"topic\":\"a\"}\n{\"topic\":\"a b\"}",
        ] {
            let failure = read(bad.as_bytes()).unwrap_err();
            assert!(failure.what.starts_with("line 2: "), "{failure:?}");
        }
    }
}
