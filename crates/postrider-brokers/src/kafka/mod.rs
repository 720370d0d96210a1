//! Kafka: `kafka://host:9092`, `kafka+ssl://host:9093`, or several servers parted by commas.
//!
//! **Promises**: accepted only by the acknowledgement of every replica in sync (`acks=all`), from an idempotent producer,
//! so that the client's own retries do not reorder, and do not repeat but around the change of a partition's leader
//! (librdkafka #4953); what is behind a message of its key leaves when that is acknowledged, and nothing is stored behind
//! one that failed; different keys go at once. A key goes to the partition to which Java's
//! producer sends it (`murmur2_random`); a message without a key has none on Kafka either. A producer that fails for
//! good is replaced, and what it had in flight is `Unknown`. A broker that is down does not keep the relay from starting.
//!
//! **A hot key**: when a message of a pipeline fails for good, librdkafka numbers the later ones of its partition anew and
//! sends them all the same. They would be stored before the failed one that comes again. So a producer of its own, which
//! ends instead, carries what is behind the first message of a key (see `series.rs`): a call takes two or three round trips,
//! however many messages of a key it has. A topic that refused some of them gets them one after another for a minute. Where no
//! answer comes in time, what such a producer had on its way is `Unknown`, of other keys too.
//!
//! **Transactions**: with `transactional_id_prefix` every lane has a transactional producer of its own, named by the
//! prefix and the lane: what one call publishes of a lane is one transaction, in order and at full speed also within a
//! key, and a relay that lost the lane is fenced by the broker. It costs a producer with its threads per lane, markers in
//! the log, and consumers that read `read_committed`.
//!
//! **Does not promise**: that an acknowledged message is synced to disk: replicas hold it in memory. `check` reports what
//! weakens an acknowledgement (few replicas, `min.insync.replicas`, unclean elections). Repeats are recognised by nobody:
//! Kafka forgets what a producer sent when it ends. Receivers look at the header `postrider-id`.
//!
//! **What is sent**: to the topic that the destination names (the default is the message's topic), the payload unchanged,
//! the user's headers, `content-type` and the `postrider-*` headers. Attributes of a message: `kafka.partition`, a number
//! from 0 · `kafka.timestamp`, milliseconds since 1970 · `kafka.tombstone`, `true` for a null in place of the empty
//! payload of a message with a key, which deletes that key where the topic is compacted.
//!
//! **What failures mean**
//!
//! | failure | kind |
//! |---|---|
//! | the topic is missing, no permission, wrong credentials, a certificate | `Config` |
//! | too large for the topic, an attribute or a topic that Kafka can't have, a record that it refuses | `Rejected` |
//! | not connected | `Unavailable`, unsent |
//! | the client's queue is full all the time | `Throttled`, unsent |
//! | no acknowledgement in time, and whatever else is not certain | `Unknown` |
//! | another producer took over the lane's transactional id | `Fenced` |
//!
//! **Options**, also in the query of the URL: `timeout` of an acknowledgement (`"20s"`, from `"1s"` to `"30s"`) ·
//! `linger`, how long to wait for company (`"1ms"`, to `"1s"`) · `compression`: `lz4` (default), `zstd`, `snappy`, `gzip`
//! or `none` · `client_id` (`postrider`) · `security`: `plaintext`, or `tls` as in `kafka+ssl://` · `sasl`: `plain`,
//! `scram-sha-256` or `scram-sha-512`, with `user` and `password` (or in the URL) · `ca_file`, PEM certificates of the
//! authorities to trust in place of the system's · `client_cert_file`, `client_key_file` and `client_key_password`, PEM,
//! for servers that ask for them · `transactional_id_prefix` · `producer.NAME`: any other setting of librdkafka that
//! takes nothing from these promises. TLS and SCRAM need the feature `kafka-tls`.
//!
//! **Receiving**: see [`subscription`].

mod answer;
mod attributes;
mod client;
mod findings;
mod lanes;
mod line;
mod link;
mod listener;
mod overrides;
mod place;
mod recent;
mod route;
mod security;
mod series;
mod servers;
mod settings;
pub mod subscription;
mod topic_settings;
mod transaction;
mod way;
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
use lanes::Lanes;
use link::Link;
use settings::Settings;
use window::Window;

/// The most messages of one call, and the most calls at once.
const MAX_BATCH: usize = 1000;
const MAX_CONCURRENT: usize = 4;

/// A broker that stores messages in Kafka.
pub struct KafkaBroker {
    settings: Arc<Settings>,
    link: Link,
    lanes: Option<Lanes>,
}

impl fmt::Debug for KafkaBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaBroker").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl KafkaBroker {
    /// Prepares the producer; the first call starts it.
    ///
    /// # Errors
    /// `Config` for a bad URL, option or certificate file, and for what this build can't do.
    pub fn open(config: &BrokerConfig) -> Result<Self> {
        let settings = Arc::new(Settings::parse(config)?);
        client::validate(&settings)?;
        let lanes = settings.transactional_id_prefix.is_some().then(|| Lanes::new(Arc::clone(&settings)));
        Ok(Self { link: Link::new(Arc::clone(&settings)), settings, lanes })
    }
}

#[async_trait]
impl Broker for KafkaBroker {
    fn profile(&self) -> BrokerProfile {
        BrokerProfile {
            name: "kafka",
            order: OrderInBatch::Kept,
            isolation: Isolation::SharedConnection,
            durability: Durability::Receiver,
            max_batch: MAX_BATCH,
            // A lane has one transaction at a time.
            max_concurrent: if self.lanes.is_some() { 1 } else { MAX_CONCURRENT },
        }
    }

    async fn publish(&self, batch: &[Outgoing]) -> Vec<Published> {
        if batch.is_empty() {
            return Vec::new();
        }
        let places = match self.link.places(batch).await {
            Ok(places) => places,
            Err(error) => return answer::all(batch.len(), &error),
        };
        match &self.lanes {
            Some(lanes) => lanes.publish(&places, batch).await,
            None => Window::new(&self.settings, &self.link, &places, batch).publish().await,
        }
    }

    async fn check(&self, destinations: &[Destination]) -> Result<Vec<Finding>> {
        findings::look(&self.settings, &self.link, destinations).await
    }

    async fn check_route(&self, topics: &TopicPattern, destination: &DestinationTemplate) -> Result<Vec<Finding>> {
        route::look(&self.settings, &self.link, topics, destination).await
    }

    async fn close(&self) {
        if let Some(lanes) = &self.lanes {
            lanes.close().await;
        }
        self.link.close().await;
    }
}

pub(crate) use subscription::subscribe;

pub(crate) fn open(config: &BrokerConfig) -> Result<Arc<dyn Broker>> {
    Ok(Arc::new(KafkaBroker::open(config)?))
}
