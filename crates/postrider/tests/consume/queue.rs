//! A broker of one queue, whose answers a test scripts.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use postrider::{Error, ErrorKind, Finding, Incoming, Message, Place, Receipt, Result, SourcePosition, Subscription};
use tokio::time::{Instant, sleep};

/// How long [`Queue::take`] waits for the first message.
const MOMENT: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    hold: Option<Duration>,
    keeps_order: bool,
    itself: Weak<Self>,
}

#[derive(Debug, Clone)]
struct Lying {
    place: Place,
    position: Option<SourcePosition>,
    content: std::result::Result<Message, Bytes>,
    deliveries: u32,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Lying>,
    /// What somebody has, by the number of the delivery, until when.
    out: BTreeMap<u64, (Lying, Option<Instant>)>,
    next: u64,
    seen: Seen,
    /// What takes are answered instead of messages.
    takes: VecDeque<ErrorKind>,
    check: Option<ErrorKind>,
    /// What acknowledgements are answered; they are not recorded then.
    acknowledgements: VecDeque<ErrorKind>,
    /// Whether acknowledging panics.
    panics: bool,
    /// Whose messages are another consumer's.
    fenced: HashSet<Place>,
}

/// What was said to the queue.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    pub acknowledged: Vec<String>,
    /// How many were asked for, recorded or not.
    pub acknowledgements: usize,
    pub released: Vec<String>,
    pub extended: Vec<String>,
    pub dropped: Vec<String>,
    pub takes: usize,
    pub most_out: usize,
    pub closed: usize,
}

impl Queue {
    pub fn new() -> Arc<Self> {
        Self::holding(None)
    }

    /// A queue that gives a message to somebody else when nothing was heard of it for so long.
    pub fn holding(hold: Option<Duration>) -> Arc<Self> {
        Arc::new_cyclic(|itself| Self { hold, ..Self::bare(itself) })
    }

    /// A queue of parts, each of which is given out in order.
    pub fn in_parts() -> Arc<Self> {
        Arc::new_cyclic(|itself| Self { keeps_order: true, ..Self::bare(itself) })
    }

    fn bare(itself: &Weak<Self>) -> Self {
        Self { state: Mutex::default(), hold: None, keeps_order: false, itself: Weak::clone(itself) }
    }

    /// Puts a message of this payload under this key; under none where it is empty.
    pub fn put(&self, key: &str, payload: &str) -> Message {
        let message = Message::new("orders.placed", payload.to_owned());
        let message = if key.is_empty() { message } else { message.key(key) };
        self.put_message(message.clone(), 0);
        message
    }

    /// Puts a message of this payload into a part, under a key that is its own.
    pub fn put_in(&self, part: u32, payload: &str) {
        self.lay(Some(part), Ok(Message::new("orders.placed", payload.to_owned()).key(payload)), 0);
    }

    /// Puts a message that was delivered so often before.
    pub fn put_message(&self, message: Message, deliveries: u32) {
        self.lay(None, Ok(message), deliveries);
    }

    pub fn put_unreadable(&self, payload: &'static str) -> Place {
        self.lay(None, Err(Bytes::from_static(payload.as_bytes())), 0)
    }

    fn lay(&self, part: Option<u32>, content: std::result::Result<Message, Bytes>, deliveries: u32) -> Place {
        let mut state = self.state();
        state.next += 1;
        let place = Place::new(format!("queue/{}", state.next));
        let position = part.map(|part| SourcePosition { source: "queue".into(), part, number: state.next });
        state.waiting.push_back(Lying { place: place.clone(), position, content, deliveries });
        place
    }

    /// Answers the next takes with errors of these kinds.
    pub fn fail_takes(&self, kinds: impl IntoIterator<Item = ErrorKind>) {
        self.state().takes.extend(kinds);
    }

    pub fn fail_check(&self, kind: ErrorKind) {
        self.state().check = Some(kind);
    }

    /// Answers the next acknowledgements with errors of these kinds: the messages come again.
    pub fn fail_acknowledgements(&self, kinds: impl IntoIterator<Item = ErrorKind>) {
        self.state().acknowledgements.extend(kinds);
    }

    /// Lets acknowledging panic from now on.
    pub fn panic_at_acknowledgements(&self) {
        self.state().panics = true;
    }

    /// What somebody has of this payload is another consumer's from now on.
    pub fn fence(&self, payload: &str) {
        let mut state = self.state();
        let places: Vec<Place> = state
            .out
            .values()
            .filter(|(lying, _)| lying.shown() == payload)
            .map(|(lying, _)| lying.place.clone())
            .collect();
        assert!(!places.is_empty(), "nobody has {payload}");
        state.fenced.extend(places);
    }

    pub fn seen(&self) -> Seen {
        self.state().seen.clone()
    }

    /// How many messages are not over, in somebody's hands or not.
    pub fn left(&self) -> usize {
        let state = self.state();
        state.waiting.len() + state.out.len()
    }

    /// How many messages somebody has.
    pub fn out(&self) -> usize {
        self.state().out.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, at_most: usize) -> Result<Vec<Incoming>> {
        let mut state = self.state();
        if let Some(kind) = state.takes.pop_front() {
            return Err(Error::new(kind, "the script of the queue says so"));
        }
        let now = Instant::now();
        let expired: Vec<u64> = state
            .out
            .iter()
            .filter(|(_, (_, until))| until.is_some_and(|until| until <= now))
            .map(|(n, _)| *n)
            .collect();
        for number in expired {
            let (lying, _) = state.out.remove(&number).unwrap();
            state.waiting.push_back(lying);
        }
        let mut given = Vec::new();
        while given.len() < at_most
            && let Some(mut lying) = state.waiting.pop_front()
        {
            lying.deliveries += 1;
            let number = state.next;
            state.next += 1;
            state.out.insert(number, (lying.clone(), self.hold.map(|hold| now + hold)));
            let queue = self.itself.upgrade().unwrap();
            let (message, payload) = match &lying.content {
                Ok(message) => (Ok(message.clone()), message.payload.clone()),
                Err(payload) => (Err(Error::new(ErrorKind::Rejected, "it has no id")), payload.clone()),
            };
            let Lying { place, position, deliveries, .. } = lying;
            let (deliveries, receipt) = (Some(deliveries), Box::new(Slip { queue, number }));
            given.push(Incoming { message, payload, place, position, deliveries, receipt });
        }
        state.seen.most_out = state.seen.most_out.max(state.out.len());
        Ok(given)
    }
}

impl Lying {
    fn shown(&self) -> String {
        let payload = match &self.content {
            Ok(message) => &message.payload,
            Err(payload) => payload,
        };
        String::from_utf8_lossy(payload).into_owned()
    }
}

#[async_trait]
impl Subscription for Queue {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn hold(&self) -> Option<Duration> {
        self.hold
    }

    fn keeps_order(&self) -> bool {
        self.keeps_order
    }

    async fn take(&self, at_most: NonZeroUsize) -> Result<Vec<Incoming>> {
        self.state().seen.takes += 1;
        let end = Instant::now() + MOMENT;
        loop {
            let given = self.give(at_most.get())?;
            if !given.is_empty() || Instant::now() >= end {
                return Ok(given);
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        match self.state().check {
            Some(kind) => Err(Error::new(kind, "the script of the queue says so")),
            None => Ok(Vec::new()),
        }
    }

    async fn close(&self) {
        self.state().seen.closed += 1;
    }
}

#[derive(Debug)]
struct Slip {
    queue: Arc<Queue>,
    number: u64,
}

impl Slip {
    fn is_fenced(&self, state: &State) -> bool {
        state.out.get(&self.number).is_none_or(|(lying, _)| state.fenced.contains(&lying.place))
    }
}

fn fenced() -> Error {
    Error::new(ErrorKind::Fenced, "the message is another consumer's")
}

#[async_trait]
impl Receipt for Slip {
    async fn acknowledge(self: Box<Self>) -> Result<()> {
        let mut state = self.queue.state();
        state.seen.acknowledgements += 1;
        assert!(!state.panics, "the script of the queue says so");
        if self.is_fenced(&state) {
            return Err(fenced());
        }
        if let Some(kind) = state.acknowledgements.pop_front() {
            return Err(Error::new(kind, "the answer to an acknowledgement is lost"));
        }
        let (lying, _) = state.out.remove(&self.number).unwrap();
        state.seen.acknowledged.push(lying.shown());
        Ok(())
    }

    async fn extend(&self) -> Result<()> {
        let mut state = self.queue.state();
        if self.is_fenced(&state) {
            return Err(fenced());
        }
        let hold = self.queue.hold;
        let (lying, until) = state.out.get_mut(&self.number).unwrap();
        *until = hold.map(|hold| Instant::now() + hold);
        let shown = lying.shown();
        state.seen.extended.push(shown);
        Ok(())
    }

    async fn release(self: Box<Self>) -> Result<()> {
        let mut state = self.queue.state();
        if self.is_fenced(&state) {
            return Err(fenced());
        }
        let (lying, _) = state.out.remove(&self.number).unwrap();
        state.seen.released.push(lying.shown());
        state.waiting.push_back(lying);
        Ok(())
    }
}

/// Without a word it comes again, unless it is another consumer's.
impl Drop for Slip {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        let Some((lying, _)) = state.out.remove(&self.number) else { return };
        state.seen.dropped.push(lying.shown());
        if !state.fenced.contains(&lying.place) {
            state.waiting.push_back(lying);
        }
    }
}
