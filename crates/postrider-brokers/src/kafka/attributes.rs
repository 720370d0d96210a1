//! What a message asks of Kafka alone.

use postrider_core::{Error, ErrorKind, Message, Result};

const PREFIX: &str = "kafka.";
/// The attribute that asks for a partition.
pub(super) const PARTITION: &str = "kafka.partition";
/// The last millisecond of the year 9999: beyond it, a date is a mistake.
const LATEST: i64 = 253_402_300_799_999;

/// The attributes of one message that begin with `kafka.`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct KafkaAttributes {
    /// The partition to use, whatever the key.
    pub(super) partition: Option<i32>,
    /// Milliseconds since 1970; never 0, which librdkafka takes for "now".
    pub(super) timestamp: Option<i64>,
    /// Whether the payload is null.
    pub(super) tombstone: bool,
}

impl KafkaAttributes {
    /// # Errors
    /// `Rejected` for an attribute that is unknown, has a bad value or does not fit the message.
    pub(super) fn of(message: &Message) -> Result<Self> {
        let mut found = Self::default();
        for (name, value) in message.attributes.iter() {
            let Some(own) = name.strip_prefix(PREFIX) else { continue };
            match own {
                "partition" => {
                    let number = value.parse().ok().filter(|number| *number >= 0);
                    found.partition = Some(number.ok_or_else(|| wrong(name, "the number of a partition, from 0"))?);
                }
                "timestamp" => {
                    let number = value.parse().ok().filter(|number| (1..=LATEST).contains(number));
                    let expected = "milliseconds since 1970, such as 1767225600000";
                    found.timestamp = Some(number.ok_or_else(|| wrong(name, expected))?);
                }
                "tombstone" => found.tombstone = value.parse().map_err(|_| wrong(name, "true or false"))?,
                _ => return Err(wrong(name, "kafka.partition, kafka.timestamp or kafka.tombstone")),
            }
        }
        if found.tombstone && !message.payload.is_empty() {
            return Err(wrong("kafka.tombstone", "an empty payload beside it: a tombstone has none"));
        }
        if found.tombstone && message.key.is_none() {
            return Err(wrong("kafka.tombstone", "a key: a tombstone deletes the messages of one"));
        }
        Ok(found)
    }
}

fn wrong(name: &str, expected: &str) -> Error {
    Error::new(ErrorKind::Rejected, format!("the attribute {name:?}: expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_and_those_of_other_brokers_are_let_alone() {
        let message = Message::new("t", "")
            .key("k")
            .attribute("kafka.partition", "3")
            .attribute("kafka.timestamp", "1767225600000")
            .attribute("kafka.tombstone", "true")
            .attribute("amqp.priority", "7");
        let found = KafkaAttributes::of(&message).unwrap();
        let expected = KafkaAttributes { partition: Some(3), timestamp: Some(1_767_225_600_000), tombstone: true };
        assert_eq!(found, expected);
        assert_eq!(KafkaAttributes::of(&Message::new("t", "x")).unwrap(), KafkaAttributes::default());
    }

    #[test]
    fn an_attribute_with_a_bad_value_says_what_was_expected_and_not_what_was_found() {
        for (name, value) in [
            ("kafka.partition", "-1"),
            ("kafka.partition", "canary"),
            ("kafka.partition", "99999999999"),
            ("kafka.timestamp", "0"),
            ("kafka.timestamp", "-5"),
            ("kafka.timestamp", "canary"),
            ("kafka.timestamp", "9999999999999999"),
            ("kafka.tombstone", "canary"),
            ("kafka.partitoin", "1"),
        ] {
            let error = KafkaAttributes::of(&Message::new("t", "").key("k").attribute(name, value)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{name}={value}");
            let text = error.to_string();
            assert!(text.contains("expected") && !text.contains("canary"), "{text}");
        }
    }

    #[test]
    fn a_tombstone_has_a_key_and_no_payload() {
        let tombstone = |message: Message| KafkaAttributes::of(&message.attribute("kafka.tombstone", "true"));
        assert!(tombstone(Message::new("t", "").key("k")).is_ok());
        assert!(tombstone(Message::new("t", "x").key("k")).unwrap_err().to_string().contains("empty payload"));
        assert!(tombstone(Message::new("t", "")).unwrap_err().to_string().contains("a key"));
        let no = Message::new("t", "x").attribute("kafka.tombstone", "false");
        assert!(!KafkaAttributes::of(&no).unwrap().tombstone);
    }
}
