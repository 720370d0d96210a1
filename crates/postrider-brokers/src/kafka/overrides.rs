//! Further settings of librdkafka, and those that would take something from the promises.

use postrider_core::{Error, ErrorKind, Result};

use crate::config::BrokerConfig;
use crate::options::Options;

/// Settings that a table names and that are not to be changed, with the option that changes them, or why none does. A name that
/// ends with a dot stands for all that begin with it.
type Own = &'static [(&'static str, &'static str)];

/// What the settings are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Publishing: `producer.NAME`.
    Producer,
    /// Receiving: `consumer.NAME`.
    Consumer,
}

impl Side {
    /// What the options begin with.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Consumer => "consumer",
        }
    }

    fn own(self) -> Own {
        match self {
            Self::Producer => PRODUCER,
            Self::Consumer => CONSUMER,
        }
    }
}

/// What is fixed for publishing.
const PRODUCER: Own = &[
    ("acks", "an acknowledgement is that of every replica in sync"),
    ("request.required.acks", "an acknowledgement is that of every replica in sync"),
    ("enable.idempotence", "without it the client's own retries repeat and reorder"),
    ("enable.gapless.guarantee", "it is set where the order wants it"),
    ("max.in.flight", "more than 5 lose the order, and 5 are set"),
    ("max.in.flight.requests.per.connection", "more than 5 lose the order, and 5 are set"),
    ("partitioner", "keys go to the same partitions as those of Java's producer"),
    ("partitioner_cb", "keys go to the same partitions as those of Java's producer"),
    ("queuing.strategy", "lifo turns the order round"),
    ("message.send.max.retries", "retries end with the option timeout"),
    ("retries", "retries end with the option timeout"),
    ("message.timeout.ms", "use the option timeout"),
    ("delivery.timeout.ms", "use the option timeout"),
    ("request.timeout.ms", "use the option timeout"),
    ("linger.ms", "use the option linger"),
    ("queue.buffering.max.ms", "use the option linger"),
    ("compression.codec", "use the option compression"),
    ("compression.type", "use the option compression"),
    ("transactional.id", "use the option transactional_id_prefix"),
    ("transaction.timeout.ms", "it follows the option timeout"),
    ("message.max.bytes", "the topic's own limit decides"),
    ("delivery.report.only.error", "an acknowledgement must be told"),
    ("dr_cb", "an acknowledgement must be told"),
    ("dr_msg_cb", "an acknowledgement must be told"),
    ("produce.offset.report", "an acknowledgement must be told"),
];

/// What is fixed for receiving.
const CONSUMER: Own = &[
    ("group.id", "it is the name of the consumer"),
    ("group.instance.id", "several processes read with one configuration, and no two may have the same"),
    ("group.protocol", "positions are kept for the members of a classic group"),
    ("group.protocol.type", "positions are kept for the members of a classic group"),
    ("group.remote.assignor", "positions are kept for the members of a classic group"),
    ("partition.assignment.strategy", "all members of a group need the same, and it is cooperative-sticky"),
    ("enable.auto.commit", "a position is committed when every message before it is over"),
    ("auto.commit.enable", "a position is committed when every message before it is over"),
    ("auto.commit.interval.ms", "a position is committed when every message before it is over"),
    ("enable.auto.offset.store", "a position is committed when every message before it is over"),
    ("offset.store.", "positions are kept by Kafka"),
    ("auto.offset.reset", "a consumer that is new gets what is there, and none is left out"),
    ("isolation.level", "what was taken back in a transaction is no message"),
    ("enable.partition.eof", "the end of a partition is no message"),
    ("session.timeout.ms", "use the option session_timeout"),
    ("heartbeat.interval.ms", "it follows the option session_timeout"),
    ("rebalance_cb", "the client's own reports are needed"),
    ("consume_cb", "the client's own reports are needed"),
    ("offset_commit_cb", "the client's own reports are needed"),
    ("consume.callback.max.messages", "the client's own reports are needed"),
];

/// What is fixed for both.
const BOTH: Own = &[
    ("client.id", "use the option client_id"),
    ("bootstrap.servers", "name the servers in the URL"),
    ("metadata.broker.list", "name the servers in the URL"),
    ("allow.auto.create.topics", "a mistyped topic must be an error, not a new topic"),
    ("enabled_events", "the client's own reports are needed"),
    ("security.protocol", "use the option security"),
    ("enable.ssl.certificate.verification", "certificates are always verified"),
    ("ssl.", "use ca_file, client_cert_file, client_key_file and client_key_password"),
    ("sasl.", "use sasl, user and password"),
    ("enable.sasl.", "use sasl, user and password"),
    ("plugin.", "plugins run foreign code in the relay"),
    ("test.", "it is for librdkafka's own tests"),
    ("debug", "turn on the relay's own log at debug level for librdkafka's"),
    ("log_level", "turn on the relay's own log at debug level for librdkafka's"),
    ("builtin.features", "use the features kafka and kafka-tls when building"),
];

/// The settings given as `producer.NAME` or `consumer.NAME`.
///
/// # Errors
/// `Config` for a setting that is not to be changed, with the reason.
pub(super) fn parse(side: Side, config: &BrokerConfig, options: &Options<'_>) -> Result<Vec<(String, String)>> {
    let prefix = side.prefix();
    let settings = options.below(prefix)?;
    for (name, _) in &settings {
        // librdkafka takes these under two names, the second with this before it.
        let bare = name.strip_prefix("topic.").unwrap_or(name);
        let own = side.own().iter().chain(BOTH).find(|(own, _)| match own.strip_suffix('.') {
            Some(_) => bare.starts_with(own),
            None => bare == *own,
        });
        if let Some((_, why)) = own {
            let text = format!(
                "the broker {}: the option {:?} can't be set: {why}",
                config.shown(),
                format!("{prefix}.{name}")
            );
            return Err(Error::new(ErrorKind::Config, text));
        }
    }
    Ok(settings)
}
