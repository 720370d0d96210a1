//! A topic as the cluster knows it.

use std::collections::HashMap;

use postrider_core::{Error, ErrorKind, Result};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::metadata::Metadata;

use super::servers;
use crate::config::BrokerConfig;

/// What the cluster says of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// It is there.
    Topic {
        /// How many partitions it has.
        partitions: i32,
    },
    /// It is not there.
    Missing {
        /// The cluster, as it is shown.
        shown: String,
        /// Its name.
        topic: String,
    },
    /// Nothing can be published there.
    Refused(ErrorKind, String),
}

/// The topics of a batch.
pub(super) type Places = HashMap<String, Place>;

impl Place {
    /// What the metadata say of a topic.
    pub(super) fn in_metadata(shown: &str, topic: &str, metadata: &Metadata) -> Self {
        let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
            return Self::missing(shown, topic);
        };
        match found.error().map(RDKafkaErrorCode::from) {
            None => match i32::try_from(found.partitions().len()) {
                Ok(partitions) if partitions > 0 => Self::Topic { partitions },
                _ => Self::missing(shown, topic),
            },
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                Self::missing(shown, topic)
            }
            Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
                Self::Refused(ErrorKind::Config, forbidden(shown, topic))
            }
            Some(RDKafkaErrorCode::InvalidTopic) => {
                Self::Refused(ErrorKind::Rejected, format!("{shown} can't have a topic {topic:?}"))
            }
            Some(code) => Self::Refused(ErrorKind::Unavailable, format!("the topic {topic:?} at {shown}: {code}")),
        }
    }

    fn missing(shown: &str, topic: &str) -> Self {
        Self::Missing { shown: shown.to_owned(), topic: topic.to_owned() }
    }

    /// The number of partitions.
    ///
    /// # Errors
    /// Why nothing can be published there.
    pub(super) fn partitions(&self) -> Result<i32> {
        match self {
            Self::Topic { partitions } => Ok(*partitions),
            Self::Missing { shown, topic } => Err(no_topic(shown, topic)),
            Self::Refused(kind, text) => Err(Error::new(*kind, text.clone())),
        }
    }
}

/// A topic is missing, and what to do.
pub(super) fn no_topic(shown: &str, topic: &str) -> Error {
    Error::new(ErrorKind::Config, format!("no topic {topic:?} at {shown}")).advise(creation(shown, topic))
}

/// How to create a topic.
pub(super) fn creation(shown: &str, topic: &str) -> String {
    // An address that is shown was parsed before.
    let servers =
        servers::parse(&BrokerConfig::new(shown)).map_or_else(|_| "HOST:9092".to_owned(), |(servers, _)| servers);
    format!(
        "create it: kafka-topics.sh --create --topic {topic} --bootstrap-server {servers} --partitions 6 --replication-factor 3 \
         --config min.insync.replicas=2 (one server alone: --replication-factor 1, no --config)"
    )
}

/// What to do when a topic is forbidden.
pub(super) fn forbidden(shown: &str, topic: &str) -> String {
    format!(
        "the topic {topic:?} at {shown} is forbidden; give the relay's user the permissions Write and Describe on it"
    )
}
