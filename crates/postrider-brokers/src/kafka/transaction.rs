//! What one call publishes of a lane: one transaction, accepted as a whole when it is committed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use postrider_core::{Accepted, Error, ErrorKind, Outgoing, Published, Result};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{DeliveryFuture, Producer as _};
use rdkafka::util::Timeout;
use tokio::time::Instant;

use super::line::Line;
use super::place::Places;
use super::settings::Settings;
use super::window::delivered;
use super::{answer, wire};

/// How long the coordinator of an id may take: it ends what the one before left open.
const PREPARE: Duration = Duration::from_secs(10);

/// What is said of a message that did nothing wrong itself.
const PURGED: [Option<RDKafkaErrorCode>; 3] =
    [None, Some(RDKafkaErrorCode::PurgeQueue), Some(RDKafkaErrorCode::PurgeInflight)];

/// Messages of one lane, in their order.
pub(super) struct Transaction<'a> {
    settings: &'a Settings,
    line: &'a Arc<Line>,
    places: &'a Places,
    messages: &'a [&'a Outgoing],
    /// When nothing more is begun.
    closing: Instant,
    /// When nothing more is tried again without what was refused.
    end: Instant,
    results: Vec<Option<Published>>,
}

/// What a failure in an aborted transaction says of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// It is its own.
    Own,
    /// It may be that of another message in the same request.
    Neighbour,
    /// Nothing: the transaction could not go on, and took the message with it.
    Purged,
}

/// How one try ended.
enum End {
    /// Everything in it is there.
    Committed,
    /// Nothing of it is there: this one failed.
    Aborted(usize, Error, Cause),
    /// It is not known what is there, or nothing can be said for the others: the same error for all.
    Over(Error),
}

impl<'a> Transaction<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        line: &'a Arc<Line>,
        places: &'a Places,
        messages: &'a [&'a Outgoing],
    ) -> Self {
        let closing = Instant::now() + settings.timeout;
        let results = messages.iter().map(|_| None).collect();
        Self { settings, line, places, messages, closing, end: closing + settings.timeout, results }
    }

    /// Tells the broker that the id is this producer's: an earlier one with it is fenced, and what that had not
    /// committed is aborted.
    ///
    /// # Errors
    /// `Config` when the broker refuses it, `Unavailable` otherwise; unsent either way.
    pub(super) async fn prepare(settings: &Settings, line: &Arc<Line>, id: &str) -> Result<()> {
        let doing = format!("taking the transactional id {id:?} at {}", settings.shown);
        let asked = line.blocking(|producer| producer.init_transactions(Timeout::After(PREPARE)));
        tokio::select! {
            biased;
            answer = asked => answer?.map_err(|error| {
                line.give_up();
                let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
                let told = answer::delivery(&settings.shown, "", code);
                let kind = if told.kind() == ErrorKind::Config { ErrorKind::Config } else { ErrorKind::Unavailable };
                let why = line.listener().trouble().map_or_else(|| error.to_string(), |(_, why)| why);
                Error::new(kind, doing.clone()).because(why).unsent()
            }),
            (kind, why) = line.listener().refused() => Err(Error::new(kind, doing.clone()).because(why).unsent()),
        }
    }

    /// One result per message. A message that is refused is left out with those behind it of its key, and the others are
    /// tried again without them.
    pub(super) async fn publish(mut self) -> Vec<Published> {
        for (index, outgoing) in self.messages.iter().enumerate() {
            // What Kafka can't have is left out before a transaction is begun for it.
            if self.is_open(index)
                && let Err(error) = wire::record(outgoing, self.places.get(outgoing.destination.as_str()))
            {
                self.fail(index, error);
            }
        }
        // The call before this one may have ended with a refusal.
        let (mut one_by_one, mut gap) = (false, true);
        loop {
            let left: Vec<usize> = (0..self.messages.len()).filter(|index| self.is_open(*index)).collect();
            if left.is_empty() {
                break;
            }
            let end = self.try_once(&left, one_by_one).await;
            let in_time = Instant::now() < self.end;
            match end {
                End::Committed => {
                    left.iter().for_each(|index| self.set(*index, Published::Accepted(Accepted::FRESH)));
                }
                // The answer to a request names all its messages; sent one by one, it names the right one.
                End::Aborted(_, _, Cause::Neighbour) if !one_by_one && in_time => (one_by_one, gap) = (true, true),
                // There is no time left to find out which of them it was: nobody is to blame.
                End::Aborted(_, _, Cause::Neighbour) if !one_by_one => break,
                // librdkafka goes on counting from what was refused, so the broker misses numbers in the next transaction.
                // Aborting that one makes them anew, under the same id: a new producer could take the lane back.
                End::Aborted(_, _, Cause::Purged) if gap && in_time => gap = false,
                End::Aborted(index, error, _) => {
                    (one_by_one, gap) = (false, true);
                    let refused = error.kind() == ErrorKind::Rejected || error.kind() == ErrorKind::Config;
                    self.fail(index, error);
                    if !refused || !in_time {
                        break;
                    }
                }
                End::Over(error) => {
                    left.iter().for_each(|index| self.set(*index, Published::Failed(answer::again(&error))));
                }
            }
        }
        // What was in an aborted transaction is not there.
        self.results.into_iter().map(|result| result.unwrap_or(Published::NotSent)).collect()
    }

    fn is_open(&self, index: usize) -> bool {
        self.results.get(index).is_some_and(Option::is_none)
    }

    fn set(&mut self, index: usize, result: Published) {
        if let Some(place) = self.results.get_mut(index) {
            *place = Some(result);
        }
    }

    /// Records a failure, and that those behind it of its key were not sent.
    fn fail(&mut self, index: usize, error: Error) {
        self.set(index, Published::Failed(error));
        let key = self.messages.get(index).and_then(|outgoing| outgoing.message.key.as_ref());
        let Some(key) = key else { return };
        for (later, outgoing) in self.messages.iter().enumerate().skip(index + 1) {
            if outgoing.message.key.as_ref() == Some(key)
                && let Some(place @ None) = self.results.get_mut(later)
            {
                *place = Some(Published::NotSent);
            }
        }
    }

    async fn try_once(&self, left: &[usize], one_by_one: bool) -> End {
        if let Err(error) = self.begin().await {
            return End::Over(error);
        }
        let mut sent = Vec::with_capacity(left.len());
        for &index in left {
            match self.hand_over(index).await {
                Ok(delivery) if one_by_one => {
                    if let Err(code) = delivered(delivery.await) {
                        return self.abort(index, code).await;
                    }
                }
                Ok(delivery) => sent.push((index, delivery)),
                Err(error) => return self.abort_with(index, error, Cause::Own).await,
            }
        }
        let answers =
            join_all(sent.into_iter().map(|(index, delivery)| async move { (index, delivered(delivery.await)) }));
        let failed: Vec<_> =
            answers.await.into_iter().filter_map(|(index, answer)| Some((index, answer.err()?))).collect();
        // One that is refused takes the others of the transaction with it: they come back purged.
        let cause = failed.iter().find(|(_, code)| !PURGED.contains(code)).or(failed.first());
        match cause {
            Some((index, code)) => self.abort(*index, *code).await,
            None => self.commit().await,
        }
    }

    async fn begin(&self) -> Result<()> {
        let begun = self.line.blocking(|producer| producer.begin_transaction()).await?;
        begun.map_err(|error| self.over("beginning a transaction", &error).unsent())
    }

    async fn hand_over(&self, index: usize) -> Result<DeliveryFuture> {
        let gone = || answer::not_taken(&self.settings.shown, "", Some(RDKafkaErrorCode::State));
        let outgoing = self.messages.get(index).ok_or_else(gone)?;
        let topic = outgoing.destination.as_str();
        let record = wire::record(outgoing, self.places.get(topic))?;
        let handed = self.line.send(record, self.closing).await;
        handed.map_err(|error| answer::not_taken(&self.settings.shown, topic, error.rdkafka_error_code()))
    }

    async fn abort(&self, index: usize, code: Option<RDKafkaErrorCode>) -> End {
        let purged = PURGED.contains(&code);
        let code = code.unwrap_or(RDKafkaErrorCode::PurgeInflight);
        let topic = self.messages.get(index).map_or("", |outgoing| outgoing.destination.as_str());
        let error = answer::delivery(&self.settings.shown, topic, code);
        let cause = match answer::may_be_a_neighbour(code) {
            true => Cause::Neighbour,
            false if purged => Cause::Purged,
            false => Cause::Own,
        };
        self.abort_with(index, error, cause).await
    }

    async fn abort_with(&self, index: usize, error: Error, cause: Cause) -> End {
        if let Some(fenced) = self.fenced() {
            return End::Over(fenced);
        }
        let bound = Timeout::After(self.settings.timeout);
        match self.line.blocking(move |producer| producer.abort_transaction(bound)).await {
            Ok(Ok(())) => End::Aborted(index, error, cause),
            Ok(Err(failed)) => End::Over(self.over("aborting a transaction", &failed)),
            Err(failed) => End::Over(failed),
        }
    }

    async fn commit(&self) -> End {
        let bound = Timeout::After(self.settings.timeout);
        match self.line.blocking(move |producer| producer.commit_transaction(bound)).await {
            Ok(Ok(())) => End::Committed,
            Ok(Err(failed)) => End::Over(self.over("committing a transaction", &failed)),
            Err(failed) => End::Over(failed),
        }
    }

    /// A failure after which this producer can't go on: the next one ends what it left open.
    fn over(&self, doing: &str, error: &KafkaError) -> Error {
        if let Some(fenced) = self.fenced() {
            return fenced;
        }
        self.line.give_up();
        let kind = match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::Fenced | RDKafkaErrorCode::ProducerFenced) => ErrorKind::Fenced,
            Some(RDKafkaErrorCode::TransactionalIdAuthorizationFailed) => ErrorKind::Config,
            _ => ErrorKind::Unknown,
        };
        Error::new(kind, format!("{doing} at {}", self.settings.shown)).because(error.to_string())
    }

    /// Whether the broker gave the lane's id to another producer.
    fn fenced(&self) -> Option<Error> {
        let (code, why) = self.line.producer().ok()?.client().fatal_error()?;
        let fenced =
            [RDKafkaErrorCode::Fenced, RDKafkaErrorCode::ProducerFenced, RDKafkaErrorCode::InvalidProducerEpoch];
        fenced.contains(&code).then(|| {
            let text = format!("the lane was taken over by another relay, says {}", self.settings.shown);
            Error::new(ErrorKind::Fenced, text).because(why)
        })
    }
}
