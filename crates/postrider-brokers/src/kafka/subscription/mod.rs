//! Receiving from Kafka: a consumer is a group, and reads whole topics.
//!
//! **Promises**: every message that was committed is given to some member of the group, and again until it is over; of each
//! partition they are given in its order; two members never have the same partition, and what a member has in hand of one
//! that was taken away can't be acknowledged any more (`Fenced`), so that nothing of it is recorded over its new owner.
//! What a producer took back in a transaction is not seen (`read_committed`). A group that is new gets what is there,
//! from the oldest message on. A broker that is away makes taking fail within some seconds and harms nothing; the
//! client connects again by itself. One that failed for good is replaced, and so is one whose questions have had no answer for
//! 20 s, once nothing is in hand; a client that gives nothing is asked a question every minute.
//!
//! **What an acknowledgement means**: Kafka keeps one position for a partition and a group: everything before it is over.
//! Messages are over in any order, so a position is recorded when everything before it is over. An acknowledgement
//! returns when the position behind its message is recorded; where an earlier message of the partition is still in
//! hand or waits, it returns when it is noted here, and is recorded together with that one. Until then the death of
//! this process makes it a repeat: **a message that takes long makes repeats of all that are over behind it in its
//! partition, if the process dies then**. Acknowledgements that come at once share one word to the broker.
//!
//! **Given back**: a message that is released, or whose receipt is dropped, comes again at the next taking of this process, in its
//! place: Kafka can't give it to another member. `extend` costs nothing and tells whether the message is still ours. A message
//! is ours as long as this process lives and is in the group: [`hold`](Subscription::hold) is none. Kafka does not count deliveries.
//!
//! **How much is in memory**: what came and was not taken weighs at most about four times `consumer.queued.max.messages.kbytes`
//! (16 MiB by default), and what waits in the client beside it that and one message of each partition. Beyond, the client is
//! told to stop, and stays in the group all the same.
//!
//! **Slow is not dead**: a thread of its own talks to the cluster, so that handlers may take as long as they like, and nobody
//! need take anything. A program that **hangs** (its runtime runs no task for 5 s) does not talk any more, and after
//! `consumer.max.poll.interval.ms` (300 s) its partitions go to others; one that is frozen whole, or dies, loses them after
//! `session_timeout`. When it goes on, it comes back to the group, and what it had in hand is `Fenced`. A subscription that is
//! dropped leaves the group as one that is closed does, only that nobody waits for it.
//!
//! **Does not promise**: that messages survive their retention: what Kafka deleted before it was read is lost. It is told in
//! the log as an error, in [`check`](Subscription::check) while the position is behind what is left, and reading goes on with the
//! oldest that is left. Of a compacted topic only the last message of a key is sure to be read. An unclean election, or a server
//! that lost what it had not written to disk, may take back messages that were read: the log tells of it as an error, what is in
//! hand of them is `Fenced`, and what lies at their offsets now is read. That is noticed while a member reads: a position is
//! recorded without the epoch of its leader, so a log that lost its end while no member ran, and has grown past the position
//! again, is read from the position on. So may be a topic that was deleted and made again while it is read, where the new one is
//! longer by then than what was read of the old one: stop the members before. A transaction that its producer left open holds
//! back what is behind it in the partition until the cluster ends it. The end of a transaction is a record that nobody sees:
//! tools may show a lag of 1 for ever.
//!
//! **What is a message**: the payload is unchanged; a tombstone is an empty one. `postrider-*` headers and `content-type` are
//! read as they were sent; a message of another producer has the topic of Kafka, the key of Kafka, and an id made of its place
//! (`topic[partition]@offset`) and its time: a topic that was made again begins anew with its offsets. A key that is no text
//! (no UTF-8, empty, control characters) is `hex:` and its bytes, so that keys stay different and each keeps its order. A
//! header whose value is no text is given as `NAME.hex`; one that a message can't have (a name that is no token, more than 8
//! KiB) is left out. Where `postrider-id` can't be read, where a name of a header is no UTF-8, or where the message breaks a
//! limit, it comes as `Rejected`, with its payload.
//!
//! **What failures mean**
//!
//! | failure | kind |
//! |---|---|
//! | a topic is missing (it is read within 10 s of its creation), no permission on the topic or the group, wrong credentials, a certificate, members of another assignment | `Config` |
//! | something in a topic can't be read (damaged, too large, compressed in a way that this build does not know), and nothing else came; the log tells it once a minute in any case | `Unavailable` |
//! | not connected | `Unavailable` |
//! | recording that a message is over: no answer in time | `Unknown`, or as the connection |
//! | the partition is another member's by now | `Fenced` |
//!
//! The user needs `Read` and `Describe` on the topics and `Read` on the group; for all of `check`, `DescribeConfigs` on the topics
//! and the cluster. Members of a group that are not Postrider's must use the assignment `cooperative-sticky` too.
//!
//! **Options**, also in the query of the URL: `timeout` of a word to the broker (`"20s"`, from `"1s"` to `"30s"`) ·
//! `session_timeout`, after which a member that says nothing loses its partitions (`"45s"`, to `"30m"`; the server allows no less
//! than its `group.min.session.timeout.ms`, 6 s) · `client_id`, `security`, `sasl`, `user`, `password`, `ca_file`,
//! `client_cert_file`, `client_key_file` and `client_key_password` as for publishing · `consumer.NAME`: any other setting of
//! librdkafka that takes nothing from these promises.

mod committing;
mod desk;
mod findings;
mod membership;
mod offsets;
mod polling;
mod probe;
mod rebalancing;
mod receipt;
mod record;
mod refusals;
mod seat;
mod settings;
mod unreadable;

use std::fmt;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Error, ErrorKind, Finding, Incoming, Result, Subscription};
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::config::SubscriptionConfig;
use membership::Membership;
use settings::Settings;

/// How long the first message is waited for.
const MOMENT: Duration = Duration::from_secs(1);
/// How often the program shows that it is alive.
const PULSE: Duration = Duration::from_secs(1);
/// How long topics of which we have nothing are believed to be there.
const BELIEVED: Duration = Duration::from_secs(10);
/// How long a cluster of which nothing comes is believed to be in touch with the client, which may have forgotten its servers and
/// complain of nothing (see [`LOST`](super::line::LOST)).
const IN_TOUCH: Duration = Duration::from_secs(60);
/// How long leaving is waited for.
const LEAVING: Duration = Duration::from_secs(10);

/// A member of a group of Kafka.
pub struct KafkaSubscription {
    settings: Arc<Settings>,
    membership: Arc<Membership>,
    life: Mutex<Life>,
    probe: AsyncMutex<Probe>,
}

/// What runs for it.
#[derive(Debug, Default)]
struct Life {
    is_running: bool,
    pulse: Option<JoinHandle<()>>,
}

/// What was asked for when nothing came.
#[derive(Debug, Default)]
struct Probe {
    /// When all topics were there.
    sound: Option<Instant>,
}

impl fmt::Debug for KafkaSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSubscription")
            .field("settings", &self.settings)
            .field("bytes_waiting", &self.membership.desk.weight())
            .finish_non_exhaustive()
    }
}

impl KafkaSubscription {
    /// Prepares a member; the first taking makes it join.
    ///
    /// # Errors
    /// `Config` for a bad URL, option, name or topic, and for what this build can't do.
    pub fn open(config: &SubscriptionConfig) -> Result<Self> {
        let settings = Arc::new(Settings::parse(config)?);
        let membership = Arc::new(Membership::new(Arc::clone(&settings)));
        Ok(Self { settings, membership, life: Mutex::default(), probe: AsyncMutex::default() })
    }

    /// Joins, where it has not yet, and shows that the program is alive.
    fn live(&self) -> Result<()> {
        if self.membership.is_leaving() {
            let text = format!("not receiving from {}: the subscription was closed", self.settings.shown);
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        self.membership.beat();
        let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        if !life.is_running {
            polling::spawn(&self.membership, "kafka-recorder", committing::run)?;
            polling::spawn(&self.membership, "kafka-reader", polling::run)?;
            life.is_running = true;
        }
        // The runtime that it ran in may have ended before this.
        if life.pulse.as_ref().is_none_or(JoinHandle::is_finished) {
            life.pulse = Some(tokio::spawn(pulse(Arc::downgrade(&self.membership))));
        }
        Ok(())
    }

    /// Why nothing came.
    ///
    /// # Errors
    /// `Config` or `Unavailable`; there is none where nothing was there.
    async fn silence(&self) -> Result<()> {
        if let Some(refusal) = self.membership.refusal() {
            return Err(refusal);
        }
        if let Some(unreadable) = self.membership.unreadable().lately(std::time::Instant::now()) {
            return Err(unreadable);
        }
        let mut probe = self.probe.lock().await;
        let has_all = self.settings.topics.iter().all(|topic| self.membership.desk.has(topic));
        let believed = if has_all { IN_TOUCH } else { BELIEVED };
        let is_sound = probe.sound.is_some_and(|at| at.elapsed() < believed);
        if self.membership.listener.trouble().is_none() && is_sound {
            return Ok(());
        }
        probe.sound = None;
        let Some(consumer) = self.membership.consumer() else {
            return match self.membership.listener.trouble() {
                Some((kind, why)) => Err(Error::new(kind, format!("receiving from {}: {why}", self.settings.shown))),
                None => Ok(()),
            };
        };
        let membership = Arc::clone(&self.membership);
        // Whoever polls hears what is wrong.
        let ask = move || {
            let began = std::time::Instant::now();
            let answers = probe::ask_for_topics(&membership.settings, &consumer, &membership.listener, || ());
            match &answers {
                Ok(_) => membership.heard(),
                Err(_) => membership.unheard(began),
            }
            answers?.topics()
        };
        tokio::task::spawn_blocking(ask).await.map_err(|error| {
            let text = format!("asking {} for its topics", self.settings.shown);
            Error::new(ErrorKind::Unavailable, text).because(error)
        })??;
        probe.sound = Some(Instant::now());
        Ok(())
    }
}

/// Shows that the runtime lives, as long as there is somebody to show it to.
async fn pulse(membership: Weak<Membership>) {
    while let Some(membership) = membership.upgrade().filter(|membership| !membership.is_leaving()) {
        membership.beat();
        drop(membership);
        tokio::time::sleep(PULSE).await;
    }
}

#[async_trait]
impl Subscription for KafkaSubscription {
    fn name(&self) -> &'static str {
        "kafka"
    }

    fn hold(&self) -> Option<Duration> {
        None
    }

    fn keeps_order(&self) -> bool {
        true
    }

    async fn take(&self, at_most: NonZeroUsize) -> Result<Vec<Incoming>> {
        self.live()?;
        let until = Instant::now() + MOMENT;
        loop {
            let mut arrival = pin!(self.membership.desk.arrival());
            // From here on it is told, so that nothing comes between looking and waiting.
            arrival.as_mut().enable();
            let taken = self.membership.desk.take(at_most);
            if !taken.is_empty() {
                return Ok(taken.into_iter().map(|given| receipt::incoming(&self.membership, given)).collect());
            }
            if timeout_at(until, arrival).await.is_err() {
                break;
            }
        }
        self.silence().await?;
        Ok(Vec::new())
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        findings::look(&self.settings).await
    }

    async fn close(&self) {
        self.membership.leave();
        let is_running = self.life.lock().unwrap_or_else(PoisonError::into_inner).is_running;
        if is_running && timeout(LEAVING, self.membership.ended()).await.is_err() {
            tracing::warn!(broker = %self.settings.shown, "leaving the group takes long and goes on by itself");
        }
    }
}

impl Drop for KafkaSubscription {
    fn drop(&mut self) {
        self.membership.leave();
    }
}

pub(crate) fn subscribe(config: &SubscriptionConfig) -> Result<Arc<dyn Subscription>> {
    Ok(Arc::new(KafkaSubscription::open(config)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BrokerConfig;

    #[tokio::test]
    async fn a_question_without_an_answer_is_remembered() {
        let broker = BrokerConfig::new("kafka://127.0.0.1:9");
        let member = KafkaSubscription::open(&SubscriptionConfig::new(broker, "billing", "orders")).unwrap();
        assert_eq!(member.membership.unheard_for(), None);
        let until = Instant::now() + Duration::from_secs(60);
        while member.membership.unheard_for().is_none() {
            assert!(Instant::now() < until, "nobody was asked");
            // The first takings find no client yet.
            if let Err(error) = member.take(NonZeroUsize::MIN).await {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            }
        }
        member.close().await;
    }
}
