//! What the configuration of a subscription says beside how the servers are reached.

use std::time::Duration;

use postrider_core::{Error, ErrorKind, Result};

use super::subjects;
use crate::config::SubscriptionConfig;
use crate::options::Options;

/// The longest name of a consumer, in bytes: the server's own limit.
const MAX_NAME: usize = 255;

/// Which consumer reads what, and how.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    /// The durable consumer's name.
    pub(super) consumer: String,
    /// What it reads: subjects, in the order of their names; none of them has one in common with another.
    pub(super) from: Vec<String>,
    /// How long a message stays with who took it.
    pub(super) ack_wait: Duration,
    /// The most messages that are taken and not over, of all members of a consumer that is made here.
    pub(super) max_ack_pending: usize,
}

impl Reading {
    /// Reads the options, and whether the names can be at all.
    ///
    /// # Errors
    /// `Config` for a bad option, name or subject, with what was expected.
    pub(super) fn read(config: &SubscriptionConfig, options: &Options<'_>) -> Result<Self> {
        let second = Duration::from_secs(1);
        let ack_wait = options.duration("ack_wait", second * 30, second..=second * 3600)?;
        let max_ack_pending = options.number("max_ack_pending", 1000, 1..=1_000_000)?;
        let consumer = config.consumer.clone();
        if !is_name(&consumer) {
            return Err(wrong(
                "the name of a consumer",
                &consumer,
                "1 to 255 visible characters of ASCII, without . * > / \\ and blanks",
            ));
        }
        if config.from.is_empty() {
            return Err(Error::new(ErrorKind::Config, "the consumer reads nothing: expected at least one subject"));
        }
        let mut from = config.from.clone();
        from.sort();
        if let Some(bad) = from.iter().find(|subject| !subjects::is_filter(subject)) {
            let expected = "words joined by single dots, without blanks, * only as a word and > only as the last one";
            return Err(wrong("the subject", bad, expected));
        }
        for (n, one) in from.iter().enumerate() {
            if let Some(other) = from.iter().skip(n + 1).find(|other| subjects::meet(one, other)) {
                let text = format!(
                    "{one:?} and {other:?} have subjects in common, which NATS does not let one consumer read twice: \
                     expected subjects that have none; leave one of them out"
                );
                return Err(Error::new(ErrorKind::Config, text));
            }
        }
        Ok(Self { consumer, from, ack_wait, max_ack_pending })
    }

    /// The subjects as a consumer's filter: none where it reads everything.
    pub(super) fn filter(&self) -> &[String] {
        if self.from.iter().any(|subject| subject == ">") { &[] } else { &self.from }
    }
}

fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !b".*>/\\".contains(&byte))
}

fn wrong(what: &str, found: &str, expected: &str) -> Error {
    let found: String = found.chars().take(60).collect();
    Error::new(ErrorKind::Config, format!("{what} {found:?} can't be in NATS: expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BrokerConfig;

    fn read(config: &SubscriptionConfig) -> Result<Reading> {
        Reading::read(config, &Options::with_query(&config.broker))
    }

    fn config() -> SubscriptionConfig {
        SubscriptionConfig::new(BrokerConfig::new("nats://a?ack_wait=5s"), "invoices", "orders.>")
    }

    #[test]
    fn options_have_their_defaults_and_their_bounds() {
        let reading = read(&config()).unwrap();
        assert_eq!((reading.ack_wait, reading.max_ack_pending), (Duration::from_secs(5), 1000));
        assert_eq!(reading.filter(), ["orders.>"]);
        for (option, value) in [("ack_wait", "999ms"), ("ack_wait", "61m"), ("max_ack_pending", "0")] {
            let config = SubscriptionConfig { broker: config().broker.option(option, value), ..config() };
            assert!(read(&config).unwrap_err().to_string().contains(option), "{option}");
        }
    }

    #[test]
    fn names_that_nats_can_not_have_are_refused_with_what_was_expected() {
        let long = "x".repeat(MAX_NAME + 1);
        for bad in ["", "a.b", "a b", "a*", ">", "a/b", "a\\b", "gr\u{fc}n", "a\n", long.as_str()] {
            let error = read(&SubscriptionConfig { consumer: bad.to_owned(), ..config() }).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains("expected 1 to 255"), "{error}");
        }
        assert!(read(&SubscriptionConfig { consumer: "x".repeat(MAX_NAME), ..config() }).is_ok());
    }

    #[test]
    fn subjects_are_checked_and_do_not_meet() {
        for bad in [vec![], vec!["a..b"], vec!["a", "a"], vec!["orders.>", "x", "orders.*"], vec![">", "a"]] {
            let from = bad.iter().map(|text| (*text).to_owned()).collect();
            let error = read(&SubscriptionConfig { from, ..config() }).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains("expected"), "{error}");
        }
        let several = read(&config().and_from("a.b")).unwrap();
        assert_eq!(several.filter(), ["a.b", "orders.>"]);
        let everything = SubscriptionConfig { from: vec![">".to_owned()], ..config() };
        assert!(read(&everything).unwrap().filter().is_empty());
    }
}
