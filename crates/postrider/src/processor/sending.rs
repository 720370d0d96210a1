//! Sending the outputs of a message, in their order.

use std::collections::HashSet;
use std::sync::Arc;

use postrider_core::{
    Attempt, Broker, Destination, DestinationTemplate, Error, ErrorKind, Lane, Message, MessageId, OrderInBatch,
    Outgoing, Published, Result, Term,
};

use super::accepted::AcceptedBefore;

/// Where outputs go.
#[derive(Debug)]
pub(super) struct Outlet {
    broker: Arc<dyn Broker>,
    destination: DestinationTemplate,
    before: AcceptedBefore,
}

impl Outlet {
    pub(super) fn new(broker: Arc<dyn Broker>, destination: DestinationTemplate) -> Self {
        Self { broker, destination, before: AcceptedBefore::default() }
    }

    /// Sends all of them, in their order, but for those that the broker accepted when others of them failed.
    ///
    /// # Errors
    /// The first failure: those before it are with the broker. Another process sends them again, with the same ids.
    pub(super) async fn send(&self, messages: Vec<Message>) -> Result<()> {
        let ids: Vec<_> = messages.iter().map(|message| message.id).collect();
        let left = messages.into_iter().filter(|message| !self.before.has(message.id));
        let outgoing: Vec<_> = left.map(|message| self.outgoing(message)).collect::<Result<_>>()?;
        let mut accepted = Vec::new();
        let sent = self.publish(&outgoing, &mut accepted).await;
        match &sent {
            Ok(()) => self.before.forget(&ids),
            Err(_) => self.before.remember(&accepted),
        }
        sent
    }

    async fn publish(&self, outgoing: &[Outgoing], accepted: &mut Vec<MessageId>) -> Result<()> {
        let profile = self.broker.profile();
        let mut rest = outgoing;
        while !rest.is_empty() {
            let (batch, behind) = rest.split_at(batch(rest, profile.order, profile.max_batch));
            judge(batch, self.broker.publish(batch).await, accepted)?;
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

    fn outgoing(&self, message: Message) -> Result<Outgoing> {
        let destination = self.place_of(&message)?;
        // Lanes and terms are the relay's: here nobody shares the messages of one delivery.
        let (message, attempt) = (Arc::new(message), Attempt(1));
        Ok(Outgoing { message, destination, attempt, lane: Lane(0), term: Term(0), given_up: None })
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
fn judge(batch: &[Outgoing], answers: Vec<Published>, accepted: &mut Vec<MessageId>) -> Result<()> {
    if answers.len() != batch.len() {
        let text = format!("the broker gave {} answers to {} messages", answers.len(), batch.len());
        return Err(Error::new(ErrorKind::Unknown, text));
    }
    let mut judged = Ok(());
    for (outgoing, answer) in batch.iter().zip(answers) {
        let failure = match answer {
            Published::Accepted(_) => {
                accepted.push(outgoing.message.id);
                continue;
            }
            Published::Failed(error) => error,
            Published::NotSent => Error::new(ErrorKind::Unavailable, "an output waits for an earlier one of its key"),
        };
        judged = judged.and(Err(failure));
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
        let judged = judge(&of(&[None, None]), vec![], &mut accepted);
        assert_eq!(judged.unwrap_err().kind(), ErrorKind::Unknown);
        assert_eq!(accepted, []);
    }
}
