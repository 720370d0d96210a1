//! A message in hand: what it is, and what ends it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use postrider_core::{Error, ErrorKind, Incoming, Place, Receipt, Result};
use tokio::time::{Instant, interval_at, timeout};

use super::rules::{Arrival, Line, Order};
use crate::delivery::Delivery;

/// How long the broker may take to answer one word about a message. What is not answered by then is not known.
pub(super) const ANSWER: Duration = Duration::from_secs(30);

/// A message in hand. Dropped, it comes again.
#[derive(Debug)]
pub(super) struct Taken {
    pub content: Content,
    pub place: Place,
    receipt: Box<dyn Receipt>,
}

/// What came.
#[derive(Debug)]
pub(super) enum Content {
    Delivery(Box<Delivery>),
    /// What is no message: why, and its bytes.
    Unreadable(String, Bytes),
}

/// Whether a message is still this consumer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    Ours,
    Lost,
}

impl Taken {
    pub(super) fn new(incoming: Incoming, order: Order) -> (Self, Arrival) {
        let Incoming { message, payload, place, position, deliveries, receipt } = incoming;
        let line = match (order, &message) {
            (Order::Part, _) => Line::Part(position.as_ref().map(|at| (Arc::clone(&at.source), at.part))),
            (Order::Key, Ok(message)) => message.key.clone().map_or(Line::Id(message.id), Line::Key),
            (Order::Key, Err(_)) => Line::Place(place.clone()),
        };
        let (content, fault) = match message {
            Ok(message) => (Content::Delivery(Box::new(Delivery { message, position })), None),
            Err(error) => {
                let story = error.story_and_advice();
                (Content::Unreadable(story.clone(), payload), Some(story))
            }
        };
        (Self { content, place, receipt }, Arrival { line, deliveries, fault })
    }

    /// The id of the message, where it is one.
    pub(super) fn id(&self) -> Option<String> {
        match &self.content {
            Content::Delivery(delivery) => Some(delivery.id().to_string()),
            Content::Unreadable(..) => None,
        }
    }

    /// Does something with it, and keeps others from getting it meanwhile. Lost, it is done to its end all the same: what
    /// came of it is a repeat for whoever has the message now.
    pub(super) async fn while_kept<T>(&self, every: Option<Duration>, work: impl Future<Output = T>) -> (T, Ownership) {
        let mut work = pin!(work);
        let Some(every) = every else { return (work.await, Ownership::Ours) };
        tokio::select! {
            biased;
            done = &mut work => return (done, Ownership::Ours),
            () = self.until_lost(every) => {}
        }
        (work.await, Ownership::Lost)
    }

    async fn until_lost(&self, every: Duration) {
        let mut words = interval_at(Instant::now() + every, every);
        loop {
            words.tick().await;
            if self.extend(Some(every)).await == Ownership::Lost {
                return;
            }
        }
    }

    /// Says that it is worked on. Where the broker does not answer, it is asked again the next time: a word that is not answered
    /// must not keep the next one from being said in time.
    pub(super) async fn extend(&self, every: Option<Duration>) -> Ownership {
        let within = every.map_or(ANSWER, |every| every.min(ANSWER));
        match answered(within, self.receipt.extend()).await {
            Err(error) if error.kind() == ErrorKind::Fenced => Ownership::Lost,
            Err(error) => {
                tracing::debug!(place = %self.place, %error, "the broker was not told that a message is worked on");
                Ownership::Ours
            }
            Ok(()) => Ownership::Ours,
        }
    }

    /// Says that it is over. Where the broker does not know that then, it comes again and is a repeat.
    pub(super) async fn acknowledge(self) {
        if let Err(error) = answered(ANSWER, self.receipt.acknowledge()).await {
            let kind = error.kind();
            tracing::info!(place = %self.place, %kind, %error, "not acknowledged: the message may come again, as a repeat");
        }
    }

    /// Gives it back. Where the broker does not know that then, it comes back later.
    pub(super) async fn release(self) {
        if let Err(error) = answered(ANSWER, self.receipt.release()).await {
            tracing::debug!(place = %self.place, %error, "not given back: the message comes again later");
        }
    }
}

async fn answered(within: Duration, word: impl Future<Output = Result<()>>) -> Result<()> {
    let unanswered = |_| Error::new(ErrorKind::Unknown, format!("the broker did not answer within {within:?}"));
    timeout(within, word).await.map_err(unanswered).flatten()
}
