//! A place for messages that are given up.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use postrider_core::{
    Accepted, Attempt, Attributes, Broker, Confirmation, Destination, Error, ErrorKind, GivenUp, Headers, Lane,
    Message, Outgoing, Published, Result, Term,
};
use tokio::time::timeout;

/// How long one call may take, whatever the broker's own deadline is.
const DEADLINE: Duration = Duration::from_secs(120);
/// The header that says what of it was left out.
const BARE_HEADER: &str = "dead-letter-without";
/// The most characters of its last error that are kept then.
const SHORT: usize = 100;

/// A broker, and the place in it.
#[derive(Debug, Clone)]
pub struct DeadLetters {
    pub broker: Arc<dyn Broker>,
    pub destination: Destination,
}

impl DeadLetters {
    /// Puts a message there, with why it was given up in its headers; without its own headers where it is refused with them.
    ///
    /// # Errors
    /// When it is not certain that it is there.
    pub async fn bury(&self, message: Message, given_up: Arc<GivenUp>) -> Result<()> {
        match self.put(message.clone(), Arc::clone(&given_up)).await {
            // It is refused at every try, and stands in the way of its key: what it says is worth more than its headers.
            Err(error) if error.kind() == ErrorKind::Rejected => self.put(bare(message), shortened(&given_up)).await,
            told => told,
        }
    }

    async fn put(&self, message: Message, given_up: Arc<GivenUp>) -> Result<()> {
        // Lanes and terms are the relay's.
        let outgoing = Outgoing {
            message: Arc::new(message),
            destination: self.destination.clone(),
            attempt: Attempt(1),
            lane: Lane(0),
            term: Term(0),
            given_up: Some(given_up),
        };
        let batch = [outgoing];
        let publishing = AssertUnwindSafe(self.broker.publish(&batch)).catch_unwind();
        match timeout(DEADLINE, publishing).await {
            Ok(Ok(answers)) => self.accepted(answers),
            Ok(Err(_)) => {
                Err(Error::new(ErrorKind::Unknown, "the broker's client ended unexpectedly; see the log for its panic"))
            }
            Err(_) => Err(Error::new(ErrorKind::Unknown, "the broker did not answer in time")),
        }
    }

    fn accepted(&self, mut answers: Vec<Published>) -> Result<()> {
        match (answers.pop(), answers.is_empty()) {
            (Some(Published::Accepted(Accepted { confirmation: Confirmation::Fresh })), true) => Ok(()),
            // A stream knows the id of the message itself as well: where it has the place of dead letters too, it drops what
            // is put there, and what it dropped is nowhere but in hand.
            (Some(Published::Accepted(Accepted { confirmation: Confirmation::Duplicate })), true) => {
                let text = format!(
                    "{} dropped it as a repeat: it knows the id, of the message itself or of an earlier try to put it there",
                    self.destination
                );
                let step = "give dead letters a place whose stream has none of the messages; until then each is put there when \
                            the stream has forgotten its id";
                Err(Error::new(ErrorKind::Config, text).advise(step))
            }
            (Some(Published::Failed(error)), true) => Err(error),
            (Some(Published::NotSent), true) => Err(Error::new(ErrorKind::Unavailable, "the broker did not send it")),
            _ => Err(Error::new(ErrorKind::Unknown, "the broker did not give one answer to one message")),
        }
    }
}

/// A message without what a place of dead letters may refuse, and with a word that it is.
fn bare(message: Message) -> Message {
    let (headers, attributes) = (Headers::default(), Attributes::default());
    Message { content_type: None, headers, attributes, ..message }.header(BARE_HEADER, "headers")
}

fn shortened(given_up: &GivenUp) -> Arc<GivenUp> {
    Arc::new(GivenUp { error: given_up.error.chars().take(SHORT).collect(), ..given_up.clone() })
}

#[cfg(test)]
mod tests {
    use postrider_core::Durability;

    use super::*;

    #[derive(Debug)]
    struct Silent;

    #[async_trait::async_trait]
    impl Broker for Silent {
        fn profile(&self) -> postrider_core::BrokerProfile {
            postrider_core::BrokerProfile {
                name: "silent",
                order: postrider_core::OrderInBatch::Kept,
                isolation: postrider_core::Isolation::PerMessage,
                durability: Durability::None,
                max_batch: 1,
                max_concurrent: 1,
            }
        }

        async fn publish(&self, _batch: &[Outgoing]) -> Vec<Published> {
            Vec::new()
        }

        async fn check(&self, _destinations: &[Destination]) -> Result<Vec<postrider_core::Finding>> {
            Ok(Vec::new())
        }

        async fn close(&self) {}
    }

    fn dead_letters() -> DeadLetters {
        DeadLetters { broker: Arc::new(Silent), destination: Destination::new("dead.orders") }
    }

    #[test]
    fn only_what_is_new_there_is_there() {
        let with = |answers| dead_letters().accepted(answers);
        assert!(with(vec![Published::Accepted(Accepted::FRESH)]).is_ok());
        let repeat = || Published::Accepted(Accepted { confirmation: Confirmation::Duplicate });
        let error = with(vec![repeat()]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.story_and_advice().contains("dead.orders") && error.advice().unwrap().contains("stream"));
        for answers in [vec![], vec![Published::Accepted(Accepted::FRESH), Published::Accepted(Accepted::FRESH)]] {
            assert_eq!(with(answers).unwrap_err().kind(), ErrorKind::Unknown);
        }
        assert_eq!(with(vec![Published::NotSent]).unwrap_err().kind(), ErrorKind::Unavailable);
        let refused = Published::Failed(Error::new(ErrorKind::Rejected, "no"));
        assert_eq!(with(vec![refused]).unwrap_err().kind(), ErrorKind::Rejected);
    }
}
