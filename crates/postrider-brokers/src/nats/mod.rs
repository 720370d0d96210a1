//! NATS JetStream: `nats://host:4222`, `tls://host:4222`, or several servers parted by commas. This is about publishing;
//! [`subscription`] is about taking messages from it.
//!
//! **Promises**: accepted only by JetStream's own acknowledgement of the message; the message id is `Nats-Msg-Id`, so a
//! repeat inside the stream's duplicate window is dropped there and reported; the messages of one key go one after
//! another, each after the acknowledgement of the one before; different keys go at once. The connection comes back by
//! itself; a broker that is down does not keep the relay from starting.
//!
//! **Why one at a time per key**: JetStream refuses messages one by one (a stream's own size limit, a full stream) and a
//! cluster that changes its leader can drop one message and take the next. A pipeline of one key would then store a
//! later message before an earlier one. So a hot key is as fast as one round trip per message; spread the keys.
//!
//! **Does not promise**: that an acknowledged message is synced to disk: by default a server syncs every two minutes.
//! `check` reports what weakens an acknowledgement (memory storage, one replica of a cluster, old servers).
//!
//! **What is sent**: to the subject that the destination names (the default is the topic), the payload unchanged, the
//! user's headers, `Content-Type`, the `postrider-*` headers, `Nats-Msg-Id` (not of a dead letter, which would be dropped by a
//! stream that took its message a moment ago), and `Nats-Expected-Stream` where the option `stream` is set. A message can't set headers that begin with `Nats-`: it is rejected. So is one that is larger, with
//! its headers, than the server's `max_payload`.
//!
//! **What failures mean**
//!
//! | failure | kind |
//! |---|---|
//! | no stream covers the subject, another stream does, no permission, wrong credentials, JetStream off, a certificate | `Config` |
//! | too large, a subject that NATS can't have | `Rejected` |
//! | not connected; the stream is full or can't store | `Unavailable` |
//! | connection lost, or no acknowledgement in time | `Unknown` |
//!
//! **Options**, also in the query of the URL: `stream`, the stream that must store the messages · `timeout` of an
//! acknowledgement (`"5s"`, to `"1m"`) · one way to log in: `token`; `user` and `password` (or in the URL); `nkey_seed`, of a
//! user's nkey; `creds`, the text of a creds file with JWT and seed, so usually `creds_file` · `ca_file`, PEM certificates
//! trusted beside the system's · `client_cert_file` and `client_key_file`, PEM, for servers that ask for them. `tls://`
//! demands TLS; `nats://` uses it when the server asks for it.

mod ack;
mod findings;
mod link;
mod login;
mod route;
mod settings;
pub mod subscription;
mod window;
mod wire;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use postrider_core::{
    Broker, BrokerProfile, Destination, DestinationTemplate, Durability, Finding, Isolation, OrderInBatch, Outgoing,
    Published, Result, TopicPattern,
};

use crate::config::BrokerConfig;
use link::Link;
use settings::Settings;
use window::Window;

/// The most messages of one call, and the most calls at once: together the window of 4,000 messages in flight.
const MAX_BATCH: usize = 1000;
const MAX_CONCURRENT: usize = 4;

/// A broker that stores messages in JetStream.
pub struct NatsBroker {
    settings: Arc<Settings>,
    link: Link,
}

impl fmt::Debug for NatsBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsBroker").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl NatsBroker {
    /// Prepares the connection; the first call opens it.
    ///
    /// # Errors
    /// `Config` for a bad URL, option or certificate file.
    pub fn open(config: &BrokerConfig) -> Result<Self> {
        let settings = Arc::new(Settings::parse(config)?);
        Ok(Self { link: Link::new(Arc::clone(&settings)), settings })
    }
}

#[async_trait]
impl Broker for NatsBroker {
    fn profile(&self) -> BrokerProfile {
        BrokerProfile {
            name: "nats",
            order: OrderInBatch::Kept,
            isolation: Isolation::SharedConnection,
            durability: Durability::Receiver,
            max_batch: MAX_BATCH,
            max_concurrent: MAX_CONCURRENT,
        }
    }

    async fn publish(&self, batch: &[Outgoing]) -> Vec<Published> {
        if batch.is_empty() {
            return Vec::new();
        }
        match self.link.connected().await {
            Ok(connected) => Window::new(&self.settings, connected, batch).publish().await,
            Err(error) => link::unsent(batch.len(), &error),
        }
    }

    async fn check(&self, destinations: &[Destination]) -> Result<Vec<Finding>> {
        let (context, _) = self.link.connected().await?;
        findings::look(&self.settings, &context, destinations).await
    }

    async fn check_route(&self, topics: &TopicPattern, destination: &DestinationTemplate) -> Result<Vec<Finding>> {
        let (context, _) = self.link.connected().await?;
        route::look(&self.settings, &context, topics, destination).await
    }

    async fn close(&self) {
        self.link.close().await;
    }
}

pub(crate) use subscription::subscribe;

pub(crate) fn open(config: &BrokerConfig) -> Result<Arc<dyn Broker>> {
    Ok(Arc::new(NatsBroker::open(config)?))
}
