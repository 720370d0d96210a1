//! A transactional producer for every lane, so that the broker fences a relay that lost it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use postrider_core::{Error, ErrorKind, Lane, Outgoing, Published, Result, Term};
use tokio::sync::Mutex;

use super::client::{self, Use};
use super::line::Line;
use super::place::Places;
use super::settings::Settings;
use super::transaction::Transaction;

/// How long a producer is kept that publishes nothing: its lane may be another relay's by now.
const IDLE: Duration = Duration::from_secs(300);

/// The lanes of one broker.
pub(super) struct Lanes {
    settings: Arc<Settings>,
    known: std::sync::Mutex<HashMap<Lane, Arc<Mutex<Held>>>>,
}

/// One lane: its producer, and the term for which that was made.
#[derive(Default)]
struct Held {
    line: Option<Arc<Line>>,
    /// When it last published.
    used: Option<Instant>,
    term: Option<Term>,
    /// The broker said that another producer has this lane. Asking again under the same term would take it back.
    fenced: bool,
    closed: bool,
}

impl Lanes {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, known: std::sync::Mutex::default() }
    }

    /// Publishes a batch: one transaction for each lane in it, all lanes at once.
    pub(super) async fn publish(&self, places: &Places, batch: &[Outgoing]) -> Vec<Published> {
        self.let_go_of_the_idle();
        let mut lanes: BTreeMap<Lane, Vec<usize>> = BTreeMap::new();
        for (index, outgoing) in batch.iter().enumerate() {
            lanes.entry(outgoing.lane).or_default().push(index);
        }
        let published = join_all(lanes.iter().map(|(lane, indices)| async move {
            let messages: Vec<&Outgoing> = indices.iter().filter_map(|index| batch.get(*index)).collect();
            (indices, self.publish_lane(*lane, places, &messages).await)
        }));
        let mut results: Vec<Published> = batch.iter().map(|_| Published::NotSent).collect();
        for (indices, answers) in published.await {
            for (index, answer) in indices.iter().zip(answers) {
                if let Some(place) = results.get_mut(*index) {
                    *place = answer;
                }
            }
        }
        results
    }

    fn let_go_of_the_idle(&self) {
        for held in self.known.lock().unwrap_or_else(PoisonError::into_inner).values() {
            // One that is locked is at work.
            if let Ok(mut held) = held.try_lock()
                && held.used.is_some_and(|used| used.elapsed() > IDLE)
            {
                held.line = None;
            }
        }
    }

    async fn publish_lane(&self, lane: Lane, places: &Places, messages: &[&Outgoing]) -> Vec<Published> {
        let held = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.entry(lane).or_default())
        };
        let mut held = held.lock().await;
        // A lane has one term in a batch; an older one beside it would be fenced with it.
        let term = messages.iter().map(|outgoing| outgoing.term).max();
        let Some(term) = term else { return Vec::new() };
        let line = match held.line(&self.settings, lane, term).await {
            Ok(line) => line,
            Err(error) => return super::answer::all(messages.len(), &error),
        };
        let results = Transaction::new(&self.settings, &line, places, messages).publish().await;
        held.used = Some(Instant::now());
        let fenced =
            |result: &Published| matches!(result, Published::Failed(error) if error.kind() == ErrorKind::Fenced);
        held.fenced |= results.iter().any(fenced);
        if line.is_over() {
            held.line = None;
        }
        results
    }

    /// Ends every producer. No transaction is open between two calls.
    pub(super) async fn close(&self) {
        let lanes: Vec<_> = self.known.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for lane in lanes {
            let mut held = lane.lock().await;
            held.closed = true;
            held.line = None;
        }
    }
}

impl Held {
    /// The producer of the lane for a term, ready for a transaction.
    ///
    /// # Errors
    /// `Fenced` when a later term was seen or the broker fenced this one; `Unavailable` and unsent, or `Config`, when
    /// the broker does not answer, or refuses the id.
    async fn line(&mut self, settings: &Settings, lane: Lane, term: Term) -> Result<Arc<Line>> {
        if self.closed {
            let text = format!("not connected to {}: the broker was closed", settings.shown);
            return Err(Error::new(ErrorKind::Unavailable, text).unsent());
        }
        if self.term.is_some_and(|known| term < known || (term == known && self.fenced)) {
            return Err(Error::new(ErrorKind::Fenced, format!("the lane {lane} belongs to another relay")));
        }
        if self.term != Some(term) {
            // Another relay may have had it in between: the broker must learn that it is ours now.
            *self = Self { term: Some(term), ..Self::default() };
        }
        if let Some(line) = self.line.as_ref().filter(|line| !line.is_over()) {
            return Ok(Arc::clone(line));
        }
        let prefix = settings.transactional_id_prefix.as_deref().unwrap_or_default();
        let id = format!("{prefix}-{lane}");
        let line = Arc::new(Line::new(&settings.shown, &client::config(settings, Use::Transactions(&id)))?);
        Transaction::prepare(settings, &line, &id).await?;
        self.line = Some(Arc::clone(&line));
        Ok(line)
    }
}
