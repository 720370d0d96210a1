//! The order of a batch: the first message of every key goes at once, and each later one when the one before it of its
//! key is acknowledged.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use postrider_core::{Accepted, Error, Outgoing, Published, Result};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::DeliveryFuture;
use tokio::time::{Instant, sleep, timeout_at};

use super::line::Line;
use super::link::Link;
use super::place::Places;
use super::settings::Settings;
use super::{answer, wire};
use crate::key_order::in_order;

/// How long a full queue is waited for at a time.
const BREATH: Duration = Duration::from_millis(5);
/// How much later than its timeout librdkafka may say that a message timed out.
const GRACE: Duration = Duration::from_secs(3);

/// Which producer carries a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Batched,
    /// In a request of its own, because a request with others in it was refused.
    Alone,
}

/// What became of a message: none when the producer is gone.
type Delivered = Result<(), Option<RDKafkaErrorCode>>;

/// A batch on its way. Dropped before its end, it takes back what it can.
pub(super) struct Window<'a> {
    settings: &'a Settings,
    link: &'a Link,
    line: Arc<Line>,
    alone: Option<Arc<Line>>,
    places: &'a Places,
    batch: &'a [Outgoing],
    /// When nothing more of it is sent.
    closing: Instant,
    under_way: FuturesUnordered<BoxFuture<'static, (usize, Way, Delivered)>>,
    results: Vec<Published>,
}

impl<'a> Window<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        link: &'a Link,
        line: Arc<Line>,
        places: &'a Places,
        batch: &'a [Outgoing],
    ) -> Self {
        Self {
            settings,
            link,
            line,
            alone: None,
            places,
            batch,
            closing: Instant::now() + settings.timeout,
            under_way: FuturesUnordered::new(),
            results: batch.iter().map(|_| Published::NotSent).collect(),
        }
    }

    /// Sends the batch and returns one result per message, in the batch's order.
    ///
    /// After a message that was not accepted, or once the timeout has passed, the later ones of its key are not sent. So a
    /// call takes at most twice the timeout, and the time that librdkafka needs to notice.
    pub(super) async fn publish(mut self) -> Vec<Published> {
        let (firsts, followers) = in_order(self.batch);
        for index in firsts {
            self.send(index, Way::Batched).await;
        }
        let end = self.closing + self.settings.timeout + GRACE;
        while let Ok(Some((index, way, delivered))) = timeout_at(end, self.under_way.next()).await {
            let in_time = Instant::now() < self.closing;
            let neighbour = matches!(delivered, Err(Some(code)) if answer::may_be_a_neighbour(code));
            if neighbour && way == Way::Batched {
                // None of its key is on its way: sent again, it still comes before those behind it.
                self.send(index, Way::Alone).await;
                continue;
            }
            let accepted = delivered.is_ok();
            self.note(index, delivered);
            let next = followers.get(index).copied().flatten().filter(|_| accepted && in_time);
            if let Some(next) = next {
                self.send(next, Way::Batched).await;
            }
        }
        std::mem::take(&mut self.results)
    }

    fn note(&mut self, index: usize, delivered: Delivered) {
        let (Some(place), Some(outgoing)) = (self.results.get_mut(index), self.batch.get(index)) else { return };
        let topic = outgoing.destination.as_str();
        *place = match delivered {
            Ok(()) => Published::Accepted(Accepted::FRESH),
            Err(code) => {
                let code = code.unwrap_or(RDKafkaErrorCode::PurgeInflight);
                if answer::is_about_the_topic(code) {
                    self.link.forget(topic);
                }
                Published::Failed(answer::delivery(&self.settings.shown, topic, code))
            }
        };
    }

    async fn send(&mut self, index: usize, way: Way) {
        match self.hand_over(index, way).await {
            Ok(delivery) => {
                // Until its answer is here, it is not known.
                self.note(index, Err(None));
                let answered = delivery.map(move |delivered| (index, way, self::delivered(delivered)));
                self.under_way.push(answered.boxed());
            }
            Err(error) => {
                if let Some(place) = self.results.get_mut(index) {
                    *place = Published::Failed(error);
                }
            }
        }
    }

    /// Hands one message to librdkafka, waiting while its queue is full.
    async fn hand_over(&mut self, index: usize, way: Way) -> Result<DeliveryFuture> {
        let batch = self.batch;
        let gone = || answer::not_taken(&self.settings.shown, "", Some(RDKafkaErrorCode::State));
        let outgoing = batch.get(index).ok_or_else(gone)?;
        let topic = outgoing.destination.as_str();
        let mut record = wire::record(outgoing, self.places.get(topic))?;
        let line = match way {
            Way::Batched => Arc::clone(&self.line),
            Way::Alone => self.line_alone()?,
        };
        loop {
            match line.producer()?.send_result(record) {
                Ok(delivery) => return Ok(delivery),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back))
                    if Instant::now() < self.closing =>
                {
                    record = back;
                    sleep(BREATH).await;
                }
                Err((error, _)) => return Err(self.not_taken(topic, &error)),
            }
        }
    }

    fn line_alone(&mut self) -> Result<Arc<Line>> {
        let line = match &self.alone {
            Some(line) => Arc::clone(line),
            None => self.link.alone()?,
        };
        self.alone = Some(Arc::clone(&line));
        Ok(line)
    }

    fn not_taken(&self, topic: &str, error: &KafkaError) -> Error {
        let code = error.rdkafka_error_code();
        if code.is_some_and(answer::is_about_the_topic) {
            self.link.forget(topic);
        }
        answer::not_taken(&self.settings.shown, topic, code)
    }
}

impl Drop for Window<'_> {
    /// A relay that gave up this call must not go on publishing beside its successor, and a message without an answer
    /// must not leave later behind our back: the producers end, and others take their place.
    fn drop(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        self.line.give_up();
        if let Some(alone) = &self.alone {
            alone.give_up();
        }
    }
}

/// What a delivery report says.
///
/// librdkafka takes the answer to a later request for that of every one before it (`rd_kafka_dr_implicit_ack`), which holds
/// only while the server knows the producer in that partition: it stores the first thing that a new one sends there, whatever
/// number it has, so that what it had refused before is nowhere. Seen as two lost messages in a loaded machine's first second.
/// What was accepted in this way has no offset, and its outcome is not known.
pub(super) fn delivered<E>(
    report: std::result::Result<
        std::result::Result<rdkafka::producer::future_producer::Delivery, (KafkaError, E)>,
        impl Sized,
    >,
) -> Delivered {
    match report {
        Ok(Ok(stored)) if stored.offset < 0 => Err(Some(RDKafkaErrorCode::GaplessGuarantee)),
        Ok(Ok(_)) => Ok(()),
        Ok(Err((error, _))) => Err(error.rdkafka_error_code()),
        Err(_) => Err(None),
    }
}
