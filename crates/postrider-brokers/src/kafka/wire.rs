//! What one message looks like in Kafka.

use postrider_core::{Destination, Error, ErrorKind, Outgoing, Result, TOKEN_HEADER};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;

use super::attributes::KafkaAttributes;
use super::place::Place;

/// The longest name of a topic.
const LONGEST_TOPIC: usize = 249;
/// The header of the content type.
const CONTENT_TYPE: &str = "content-type";

/// A record on its way to librdkafka.
pub(super) type Record<'a> = FutureRecord<'a, [u8], [u8]>;

/// The topic that a destination names.
///
/// # Errors
/// `Rejected` when Kafka can't have it.
pub(super) fn topic(destination: &Destination) -> Result<&str> {
    let text = destination.as_str();
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if (1..=LONGEST_TOPIC).contains(&text.len()) && text.chars().all(legal) && !matches!(text, "." | "..") {
        return Ok(text);
    }
    let text = format!(
        "{:?} is no topic of Kafka: expected at most 249 letters, digits, '.', '_' and '-'; name one in the route's \
         destination",
        text.chars().take(60).collect::<String>()
    );
    Err(Error::new(ErrorKind::Rejected, text))
}

/// The record of one message.
///
/// # Errors
/// `Rejected` for an attribute or a header that Kafka can't have; why the topic takes nothing.
pub(super) fn record<'a>(outgoing: &'a Outgoing, place: Option<&Place>) -> Result<Record<'a>> {
    let message = &outgoing.message;
    let topic = topic(&outgoing.destination)?;
    let asked = KafkaAttributes::of(message)?;
    let partitions = place.map_or(Ok(i32::MAX), Place::partitions)?;
    let mut record = FutureRecord::to(topic).headers(headers(outgoing)?);
    if let Some(partition) = asked.partition {
        if partition >= partitions {
            let text = format!(
                "the attribute \"kafka.partition\": expected a partition that the topic {topic:?} has, from 0 to {}",
                partitions - 1
            );
            return Err(Error::new(ErrorKind::Rejected, text));
        }
        record = record.partition(partition);
    }
    if let Some(timestamp) = asked.timestamp {
        record = record.timestamp(timestamp);
    }
    if let Some(key) = &message.key {
        record = record.key(key.as_str().as_bytes());
    }
    if !asked.tombstone {
        record = record.payload(&message.payload[..]);
    }
    Ok(record)
}

fn headers(outgoing: &Outgoing) -> Result<OwnedHeaders> {
    let message = &outgoing.message;
    let own = outgoing.wire_headers();
    let mut headers = OwnedHeaders::new_with_capacity(message.headers.len() + own.len() + 1);
    for (name, value) in message.headers.iter() {
        // Only a row that was written without the checks of enqueuing has such a name.
        if name.is_empty() || name.contains('\0') || is_reserved(name) {
            return Err(Error::new(ErrorKind::Rejected, format!("{name:?} can't be a header of a message")));
        }
        if message.content_type.is_none() || !name.eq_ignore_ascii_case(CONTENT_TYPE) {
            headers = headers.insert(Header { key: name, value: Some(value) });
        }
    }
    if let Some(content_type) = &message.content_type {
        headers = headers.insert(Header { key: CONTENT_TYPE, value: Some(content_type) });
    }
    for (name, value) in &own {
        headers = headers.insert(Header { key: name, value: Some(value) });
    }
    Ok(headers)
}

fn is_reserved(name: &str) -> bool {
    name.starts_with("postrider-") && name != TOKEN_HEADER
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postrider_core::{Attempt, Lane, Message, Term};

    use super::*;

    #[test]
    fn a_token_goes_with_its_message_and_no_other_name_of_the_relay_does() {
        let headers = |name: &str| {
            let message = Arc::new(Message::new("orders", "").header(name, "x"));
            let (destination, attempt) = (Destination::new("orders"), Attempt(1));
            super::headers(&Outgoing { message, destination, attempt, lane: Lane(0), term: Term(0), given_up: None })
        };
        assert!(headers(TOKEN_HEADER).is_ok());
        assert_eq!(headers("postrider-lane").unwrap_err().kind(), ErrorKind::Rejected);
    }

    #[test]
    fn topics_that_kafka_cannot_have_are_rejected() {
        let longest = "x".repeat(LONGEST_TOPIC);
        for good in ["orders", "orders.placed", "A_b-9", "...", &longest] {
            assert_eq!(topic(&Destination::new(good)).unwrap(), good);
        }
        let longer = "x".repeat(LONGEST_TOPIC + 1);
        for bad in ["", ".", "..", "a b", "a/b", "a:b", "gr\u{fc}n", "a\0", &longer] {
            assert_eq!(topic(&Destination::new(bad)).unwrap_err().kind(), ErrorKind::Rejected, "{bad:?}");
        }
    }
}
