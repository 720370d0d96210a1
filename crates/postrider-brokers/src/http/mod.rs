//! Webhooks: one `POST` per message to `http://…` or `https://…`.
//!
//! **Promises**: accepted only by a 2xx answer, read to its end; the payload is the body, byte for byte; `webhook-id` is
//! the message id, the same on every attempt; in a batch the messages of one key go one after another and nothing of a
//! key goes after a failure; TLS is verified; redirects and proxies are never followed; messages go only to addresses
//! that the egress guard admits; error texts name the host, never the path, the query or credentials.
//!
//! **Does not promise**: removal of repeats. The receiver recognises them by `webhook-id`.
//!
//! **What is sent**: the user's headers, `content-type`, the `postrider-*` headers, `webhook-id`, `webhook-timestamp`
//! (seconds, of this attempt) and, with a `secret`, `webhook-signature` (Standard Webhooks: `v1,` and base64 of the
//! HMAC-SHA256 of `id.timestamp.body`, one per secret in their order, parted by spaces). Headers that frame a request or carry its
//! credentials (`host`, `content-length`, `authorization`, `webhook-…`, …) can't be set by a message: it is rejected.
//!
//! **Where it goes**: the configured URL. A destination that begins with `/` is a path that is appended to the URL's
//! path; any other destination (the default is the topic) does not change it. The attribute `http.path` of a message is
//! appended after that. Neither may contain `..`, `//`, `?`, `#`, `%`, `\` or a blank. Another attribute that begins with
//! `http.` is rejected.
//!
//! **What answers mean**
//!
//! | answer | kind |
//! |---|---|
//! | 2xx | accepted |
//! | 3xx, 401, 403, 404, 405, 407, 410 | `Config`: the destination pauses until somebody repairs it |
//! | 408, 425, 429, and 503 with `Retry-After` | `Throttled`, for the time asked, at most one hour |
//! | other 4xx | `Rejected`: this message |
//! | other 5xx, no connection | `Unavailable` |
//! | a certificate that does not verify, an address that is refused | `Config` |
//! | no answer in time, connection lost after sending | `Unknown` |
//!
//! **Options**: `timeout` of one request (`"10s"`, to `"5m"`; half of it, at most 5 s, for the connection) ·
//! `concurrency`, requests at once (16, to 256) · `secret`, one `whsec_…`, or up to four while one replaces another: a
//! list, or one text with blanks or line breaks between them, the newest first · `token`, sent as
//! `Authorization: Bearer` · `ca_file`, PEM certificates that are trusted beside the system's · `egress`: `"public"`
//! (default: no private, loopback, link-local or reserved address, unless the URL itself says `localhost`, `127.…` or
//! `[::1]`), `"any"`, or a list of addresses and networks allowed besides. A user and password in the URL are sent as
//! `Authorization: Basic`.

mod answer;
mod connect;
mod egress;
mod failure;
mod request;
mod settings;
mod signature;

use std::sync::Arc;

use async_trait::async_trait;
use postrider_core::{
    Accepted, Broker, BrokerProfile, Destination, Durability, Error, ErrorKind, Finding, Isolation, Level,
    OrderInBatch, Outgoing, Published, Result,
};

use crate::chains;
use crate::config::BrokerConfig;
use settings::Settings;

/// A broker that sends each message as a request.
#[derive(Debug)]
pub struct HttpBroker {
    settings: Settings,
    client: reqwest::Client,
}

impl HttpBroker {
    /// Prepares the client; nothing is connected.
    ///
    /// # Errors
    /// `Config` for a bad URL, option or certificate file, and for an address that the egress guard refuses.
    pub fn open(config: &BrokerConfig) -> Result<Self> {
        Self::with(Settings::parse(config)?)
    }

    fn with(settings: Settings) -> Result<Self> {
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(settings.tls.clone())
            .dns_resolver(Arc::new(settings.guard.clone()))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            // A proxy would connect in our place, past the egress guard.
            .no_proxy()
            .http1_only()
            .connect_timeout(settings.connect_timeout)
            .timeout(settings.timeout)
            .pool_max_idle_per_host(settings.concurrency)
            .user_agent(concat!("postrider/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| {
                Error::new(ErrorKind::Config, format!("preparing requests to {}", settings.shown)).because(error)
            })?;
        Ok(Self { settings, client })
    }

    async fn send(&self, outgoing: &Outgoing) -> Published {
        match self.try_send(outgoing).await {
            Ok(()) => Published::Accepted(Accepted::FRESH),
            Err(error) => Published::Failed(error),
        }
    }

    async fn try_send(&self, outgoing: &Outgoing) -> Result<()> {
        let url = request::url(&self.settings, outgoing)?;
        let headers = request::headers(&self.settings, outgoing)?;
        let request = self.client.post(url).headers(headers).body(outgoing.message.payload.clone());
        let response = request.send().await.map_err(|error| failure::classify(&self.settings.shown, error))?;
        answer::judge(&self.settings.shown, response).await
    }
}

#[async_trait]
impl Broker for HttpBroker {
    /// One message per call and as many calls as requests are allowed: a slow answer keeps nobody else waiting.
    /// Larger batches work too.
    fn profile(&self) -> BrokerProfile {
        BrokerProfile {
            name: "http",
            order: OrderInBatch::Kept,
            isolation: Isolation::PerMessage,
            durability: Durability::Receiver,
            max_batch: 1,
            max_concurrent: self.settings.concurrency,
        }
    }

    async fn publish(&self, batch: &[Outgoing]) -> Vec<Published> {
        chains::publish(batch, self.settings.concurrency, self.settings.timeout, |outgoing| self.send(outgoing)).await
    }

    async fn check(&self, destinations: &[Destination]) -> Result<Vec<Finding>> {
        for destination in destinations {
            request::below(&self.settings, destination.as_str(), None).map_err(|error| {
                Error::new(ErrorKind::Config, format!("destination {:?}: {error}", destination.as_str()))
            })?;
        }
        connect::connect(&self.settings).await?;
        let mut findings = Vec::new();
        let mut warn = |found: &str, advice: &str| {
            findings.push(Finding {
                level: Level::Warning,
                subject: self.settings.shown.clone(),
                found: found.to_owned(),
                advice: advice.to_owned(),
            });
        };
        if self.settings.url.scheme() == "http" && !self.settings.guard.is_loopback() {
            warn("messages travel unencrypted", "use https://");
        }
        match &self.settings.signer {
            None => {
                warn("messages are not signed, so that anybody can send them", "set secret_file to a whsec_... secret");
            }
            Some(signer) if signer.keys() > 1 => findings.push(Finding {
                level: Level::Good,
                subject: self.settings.shown.clone(),
                found: format!("{} secrets sign each request", signer.keys()),
                advice: "remove the older ones once every receiver knows the newest".to_owned(),
            }),
            Some(_) => {}
        }
        Ok(findings)
    }

    async fn close(&self) {
        // Every request belongs to a call of publish; idle connections end with the client.
    }
}

pub(crate) fn open(config: &BrokerConfig) -> Result<Arc<dyn Broker>> {
    Ok(Arc::new(HttpBroker::open(config)?))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use postrider_core::{Attempt, Lane, Message, Term};
    use postrider_testkit::servers::process::free_port;

    use super::*;

    /// A broker for which every name leads to this machine.
    fn led_home(url: &str, egress: &str) -> HttpBroker {
        let mut settings = Settings::parse(&BrokerConfig::new(url).option("egress", egress)).unwrap();
        settings.guard = settings.guard.with_names(|_, port| {
            Box::pin(std::future::ready(Ok(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))])))
        });
        HttpBroker::with(settings).unwrap()
    }

    async fn failures(broker: &HttpBroker) -> [Error; 2] {
        let outgoing = Outgoing {
            message: Arc::new(Message::new("orders.placed", "x")),
            destination: Destination::new("orders.placed"),
            attempt: Attempt(1),
            lane: Lane(0),
            term: Term(1),
            given_up: None,
        };
        match broker.publish(&[outgoing]).await.remove(0) {
            Published::Failed(error) => [error, broker.check(&[]).await.unwrap_err()],
            other => panic!("expected a failure, found {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_to_a_private_address_is_refused_at_the_connection() {
        let url = format!("http://hooks.example.com:{}/", free_port().unwrap());
        for error in failures(&led_home(&url, "public")).await {
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.to_string().contains("egress guard"), "{error}");
        }
        for error in failures(&led_home(&url, "any")).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "allowed, so only the closed port is in the way: {error}");
        }
    }
}
