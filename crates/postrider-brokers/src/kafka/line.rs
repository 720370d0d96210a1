//! One producer of librdkafka, and what is known of it.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use postrider_core::{Error, ErrorKind, Result};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::Metadata;
use rdkafka::producer::{DeliveryFuture, FutureProducer, Producer as _, PurgeConfig};
use tokio::time::{Instant, sleep};

use super::listener::Listener;
use super::recent::Recent;
use super::wire::Record;

/// The client's producer.
pub(super) type Producer = FutureProducer<Listener>;

/// What became of a record that was offered.
pub(super) type Handed = std::result::Result<DeliveryFuture, KafkaError>;

/// How long a full queue is waited for at a time.
const BREATH: Duration = Duration::from_millis(5);
/// How long the cluster may take to answer a question.
pub(super) const CONNECT: Duration = Duration::from_secs(5);
/// How long an old refusal is given to be over: longer than the longest pause between two attempts to connect.
const OUT_OF_DATE: Duration = Duration::from_millis(2_500);

/// How long a client may have no answer to its questions until another one takes its place. librdkafka forgets every server when
/// one that is just starting names none, and asks none from then on (librdkafka #5301).
pub(super) const LOST: Duration = Duration::from_secs(20);

/// A producer until it fails for good, is given up or has no answer for long. Dropping it blocks nobody.
pub(super) struct Line {
    shown: String,
    producer: Option<Producer>,
    listener: Listener,
    known: Recent<(String, i32), ()>,
    given_up: RwLock<bool>,
    /// Since when questions to the cluster have no answer.
    unanswered_since: Mutex<Option<Instant>>,
}

impl Line {
    /// Makes a producer. Nothing is connected yet.
    ///
    /// # Errors
    /// `Config` when librdkafka can't work with the settings.
    pub(super) fn new(shown: &str, config: &ClientConfig) -> Result<Self> {
        let listener = Listener::default();
        let producer =
            config.create_with_context(listener.clone()).map_err(|error| refused("producer", shown, &error))?;
        Ok(Self {
            shown: shown.to_owned(),
            producer: Some(producer),
            listener,
            known: Recent::default(),
            given_up: RwLock::new(false),
            unanswered_since: Mutex::new(None),
        })
    }

    /// The producer.
    ///
    /// # Errors
    /// `Unavailable` and unsent; only while it is being dropped.
    pub(super) fn producer(&self) -> Result<&Producer> {
        self.producer.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Unavailable, format!("the producer for {} is gone", self.shown)).unsent()
        })
    }

    /// What the client complains of.
    pub(super) fn listener(&self) -> &Listener {
        &self.listener
    }

    /// The partitions in which something of this producer was stored, by topic and number.
    ///
    /// There, a server takes the producer's messages by their numbers alone, and nothing behind one that it refused. A server
    /// that knows nothing of a producer takes whatever number comes first (`ProducerAppendInfo.checkSequence` of Kafka). It
    /// remembers for a day where it is left as it was (`producer.id.expiration.ms`).
    pub(super) fn known(&self) -> &Recent<(String, i32), ()> {
        &self.known
    }

    /// Whether another producer must take its place: it failed for good, was given up, or has had no answer for long.
    pub(super) fn is_over(&self) -> bool {
        let failed = self.producer.as_ref().is_none_or(|producer| producer.client().fatal_error().is_some());
        failed || *self.given_up.read().unwrap_or_else(PoisonError::into_inner) || self.is_lost()
    }

    /// Whether its questions have had no answer for long: the cluster may be away, or the client has forgotten it.
    pub(super) fn is_lost(&self) -> bool {
        self.unanswered_since().is_some_and(|since| since.elapsed() >= LOST)
    }

    fn unanswered_since(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.unanswered_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a record to librdkafka, waiting while its queue is full, until `closing`.
    ///
    /// # Errors
    /// What librdkafka says when it does not take it; `PurgeQueue` where the producer was given up.
    pub(super) async fn send(&self, mut record: Record<'_>, closing: Instant) -> Handed {
        let given_up = KafkaError::MessageProduction(RDKafkaErrorCode::PurgeQueue);
        let producer = self.producer.as_ref().ok_or_else(|| given_up.clone())?;
        loop {
            let offered = {
                // Held until the record is in the queue: behind what is purged, nothing may leave.
                let is_given_up = self.given_up.read().unwrap_or_else(PoisonError::into_inner);
                if *is_given_up {
                    return Err(given_up);
                }
                producer.send_result(record)
            };
            match offered {
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) if Instant::now() < closing => {
                    record = back;
                    sleep(BREATH).await;
                }
                Err((error, _)) => return Err(error),
                Ok(delivery) => return Ok(delivery),
            }
        }
    }

    /// Gives back what it has not sent, where it failed for good: an answer to an earlier request can put messages into its
    /// queue that it never sends.
    pub(super) fn give_back(&self) {
        if let Some(producer) = &self.producer {
            producer.purge(PurgeConfig::default().queue().non_blocking());
        }
    }

    /// Gives it up: what it still has is sent no more, and comes back as unknown. It takes nothing more.
    pub(super) fn give_up(&self) {
        let mut given_up = self.given_up.write().unwrap_or_else(PoisonError::into_inner);
        *given_up = true;
        if let Some(producer) = &self.producer {
            producer.purge(PurgeConfig::default().queue().inflight().non_blocking());
        }
    }

    /// Asks the cluster for its brokers and for one topic, or for all.
    ///
    /// # Errors
    /// `Config` when the cluster refuses us, `Unavailable` otherwise; unsent either way.
    pub(super) async fn metadata(self: &Arc<Self>, topic: Option<&str>) -> Result<Metadata> {
        let (topic, listener) = (topic.map(str::to_owned), self.listener.clone());
        let began = Instant::now();
        let asked = self.blocking(move |producer| {
            let answer = producer.client().fetch_metadata(topic.as_deref(), CONNECT);
            if answer.is_ok() {
                listener.well();
            }
            answer
        });
        let away = |kind, why: &str| Error::new(kind, format!("connecting to {}: {why}", self.shown)).unsent();
        let answer = tokio::select! {
            biased;
            answer = asked => answer?.map_err(|error| match self.listener.trouble() {
                Some((kind, why)) => away(kind, &why),
                None => away(ErrorKind::Unavailable, &format!("{error}; is the server running?")),
            }),
            (kind, why) = self.refusal() => Err(away(kind, &why)),
        };
        let mut unanswered_since = self.unanswered_since();
        *unanswered_since = if answer.is_ok() { None } else { Some(unanswered_since.unwrap_or(began)) };
        drop(unanswered_since);
        answer
    }

    /// Waits for a refusal. One that is known already may be out of date: it has to last for a while.
    async fn refusal(&self) -> (ErrorKind, String) {
        if matches!(self.listener.trouble(), Some((ErrorKind::Config, _))) {
            tokio::time::sleep(OUT_OF_DATE).await;
        }
        self.listener.refused().await
    }

    /// Runs a call of librdkafka that blocks where it blocks nobody.
    ///
    /// # Errors
    /// `Unavailable` and unsent when the producer is gone.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        call: impl FnOnce(&Producer) -> T + Send + 'static,
    ) -> Result<T> {
        let line = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || line.producer().map(call)).await;
        done.unwrap_or_else(|error| {
            let text = format!("the client for {} ended unexpectedly", self.shown);
            Err(Error::new(ErrorKind::Unknown, text).because(error))
        })
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let Some(producer) = self.producer.take() else { return };
        // Destroying a client waits for its threads. Where there is no thread to be had, this one waits.
        drop(std::thread::Builder::new().name("kafka-end".to_owned()).spawn(move || drop(producer)));
    }
}

/// Settings that librdkafka does not take. Its own text is not shown whole: it may hold a value.
pub(super) fn refused(what: &str, shown: &str, error: &KafkaError) -> Error {
    let why = match error {
        KafkaError::ClientConfig(_, what, name, _) => format!("{what} ({name})"),
        other => other.to_string(),
    };
    Error::new(ErrorKind::Config, format!("preparing the {what} for {shown}: {why}"))
}

#[cfg(test)]
mod tests {
    use rdkafka::producer::FutureRecord;

    use super::*;

    /// What it had may have been purged: nothing may leave behind that.
    #[tokio::test]
    async fn a_producer_that_was_given_up_takes_nothing_more() {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", "127.0.0.1:9");
        let line = Line::new("kafka://nowhere", &config).unwrap();
        let record = || FutureRecord::to("orders");
        let waiting = line.send(record(), Instant::now()).await.unwrap();
        line.give_up();
        let refused = line.send(record(), Instant::now()).await;
        let expected = KafkaError::MessageProduction(RDKafkaErrorCode::PurgeQueue);
        assert!(matches!(refused, Err(ref error) if *error == expected), "{:?}", refused.err());
        assert!(line.is_over());
        let given_back = waiting.await.unwrap();
        assert!(matches!(given_back, Err((ref error, _)) if *error == expected), "{given_back:?}");
    }
}
