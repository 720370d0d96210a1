//! Sending the outputs of a message, in their order.

use std::collections::HashSet;
use std::sync::Arc;

use postrider_core::{
    Attempt, Broker, DeadReason, Destination, DestinationTemplate, Error, ErrorKind, GivenUp, Lane, Message, MessageId,
    OrderInBatch, Outgoing, Published, Result, Term,
};

use super::accepted::AcceptedBefore;
use super::suspects::Suspects;
use crate::dead_letters::DeadLetters;

/// Charged attempts after which an output is given up.
const ATTEMPTS: u32 = 10;

/// Where outputs go.
#[derive(Debug)]
pub(super) struct Outlet {
    broker: Arc<dyn Broker>,
    destination: DestinationTemplate,
    before: AcceptedBefore,
    suspects: Suspects,
    pub(super) dead_letters: Option<DeadLetters>,
}

/// The first output of several that failed.
struct Failure {
    id: MessageId,
    error: Error,
}

impl Outlet {
    pub(super) fn new(broker: Arc<dyn Broker>, destination: DestinationTemplate) -> Self {
        let (before, suspects) = (AcceptedBefore::default(), Suspects::default());
        Self { broker, destination, before, suspects, dead_letters: None }
    }

    /// Sends all of them, in their order, but for those that the broker accepted when others of them failed. One that was at
    /// fault so often that it is given up goes to the dead letters, where there is a place for them.
    ///
    /// # Errors
    /// The first failure: those before it are with the broker. Another process sends them again, with the same ids.
    pub(super) async fn send(&self, messages: Vec<Message>) -> Result<()> {
        let ids: Vec<_> = messages.iter().map(|message| message.id).collect();
        let messages: Vec<_> = messages.into_iter().map(Arc::new).collect();
        loop {
            let left: Vec<_> = messages.iter().filter(|message| !self.before.has(message.id)).collect();
            let mut accepted = Vec::new();
            let sent = self.publish(&left, &mut accepted).await;
            self.suspects.accepted(&accepted);
            let Err(Failure { id, error }) = sent else {
                self.before.forget(&ids);
                return Ok(());
            };
            self.before.remember(&accepted);
            let attempts = self.suspects.failed(id, &error);
            let (Some(dead), Some(message)) = (&self.dead_letters, left.into_iter().find(|message| message.id == id))
            else {
                return Err(error);
            };
            if attempts < ATTEMPTS {
                return Err(error);
            }
            let given_up = GivenUp { reason: DeadReason::Attempts, attempts, error: error.story_and_advice() };
            dead.bury(Message::clone(message), Arc::new(given_up)).await?;
            tracing::warn!(%id, topic = message.topic.as_str(), attempts, %error, "an output is given up");
            self.before.remember(&[id]);
        }
    }

    async fn publish(
        &self,
        messages: &[&Arc<Message>],
        accepted: &mut Vec<MessageId>,
    ) -> std::result::Result<(), Failure> {
        let outgoing = messages.iter().map(|message| self.outgoing(Arc::clone(message)));
        let outgoing: Vec<_> = outgoing.collect::<std::result::Result<_, _>>()?;
        let profile = self.broker.profile();
        let mut rest = outgoing.as_slice();
        while !rest.is_empty() {
            let (batch, behind) = rest.split_at(batch(rest, profile.order, profile.max_batch));
            judged(batch, self.broker.publish(batch).await, accepted)?;
            rest = behind;
        }
        Ok(())
    }

    /// Where a message goes.
    ///
    /// # Errors
    /// `Rejected` for one of which the destination cannot be made: it has no place, now or later.
    pub(super) fn place_of(&self, message: &Message) -> Result<Destination> {
        self.destination.render(message).map_err(|why| {
            let text = format!("the output {} on {} has no place: {why}", message.id, message.topic.as_str());
            Error::new(ErrorKind::Rejected, text)
        })
    }

    fn outgoing(&self, message: Arc<Message>) -> std::result::Result<Outgoing, Failure> {
        let destination = self.place_of(&message).map_err(|error| Failure { id: message.id, error })?;
        // Lanes and terms are the relay's: here nobody shares the messages of one delivery.
        Ok(Outgoing { message, destination, attempt: Attempt(1), lane: Lane(0), term: Term(0), given_up: None })
    }
}

/// How many of them go in one call: no key twice where a batch keeps no order.
fn batch(rest: &[Outgoing], order: OrderInBatch, at_most: usize) -> usize {
    let at_most = at_most.clamp(1, rest.len().max(1));
    if order == OrderInBatch::Kept {
        return at_most;
    }
    let mut keys = HashSet::new();
    let one =
        |outgoing: &Outgoing| outgoing.message.key.as_ref().is_none_or(|key| keys.insert(key.as_str().to_owned()));
    rest[..at_most].iter().map(one).take_while(|is_new| *is_new).count()
}

/// What the broker made of a batch: those that it accepted, and the first failure.
fn judged(
    batch: &[Outgoing],
    answers: Vec<Published>,
    accepted: &mut Vec<MessageId>,
) -> std::result::Result<(), Failure> {
    let answers = if answers.len() == batch.len() {
        answers
    } else {
        let text = format!("the broker gave {} answers to {} messages", answers.len(), batch.len());
        batch.iter().map(|_| Published::Failed(Error::new(ErrorKind::Unknown, text.clone()))).collect()
    };
    let mut judged = Ok(());
    for (outgoing, answer) in batch.iter().zip(answers) {
        let id = outgoing.message.id;
        let error = match answer {
            Published::Accepted(_) => {
                accepted.push(id);
                continue;
            }
            Published::Failed(error) => error,
            Published::NotSent => {
                Error::new(ErrorKind::Unavailable, "an output waits for an earlier one of its key").unsent()
            }
        };
        judged = judged.and(Err(Failure { id, error }));
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(keys: &[Option<&str>]) -> Vec<Outgoing> {
        let one = |key: &Option<&str>| {
            let message = Message::new("t", "");
            let message = Arc::new(if let Some(key) = key { message.key(key) } else { message });
            let (destination, attempt) = (Destination::new("t"), Attempt(1));
            Outgoing { message, destination, attempt, lane: Lane(0), term: Term(0), given_up: None }
        };
        keys.iter().map(one).collect()
    }

    #[test]
    fn a_batch_has_no_key_twice_where_it_keeps_no_order_and_is_never_empty() {
        let all = of(&[Some("a"), None, Some("b"), None, Some("a"), Some("c")]);
        assert_eq!(batch(&all, OrderInBatch::NotKept, 100), 4);
        assert_eq!(batch(&all, OrderInBatch::NotKept, 2), 2);
        assert_eq!(batch(&all, OrderInBatch::Kept, 100), 6);
        assert_eq!(batch(&all, OrderInBatch::Kept, 0), 1);
    }

    #[test]
    fn an_answer_of_another_length_is_unknown_for_all_of_it() {
        let mut accepted = Vec::new();
        let batch = of(&[None, None]);
        let Err(failure) = judged(&batch, vec![], &mut accepted) else { panic!("it is taken for an answer") };
        assert_eq!((failure.id, failure.error.kind()), (batch[0].message.id, ErrorKind::Unknown));
        assert_eq!(accepted, []);
    }
}
