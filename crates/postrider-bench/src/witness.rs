//! A broker before the broker: it passes everything on and keeps a book of what was acknowledged.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postrider_core::{
    Broker, BrokerProfile, Destination, DestinationTemplate, Finding, Outgoing, Published, Result, TopicPattern,
};

use crate::load::{key_of, number_of};
use crate::verdict::Verdict;

/// No load has more keys.
const MOST_KEYS: usize = 10_000_000;

/// Passes every call on to a broker, and writes acknowledgements down.
#[derive(Debug)]
pub struct Witness {
    broker: Arc<dyn Broker>,
    book: Arc<Book>,
}

impl Witness {
    /// A witness before this broker.
    pub fn new(broker: Arc<dyn Broker>, book: Arc<Book>) -> Self {
        Self { broker, book }
    }
}

/// What was acknowledged. Several witnesses may share one.
#[derive(Debug)]
pub struct Book {
    began: Instant,
    pages: Mutex<Pages>,
}

#[derive(Debug)]
struct Pages {
    /// By number; a number is written once, whatever its repeats.
    seen: Vec<bool>,
    /// When each was acknowledged, in nanoseconds since the book began; empty when that is not kept.
    moments: Vec<u64>,
    /// By key: one more than the highest number that was acknowledged; 0 where none was. Kept like this, it takes little
    /// of the time that is measured.
    latest: Vec<u64>,
    acknowledged: u64,
    ghosts: u64,
    order: u64,
    repeats: u64,
}

/// Whether a book keeps when each message was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moments {
    /// It does.
    Kept,
    /// It does not.
    NotKept,
}

impl Book {
    /// An empty book for this many messages.
    pub fn new(messages: u64, moments: Moments) -> Self {
        let length = usize::try_from(messages).unwrap_or(usize::MAX);
        let kept = if moments == Moments::Kept { length } else { 0 };
        let began = Instant::now();
        let pages = Pages {
            seen: vec![false; length],
            moments: vec![0; kept],
            latest: Vec::new(),
            acknowledged: 0,
            ghosts: 0,
            order: 0,
            repeats: 0,
        };
        Self { began, pages: Mutex::new(pages) }
    }

    /// When the book began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// How many different messages were acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.pages().acknowledged
    }

    /// When a message was first acknowledged, counted from the beginning; none when it was not, or that is not kept.
    pub fn moment(&self, number: u64) -> Option<Duration> {
        let place = usize::try_from(number).ok()?;
        self.pages().moments.get(place).filter(|moment| **moment > 0).map(|moment| Duration::from_nanos(*moment))
    }

    /// What the book says when this many messages were written: the first ones by number.
    pub fn verdict(&self, written: u64) -> Verdict {
        let pages = self.pages();
        let count = usize::try_from(written).unwrap_or(usize::MAX);
        let arrived = pages.seen.iter().take(count).filter(|seen| **seen).count();
        let beyond = pages.seen.iter().skip(count).filter(|seen| **seen).count();
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Verdict {
            written,
            lost: written.saturating_sub(number(arrived)),
            ghosts: pages.ghosts + number(beyond),
            order: Some(pages.order),
            repeats: pages.repeats,
        }
    }

    /// Writes down one acknowledged message.
    pub fn note(&self, payload: &[u8], key: Option<&str>) {
        self.pages().note(payload, key, nanos(self.began.elapsed()));
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    fn note(&mut self, payload: &[u8], key: Option<&str>, moment: u64) {
        let number = number_of(payload);
        let place = number.and_then(|number| usize::try_from(number).ok());
        let (Some(number), Some(seen)) = (number, place.and_then(|place| self.seen.get_mut(place))) else {
            self.ghosts += 1;
            return;
        };
        if std::mem::replace(seen, true) {
            self.repeats += 1;
            return;
        }
        self.acknowledged += 1;
        if let Some(kept) = place.and_then(|place| self.moments.get_mut(place)) {
            *kept = moment.max(1);
        }
        let key = key.and_then(key_of).and_then(|key| usize::try_from(key).ok()).filter(|key| *key < MOST_KEYS);
        let Some(key) = key else { return };
        if key >= self.latest.len() {
            self.latest.resize(key + 1, 0);
        }
        if let Some(latest) = self.latest.get_mut(key) {
            self.order += u64::from(*latest > number + 1);
            *latest = (*latest).max(number + 1);
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[async_trait]
impl Broker for Witness {
    fn profile(&self) -> BrokerProfile {
        self.broker.profile()
    }

    async fn publish(&self, batch: &[Outgoing]) -> Vec<Published> {
        let results = self.broker.publish(batch).await;
        let moment = nanos(self.book.began.elapsed());
        let mut pages = self.book.pages();
        for (outgoing, result) in batch.iter().zip(&results) {
            if matches!(result, Published::Accepted(_)) {
                let message = &outgoing.message;
                pages.note(&message.payload, message.key.as_ref().map(|key| key.as_str()), moment);
            }
        }
        drop(pages);
        results
    }

    async fn check(&self, destinations: &[Destination]) -> Result<Vec<Finding>> {
        self.broker.check(destinations).await
    }

    async fn check_route(&self, topics: &TopicPattern, destination: &DestinationTemplate) -> Result<Vec<Finding>> {
        self.broker.check_route(topics, destination).await
    }

    async fn close(&self) {
        self.broker.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Load;

    fn load() -> Load {
        Load { messages: 4, keys: 1, payload: 8, writers: 1, topic: "t".into() }
    }

    fn noted(numbers: &[u64]) -> Verdict {
        let book = Book::new(4, Moments::NotKept);
        for number in numbers {
            let message = load().message(*number);
            book.note(&message.payload, message.key.as_ref().map(|key| key.as_str()));
        }
        book.verdict(4)
    }

    #[test]
    fn everything_once_and_in_order_is_well() {
        let verdict = noted(&[0, 1, 2, 3]);
        assert!(verdict.holds() && verdict.repeats == 0, "{verdict}");
    }

    #[test]
    fn what_is_missing_invented_late_or_repeated_is_counted() {
        assert_eq!(noted(&[0, 1, 2]).lost, 1);
        assert_eq!(noted(&[0, 1, 2, 3, 9]).ghosts, 1);
        assert_eq!(noted(&[0, 2, 1, 3]).order, Some(1));
        let repeated = noted(&[0, 1, 0, 2, 3]);
        assert!(repeated.holds() && repeated.repeats == 1, "{repeated}");
    }

    #[test]
    fn a_message_that_was_rolled_back_is_a_ghost() {
        let book = Book::new(4, Moments::NotKept);
        book.note(&load().message(3).payload, None);
        assert_eq!(book.verdict(3).ghosts, 1);
    }
}
