//! The order of a batch: the first message of every key goes at once, and each later one when the one before it of its
//! key is acknowledged.
//!
//! Acknowledgements come nearly in the order of sending, so they are awaited in that order, one at a time: a thousand
//! futures that each wait for their own acknowledgement, their own deadline and the end of the connection cost several
//! times as much. A follower is sent as soon as its turn is known, not when all before it are answered: the connection
//! has something to carry all the time.

use std::collections::VecDeque;

use async_nats::jetstream;
use async_nats::jetstream::context::{PublishAckFuture, PublishErrorKind};
use postrider_core::{Accepted, Error, Outgoing, Published, Result};
use tokio::time::{Instant, sleep_until};

use super::link::Watch;
use super::settings::Settings;
use super::{ack, wire};
use crate::key_order::in_order;

/// A batch on its way.
pub(super) struct Window<'a> {
    settings: &'a Settings,
    context: jetstream::Context,
    watch: Watch,
    batch: &'a [Outgoing],
    /// When nothing more of it is sent.
    closing: Instant,
    /// In the order of sending.
    awaited: VecDeque<Sent<'a>>,
    results: Vec<Published>,
}

/// A message that the client took.
struct Sent<'a> {
    index: usize,
    subject: &'a str,
    at: Instant,
    acknowledged: PublishAckFuture,
}

impl<'a> Window<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        (context, watch): (jetstream::Context, Watch),
        batch: &'a [Outgoing],
    ) -> Self {
        let closing = Instant::now() + settings.timeout;
        let results = batch.iter().map(|_| Published::NotSent).collect();
        Self { settings, context, watch, batch, closing, awaited: VecDeque::with_capacity(batch.len()), results }
    }

    /// Sends the batch and returns one result per message, in the batch's order.
    ///
    /// After a message that was not accepted, or once the timeout has passed, the later ones of its key are not sent. So a
    /// call takes at most twice the timeout.
    pub(super) async fn publish(mut self) -> Vec<Published> {
        let (firsts, followers) = in_order(self.batch);
        for index in firsts {
            self.send(index).await;
        }
        while let Some(sent) = self.awaited.pop_front() {
            let index = sent.index;
            let answer = self.acknowledged(sent).await;
            let follower = followers.get(index).copied().flatten();
            let next = follower.filter(|_| answer.is_ok() && Instant::now() < self.closing);
            self.note(index, answer.map_or_else(Published::Failed, Published::Accepted));
            if let Some(next) = next {
                self.send(next).await;
            }
        }
        self.results
    }

    fn note(&mut self, index: usize, result: Published) {
        if let Some(place) = self.results.get_mut(index) {
            *place = result;
        }
    }

    async fn send(&mut self, index: usize) {
        let Some(outgoing) = self.batch.get(index) else { return };
        match self.hand_over(index, outgoing).await {
            Ok(sent) => self.awaited.push_back(sent),
            Err(error) => self.note(index, Published::Failed(error)),
        }
    }

    /// Hands one message to the client.
    async fn hand_over(&self, index: usize, outgoing: &'a Outgoing) -> Result<Sent<'a>> {
        let subject = wire::subject(&outgoing.destination)?;
        let publish = wire::publish(self.settings, outgoing)?;
        // A message handed to a client that is not connected would be sent some time later, behind our back.
        self.watch.connected()?;
        let sent = tokio::select! {
            biased;
            sent = self.context.send_publish(subject.to_owned(), publish) => sent,
            () = sleep_until(self.closing) => return Err(self.not_in_time(subject)),
        };
        let acknowledged = sent.map_err(|error| ack::classify(&self.settings.shown, subject, &error))?;
        Ok(Sent { index, subject, at: Instant::now(), acknowledged })
    }

    /// Waits for the acknowledgement of one message.
    async fn acknowledged(&mut self, sent: Sent<'_>) -> Result<Accepted> {
        let Sent { subject, at, acknowledged, .. } = sent;
        tokio::select! {
            biased;
            answer = acknowledged.into_future() => match answer {
                Ok(answer) => Ok(ack::accepted(&answer)),
                Err(error) => Err(ack::classify(&self.settings.shown, subject, &error)),
            },
            broken = self.watch.broken(subject) => Err(ack::broken(&self.settings.shown, subject, &broken)),
            () = sleep_until(at + self.settings.timeout) => Err(self.not_in_time(subject)),
        }
    }

    fn not_in_time(&self, subject: &str) -> Error {
        ack::classify(&self.settings.shown, subject, &PublishErrorKind::TimedOut.into())
    }
}
