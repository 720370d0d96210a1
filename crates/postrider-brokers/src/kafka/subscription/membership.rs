//! One member of a group: what its threads, its receipts and whoever takes share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postrider_core::{Error, ErrorKind};
use rdkafka::consumer::BaseConsumer;
use tokio::sync::watch;

use super::super::listener::Listener;
use super::desk::Desk;
use super::rebalancing::Member;
use super::settings::Settings;
use super::unreadable::Unreadable;

/// The client's consumer.
pub(super) type Consumer = BaseConsumer<Member>;

/// A member from its first taking until it has left.
pub(super) struct Membership {
    pub(super) settings: Arc<Settings>,
    pub(super) desk: Desk,
    /// What is wrong with the connection.
    pub(super) listener: Listener,
    /// Whether the client was told to fetch no more.
    pub(super) is_full: AtomicBool,
    gate: Mutex<()>,
    consumer: Mutex<Option<Arc<Consumer>>>,
    refusal: Mutex<Option<Refusal>>,
    /// Since when questions to the cluster have no answer.
    unheard_since: Mutex<Option<Instant>>,
    unreadable: Mutex<Unreadable>,
    wish: Mutex<Wish>,
    woken: Condvar,
    pulse: Mutex<Instant>,
    leaving: AtomicBool,
    ended: watch::Sender<bool>,
}

/// What the cluster does not let us do, until something of it works.
#[derive(Debug, Clone)]
struct Refusal {
    since: Instant,
    kind: ErrorKind,
    text: String,
}

/// Whether positions wait to be recorded.
#[derive(Debug, Default)]
struct Wish {
    wanted: bool,
}

/// Positions on their way to the broker. While it is held nobody else sends any.
pub(super) struct Gate<'m>(#[allow(dead_code, reason = "it is held, not used")] MutexGuard<'m, ()>);

impl Membership {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self {
            settings,
            desk: Desk::default(),
            listener: Listener::default(),
            is_full: AtomicBool::new(false),
            gate: Mutex::default(),
            consumer: Mutex::default(),
            refusal: Mutex::default(),
            unheard_since: Mutex::default(),
            unreadable: Mutex::default(),
            wish: Mutex::default(),
            woken: Condvar::new(),
            pulse: Mutex::new(Instant::now()),
            leaving: AtomicBool::new(false),
            ended: watch::Sender::new(false),
        }
    }

    /// The consumer, while there is one.
    pub(super) fn consumer(&self) -> Option<Arc<Consumer>> {
        lock(&self.consumer).clone()
    }

    /// Shows the consumer to those who record positions and ask questions; none hides it.
    pub(super) fn show(&self, consumer: Option<Arc<Consumer>>) {
        *lock(&self.consumer) = consumer;
    }

    /// Waits until nobody sends positions, and keeps others from it.
    ///
    /// Positions are read from the desk and handed to the client under it: none that was read before a partition went can
    /// be sent after it, over those of its new owner.
    pub(super) fn gate(&self) -> Gate<'_> {
        Gate(lock(&self.gate))
    }

    /// Says that positions wait to be recorded.
    pub(super) fn wish(&self) {
        lock(&self.wish).wanted = true;
        self.woken.notify_all();
    }

    /// Waits until positions wait to be recorded. False where the member leaves: whoever gives its partitions away records them.
    pub(super) fn is_wished(&self) -> bool {
        let waits = |wish: &mut Wish| !wish.wanted && !self.is_leaving();
        let mut wish = self.woken.wait_while(lock(&self.wish), waits).unwrap_or_else(PoisonError::into_inner);
        wish.wanted = false;
        !self.is_leaving()
    }

    /// Waits for a while, or until the member leaves.
    pub(super) fn rest(&self, time: Duration) {
        let waits = |_: &mut Wish| !self.is_leaving();
        let rested = self.woken.wait_timeout_while(lock(&self.wish), time, waits);
        drop(rested.unwrap_or_else(PoisonError::into_inner));
    }

    /// Notes that the program is alive.
    pub(super) fn beat(&self) {
        *lock(&self.pulse) = Instant::now();
    }

    /// How long ago the program was last seen alive.
    pub(super) fn silence(&self) -> Duration {
        lock(&self.pulse).elapsed()
    }

    /// Notes what the cluster does not let us do.
    pub(super) fn refuse(&self, kind: ErrorKind, text: String) {
        let mut refusal = lock(&self.refusal);
        let since = refusal.as_ref().map_or_else(Instant::now, |known| known.since);
        *refusal = Some(Refusal { since, kind, text });
    }

    /// Notes that the cluster lets us read.
    pub(super) fn is_let(&self) {
        *lock(&self.refusal) = None;
    }

    /// What the cluster does not let us do.
    pub(super) fn refusal(&self) -> Option<Error> {
        lock(&self.refusal).as_ref().map(|refusal| Error::new(refusal.kind, refusal.text.clone()))
    }

    /// For how long the cluster has not let us do something.
    pub(super) fn refused_for(&self) -> Option<Duration> {
        lock(&self.refusal).as_ref().map(|refusal| refusal.since.elapsed())
    }

    /// Notes that a question to the cluster had its answer.
    pub(super) fn heard(&self) {
        *lock(&self.unheard_since) = None;
    }

    /// Notes that a question to the cluster, asked at this time, had no answer.
    pub(super) fn unheard(&self, asked: Instant) {
        lock(&self.unheard_since).get_or_insert(asked);
    }

    /// For how long questions to the cluster have had no answer.
    pub(super) fn unheard_for(&self) -> Option<Duration> {
        lock(&self.unheard_since).map(|since| since.elapsed())
    }

    /// What can't be read.
    pub(super) fn unreadable(&self) -> MutexGuard<'_, Unreadable> {
        lock(&self.unreadable)
    }

    /// Leaves the group, soon.
    pub(super) fn leave(&self) {
        // Under the lock: who is about to wait must see it.
        let wish = lock(&self.wish);
        self.leaving.store(true, Ordering::SeqCst);
        drop(wish);
        self.woken.notify_all();
    }

    /// Whether it is to leave.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    /// Says that it has left.
    pub(super) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Waits until it has left.
    pub(super) async fn ended(&self) {
        // Its sender lives as long as this.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
