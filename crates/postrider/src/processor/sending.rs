//! Sending the outputs of a message, in their order.

use std::collections::HashSet;
use std::sync::Arc;

use postrider_core::{
    Attempt, Broker, Destination, DestinationTemplate, Error, ErrorKind, Lane, Message, OrderInBatch, Outgoing,
    Published, Result, Term,
};

/// Where outputs go.
#[derive(Debug, Clone)]
pub(super) struct Outlet {
    pub broker: Arc<dyn Broker>,
    pub destination: DestinationTemplate,
}

impl Outlet {
    /// Sends all of them, in their order.
    ///
    /// # Errors
    /// The first failure: those before it are with the broker, and will be sent again with the same ids.
    pub(super) async fn send(&self, messages: Vec<Message>) -> Result<()> {
        let outgoing: Vec<Outgoing> =
            messages.into_iter().map(|message| self.outgoing(message)).collect::<Result<_>>()?;
        let profile = self.broker.profile();
        let mut rest = &outgoing[..];
        while !rest.is_empty() {
            let (batch, behind) = rest.split_at(batch(rest, profile.order, profile.max_batch));
            accepted(batch.len(), self.broker.publish(batch).await)?;
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

fn accepted(sent: usize, answers: Vec<Published>) -> Result<()> {
    if answers.len() != sent {
        let text = format!("the broker gave {} answers to {sent} messages", answers.len());
        return Err(Error::new(ErrorKind::Unknown, text));
    }
    for answer in answers {
        match answer {
            Published::Accepted(_) => {}
            Published::Failed(error) => return Err(error),
            Published::NotSent => {
                return Err(Error::new(ErrorKind::Unavailable, "an output waits for an earlier one of its key"));
            }
        }
    }
    Ok(())
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
        assert_eq!(accepted(2, vec![]).unwrap_err().kind(), ErrorKind::Unknown);
    }
}
