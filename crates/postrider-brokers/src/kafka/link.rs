//! The producers of one broker, and the topics that are known to be there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use postrider_core::{Error, ErrorKind, Outgoing, Result};
use rdkafka::producer::Producer as _;
use rdkafka::util::Timeout;
use tokio::time::Instant;

use super::client;
use super::line::{CONNECT, Line};
use super::place::{Place, Places};
use super::recent::Recent;
use super::settings::Settings;
use super::way::{OfEachWay, Way};
use super::wire;

/// The producers, made when they are first needed and replaced when they fail for good.
pub(super) struct Link {
    settings: Arc<Settings>,
    lines: OfEachWay<Mutex<Option<Arc<Line>>>>,
    topics: Recent<String, Place>,
    /// The topics for which a series was refused. What refused it (a message that the topic does not take, or a limit below
    /// what the client puts into a request) would refuse the next one, and each of them ends a producer.
    singly: Recent<String, ()>,
    closed: AtomicBool,
}

impl Link {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self {
            settings,
            lines: OfEachWay::default(),
            topics: Recent::default(),
            singly: Recent::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// The producer of one way to send.
    ///
    /// # Errors
    /// `Unavailable` and unsent after [`Link::close`]; `Config` when librdkafka can't work with the settings.
    pub(super) fn line(&self, way: Way) -> Result<Arc<Line>> {
        self.open()?;
        let mut place = self.lines.of(way).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = place.as_ref().filter(|line| !line.is_over()) {
            return Ok(Arc::clone(line));
        }
        if let Some(over) = place.take() {
            let broker = &self.settings.shown;
            if over.is_lost() {
                tracing::debug!(%broker, ?way, "the producer has had no answer for long, and is replaced");
            } else {
                tracing::warn!(%broker, ?way, "the producer failed for good and is replaced");
            }
            // What is on its way still gets its answers.
            over.give_back();
        }
        let line = Arc::new(Line::new(&self.settings.shown, &client::config(&self.settings, way.purpose()))?);
        *place = Some(Arc::clone(&line));
        Ok(line)
    }

    /// # Errors
    /// `Unavailable` and unsent after [`Link::close`].
    fn open(&self) -> Result<()> {
        if !self.closed.load(Ordering::SeqCst) {
            return Ok(());
        }
        let text = format!("not connected to {}: the broker was closed", self.settings.shown);
        Err(Error::new(ErrorKind::Unavailable, text).unsent())
    }

    /// The topics of a batch. The cluster is asked for those that are not known, and when the client complained of the
    /// connection since it last worked.
    ///
    /// # Errors
    /// When there is no connection, or the cluster refuses us: nothing of the batch was sent.
    pub(super) async fn places(&self, batch: &[Outgoing]) -> Result<Places> {
        let line = self.line(Way::Batched)?;
        let mut places = Places::new();
        for outgoing in batch {
            let topic = outgoing.destination.as_str();
            // What can't be a topic is refused with its message.
            if places.contains_key(topic) || wire::topic(&outgoing.destination).is_err() {
                continue;
            }
            let known = self.topics.get(topic, Instant::now()).filter(|_| line.listener().trouble().is_none());
            let place = match known {
                Some(place) => place,
                None => self.look(&line, topic).await?,
            };
            places.insert(topic.to_owned(), place);
        }
        Ok(places)
    }

    /// What the cluster says of a topic now.
    ///
    /// # Errors
    /// When there is no connection, or the cluster refuses us.
    pub(super) async fn look(&self, line: &Arc<Line>, topic: &str) -> Result<Place> {
        let metadata = line.metadata(Some(topic)).await?;
        let place = Place::in_metadata(&self.settings.shown, topic, &metadata);
        self.remember(topic, &place);
        Ok(place)
    }

    fn remember(&self, topic: &str, place: &Place) {
        match place {
            Place::Topic { .. } => self.topics.note(topic.to_owned(), place.clone(), Instant::now()),
            // What is not there is asked for again each time: somebody may just be creating it.
            Place::Missing { .. } | Place::Refused(..) => self.topics.forget(|known| known == topic),
        }
    }

    /// Forgets a topic: the next message for it asks.
    pub(super) fn forget(&self, topic: &str) {
        self.topics.forget(|known| known == topic);
        for place in self.lines.all() {
            if let Some(line) = place.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
                line.known().forget(|(known, _)| known == topic);
            }
        }
    }

    /// A series was refused for this topic.
    pub(super) fn refused_a_series(&self, topic: &str) {
        self.singly.note(topic.to_owned(), (), Instant::now());
    }

    /// Whether series go to this topic.
    pub(super) fn takes_series(&self, topic: &str) -> bool {
        self.singly.get(topic, Instant::now()).is_none()
    }

    /// Sends what is still waiting, within a bound, and ends the producers.
    pub(super) async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        for place in self.lines.all() {
            let line = place.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(line) = line else { continue };
            // Whoever waits for an answer gets it; what is not sent by then comes back as unknown.
            let flushed = line.blocking(|producer| producer.flush(Timeout::After(CONNECT))).await;
            if !matches!(flushed, Ok(Ok(()))) {
                line.give_up();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::LOST;
    use super::*;
    use crate::config::BrokerConfig;

    #[tokio::test]
    async fn a_producer_whose_questions_have_no_answer_for_long_is_replaced() {
        let settings = Settings::parse(&BrokerConfig::new("kafka://127.0.0.1:9")).unwrap();
        let link = Link::new(Arc::new(settings));
        let line = link.line(Way::Batched).unwrap();
        assert_eq!(link.look(&line, "orders").await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(Arc::ptr_eq(&line, &link.line(Way::Batched).unwrap()), "it may be away for a moment");
        tokio::time::pause();
        tokio::time::advance(LOST).await;
        let next = link.line(Way::Batched).unwrap();
        assert!(!Arc::ptr_eq(&line, &next));
        assert!(Arc::ptr_eq(&next, &link.line(Way::Batched).unwrap()), "the next one has its time, too");
    }
}
