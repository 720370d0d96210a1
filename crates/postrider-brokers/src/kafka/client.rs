//! The settings as librdkafka is told.

use postrider_core::Result;
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use super::line::Line;
use super::settings::Settings;

/// Bytes of the largest message that the client takes: what the outbox takes, with its headers. The topic's own limit
/// decides.
const LARGEST: usize = 66 << 20;
/// Kibibytes that wait in the client: above the relay's window and one message of the largest size.
const QUEUE: usize = 128 << 10;
/// How many milliseconds a topic that is not found (any more) may take to appear, after it was there before.
const PROPAGATION: usize = 3_000;

/// What a producer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use<'a> {
    /// Ordinary messages, as many in one request as it holds.
    Batches,
    /// One message per request, to find out which one of a batch is refused.
    Alone,
    /// Several messages of one key at once: nothing leaves behind one that failed, see [`series`](super::series).
    Series,
    /// The transactions of one id.
    Transactions(&'a str),
}

/// The settings of a producer.
pub(super) fn config(settings: &Settings, purpose: Use<'_>) -> ClientConfig {
    let mut native = ClientConfig::new();
    native.set_log_level(RDKafkaLogLevel::Info);
    for (name, value) in &settings.producer {
        native.set(name, value);
    }
    let timeout = settings.timeout.as_millis();
    native
        .set("bootstrap.servers", &settings.servers)
        .set("client.id", &settings.client_id)
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("max.in.flight.requests.per.connection", "5")
        .set("partitioner", "murmur2_random")
        .set("message.timeout.ms", timeout.to_string())
        .set("linger.ms", settings.linger.as_millis().to_string())
        .set("compression.type", &settings.compression)
        .set("message.max.bytes", LARGEST.to_string())
        .set("allow.auto.create.topics", "false");
    let mut default = |name: &str, value: &str| {
        if native.get(name).is_none() {
            native.set(name, value);
        }
    };
    default("queue.buffering.max.kbytes", &QUEUE.to_string());
    default("topic.metadata.propagation.max.ms", &PROPAGATION.to_string());
    default("socket.keepalive.enable", "true");
    default("socket.connection.setup.timeout.ms", "5000");
    default("reconnect.backoff.max.ms", "2000");
    settings.security.tell(&mut native);
    match purpose {
        Use::Batches => {}
        Use::Alone => {
            native.set("batch.num.messages", "1");
        }
        Use::Series => {
            native.set("enable.gapless.guarantee", "true").set("message.timeout.ms", "0");
        }
        Use::Transactions(id) => {
            // librdkafka wants it no shorter than the timeout of a message.
            native.set("transactional.id", id).set("transaction.timeout.ms", (timeout * 2).max(10_000).to_string());
        }
    }
    native
}

/// Whether librdkafka can work with the settings. It connects to nothing.
///
/// # Errors
/// `Config` otherwise.
pub(super) fn validate(settings: &Settings) -> Result<()> {
    let mut native = config(settings, Use::Batches);
    native.remove("bootstrap.servers");
    Line::new(&settings.shown, &native).map(drop)
}
