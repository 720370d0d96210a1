//! What the cluster's refusals mean to a reader, and what to do about them.

use postrider_core::ErrorKind;
use rdkafka::error::RDKafkaErrorCode;

use super::settings::Settings;

/// What an answer of the cluster is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    /// It does not let us read; only a human can change that.
    Refused(String),
    /// It passes by itself, or is found out in another way.
    Passing,
    /// It is about the connection.
    Connection,
}

/// What an answer means.
pub(super) fn heard(settings: &Settings, code: RDKafkaErrorCode) -> Heard {
    use RDKafkaErrorCode as Code;
    let (shown, group) = (&settings.shown, &settings.group);
    Heard::Refused(match code {
        Code::GroupAuthorizationFailed => forbidden_group(settings),
        Code::TopicAuthorizationFailed => forbidden_topics(settings, &settings.topics),
        Code::InvalidSessionTimeout => format!(
            "{shown} does not take the option session_timeout; it allows from group.min.session.timeout.ms to \
             group.max.session.timeout.ms"
        ),
        Code::InconsistentGroupProtocol => format!(
            "the group {group:?} at {shown} has members of another kind: all of them need the assignment \
             cooperative-sticky; give this consumer another name, or end those"
        ),
        Code::InvalidGroupId => format!("{shown} can't have a group {group:?}; give the consumer another name"),
        Code::GroupMaxSizeReached => {
            format!("the group {group:?} at {shown} is full; end some of its members, or raise group.max.size")
        }
        // Topics that are missing are asked for by name; the others end with a rebalance.
        Code::UnknownTopicOrPartition
        | Code::UnknownTopic
        | Code::UnknownPartition
        | Code::PollExceeded
        | Code::RebalanceInProgress
        | Code::IllegalGeneration
        | Code::UnknownMemberId
        | Code::AssignmentLost
        | Code::NotCoordinator
        | Code::CoordinatorNotAvailable
        | Code::CoordinatorLoadInProgress => return Heard::Passing,
        _ => return Heard::Connection,
    })
}

/// What to do when the group is forbidden.
pub(super) fn forbidden_group(settings: &Settings) -> String {
    format!(
        "the group {:?} at {} is forbidden; give the consumer's user the permission Read on the group",
        settings.group, settings.shown
    )
}

/// What to do when topics are forbidden.
pub(super) fn forbidden_topics(settings: &Settings, topics: &[String]) -> String {
    let (noun, which) = if topics.len() == 1 { ("topic", "it") } else { ("topics", "them") };
    format!(
        "reading the {noun} {} at {} is forbidden; give the consumer's user the permissions Read and Describe on {which}",
        topics.join(", "),
        settings.shown
    )
}

/// What an answer to a position that was to be recorded means; none where it is to be sent again.
pub(super) fn commit(settings: &Settings, code: Option<RDKafkaErrorCode>) -> Option<(ErrorKind, String)> {
    match heard(settings, code?) {
        Heard::Refused(text) => Some((ErrorKind::Config, format!("recording what is over: {text}"))),
        Heard::Passing | Heard::Connection => None,
    }
}

/// Whether an answer to several positions may be about some of them, while the others would be recorded alone: the client tells
/// one for all.
pub(super) fn may_be_of_one(settings: &Settings, code: Option<RDKafkaErrorCode>) -> bool {
    use RDKafkaErrorCode as Code;
    let is_missing = matches!(code, Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition));
    is_missing || commit(settings, code).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_which_right_is_missing() {
        let settings = Settings::test();
        for (code, advice) in [
            (RDKafkaErrorCode::GroupAuthorizationFailed, "Read on the group"),
            (RDKafkaErrorCode::TopicAuthorizationFailed, "Read and Describe on it"),
            (RDKafkaErrorCode::InconsistentGroupProtocol, "cooperative-sticky"),
            (RDKafkaErrorCode::InvalidSessionTimeout, "session_timeout"),
        ] {
            let Heard::Refused(text) = heard(&settings, code) else { panic!("{code:?} is a refusal") };
            assert!(text.contains(advice), "{text}");
            assert_eq!(commit(&settings, Some(code)).unwrap().0, ErrorKind::Config);
            assert!(may_be_of_one(&settings, Some(code)));
        }
    }

    #[test]
    fn a_topic_that_is_missing_is_told_from_what_concerns_every_position() {
        let settings = Settings::test();
        for code in [RDKafkaErrorCode::UnknownTopicOrPartition, RDKafkaErrorCode::UnknownPartition] {
            assert!(may_be_of_one(&settings, Some(code)), "{code:?}");
            assert_eq!(commit(&settings, Some(code)), None, "{code:?}");
        }
        for code in [RDKafkaErrorCode::IllegalGeneration, RDKafkaErrorCode::BrokerTransportFailure] {
            assert!(!may_be_of_one(&settings, Some(code)), "{code:?}");
        }
    }

    #[test]
    fn what_passes_is_no_refusal_and_is_tried_again() {
        let settings = Settings::test();
        for code in [
            RDKafkaErrorCode::RebalanceInProgress,
            RDKafkaErrorCode::IllegalGeneration,
            RDKafkaErrorCode::BrokerTransportFailure,
            RDKafkaErrorCode::WaitingForCoordinator,
            RDKafkaErrorCode::RequestTimedOut,
        ] {
            assert!(!matches!(heard(&settings, code), Heard::Refused(_)), "{code:?}");
            assert_eq!(commit(&settings, Some(code)), None, "{code:?}");
        }
        assert_eq!(commit(&settings, None), None);
    }
}
