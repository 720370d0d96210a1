//! What lies in a topic and can't be read: it holds up everything behind it, and the cluster is well all the while.

use std::time::{Duration, Instant};

use postrider_core::{Error, ErrorKind};
use rdkafka::error::RDKafkaErrorCode;

use super::settings::Settings;

/// How long what was told stands: the client asks again several times a second.
const LATELY: Duration = Duration::from_secs(10);
/// How often each kind of it is told in the log.
const AGAIN: Duration = Duration::from_secs(60);

/// What one member could not read.
#[derive(Debug, Default)]
pub(super) struct Unreadable {
    last: Option<(Instant, String)>,
    told: Vec<(RDKafkaErrorCode, Instant)>,
}

impl Unreadable {
    /// Notes what could not be read. Whether it is to be told in the log.
    pub(super) fn note(&mut self, code: RDKafkaErrorCode, text: String, now: Instant) -> bool {
        self.last = Some((now, text));
        match self.told.iter_mut().find(|(known, _)| *known == code) {
            Some((_, at)) if now.duration_since(*at) < AGAIN => return false,
            Some((_, at)) => *at = now,
            None => self.told.push((code, now)),
        }
        true
    }

    /// What could not be read lately. That something else was read does not end it, and it is no reason to end a consumer, who
    /// reads the other partitions meanwhile: so it is not `Config`.
    pub(super) fn lately(&self, now: Instant) -> Option<Error> {
        let (at, text) = self.last.as_ref()?;
        (now.duration_since(*at) < LATELY).then(|| Error::new(ErrorKind::Unavailable, text.clone()))
    }
}

/// What to do about something that can't be read; none for an answer that is about something else.
pub(super) fn advice(code: RDKafkaErrorCode) -> Option<&'static str> {
    use RDKafkaErrorCode as Code;
    Some(match code {
        Code::MessageSizeTooLarge | Code::InvalidMessageSize => {
            "raise the options consumer.receive.message.max.bytes and consumer.fetch.message.max.bytes above the largest message"
        }
        Code::BadCompression => {
            "this build does not know the compression, or the batch is damaged: have its producer compress in another way, \
             or move the group's position behind it (kafka-consumer-groups.sh --reset-offsets), which loses it"
        }
        Code::NotImplemented => {
            "it is of a form that this client does not know: move the group's position behind it \
             (kafka-consumer-groups.sh --reset-offsets), which loses it"
        }
        Code::BadMessage | Code::InvalidMessage | Code::Unknown => {
            "look at the log of the partition's server (kafka-dump-log.sh): repair it from another replica, or move the \
             group's position behind what is damaged (kafka-consumer-groups.sh --reset-offsets), which loses it"
        }
        _ => return None,
    })
}

/// What can't be read, in the client's words, and what to do.
pub(super) fn text(settings: &Settings, reason: &str, advice: &str) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let reason: String = reason.chars().take(300).map(clean).collect();
    let (topics, shown) = (settings.topics.join(", "), &settings.shown);
    format!("something in {topics} at {shown} can't be read, and what lies behind it waits: {reason}; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_read_is_told_from_a_connection_that_is_lost_and_with_what_to_do() {
        for (code, what) in [
            (RDKafkaErrorCode::BadMessage, "kafka-dump-log.sh"),
            (RDKafkaErrorCode::InvalidMessage, "kafka-dump-log.sh"),
            (RDKafkaErrorCode::Unknown, "kafka-dump-log.sh"),
            (RDKafkaErrorCode::BadCompression, "compress"),
            (RDKafkaErrorCode::NotImplemented, "--reset-offsets"),
            (RDKafkaErrorCode::MessageSizeTooLarge, "consumer.receive.message.max.bytes"),
            (RDKafkaErrorCode::InvalidMessageSize, "consumer.receive.message.max.bytes"),
        ] {
            assert!(advice(code).unwrap().contains(what), "{code:?}");
        }
        for code in [RDKafkaErrorCode::BrokerTransportFailure, RDKafkaErrorCode::TopicAuthorizationFailed] {
            assert_eq!(advice(code), None, "{code:?}");
        }
        let text = text(&Settings::test(), "Fetch from broker 1\nfailed at offset 7", "repair it");
        assert!(text.contains("failed at offset 7; repair it") && text.contains("orders"), "{text}");
    }

    #[test]
    fn it_is_told_once_in_a_minute_and_stands_as_long_as_it_is_heard() {
        let (began, mut unreadable) = (Instant::now(), Unreadable::default());
        let mut note = |code, seconds| {
            let at = began + Duration::from_secs(seconds);
            (unreadable.note(code, format!("{seconds}"), at), unreadable.lately(at + LATELY / 2).unwrap().to_string())
        };
        assert!(note(RDKafkaErrorCode::BadMessage, 0).0);
        assert!(!note(RDKafkaErrorCode::BadMessage, 59).0);
        assert!(note(RDKafkaErrorCode::BadCompression, 59).0);
        let (is_told, text) = note(RDKafkaErrorCode::BadMessage, 60);
        assert!(is_told && text.contains("60"), "{text}");
        assert!(unreadable.lately(began + Duration::from_secs(60) + LATELY).is_none());
    }
}
