//! The list of backends.

use std::fmt;
use std::sync::Arc;

use postrider_core::{Broker, Error, ErrorKind, Result, Subscription};

use crate::config::{BrokerConfig, SubscriptionConfig};

/// How a backend is opened.
pub type Open = fn(&BrokerConfig) -> Result<Arc<dyn Broker>>;

/// How messages are taken from a backend.
pub type Subscribe = fn(&SubscriptionConfig) -> Result<Arc<dyn Subscription>>;

/// One backend: the schemes that choose it, its feature, and how it is opened.
#[derive(Clone, Copy)]
pub struct Backend {
    /// The URL schemes, lower case.
    pub schemes: &'static [&'static str],
    /// The cargo feature that builds it.
    pub feature: &'static str,
    /// Opens it; none when this program was built without it.
    pub open: Option<Open>,
    /// How messages are taken from it; none where it gives none, or is not built in.
    pub subscribe: Option<Subscribe>,
}

impl Backend {
    /// Whether this program was built with it.
    pub fn is_built_in(&self) -> bool {
        self.open.is_some()
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("schemes", &self.schemes).field("feature", &self.feature).finish()
    }
}

macro_rules! backend {
    ($feature:literal, $module:ident, $schemes:expr, $subscribe:expr) => {
        Backend {
            schemes: $schemes,
            feature: $feature,
            #[cfg(feature = $feature)]
            open: Some(crate::$module::open),
            #[cfg(feature = $feature)]
            subscribe: $subscribe,
            #[cfg(not(feature = $feature))]
            open: None,
            #[cfg(not(feature = $feature))]
            subscribe: None,
        }
    };
}

static BACKENDS: &[Backend] = &[
    backend!("memory", memory, &["memory"], None),
    backend!("stdout", stdout, &["stdout"], None),
    backend!("file", file, &["file"], None),
    backend!("http", http, &["http", "https"], None),
    backend!("nats", nats, &["nats", "tls"], Some(crate::nats::subscribe)),
    backend!("kafka", kafka, &["kafka", "kafka+ssl"], Some(crate::kafka::subscribe)),
];

/// Schemes of brokers that people look for and no backend has.
const NOT_YET: &[&str] = &["amqp", "amqps", "mqtt", "mqtts", "rabbitmq", "redis", "rediss"];

/// Every backend that exists, built into this program or not.
pub fn backends() -> &'static [Backend] {
    BACKENDS
}

/// Opens the broker of a URL. Nothing is sent; a broker that is down does not fail this.
///
/// # Errors
/// `Config` when no backend has the scheme, when its feature is not built in, when an option is unknown or has a bad
/// value, or when the place can't be used at all.
pub fn open(config: &BrokerConfig) -> Result<Arc<dyn Broker>> {
    opener(BACKENDS, config)?(config)
}

/// Takes part in what a broker gives to a consumer. Nothing is asked of it yet; a broker that is down does not fail this.
///
/// # Errors
/// `Config` when no backend has the scheme, when its feature is not built in or it gives no messages, when an option is unknown
/// or has a bad value, and when the consumer's name or what it reads is nothing that the broker could have.
pub fn subscribe(config: &SubscriptionConfig) -> Result<Arc<dyn Subscription>> {
    subscriber(BACKENDS, config)?(config)
}

fn subscriber(backends: &[Backend], config: &SubscriptionConfig) -> Result<Subscribe> {
    opener(backends, &config.broker)?;
    find(backends, &config.broker)?.subscribe.ok_or_else(|| {
        let give: Vec<&str> =
            backends.iter().filter(|backend| backend.subscribe.is_some()).map(|b| b.schemes[0]).collect();
        let shown = config.broker.shown();
        let text = format!("nothing can be received from {shown}; messages are received from: {}:", give.join(":, "));
        Error::new(ErrorKind::Config, text)
    })
}

/// What opens the broker of a URL.
fn opener(backends: &[Backend], config: &BrokerConfig) -> Result<Open> {
    let Backend { feature, open, .. } = find(backends, config)?;
    open.ok_or_else(|| {
        let shown = config.shown();
        let text = format!(
            "the broker {shown} needs the feature {feature:?}, which this program was built without; build it with \
             --features {feature} (a program of your own: the feature broker-{feature} of the crate postrider)"
        );
        Error::new(ErrorKind::Config, text)
    })
}

/// The backend of a URL, built into this program or not. Nothing is opened.
///
/// # Errors
/// `Config` when no backend has the scheme.
pub fn backend(config: &BrokerConfig) -> Result<&'static Backend> {
    find(BACKENDS, config)
}

fn find<'a>(backends: &'a [Backend], config: &BrokerConfig) -> Result<&'a Backend> {
    let scheme = config.scheme();
    let found = backends.iter().find(|backend| backend.schemes.contains(&scheme.as_str()));
    found.ok_or_else(|| unknown_scheme(config, &scheme))
}

fn unknown_scheme(config: &BrokerConfig, scheme: &str) -> Error {
    let known: Vec<&str> = BACKENDS.iter().flat_map(|backend| backend.schemes).copied().collect();
    let shown = config.shown();
    // Who writes `stdout` means `stdout:`.
    let scheme = if scheme.is_empty() { shown.as_str() } else { scheme };
    if NOT_YET.contains(&scheme) {
        let text =
            format!("brokers of the scheme {scheme:?} are not supported yet; known schemes: {}", known.join(", "));
        return Error::new(ErrorKind::Config, text);
    }
    let nearest = known
        .iter()
        .min_by_key(|known| strsim::damerau_levenshtein(known, scheme))
        .filter(|known| strsim::damerau_levenshtein(known, scheme) <= 2);
    let meant = nearest.map(|known| format!("; did you mean {known}:?")).unwrap_or_default();
    let text =
        format!("the broker {shown:?} has no scheme that is known{meant}; known schemes: {}:", known.join(":, "));
    Error::new(ErrorKind::Config, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_scheme_names_the_nearest_and_all_known_ones() {
        let error = open(&BrokerConfig::new("natz://user:canary@host")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let text = error.to_string();
        assert!(text.contains("did you mean nats:") && text.contains("https"), "{text}");
        assert!(!text.contains("canary"), "{text}");
    }

    #[test]
    fn a_scheme_without_its_colon_is_told_how_it_is_written() {
        let text = open(&BrokerConfig::new("stdout")).unwrap_err().to_string();
        assert!(text.contains("did you mean stdout:?") && text.contains("known schemes: memory:, "), "{text}");
    }

    /// The same program, built without any broker, and with each of them.
    #[test]
    fn a_broker_that_is_not_built_in_names_its_feature() {
        for backend in BACKENDS {
            for scheme in backend.schemes {
                let config = BrokerConfig::new(format!("{scheme}://user:canary@host"));
                let without = [Backend { open: None, ..*backend }];
                let error = opener(&without, &config).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Config);
                let text = error.to_string();
                assert!(text.contains(&format!("needs the feature {:?}", backend.feature)), "{text}");
                assert!(text.contains(&format!("--features {}", backend.feature)), "{text}");
                assert!(!text.contains("canary"), "{text}");
                let opens: Open = |_| Err(Error::new(ErrorKind::Rejected, "opened"));
                let with = [Backend { open: Some(opens), ..*backend }];
                assert_eq!(opener(&with, &config).unwrap()(&config).unwrap_err().to_string(), "opened");
            }
        }
    }

    #[test]
    fn a_backend_is_built_in_where_its_feature_is_on() {
        for (feature, is_on) in [
            ("memory", cfg!(feature = "memory")),
            ("stdout", cfg!(feature = "stdout")),
            ("file", cfg!(feature = "file")),
            ("http", cfg!(feature = "http")),
            ("nats", cfg!(feature = "nats")),
            ("kafka", cfg!(feature = "kafka")),
        ] {
            let backend = BACKENDS.iter().find(|backend| backend.feature == feature).unwrap();
            assert_eq!(backend.is_built_in(), is_on, "{feature}");
        }
    }

    #[test]
    fn no_scheme_belongs_to_two_backends() {
        let mut seen: Vec<&str> = backends().iter().flat_map(|backend| backend.schemes).copied().collect();
        seen.sort_unstable();
        let all = seen.len();
        seen.dedup();
        assert_eq!(seen.len(), all);
    }
}
