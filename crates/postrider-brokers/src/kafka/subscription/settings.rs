//! What the configuration of a consumer says, and as librdkafka is told.

use std::fmt;
use std::time::Duration;

use postrider_core::{Destination, Error, ErrorKind, Result};
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::BaseConsumer;

use super::super::line::refused;
use super::super::listener::Listener;
use super::super::overrides::{self, Side};
use super::super::security::Security;
use super::super::settings::LONGEST_NAME;
use super::super::{servers, wire};
use crate::config::{BrokerConfig, SubscriptionConfig};
use crate::options::Options;

/// Options that say how to publish.
const PUBLISHING: [&str; 4] = ["linger", "compression", "transactional_id_prefix", "producer"];
/// Kibibytes that wait in the client; what waits here is counted besides.
const QUEUE: usize = 4 << 10;
/// How much more than what waits in the client waits here before the client is told to stop. A client that is told to stop drops
/// what it has and fetches it again: the more waits here, the less is fetched twice.
const MORE: usize = 4;
/// Milliseconds until a topic or a partition that is new is found.
const DISCOVERY: usize = 10_000;
/// Milliseconds that the program may hang before its messages go to others, where no setting says how many.
const HANGING: u128 = 300_000;

/// The settings of one consumer.
pub(super) struct Settings {
    /// The URL without credentials: fit for logs and errors.
    pub(super) shown: String,
    /// The group.
    pub(super) group: String,
    /// The topics, each once.
    pub(super) topics: Vec<String>,
    /// How long a word to the broker may take.
    pub(super) timeout: Duration,
    pub(super) security: Security,
    servers: String,
    client_id: String,
    session_timeout: Duration,
    /// Further settings of librdkafka; their values are shown nowhere.
    further: Vec<(String, String)>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let further: Vec<&String> = self.further.iter().map(|(name, _)| name).collect();
        f.debug_struct("Settings")
            .field("servers", &self.shown)
            .field("group", &self.group)
            .field("topics", &self.topics)
            .field("timeout", &self.timeout)
            .field("session_timeout", &self.session_timeout)
            .field("client_id", &self.client_id)
            .field("security", &self.security)
            .field("consumer", &further)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads the URL and the options, the name of the consumer and what it reads.
    ///
    /// # Errors
    /// `Config` for what makes no sense, and for what this build can't do.
    pub(super) fn parse(config: &SubscriptionConfig) -> Result<Self> {
        let broker = &config.broker;
        only_receiving(broker)?;
        let options = Options::with_query(broker);
        let (servers, login) = servers::parse(broker)?;
        let second = Duration::from_secs(1);
        let timeout = options.duration("timeout", second * 20, second..=second * 30)?;
        let session_timeout = options.duration("session_timeout", second * 45, second..=second * 1800)?;
        let client_id = options.text("client_id")?.unwrap_or_else(|| "postrider".to_owned());
        if !is_name(&client_id) {
            return Err(options.wrong("client_id", "1 to 200 characters"));
        }
        let security = Security::parse(broker, &options, login)?;
        let further = overrides::parse(Side::Consumer, broker, &options)?;
        options.finish()?;
        let shown = broker.shown();
        if !is_name(&config.consumer) {
            let text = format!("the name of a consumer of {shown} is its group: expected 1 to 200 characters");
            return Err(Error::new(ErrorKind::Config, text));
        }
        let settings = Self {
            topics: topics(&shown, &config.from)?,
            shown,
            group: config.consumer.clone(),
            timeout,
            security,
            servers,
            client_id,
            session_timeout,
            further,
        };
        settings.validate()?;
        Ok(settings)
    }

    /// As librdkafka is told.
    pub(super) fn native(&self) -> ClientConfig {
        let mut native = self.bare();
        for (name, value) in &self.further {
            native.set(name, value);
        }
        let session = self.session_timeout.as_millis();
        native
            .set("group.id", &self.group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest")
            .set("isolation.level", "read_committed")
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("session.timeout.ms", session.to_string())
            .set("heartbeat.interval.ms", (session / 3).min(3_000).to_string());
        let mut default = |name: &str, value: &str| {
            if native.get(name).is_none() {
                native.set(name, value);
            }
        };
        default("max.poll.interval.ms", &HANGING.max(session).to_string());
        default("queued.max.messages.kbytes", &QUEUE.to_string());
        // Longer, and a small queue is empty before it is filled again.
        default("fetch.queue.backoff.ms", "20");
        default("fetch.max.bytes", "8388608");
        default("topic.metadata.refresh.interval.ms", &DISCOVERY.to_string());
        // An answer that does not come must be known before those who wait for it have given up.
        default("socket.timeout.ms", "10000");
        native
    }

    /// A client that only reaches the cluster: no group, nothing about reading.
    pub(super) fn bare(&self) -> ClientConfig {
        let mut native = ClientConfig::new();
        native.set_log_level(RDKafkaLogLevel::Info);
        native
            .set("bootstrap.servers", &self.servers)
            .set("client.id", &self.client_id)
            .set("allow.auto.create.topics", "false")
            .set("socket.keepalive.enable", "true")
            .set("socket.connection.setup.timeout.ms", "5000")
            .set("reconnect.backoff.max.ms", "2000");
        self.security.tell(&mut native);
        native
    }

    /// Bytes that wait here before the client is told to stop, and those at which it goes on.
    pub(super) fn marks(&self) -> (usize, usize) {
        let set = self.further.iter().find(|(name, _)| name == "queued.max.messages.kbytes");
        let kibibytes = set.and_then(|(_, value)| value.parse().ok()).unwrap_or(QUEUE);
        let high = kibibytes.saturating_mul(1 << 10).saturating_mul(MORE);
        (high, high / 2)
    }

    /// Whether librdkafka can work with the settings. It connects to nothing.
    fn validate(&self) -> Result<()> {
        let mut native = self.native();
        native.remove("bootstrap.servers");
        // A member of a group would look for its coordinator when it ends.
        native.remove("group.id");
        let made: Result<BaseConsumer<Listener>, _> = native.create_with_context(Listener::default());
        let consumer = made.map_err(|error| refused("consumer", &self.shown, &error))?;
        // Destroying a client waits for its threads.
        drop(std::thread::Builder::new().name("kafka-end".to_owned()).spawn(move || drop(consumer)));
        Ok(())
    }
}

fn is_name(text: &str) -> bool {
    (1..=LONGEST_NAME).contains(&text.len()) && !text.contains(char::is_control)
}

fn only_receiving(config: &BrokerConfig) -> Result<()> {
    let query = config.url.split_once('?').map_or("", |(_, query)| query).split('#').next().unwrap_or_default();
    let in_query = url::form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name.into_owned());
    for name in config.options.keys().cloned().chain(in_query) {
        let first = name.split('.').next().unwrap_or_default();
        if PUBLISHING.contains(&name.as_str()) || first == Side::Producer.prefix() {
            let advice =
                if first == Side::Producer.prefix() { "; settings for receiving are consumer.NAME" } else { "" };
            let text = format!(
                "the option {name:?} of the broker {} is for publishing: leave it out where messages are received{advice}",
                config.shown()
            );
            return Err(Error::new(ErrorKind::Config, text));
        }
    }
    Ok(())
}

fn topics(shown: &str, from: &[String]) -> Result<Vec<String>> {
    let mut topics: Vec<String> = Vec::new();
    for name in from {
        wire::topic(&Destination::new(name)).map_err(|_| {
            let name: String = name.chars().take(60).collect();
            let expected = "expected at most 249 letters, digits, '.', '_' and '-', and no patterns";
            Error::new(ErrorKind::Config, format!("{name:?} is no topic of Kafka ({shown}): {expected}"))
        })?;
        if !topics.contains(name) {
            topics.push(name.clone());
        }
    }
    match topics.is_empty() {
        true => Err(Error::new(ErrorKind::Config, format!("a consumer of {shown} reads nothing: name a topic"))),
        false => Ok(topics),
    }
}

#[cfg(test)]
impl Settings {
    /// The settings of a consumer of one topic, for tests.
    pub(super) fn test() -> Self {
        Self::parse(&SubscriptionConfig::new(BrokerConfig::new("kafka://a"), "billing", "orders")).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(broker: BrokerConfig) -> SubscriptionConfig {
        SubscriptionConfig::new(broker, "billing", "orders")
    }

    fn refusal(config: &SubscriptionConfig) -> String {
        let error = Settings::parse(config).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        error.to_string()
    }

    #[test]
    fn the_group_and_the_topics_are_those_of_the_consumer() {
        let config =
            reading(BrokerConfig::new("kafka://a,b:1?session_timeout=6s")).and_from("orders").and_from("bills");
        let settings = Settings::parse(&config).unwrap();
        let native = settings.native();
        let told = |name: &str| native.get(name).map(str::to_owned).unwrap_or_default();
        assert_eq!((settings.topics.join(","), told("group.id")), ("orders,bills".into(), "billing".into()));
        assert_eq!((told("bootstrap.servers"), told("session.timeout.ms")), ("a:9092,b:1".into(), "6000".into()));
        assert_eq!((told("heartbeat.interval.ms"), told("isolation.level")), ("2000".into(), "read_committed".into()));
    }

    #[test]
    fn an_option_of_publishing_is_refused_as_such() {
        for (broker, name) in [
            (BrokerConfig::new("kafka://a?linger=5ms"), "\"linger\""),
            (BrokerConfig::new("kafka://a").option("compression", "canary"), "\"compression\""),
            (BrokerConfig::new("kafka://a").option("transactional_id_prefix", "canary"), "\"transactional_id_prefix\""),
            (BrokerConfig::new("kafka://a").option("producer.batch.size", 7), "consumer.NAME"),
            (BrokerConfig::new("kafka://a").option("producer", serde_json::json!({ "acks": 1 })), "consumer.NAME"),
        ] {
            let text = refusal(&reading(broker));
            assert!(text.contains(name) && text.contains("for publishing") && !text.contains("canary"), "{text}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_was_expected() {
        for (config, expected) in [
            (reading(BrokerConfig::new("kafka://a?sesion_timeout=6s")), "did you mean \"session_timeout\"?"),
            (reading(BrokerConfig::new("kafka://a?session_timeout=1ms")), "\"session_timeout\""),
            (reading(BrokerConfig::new("kafka://u:canary@a")), "scram-sha-256"),
            (SubscriptionConfig { from: vec![], ..reading(BrokerConfig::new("kafka://a")) }, "name a topic"),
            (SubscriptionConfig { consumer: String::new(), ..reading(BrokerConfig::new("kafka://a")) }, "its group"),
            (reading(BrokerConfig::new("kafka://a")).and_from("^orders.*"), "no patterns"),
            (reading(BrokerConfig::new("kafka://a?consumer.no.such.thing=canary")), "no.such.thing"),
            (reading(BrokerConfig::new("kafka://a?consumer.max.poll.interval.ms=canary")), "max.poll.interval.ms"),
            (reading(BrokerConfig::new("kafka://a?consumer.enable.auto.commit=canary")), "every message before it"),
            (reading(BrokerConfig::new("kafka://a?consumer.group.id=canary")), "the name of the consumer"),
            (reading(BrokerConfig::new("kafka://a?consumer.ssl.ca.location=canary")), "ca_file"),
        ] {
            let text = refusal(&config);
            assert!(text.contains(expected) && !text.contains("canary"), "{text}");
        }
    }

    #[test]
    fn other_settings_of_librdkafka_are_taken_and_no_value_is_shown() {
        let config = reading(BrokerConfig::new("kafka://u:canary@a?sasl=plain&consumer.queued.max.messages.kbytes=64"));
        let settings = Settings::parse(&config).unwrap();
        assert_eq!(settings.marks(), (256 << 10, 128 << 10));
        assert_eq!(settings.native().get("queued.max.messages.kbytes"), Some("64"));
        let shown = format!("{settings:?}");
        assert!(!shown.contains("canary") && shown.contains("billing"), "{shown}");
    }
}
