//! What names a broker: a URL and the options of its backend.

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

/// A broker's URL and its options, as they stand in the configuration.
///
/// `Debug` shows the URL without user, password and query, and of the options only the names.
#[derive(Clone, PartialEq, Deserialize)]
pub struct BrokerConfig {
    /// Where the broker is; its scheme chooses the backend.
    pub url: String,
    /// Every other key, read by the backend.
    #[serde(flatten)]
    pub options: Map<String, Value>,
}

impl BrokerConfig {
    /// A broker at a URL, with no options.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), options: Map::new() }
    }

    /// The same broker with one more option.
    #[must_use]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.options.insert(name.into(), value.into());
        self
    }

    /// The URL without user, password, query and fragment: fit for logs and errors.
    pub fn shown(&self) -> String {
        shown(&self.url)
    }

    /// The scheme, in lower case; empty when there is none.
    pub fn scheme(&self) -> String {
        self.url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase()).unwrap_or_default()
    }
}

impl fmt::Debug for BrokerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.options.keys().collect();
        f.debug_struct("BrokerConfig").field("url", &self.shown()).field("options", &names).finish()
    }
}

/// What a consumer takes messages from: which broker, as whom, and what of it.
///
/// Processes that name the same consumer share its messages; each consumer gets all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct SubscriptionConfig {
    /// The broker, as for publishing; an option that only publishing has is refused.
    pub broker: BrokerConfig,
    /// The name of the consumer, the same at every start: what the broker calls a durable consumer, or a group.
    pub consumer: String,
    /// What it reads, at least one: what the broker calls subjects (its wildcards may stand in them), or topics.
    pub from: Vec<String>,
}

impl SubscriptionConfig {
    /// What this consumer reads from one subject or topic of a broker.
    pub fn new(broker: BrokerConfig, consumer: impl Into<String>, from: impl Into<String>) -> Self {
        Self { broker, consumer: consumer.into(), from: vec![from.into()] }
    }

    /// The same with one more subject or topic.
    #[must_use]
    pub fn and_from(mut self, from: impl Into<String>) -> Self {
        self.from.push(from.into());
        self
    }
}

/// Cuts credentials, query and fragment out of a URL, whether or not it can be parsed.
fn shown(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let without = |server: &str| server.rsplit_once('@').map_or(server, |(_, host)| host).to_owned();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let servers: Vec<String> = rest.split(',').map(without).collect();
            format!("{scheme}://{}", servers.join(","))
        }
        // A path may have an @ in it; anything else was meant to begin with a scheme.
        None if url.starts_with("file:") => url.to_owned(),
        None => without(url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_shown() {
        let config = BrokerConfig::new("nats://user:canary@host:4222,bob:canary@other?token=canary#canary")
            .option("token", "canary");
        assert_eq!(config.shown(), "nats://host:4222,other");
        let debug = format!("{config:?}");
        assert!(!debug.contains("canary") && debug.contains("token"), "{debug}");
    }

    #[test]
    fn nothing_secret_is_shown_where_the_scheme_was_forgotten() {
        for url in ["user:canary@host:4222", "canary@host:4222", "nats:user:canary@host:4222"] {
            assert_eq!(BrokerConfig::new(url).shown(), "host:4222");
        }
        assert_eq!(BrokerConfig::new("file:/var/mail/me@host.jsonl").shown(), "file:/var/mail/me@host.jsonl");
    }

    #[test]
    fn it_is_read_from_a_table_with_the_options_beside_the_url() {
        let config: BrokerConfig = serde_json::from_str(r#"{"url": "memory:", "delay": "1ms"}"#).unwrap();
        assert_eq!(config, BrokerConfig::new("memory:").option("delay", "1ms"));
    }
}
