//! The order of a batch: in rounds, the next message of every key, and then their acknowledgements.
//!
//! A message goes when the one before it of its key was acknowledged. Acknowledgements come nearly in the order of
//! sending, so they are awaited in that order, one at a time: a thousand futures that each wait for their own
//! acknowledgement, their own deadline and the end of the connection cost several times as much.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Instant;

use async_nats::jetstream;
use async_nats::jetstream::context::{PublishAckFuture, PublishErrorKind};
use postrider_core::{Accepted, Error, Outgoing, Published, Result};
use tokio::time::sleep;

use super::link::Watch;
use super::settings::Settings;
use super::{ack, wire};

/// A batch on its way.
pub(super) struct Rounds<'a> {
    pub(super) settings: &'a Settings,
    pub(super) context: jetstream::Context,
    pub(super) watch: Watch,
    pub(super) batch: &'a [Outgoing],
}

/// A message that the client took.
struct Sent<'a> {
    index: usize,
    subject: &'a str,
    acknowledged: PublishAckFuture,
}

impl Rounds<'_> {
    /// Sends the batch and returns one result per message, in the batch's order.
    ///
    /// After a message that was not accepted, or once the timeout has passed, the later ones of its key are not sent. So a
    /// call takes at most twice the timeout.
    pub(super) async fn publish(mut self) -> Vec<Published> {
        let began = Instant::now();
        let (mut next, followers) = in_order(self.batch);
        let mut results: Vec<Published> = self.batch.iter().map(|_| Published::NotSent).collect();
        while !next.is_empty() && began.elapsed() <= self.settings.timeout {
            let answers = self.round(&next).await;
            next.clear();
            for (index, answer) in answers {
                if answer.is_ok() {
                    next.extend(followers.get(index).copied().flatten());
                }
                if let Some(result) = results.get_mut(index) {
                    *result = answer.map_or_else(Published::Failed, Published::Accepted);
                }
            }
        }
        results
    }

    /// Sends these messages, and takes their acknowledgements.
    async fn round(&mut self, indices: &[usize]) -> Vec<(usize, Result<Accepted>)> {
        let mut late = pin!(sleep(self.settings.timeout));
        let mut answers = Vec::with_capacity(indices.len());
        let mut sent = Vec::with_capacity(indices.len());
        for index in indices {
            let Some(outgoing) = self.batch.get(*index) else { continue };
            tokio::select! {
                biased;
                taken = self.send(*index, outgoing) => match taken {
                    Ok(taken) => sent.push(taken),
                    Err(error) => answers.push((*index, Err(error))),
                },
                () = &mut late => answers.push((*index, Err(self.not_in_time(outgoing.destination.as_str())))),
            }
        }
        for Sent { index, subject, acknowledged } in sent {
            let answer = tokio::select! {
                biased;
                answer = acknowledged.into_future() => match answer {
                    Ok(answer) => Ok(ack::accepted(&answer)),
                    Err(error) => Err(ack::classify(&self.settings.shown, subject, &error)),
                },
                broken = self.watch.broken(subject) => Err(broken),
                () = &mut late => Err(self.not_in_time(subject)),
            };
            answers.push((index, answer));
        }
        answers
    }

    async fn send<'o>(&self, index: usize, outgoing: &'o Outgoing) -> Result<Sent<'o>> {
        let subject = wire::subject(&outgoing.destination)?;
        let publish = wire::publish(self.settings, outgoing)?;
        // A message handed to a client that is not connected would be sent some time later, behind our back.
        self.watch.connected()?;
        let sent = self.context.send_publish(subject.to_owned(), publish).await;
        let acknowledged = sent.map_err(|error| ack::classify(&self.settings.shown, subject, &error))?;
        Ok(Sent { index, subject, acknowledged })
    }

    fn not_in_time(&self, subject: &str) -> Error {
        ack::classify(&self.settings.shown, subject, &PublishErrorKind::TimedOut.into())
    }
}

/// The first message of every key and each one without a key, in the batch's order; and for each message the next one of
/// its key.
fn in_order(batch: &[Outgoing]) -> (Vec<usize>, Vec<Option<usize>>) {
    let mut firsts = Vec::with_capacity(batch.len());
    let mut followers = vec![None; batch.len()];
    let mut last_of: HashMap<&str, usize> = HashMap::with_capacity(batch.len());
    for (index, outgoing) in batch.iter().enumerate() {
        let before = outgoing.message.key.as_ref().and_then(|key| last_of.insert(key.as_str(), index));
        match before.and_then(|before| followers.get_mut(before)) {
            Some(follower) => *follower = Some(index),
            None => firsts.push(index),
        }
    }
    (firsts, followers)
}
