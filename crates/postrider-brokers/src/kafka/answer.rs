//! What Kafka's and librdkafka's answers mean.

use postrider_core::{Error, ErrorKind, Published};
use rdkafka::error::RDKafkaErrorCode;

use super::place;

/// Classifies a delivery that failed: the message was with librdkafka, which had tried for as long as it may.
///
/// Only what certainly was not stored is anything but `Unknown`. That librdkafka retries by itself makes an answer such
/// as "not the leader" uncertain: the attempt before it may have arrived.
pub(super) fn delivery(shown: &str, topic: &str, code: RDKafkaErrorCode) -> Error {
    use RDKafkaErrorCode as Code;
    let doing = |what: &str| format!("publishing to {topic:?} at {shown}: {what}");
    let (kind, text) = match code {
        Code::UnknownTopic | Code::UnknownTopicOrPartition => return place::no_topic(shown, topic),
        Code::UnknownPartition => (ErrorKind::Config, doing("the partition is not there (any more)")),
        Code::TopicAuthorizationFailed => (ErrorKind::Config, place::forbidden(shown, topic)),
        Code::ClusterAuthorizationFailed => (
            ErrorKind::Config,
            doing("not permitted; give the relay's user the permission IdempotentWrite on the cluster"),
        ),
        Code::TransactionalIdAuthorizationFailed => (
            ErrorKind::Config,
            doing("not permitted; give the relay's user the permissions Write and Describe on its transactional ids"),
        ),
        Code::SaslAuthenticationFailed | Code::Authentication | Code::UnsupportedSASLMechanism => {
            (ErrorKind::Config, doing("the login was refused; check sasl, user and password"))
        }
        Code::UnsupportedForMessageFormat | Code::UnsupportedCompressionType | Code::UnsupportedVersion => {
            (ErrorKind::Config, doing("the server is too old for what is asked of it; check compression"))
        }
        Code::InvalidRequiredAcks => (ErrorKind::Config, doing("the server does not acknowledge for all replicas")),
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge | Code::InvalidMessageSize => {
            (ErrorKind::Rejected, doing("the message with its headers is larger than the topic's max.message.bytes"))
        }
        Code::InvalidRecord | Code::InvalidMessage => {
            (ErrorKind::Rejected, doing("the record is refused; does a compacted topic get a message without a key?"))
        }
        Code::InvalidTimestamp => {
            (ErrorKind::Rejected, doing("kafka.timestamp is further from now than the topic allows"))
        }
        Code::PolicyViolation => (ErrorKind::Rejected, doing("a policy of the server refuses it")),
        Code::InvalidTopic => (ErrorKind::Rejected, doing("Kafka can't have such a topic")),
        Code::ThrottlingQuotaExceeded => (ErrorKind::Throttled, doing("a quota of the server is used up")),
        Code::MessageTimedOut => (
            ErrorKind::Unknown,
            doing(
                "no acknowledgement in time; is its leader there, and are min.insync.replicas of its replicas there?",
            ),
        ),
        Code::ProducerFenced | Code::Fenced | Code::InvalidProducerEpoch => {
            (ErrorKind::Unknown, doing("the producer was replaced by another one of its id"))
        }
        _ => (ErrorKind::Unknown, doing("no acknowledgement")),
    };
    Error::new(kind, text).because(code.to_string())
}

/// Classifies a message that librdkafka did not take: it certainly never left.
pub(super) fn not_taken(shown: &str, topic: &str, code: Option<RDKafkaErrorCode>) -> Error {
    use RDKafkaErrorCode as Code;
    let doing = |what: &str| format!("publishing to {topic:?} at {shown}: {what}");
    match code {
        Some(Code::QueueFull) => Error::new(ErrorKind::Throttled, doing("the client's queue stayed full")).unsent(),
        // These are about the message or its topic: they count as judged.
        Some(
            code @ (Code::MessageSizeTooLarge
            | Code::UnknownTopic
            | Code::UnknownTopicOrPartition
            | Code::UnknownPartition
            | Code::TopicAuthorizationFailed
            | Code::InvalidTopic),
        ) => delivery(shown, topic, code),
        Some(code) => {
            Error::new(ErrorKind::Unavailable, doing("the client did not take it")).because(code.to_string()).unsent()
        }
        None => Error::new(ErrorKind::Rejected, doing("the record can't be written down for Kafka")),
    }
}

/// Whether an answer that came for a whole batch of librdkafka's may be due to another message in it.
pub(super) fn may_be_a_neighbour(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::MessageSizeTooLarge
            | Code::MessageBatchTooLarge
            | Code::InvalidMessageSize
            | Code::InvalidRecord
            | Code::InvalidMessage
            | Code::InvalidTimestamp
            | Code::PolicyViolation
            // Said by the client of those beside the records that the server names (KIP-467).
            | Code::InvalidDifferentRecord
    )
}

/// Whether an answer says that the topic is not what it was taken for.
pub(super) fn is_about_the_topic(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition | Code::TopicAuthorizationFailed
    )
}

/// The same failure for every message of a batch.
pub(super) fn all(length: usize, error: &Error) -> Vec<Published> {
    (0..length).map(|_| Published::Failed(again(error))).collect()
}

/// The same error once more.
pub(super) fn again(error: &Error) -> Error {
    let copy = Error::new(error.kind(), error.story());
    if error.is_unsent() { copy.unsent() } else { copy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stood_beside_a_refused_record_is_asked_about_alone() {
        assert!(may_be_a_neighbour(RDKafkaErrorCode::InvalidDifferentRecord));
        assert!(!may_be_a_neighbour(RDKafkaErrorCode::MessageTimedOut), "it is not known to be refused");
    }

    #[test]
    fn what_is_not_certain_is_unknown() {
        use RDKafkaErrorCode as Code;
        for code in [
            Code::MessageTimedOut,
            Code::RequestTimedOut,
            Code::OperationTimedOut,
            Code::BrokerTransportFailure,
            Code::AllBrokersDown,
            Code::NotLeaderForPartition,
            Code::LeaderNotAvailable,
            Code::NotEnoughReplicas,
            Code::NotEnoughReplicasAfterAppend,
            Code::KafkaStorageError,
            Code::OutOfOrderSequenceNumber,
            Code::UnknownProducerId,
            Code::PurgeQueue,
            Code::PurgeInflight,
            Code::Fatal,
            Code::GaplessGuarantee,
            Code::Unknown,
        ] {
            let error = delivery("kafka://h", "t", code);
            assert_eq!((error.kind(), error.is_unsent()), (ErrorKind::Unknown, false), "{code:?}");
        }
    }

    #[test]
    fn what_a_human_must_do_is_said() {
        use RDKafkaErrorCode as Code;
        for (code, advice) in [
            (Code::UnknownTopicOrPartition, "--create --topic t"),
            (Code::TopicAuthorizationFailed, "Write and Describe"),
            (Code::ClusterAuthorizationFailed, "IdempotentWrite"),
            (Code::SaslAuthenticationFailed, "user and password"),
        ] {
            let error = delivery("kafka://h", "t", code);
            assert_eq!(error.kind(), ErrorKind::Config, "{code:?}");
            assert!(error.to_string().contains(advice), "{error}");
        }
    }

    #[test]
    fn what_the_client_did_not_take_was_never_sent_unless_it_was_judged() {
        use RDKafkaErrorCode as Code;
        let full = not_taken("kafka://h", "t", Some(Code::QueueFull));
        assert_eq!((full.kind(), full.is_unsent()), (ErrorKind::Throttled, true));
        let fatal = not_taken("kafka://h", "t", Some(Code::Fatal));
        assert_eq!((fatal.kind(), fatal.is_unsent()), (ErrorKind::Unavailable, true));
        let large = not_taken("kafka://h", "t", Some(Code::MessageSizeTooLarge));
        assert_eq!((large.kind(), large.is_unsent()), (ErrorKind::Rejected, false));
    }
}
