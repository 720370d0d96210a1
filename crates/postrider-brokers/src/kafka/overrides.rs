//! Further settings of librdkafka, and those that would take something from the promises.

use postrider_core::{Error, ErrorKind, Result};

use crate::config::BrokerConfig;
use crate::options::Options;

/// The prefix of these options.
const PREFIX: &str = "producer";

/// Settings that are this backend's own, with the option that changes them, or why none does. A name that ends with a
/// dot stands for all that begin with it.
const OWN: &[(&str, &str)] = &[
    ("acks", "an acknowledgement is that of every replica in sync"),
    ("request.required.acks", "an acknowledgement is that of every replica in sync"),
    ("enable.idempotence", "without it the client's own retries repeat and reorder"),
    ("enable.gapless.guarantee", "order is kept by waiting for each message of a key"),
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
    ("client.id", "use the option client_id"),
    ("transactional.id", "use the option transactional_id_prefix"),
    ("transaction.timeout.ms", "it follows the option timeout"),
    ("bootstrap.servers", "name the servers in the URL"),
    ("metadata.broker.list", "name the servers in the URL"),
    ("allow.auto.create.topics", "a mistyped topic must be an error, not a new topic"),
    ("message.max.bytes", "the topic's own limit decides"),
    ("delivery.report.only.error", "an acknowledgement must be told"),
    ("dr_cb", "an acknowledgement must be told"),
    ("dr_msg_cb", "an acknowledgement must be told"),
    ("produce.offset.report", "an acknowledgement must be told"),
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

/// The settings given as `producer.NAME`.
///
/// # Errors
/// `Config` for a setting that is not to be changed, with the reason.
pub(super) fn parse(config: &BrokerConfig, options: &Options<'_>) -> Result<Vec<(String, String)>> {
    let settings = options.below(PREFIX)?;
    for (name, _) in &settings {
        // librdkafka takes these under two names, the second with this before it.
        let bare = name.strip_prefix("topic.").unwrap_or(name);
        let own = OWN.iter().find(|(own, _)| match own.strip_suffix('.') {
            Some(_) => bare.starts_with(own),
            None => bare == *own,
        });
        if let Some((_, why)) = own {
            let text = format!(
                "the broker {}: the option {:?} can't be set: {why}",
                config.shown(),
                format!("{PREFIX}.{name}")
            );
            return Err(Error::new(ErrorKind::Config, text));
        }
    }
    Ok(settings)
}
