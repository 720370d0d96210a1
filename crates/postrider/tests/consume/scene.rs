//! A consumer over a queue, whose receiver does what a test says of each payload.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider::brokers::memory::MemoryBroker;
use postrider::consume::{ConsumeSummary, Consumer, ConsumerBuilder, Handled, Receiver, Setback};
use postrider::{Attempts, Broker, CancellationToken, Delivery, Destination, Result, RetryPolicy};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::queue::Queue;

/// What becomes of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Done,
    Before,
    DoneAfter(Duration),
    Fail,
    FailAfter(Duration),
    Again,
    GiveUp,
    Panic,
    Hang,
}

type Script = dyn Fn(&str, u32) -> Act + Send + Sync;

/// A receiver that does what a script says: of a payload, and which attempt at it this is, counted from 1.
pub struct Scripted {
    pub record: Arc<Record>,
    script: Box<Script>,
}

/// What the receiver did.
#[derive(Debug, Default)]
pub struct Record {
    begun: Mutex<Vec<String>>,
    ended: Mutex<Vec<String>>,
    attempts: Mutex<HashMap<String, u32>>,
    running: AtomicUsize,
    most: AtomicUsize,
}

impl Record {
    pub fn begun(&self) -> Vec<String> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What came to an end, well or not; what was dropped did not.
    pub fn ended(&self) -> Vec<String> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

/// Counts who runs, also where it is dropped.
struct Run<'r>(&'r Record);

impl<'r> Run<'r> {
    fn begin(record: &'r Record) -> Self {
        let running = record.running.fetch_add(1, Ordering::SeqCst) + 1;
        record.most.fetch_max(running, Ordering::SeqCst);
        Self(record)
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Receiver for Scripted {
    async fn receive(&self, delivery: &Delivery) -> std::result::Result<Handled, Setback> {
        let payload = String::from_utf8_lossy(&delivery.message.payload).into_owned();
        let _run = Run::begin(&self.record);
        self.record.begun.lock().unwrap().push(payload.clone());
        let nth = {
            let mut attempts = self.record.attempts.lock().unwrap();
            let nth = attempts.entry(payload.clone()).or_default();
            *nth += 1;
            *nth
        };
        let ended = match (self.script)(&payload, nth) {
            Act::Done => Ok(Handled::Now),
            Act::Before => Ok(Handled::Before),
            Act::DoneAfter(time) => {
                sleep(time).await;
                Ok(Handled::Now)
            }
            Act::Fail => Err(Setback::failed("no such item")),
            Act::FailAfter(time) => {
                sleep(time).await;
                Err(Setback::failed("no such item"))
            }
            Act::Again => Err(Setback::again("the database is away")),
            Act::GiveUp => Err(Setback::give_up("an order without items")),
            Act::Panic => panic!("the handler is wrong"),
            Act::Hang => std::future::pending().await,
        };
        self.record.ended.lock().unwrap().push(payload);
        ended
    }
}

pub struct Scene {
    pub queue: Arc<Queue>,
    pub record: Arc<Record>,
    pub dead: Arc<MemoryBroker>,
    pub stop: CancellationToken,
    pub running: JoinHandle<Result<ConsumeSummary>>,
}

/// Three attempts, a second apart at first.
pub fn policy() -> RetryPolicy {
    RetryPolicy { attempts: Attempts::AtMost(3), ..RetryPolicy::default() }
}

pub fn dead_letters() -> Destination {
    Destination::new("dead.orders")
}

impl Scene {
    pub fn start(queue: &Arc<Queue>, script: impl Fn(&str, u32) -> Act + Send + Sync + 'static) -> Self {
        Self::start_with(queue, script, |builder| builder)
    }

    pub fn start_with(
        queue: &Arc<Queue>,
        script: impl Fn(&str, u32) -> Act + Send + Sync + 'static,
        change: impl FnOnce(ConsumerBuilder<Scripted>) -> ConsumerBuilder<Scripted>,
    ) -> Self {
        let dead = Arc::new(MemoryBroker::recording());
        let graveyard = Arc::clone(&dead) as Arc<dyn Broker>;
        let scene = Self::start_bare(queue, script, |builder| change(builder.dead_letters(graveyard, dead_letters())));
        Self { dead, ..scene }
    }

    /// Without a place for dead letters.
    pub fn start_bare(
        queue: &Arc<Queue>,
        script: impl Fn(&str, u32) -> Act + Send + Sync + 'static,
        change: impl FnOnce(ConsumerBuilder<Scripted>) -> ConsumerBuilder<Scripted>,
    ) -> Self {
        let record = Arc::new(Record::default());
        let receiver = Scripted { record: Arc::clone(&record), script: Box::new(script) };
        let consumer = change(Consumer::builder(Arc::clone(queue) as _, receiver).retry(policy())).build().unwrap();
        let stop = CancellationToken::new();
        let running = tokio::spawn(consumer.run(stop.clone()));
        let dead = Arc::new(MemoryBroker::recording());
        Self { queue: Arc::clone(queue), record, dead, stop, running }
    }

    pub async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        until(|| is_so(self)).await;
    }

    pub async fn until_empty(&self) {
        self.until(|scene| scene.queue.left() == 0).await;
    }

    pub async fn stopped(self) -> ConsumeSummary {
        self.stop.cancel();
        self.ended().await.unwrap()
    }

    /// What came of it, when it ends.
    pub async fn ended(self) -> Result<ConsumeSummary> {
        timeout(LONGEST, self.running).await.unwrap().unwrap()
    }
}

/// How long anything may take; the clock of most tests stands still while they work.
const LONGEST: Duration = Duration::from_secs(7_200);

/// Waits until something is so.
pub async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONGEST, waiting).await.unwrap();
}

/// The places of some payloads in a list, each of which must be there.
pub fn places(list: &[String], payloads: &[&str]) -> Vec<usize> {
    payloads.iter().map(|payload| list.iter().position(|one| one == payload).unwrap()).collect()
}
