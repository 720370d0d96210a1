//! The order of a batch: the first message of every key goes at once, and what is behind it of its key when it is accepted:
//! as a [`series`] where it is more than one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use postrider_core::{Accepted, Error, ErrorKind, Outgoing, Published, Result};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::DeliveryFuture;
use tokio::time::{Instant, timeout_at};

use super::line::Line;
use super::link::Link;
use super::place::Places;
use super::settings::Settings;
use super::way::Way;
use super::{answer, attributes, series, wire};
use crate::key_order::in_order;

/// How much later than its timeout librdkafka may say that a message timed out.
const GRACE: Duration = Duration::from_secs(3);

/// What became of a message: the partition that has it, or the failure; none when the producer is gone.
pub(super) type Delivered = std::result::Result<i32, Option<RDKafkaErrorCode>>;

/// What became of what was sent together.
enum Answer {
    One(usize, Way, Delivered),
    Series(Vec<(usize, Delivered)>),
}

/// Why a message was not taken.
enum Refused {
    /// Its producer can't take it.
    ByProducer(Error),
    /// There is no room.
    Full(Error),
    /// Another producer would not take it either.
    ForGood(Error),
}

/// A batch on its way. Dropped before its end, it takes back what it can.
pub(super) struct Window<'a> {
    settings: &'a Settings,
    link: &'a Link,
    places: &'a Places,
    batch: &'a [Outgoing],
    /// For each message the next one of its key.
    followers: Vec<Option<usize>>,
    /// Whether a message goes alone because its series failed.
    singly: Vec<bool>,
    /// When nothing more of it is sent.
    closing: Instant,
    /// The producers that have something of it.
    lines: Vec<Arc<Line>>,
    under_way: FuturesUnordered<BoxFuture<'static, Answer>>,
    /// Whether a message has no answer yet. Its outcome is not known, which is written down only where it stays so.
    unanswered: Vec<bool>,
    results: Vec<Published>,
}

impl<'a> Window<'a> {
    pub(super) fn new(settings: &'a Settings, link: &'a Link, places: &'a Places, batch: &'a [Outgoing]) -> Self {
        Self {
            settings,
            link,
            places,
            batch,
            followers: Vec::new(),
            singly: vec![false; batch.len()],
            closing: Instant::now() + settings.timeout,
            lines: Vec::new(),
            under_way: FuturesUnordered::new(),
            unanswered: vec![false; batch.len()],
            results: batch.iter().map(|_| Published::NotSent).collect(),
        }
    }

    /// Sends the batch and returns one result per message, in the batch's order.
    ///
    /// After a message that was not accepted, or once the timeout has passed, the later ones of its key are not sent. So a
    /// call takes at most twice the timeout, and the time that librdkafka needs to notice.
    pub(super) async fn publish(mut self) -> Vec<Published> {
        let (firsts, followers) = in_order(self.batch);
        self.followers = followers;
        for index in firsts {
            self.send(index, Way::Batched).await;
        }
        let end = self.closing + self.settings.timeout + GRACE;
        while let Ok(Some(answer)) = timeout_at(end, self.under_way.next()).await {
            match answer {
                Answer::One(index, way, delivered) => self.one_answered(index, way, delivered).await,
                Answer::Series(answers) => self.series_answered(answers).await,
            }
        }
        for index in 0..self.batch.len() {
            if self.unanswered.get(index) == Some(&true) {
                self.note(index, Err(None));
            }
        }
        std::mem::take(&mut self.results)
    }

    async fn one_answered(&mut self, index: usize, way: Way, delivered: Delivered) {
        let neighbour = matches!(delivered, Err(Some(code)) if answer::may_be_a_neighbour(code));
        if neighbour && way == Way::Batched {
            // None of its key is on its way: sent again, it still comes before those behind it.
            return self.send(index, Way::Alone).await;
        }
        self.note(index, delivered);
        if let Ok(partition) = delivered {
            self.go_on_behind(index, partition).await;
        }
    }

    async fn series_answered(&mut self, answers: Vec<(usize, Delivered)>) {
        for (index, delivered) in &answers {
            self.note(*index, *delivered);
        }
        let Some(failed) = answers.iter().position(|(_, delivered)| delivered.is_err()) else {
            if let Some((last, Ok(partition))) = answers.last() {
                self.go_on_behind(*last, *partition).await;
            }
            return;
        };
        let Some((index, Err(code))) = answers.get(failed) else { return };
        let is_refused = matches!(code, Some(code) if answer::may_be_a_neighbour(*code));
        let is_not_there = self.is_known_not_to_be_there(*index);
        for (behind, _) in answers.iter().skip(failed).filter(|(_, delivered)| delivered.is_err()) {
            if let Some(singly) = self.singly.get_mut(*behind) {
                *singly = true;
            }
            // The server takes nothing behind what it refused. Whose fault that is, is not known of a whole request.
            if is_refused || (is_not_there && behind != index) {
                self.result(*behind, Published::NotSent);
            }
        }
        if is_refused && let Some((topic, _)) = self.place_of(*index) {
            self.link.refused_a_series(topic);
        }
        if !self.is_open() {
            return;
        }
        if is_refused {
            self.send(*index, Way::Alone).await;
        } else if *code == Some(RDKafkaErrorCode::PurgeQueue) {
            // The producer ended for another's sake before this one left. Where it waited to be tried again, this can
            // repeat it, as any unknown outcome can.
            self.send(*index, Way::Batched).await;
        }
    }

    /// Sends what is behind a message of its key that a partition has.
    async fn go_on_behind(&mut self, index: usize, partition: i32) {
        if !self.is_open() {
            return;
        }
        let series = self.series_behind(index);
        if series.len() >= series::SHORTEST {
            self.send_series(series, partition).await;
        } else if let Some(next) = self.next(index) {
            self.send(next, Way::Batched).await;
        }
    }

    /// Whether there is time to send.
    fn is_open(&self) -> bool {
        Instant::now() < self.closing
    }

    /// The next message of a key, if it is still to be sent: not yet, or given back by its producer.
    fn next(&self, index: usize) -> Option<usize> {
        let follower = |index: &usize| self.followers.get(*index).copied().flatten();
        let is_accepted = |index: &usize| matches!(self.results.get(*index), Some(Published::Accepted(_)));
        let next = std::iter::successors(follower(&index), follower).find(|next| !is_accepted(next))?;
        (!self.is_known_not_to_be_there(next)).then_some(next)
    }

    /// The messages of a key behind one that go to its partition together, in their order.
    fn series_behind(&self, index: usize) -> Vec<usize> {
        let Some(place) = self.place_of(index).filter(|(topic, _)| self.link.takes_series(topic)) else {
            return Vec::new();
        };
        let goes_along = |next: &usize| self.singly.get(*next) == Some(&false) && self.place_of(*next) == Some(place);
        std::iter::successors(self.next(index), |index| self.next(*index)).take_while(goes_along).collect()
    }

    /// What tells the partition of a message beside its key.
    fn place_of(&self, index: usize) -> Option<(&str, Option<&str>)> {
        let outgoing = self.batch.get(index)?;
        Some((outgoing.destination.as_str(), outgoing.message.attributes.get(attributes::PARTITION)))
    }

    fn sent(&mut self, index: usize) {
        if let Some(unanswered) = self.unanswered.get_mut(index) {
            *unanswered = true;
        }
    }

    fn result(&mut self, index: usize, result: Published) {
        if let (Some(unanswered), Some(place)) = (self.unanswered.get_mut(index), self.results.get_mut(index)) {
            *unanswered = false;
            *place = result;
        }
    }

    fn note(&mut self, index: usize, delivered: Delivered) {
        let Some(outgoing) = self.batch.get(index) else { return };
        let topic = outgoing.destination.as_str();
        let result = match delivered {
            Ok(_) => Published::Accepted(Accepted::FRESH),
            Err(code) => {
                let code = code.unwrap_or(RDKafkaErrorCode::PurgeInflight);
                if answer::is_about_the_topic(code) {
                    self.link.forget(topic);
                }
                Published::Failed(answer::delivery(&self.settings.shown, topic, code))
            }
        };
        self.result(index, result);
    }

    fn is_known_not_to_be_there(&self, index: usize) -> bool {
        matches!(self.results.get(index), Some(Published::Failed(error)) if error.kind() != ErrorKind::Unknown)
    }

    /// Sends one message of a key, none of which is on its way.
    async fn send(&mut self, index: usize, way: Way) {
        loop {
            let line = match self.line(way) {
                Ok(line) => line,
                Err(error) => return self.result(index, Published::Failed(error)),
            };
            match self.offer(index, &line, None, self.closing).await {
                Ok(delivery) => {
                    self.sent(index);
                    let answered = delivery.map(move |report| Answer::One(index, way, self::delivered(report)));
                    return self.under_way.push(answered.boxed());
                }
                // Another one takes its place.
                Err(Refused::ByProducer(_)) if self.is_open() => {}
                Err(Refused::ByProducer(error) | Refused::Full(error) | Refused::ForGood(error)) => {
                    return self.result(index, Published::Failed(error));
                }
            }
        }
    }

    /// Sends messages of one key to one partition, none of which is on its way: the first of them alone where the producer
    /// is not known there.
    async fn send_series(&mut self, mut messages: Vec<usize>, partition: i32) {
        let Some((first, topic)) =
            messages.first().and_then(|first| Some((*first, self.place_of(*first)?.0.to_owned())))
        else {
            return;
        };
        let line = match self.line(Way::Series) {
            Ok(line) => line,
            Err(error) => return self.result(first, Published::Failed(error)),
        };
        if line.known().get(&(topic.clone(), partition), Instant::now()).is_none() {
            messages.truncate(1);
        }
        let mut sent = Vec::with_capacity(messages.len());
        for index in messages {
            // Who waits for room behind others does it when these have their answers.
            let closing = if sent.is_empty() { self.closing } else { Instant::now() };
            match self.offer(index, &line, Some(partition), closing).await {
                Ok(delivery) => {
                    self.sent(index);
                    sent.push((index, delivery));
                }
                Err(Refused::ForGood(error)) => {
                    self.result(index, Published::Failed(error));
                    break;
                }
                Err(Refused::Full(error)) if sent.is_empty() => return self.result(index, Published::Failed(error)),
                Err(Refused::Full(_) | Refused::ByProducer(_)) => break,
            }
        }
        if !sent.is_empty() {
            let until = Instant::now() + self.settings.timeout;
            self.under_way.push(series::answers(line, topic, sent, until).map(Answer::Series).boxed());
        } else if matches!(self.results.get(first), Some(Published::NotSent)) {
            self.send(first, Way::Batched).await;
        }
    }

    /// Hands one message to a producer, for the partition that it asks for, or for this one.
    async fn offer(
        &mut self,
        index: usize,
        line: &Line,
        partition: Option<i32>,
        closing: Instant,
    ) -> std::result::Result<DeliveryFuture, Refused> {
        let gone = || Refused::ForGood(answer::not_taken(&self.settings.shown, "", Some(RDKafkaErrorCode::State)));
        let outgoing = self.batch.get(index).ok_or_else(gone)?;
        let topic = outgoing.destination.as_str();
        let mut record = wire::record(outgoing, self.places.get(topic)).map_err(Refused::ForGood)?;
        record.partition = partition.or(record.partition);
        line.send(record, closing).await.map_err(|error| {
            let code = error.rdkafka_error_code();
            let told = answer::not_taken(&self.settings.shown, topic, code);
            match code {
                Some(RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::Fatal) => Refused::ByProducer(told),
                // Each producer asks for the partitions of a topic for itself.
                Some(RDKafkaErrorCode::UnknownPartition) if partition.is_some() => Refused::ByProducer(told),
                Some(RDKafkaErrorCode::QueueFull) => Refused::Full(told),
                code => {
                    if code.is_some_and(answer::is_about_the_topic) {
                        self.link.forget(topic);
                    }
                    Refused::ForGood(told)
                }
            }
        })
    }

    /// The producer of one way, which is given up where this call is.
    fn line(&mut self, way: Way) -> Result<Arc<Line>> {
        let line = self.link.line(way)?;
        if !self.lines.iter().any(|used| Arc::ptr_eq(used, &line)) {
            self.lines.push(Arc::clone(&line));
        }
        Ok(line)
    }
}

impl Drop for Window<'_> {
    /// A relay that gave up this call must not go on publishing beside its successor, and a message without an answer
    /// must not leave later behind our back: the producers end, and others take their place.
    fn drop(&mut self) {
        if !self.under_way.is_empty() {
            self.lines.iter().for_each(|line| line.give_up());
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
        Ok(Ok(stored)) => Ok(stored.partition),
        Ok(Err((error, _))) => Err(error.rdkafka_error_code()),
        Err(_) => Err(None),
    }
}
