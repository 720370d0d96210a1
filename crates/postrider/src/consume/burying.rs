//! Where messages go that are given up.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use postrider_core::{
    Accepted, Attempt, Attributes, Broker, Confirmation, Destination, Error, ErrorKind, GivenUp, Headers, Lane,
    Message, Outgoing, Place, Published, Result, Term,
};
use tokio::time::timeout;
use uuid::Uuid;

use super::taken::{Content, Taken};

/// How long one call may take, whatever the broker's own deadline is.
const DEADLINE: Duration = Duration::from_secs(120);
/// The topic of what is no message.
const UNREADABLE: &str = "unreadable";
/// The header that says where it lay.
const PLACE_HEADER: &str = "dead-letter-place";
/// The header that says what of it was left out.
const BARE_HEADER: &str = "dead-letter-without";
/// The most characters of its last error that are kept then.
const SHORT: usize = 100;
/// The namespace of the ids of what is no message.
const PLACES: Uuid = Uuid::from_u128(0x2a77_9d0c_5f0e_4c1b_8f0d_6b9d_31e4_57a2);

/// A place for messages that are given up.
#[derive(Debug, Clone)]
pub(super) struct DeadLetters {
    pub broker: Arc<dyn Broker>,
    pub destination: Destination,
}

impl DeadLetters {
    /// Puts a message there, with why it was given up in its headers; without its own headers where it is refused with them.
    ///
    /// # Errors
    /// When it is not certain that it is there.
    pub(super) async fn bury(&self, taken: &Taken, given_up: Arc<GivenUp>) -> Result<()> {
        let message = match &taken.content {
            Content::Delivery(delivery) => delivery.message.clone(),
            Content::Unreadable(_, payload) => unreadable(&taken.place, payload),
        };
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

/// What is no message, as one that can be kept: its bytes, and where it lay. It has the same id whenever it is put there.
fn unreadable(place: &Place, payload: &bytes::Bytes) -> Message {
    let shown: String = place.as_str().chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    Message::new(UNREADABLE, payload.clone())
        .id(Uuid::new_v5(&PLACES, place.as_str().as_bytes()))
        .header(PLACE_HEADER, shown)
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

    #[test]
    fn what_is_no_message_becomes_one_with_its_bytes_and_where_it_lay() {
        let place = Place::new("orders[3]@17\n");
        let (message, again) = (unreadable(&place, &"\u{1}".into()), unreadable(&place, &"\u{1}".into()));
        message.validate().unwrap();
        assert_eq!(message.headers.get("dead-letter-place"), Some("orders[3]@17?"));
        assert_eq!((&message.payload[..], message.id), (&b"\x01"[..], again.id));
        assert_ne!(message.id, unreadable(&Place::new("orders[3]@18"), &"\u{1}".into()).id);
    }
}
