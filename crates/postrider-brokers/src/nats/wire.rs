//! What one message looks like in NATS.

use std::str::FromStr;

use async_nats::header::{NATS_EXPECTED_STREAM, NATS_MESSAGE_ID};
use async_nats::jetstream::message::PublishMessage;
use async_nats::{HeaderMap, HeaderName, HeaderValue};
use postrider_core::{Destination, Error, ErrorKind, Outgoing, Result};

use super::settings::Settings;
use crate::dead_letter::kept_as;

/// The subject that a destination names.
///
/// # Errors
/// `Rejected` when NATS can't publish there.
pub(super) fn subject(destination: &Destination) -> Result<&str> {
    let text = destination.as_str();
    let blank = |c: char| c.is_whitespace() || c.is_control();
    let token = |token: &str| !token.is_empty() && token != "*" && token != ">" && !token.contains(blank);
    if text.split('.').all(token) && !text.starts_with('$') && !text.starts_with("_INBOX.") {
        return Ok(text);
    }
    let text = format!(
        "{:?} is no subject to publish to: expected words joined by single dots, without blanks, * and >, not beginning \
         with $",
        text.chars().take(60).collect::<String>()
    );
    Err(Error::new(ErrorKind::Rejected, text))
}

/// The payload and the headers of one message.
///
/// # Errors
/// `Rejected` when the message sets a header that is not its own, or asks of NATS what it does not know.
pub(super) fn publish(settings: &Settings, outgoing: &Outgoing) -> Result<PublishMessage> {
    let message = &outgoing.message;
    if let Some((name, _)) = message.attributes.iter().find(|(name, _)| name.starts_with("nats.")) {
        return Err(Error::new(ErrorKind::Rejected, format!("the attribute {name:?}: NATS has none; leave it out")));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in message.headers.iter() {
        if name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("nats-")) {
            // A message that another producer sent may have it, and its dead letter is to be kept like any other.
            if outgoing.given_up.is_some() {
                insert(&mut headers, &kept_as(name), value)?;
                continue;
            }
            let text = format!("the header {name:?} would command the server; a message can't set it: rename it");
            return Err(Error::new(ErrorKind::Rejected, text));
        }
        if message.content_type.is_none() || !name.eq_ignore_ascii_case("content-type") {
            insert(&mut headers, name, value)?;
        }
    }
    if let Some(content_type) = &message.content_type {
        insert(&mut headers, "Content-Type", content_type)?;
    }
    for (name, value) in outgoing.wire_headers() {
        headers.insert(HeaderName::from_static(name), header_value(name, value)?);
    }
    // A stream that took the message a moment ago would drop its dead letter for a repeat of it.
    if outgoing.given_up.is_none() {
        headers.insert(NATS_MESSAGE_ID, header_value("Nats-Msg-Id", message.id.to_string())?);
    }
    if let Some(stream) = &settings.stream {
        headers.insert(NATS_EXPECTED_STREAM, header_value("Nats-Expected-Stream", stream.clone())?);
    }
    Ok(PublishMessage::build().payload(message.payload.clone()).headers(headers))
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<()> {
    let parsed = HeaderName::from_str(name).map_err(|_| no_header(name))?;
    headers.insert(parsed, header_value(name, value.to_owned())?);
    Ok(())
}

/// Takes the text as it is: `HeaderValue::from_str` would copy it. The conversion panics at the end of a line.
fn header_value(name: &str, value: String) -> Result<HeaderValue> {
    if value.bytes().any(|byte| byte == b'\r' || byte == b'\n') {
        Err(no_header(name))
    } else {
        Ok(HeaderValue::from(value))
    }
}

fn no_header(name: &str) -> Error {
    Error::new(ErrorKind::Rejected, format!("{name:?} can't be a NATS header"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postrider_core::{Attempt, DeadReason, GivenUp, Lane, Message, Term};

    use super::*;
    use crate::config::BrokerConfig;

    #[test]
    fn a_value_of_two_lines_is_rejected_and_ends_nothing() {
        for bad in ["a\nb", "a\r", "\r\nX: y"] {
            assert_eq!(header_value("x", bad.to_owned()).unwrap_err().kind(), ErrorKind::Rejected);
        }
        assert_eq!(header_value("x", "ü b".to_owned()).unwrap().as_str(), "ü b");
    }

    #[test]
    fn a_dead_letter_is_no_repeat_of_its_message() {
        let settings = Settings::parse(&BrokerConfig::new("nats://a")).unwrap();
        let given_up = GivenUp { reason: DeadReason::Attempts, attempts: 9, error: "refused".to_owned() };
        let sent = |given_up: Option<GivenUp>| {
            let outgoing = Outgoing {
                message: Arc::new(Message::new("t", "x")),
                destination: Destination::new("t"),
                attempt: Attempt(1),
                lane: Lane(0),
                term: Term(1),
                given_up: given_up.map(Arc::new),
            };
            let published = publish(&settings, &outgoing).unwrap().outbound_message("t");
            published.headers.unwrap().get(NATS_MESSAGE_ID).is_some()
        };
        assert!(sent(None) && !sent(Some(given_up)));
    }

    #[test]
    fn a_dead_letter_has_what_would_command_the_server_under_another_name() {
        let settings = Settings::parse(&BrokerConfig::new("nats://a")).unwrap();
        let given_up = GivenUp { reason: DeadReason::Attempts, attempts: 9, error: "refused".to_owned() };
        let outgoing = |given_up: Option<GivenUp>| Outgoing {
            message: Arc::new(Message::new("t", "x").header("Nats-Msg-Id", "order-7").header("NATS-TTL", "1h")),
            destination: Destination::new("t"),
            attempt: Attempt(1),
            lane: Lane(0),
            term: Term(1),
            given_up: given_up.map(Arc::new),
        };
        assert_eq!(publish(&settings, &outgoing(None)).unwrap_err().kind(), ErrorKind::Rejected);
        let published = publish(&settings, &outgoing(Some(given_up))).unwrap().outbound_message("t");
        let headers = published.headers.unwrap();
        let of = |name: &str| headers.get(name).map(|value| value.as_str().to_owned());
        assert_eq!(of("dead-letter-nats-msg-id").as_deref(), Some("order-7"));
        assert_eq!(of("dead-letter-nats-ttl").as_deref(), Some("1h"));
        assert!(
            headers.iter().all(|(name, _)| !name.to_string().to_ascii_lowercase().starts_with("nats-")),
            "{headers:?}"
        );
    }

    #[test]
    fn an_attribute_of_nats_is_rejected_and_those_of_other_brokers_are_let_alone() {
        let settings = Settings::parse(&BrokerConfig::new("nats://a")).unwrap();
        let sent = |name: &str| {
            let outgoing = Outgoing {
                message: Arc::new(Message::new("t", "x").attribute(name, "1")),
                destination: Destination::new("t"),
                attempt: Attempt(1),
                lane: Lane(0),
                term: Term(1),
                given_up: None,
            };
            publish(&settings, &outgoing).map(|_| ())
        };
        assert!(sent("kafka.partition").is_ok());
        let error = sent("nats.retain").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.story().contains("\"nats.retain\""), "{error}");
    }

    #[test]
    fn subjects_that_nats_cannot_have_are_rejected() {
        for good in ["orders", "orders.placed", "a/b:c-d_e", "orders.$x", "a*b"] {
            assert_eq!(subject(&Destination::new(good)).unwrap(), good);
        }
        for bad in [
            "",
            ".",
            "a..b",
            ".a",
            "a.",
            "a b",
            "a.\t",
            "*",
            "a.*",
            "a.>",
            "$JS.API.STREAM.PURGE.x",
            "_INBOX.x",
            "a\r\nPUB",
        ] {
            assert_eq!(subject(&Destination::new(bad)).unwrap_err().kind(), ErrorKind::Rejected, "{bad:?}");
        }
    }
}
