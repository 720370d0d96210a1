//! What the configuration of a Kafka broker says.

use std::fmt;
use std::time::Duration;

use postrider_core::Result;

use super::overrides::Side;
use super::security::Security;
use super::{overrides, servers};
use crate::config::BrokerConfig;
use crate::options::Options;

/// The codecs that this client writes.
const CODECS: [&str; 5] = ["lz4", "zstd", "snappy", "gzip", "none"];
/// The longest name that Kafka gets from us.
pub(super) const LONGEST_NAME: usize = 200;

/// The settings of one Kafka broker.
pub(super) struct Settings {
    /// The URL without credentials: fit for logs and errors.
    pub(super) shown: String,
    /// `host:port`, parted by commas.
    pub(super) servers: String,
    pub(super) timeout: Duration,
    pub(super) linger: Duration,
    pub(super) compression: String,
    pub(super) client_id: String,
    pub(super) security: Security,
    pub(super) transactional_id_prefix: Option<String>,
    /// Further settings of librdkafka; their values are shown nowhere.
    pub(super) producer: Vec<(String, String)>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let producer: Vec<&String> = self.producer.iter().map(|(name, _)| name).collect();
        f.debug_struct("Settings")
            .field("servers", &self.shown)
            .field("timeout", &self.timeout)
            .field("linger", &self.linger)
            .field("compression", &self.compression)
            .field("client_id", &self.client_id)
            .field("security", &self.security)
            .field("transactional_id_prefix", &self.transactional_id_prefix)
            .field("producer", &producer)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads the URL and the options.
    ///
    /// # Errors
    /// `Config` for what makes no sense, and for what this build can't do.
    pub(super) fn parse(config: &BrokerConfig) -> Result<Self> {
        let options = Options::with_query(config);
        let (servers, login) = servers::parse(config)?;
        let second = Duration::from_secs(1);
        let timeout = options.duration("timeout", second * 20, second..=second * 30)?;
        let linger = options.duration("linger", Duration::from_millis(1), Duration::ZERO..=second)?;
        let compression = options.text("compression")?.unwrap_or_else(|| "lz4".to_owned());
        if !CODECS.contains(&compression.as_str()) {
            return Err(options.wrong("compression", "lz4, zstd, snappy, gzip or none"));
        }
        let named = |name: &str| {
            let found = options.text(name)?;
            let bad = |text: &String| text.is_empty() || text.len() > LONGEST_NAME || text.contains(char::is_control);
            match found.as_ref().is_some_and(bad) {
                true => Err(options.wrong(name, "1 to 200 characters")),
                false => Ok(found),
            }
        };
        let client_id = named("client_id")?.unwrap_or_else(|| "postrider".to_owned());
        let transactional_id_prefix = named("transactional_id_prefix")?;
        let security = Security::parse(config, &options, login)?;
        let producer = overrides::parse(Side::Producer, config, &options)?;
        options.finish()?;
        Ok(Self {
            shown: config.shown(),
            servers,
            timeout,
            linger,
            compression,
            client_id,
            security,
            transactional_id_prefix,
            producer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::client;
    use super::*;

    fn parse(config: BrokerConfig) -> Result<Settings> {
        let settings = Settings::parse(&config)?;
        client::validate(&settings)?;
        Ok(settings)
    }

    fn refusal(config: BrokerConfig) -> String {
        let error = parse(config).unwrap_err();
        assert_eq!(error.kind(), postrider_core::ErrorKind::Config, "{error}");
        error.to_string()
    }

    #[test]
    fn options_stand_in_the_table_or_in_the_query() {
        let settings = parse(BrokerConfig::new("kafka://a,b:1?timeout=2s&compression=zstd&linger=0ms")).unwrap();
        assert_eq!((settings.timeout, settings.linger), (Duration::from_secs(2), Duration::ZERO));
        assert_eq!((settings.servers.as_str(), settings.compression.as_str()), ("a:9092,b:1", "zstd"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_was_expected() {
        for (config, expected) in [
            (BrokerConfig::new("kafka://a?timeuot=2s"), "did you mean \"timeout\"?"),
            (BrokerConfig::new("kafka://a?timeout=2h"), "\"timeout\""),
            (BrokerConfig::new("kafka://a?compression=rar"), "lz4, zstd"),
            (BrokerConfig::new("kafka://a?transactional_id_prefix="), "1 to 200"),
            (BrokerConfig::new("kafka://a?security=ssl"), "plaintext or tls"),
            (BrokerConfig::new("kafka+ssl://a?security=plaintext"), "kafka+ssl says"),
            (BrokerConfig::new("kafka://u:canary@a"), "scram-sha-256"),
            (BrokerConfig::new("kafka://a?sasl=plain"), "user and password"),
            (BrokerConfig::new("kafka://a?sasl=kerberos"), "scram-sha-256"),
            (BrokerConfig::new("kafka://a").option("user", "canary"), "together"),
            (BrokerConfig::new("kafka://a?ca_file=/etc/hostname"), "TLS beside it"),
            (BrokerConfig::new("kafka+ssl://a?ca_file=/no/such"), "/no/such"),
            (BrokerConfig::new("kafka+ssl://a?client_key_file=/etc/hostname"), "together"),
            (BrokerConfig::new("kafka://a").option("producer", "x"), "a table of settings"),
        ] {
            let text = refusal(config);
            assert!(text.contains(expected) && !text.contains("canary"), "{text}");
        }
    }

    #[test]
    fn a_setting_of_librdkafka_that_would_weaken_a_promise_is_refused_with_the_reason() {
        for (name, why) in [
            ("acks", "every replica"),
            ("topic.acks", "every replica"),
            ("request.required.acks", "every replica"),
            ("enable.idempotence", "repeat and reorder"),
            ("max.in.flight", "more than 5"),
            ("partitioner", "Java's"),
            ("queuing.strategy", "lifo"),
            ("message.timeout.ms", "option timeout"),
            ("transactional.id", "transactional_id_prefix"),
            ("allow.auto.create.topics", "mistyped"),
            ("ssl.ca.location", "ca_file"),
            ("sasl.password", "use sasl"),
            ("enable.ssl.certificate.verification", "always verified"),
            ("plugin.library.paths", "foreign code"),
            ("bootstrap.servers", "in the URL"),
        ] {
            let text = refusal(BrokerConfig::new("kafka://a").option(format!("producer.{name}"), "canary"));
            assert!(text.contains(why) && text.contains(name) && !text.contains("canary"), "{text}");
        }
    }

    #[test]
    fn other_settings_of_librdkafka_are_taken_in_each_way_to_write_them() {
        let tables = serde_json::json!({ "batch": { "size": 20000 }, "socket.keepalive.enable": true });
        let config = BrokerConfig::new("kafka://a?producer.metadata.max.age.ms=9000")
            .option("producer", tables)
            .option("producer.batch.num.messages", "7");
        let settings = parse(config).unwrap();
        let find =
            |name: &str| settings.producer.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
        assert_eq!(find("batch.size"), Some("20000"));
        assert_eq!(find("socket.keepalive.enable"), Some("true"));
        assert_eq!(find("metadata.max.age.ms"), Some("9000"));
        assert_eq!(find("batch.num.messages"), Some("7"));
    }

    #[test]
    fn what_librdkafka_does_not_know_or_take_is_refused_without_the_value() {
        let text = refusal(BrokerConfig::new("kafka://a").option("producer.no.such.thing", "canary"));
        assert!(text.contains("no.such.thing") && !text.contains("canary"), "{text}");
        let text = refusal(BrokerConfig::new("kafka://a").option("producer.batch.size", "canary"));
        assert!(text.contains("batch.size") && !text.contains("canary"), "{text}");
    }

    #[test]
    fn credentials_are_shown_nowhere() {
        let settings = parse(BrokerConfig::new("kafka://user:canary@a?sasl=plain")).unwrap();
        assert!(settings.security.shows_the_password());
        let shown = format!("{settings:?}");
        assert!(!shown.contains("canary") && settings.shown == "kafka://a", "{shown}");
    }

    #[cfg(not(feature = "kafka-tls"))]
    #[test]
    fn tls_and_scram_name_the_feature_that_they_need() {
        for url in ["kafka+ssl://a", "kafka://a?security=tls", "kafka://u:p@a?sasl=scram-sha-512"] {
            let text = refusal(BrokerConfig::new(url));
            assert!(text.contains("--features kafka-tls"), "{text}");
        }
    }

    #[cfg(feature = "kafka-tls")]
    #[test]
    fn tls_and_scram_are_built_in() {
        for url in ["kafka+ssl://a", "kafka://a?security=tls", "kafka://u:p@a?sasl=scram-sha-512", "kafka+ssl://u:p@a"]
        {
            parse(BrokerConfig::new(url)).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("no-certificate.pem");
        std::fs::write(&file, "canary").unwrap();
        let text = refusal(BrokerConfig::new("kafka+ssl://a").option("ca_file", file.to_str().unwrap()));
        assert!(!text.contains("canary"), "{text}");
    }
}
