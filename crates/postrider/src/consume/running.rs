//! The one loop of a consumer.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use postrider_core::{Error, ErrorKind, Incoming, Jitter, Result, Subscription, Tick};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::builder::ConsumerBuilder;
use super::handling::{self, Ended, Limits};
use super::plan::{End, Number, Plan, Step};
use super::receiver::Receiver;
use super::rules::{Graveyard, Order, Rules};
use super::summary::ConsumeSummary;
use super::taken::Taken;
use super::taking::Taking;
use super::telemetry;
use crate::dead_letters::DeadLetters;

/// How long what did not end within the grace may take to be dropped, and the subscription to be left.
const FAREWELL: Duration = Duration::from_secs(5);
/// The longest sleep of the loop.
const FAR: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Takes messages from a subscription and hands them to a receiver.
///
/// Any number of consumers of one name may run at once, in any number of processes: they share the messages.
pub struct Consumer<R> {
    pub(super) subscription: Arc<dyn Subscription>,
    pub(super) receiver: Arc<R>,
    pub(super) rules: Rules,
    pub(super) limits: Limits,
    pub(super) dead_letters: Option<DeadLetters>,
    pub(super) grace: Duration,
}

impl<R> fmt::Debug for Consumer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("subscription", &self.subscription)
            .field("rules", &self.rules)
            .field("limits", &self.limits)
            .field("dead_letters", &self.dead_letters)
            .finish_non_exhaustive()
    }
}

impl<R: Receiver> Consumer<R> {
    /// A consumer of what a subscription gives: `brokers::subscribe` makes one of a URL.
    pub fn builder(subscription: Arc<dyn Subscription>, receiver: R) -> ConsumerBuilder<R> {
        ConsumerBuilder::new(subscription, receiver)
    }

    /// Takes and handles messages until `stop` is cancelled; then lets what is being handled come to its end, gives back what
    /// is not, and leaves the broker.
    ///
    /// A broker that is away is waited for. Dropped at any point, every message in hand comes again.
    ///
    /// # Errors
    /// `Config` where the broker says at the start that what is read is not there, or that it may not be read. With
    /// [`Order::Part`], `Unknown` when a message was dropped by a panic that is not of the handler: what is behind it must wait for it.
    pub async fn run(self, stop: CancellationToken) -> Result<ConsumeSummary> {
        let jitter = Jitter::seeded(Uuid::new_v4().as_u64_pair().0);
        let running = Running {
            plan: Plan::new(self.rules.clone(), jitter),
            taking: Taking::new(Arc::clone(&self.subscription)),
            hands: HashMap::new(),
            tasks: JoinSet::new(),
            summary: ConsumeSummary::default(),
            start: Instant::now(),
            consumer: self,
        };
        running.run(stop).await
    }
}

/// A consumer that runs.
struct Running<R> {
    consumer: Consumer<R>,
    plan: Plan,
    taking: Taking,
    /// The messages with which nothing is being done; the others are in their tasks.
    hands: HashMap<Number, Taken>,
    tasks: JoinSet<(Number, Option<Ended>)>,
    summary: ConsumeSummary,
    start: Instant,
}

impl<R: Receiver> Running<R> {
    async fn run(mut self, stop: CancellationToken) -> Result<ConsumeSummary> {
        let ended = self.work(&stop).await;
        let summary = self.leave().await;
        ended.map(|()| summary)
    }

    async fn work(&mut self, stop: &CancellationToken) -> Result<()> {
        if self.consumer.rules.graveyard == Graveyard::Nowhere {
            telemetry::no_graveyard();
        }
        tokio::select! {
            looked = self.taking.look() => looked?,
            () = stop.cancelled() => {}
        }
        let mut deadline: Option<Tick> = None;
        loop {
            let now = self.now();
            if deadline.is_none() && stop.is_cancelled() {
                self.taking.stop();
                self.plan.stop();
                deadline = Some(now + self.consumer.grace);
            }
            while let Some(step) = self.plan.next(now) {
                self.perform(step);
            }
            if deadline.is_some_and(|deadline| self.plan.is_empty() || deadline <= now) {
                return Ok(());
            }
            let wake = self.plan.wake_at().min(deadline.unwrap_or(Tick::FAR));
            tokio::select! {
                Some(Ok((number, ended))) = self.tasks.join_next() => self.hear(number, ended)?,
                taken = self.taking.next(self.plan.room()), if deadline.is_none() => self.take_in(taken?),
                () = stop.cancelled(), if deadline.is_none() => {}
                () = sleep_until(self.start + wake.since_start().min(FAR)) => {}
            }
        }
    }

    fn now(&self) -> Tick {
        Tick::after_start(self.start.elapsed())
    }

    fn take_in(&mut self, messages: Vec<Incoming>) {
        let now = self.now();
        for incoming in messages {
            let (taken, arrival) = Taken::new(incoming, self.consumer.rules.order);
            let number = self.plan.take_in(now, arrival);
            if let Some(given_up) = self.plan.given_up(number).filter(|_| self.consumer.dead_letters.is_some()) {
                telemetry::unbegun(&taken, given_up);
            }
            self.hands.insert(number, taken);
        }
    }

    fn perform(&mut self, step: Step) {
        match step {
            Step::Handle(number) => {
                let (receiver, limits) = (Arc::clone(&self.consumer.receiver), self.consumer.limits);
                self.spawn(number, |taken| handling::handle(taken, receiver, limits));
            }
            Step::Bury(number, given_up) => {
                let (Some(dead), limits) = (self.consumer.dead_letters.clone(), self.consumer.limits) else { return };
                self.spawn(number, |taken| handling::bury(taken, dead, given_up, limits));
            }
            Step::Keep(number) => {
                if let Some(taken) = self.hands.get(&number) {
                    telemetry::kept(taken, self.consumer.rules.retry.maximum);
                }
            }
            Step::Extend(number) => {
                let limits = self.consumer.limits;
                self.spawn(number, |taken| handling::extend(taken, limits));
            }
            Step::Release(number) => self.spawn(number, handling::release),
        }
    }

    /// Does something with a message, in a task of its own.
    fn spawn<F>(&mut self, number: Number, work: impl FnOnce(Taken) -> F)
    where
        F: Future<Output = Ended> + Send + 'static,
    {
        let Some(taken) = self.hands.remove(&number) else { return };
        // What panics here is no handler, and its message is gone: it comes again.
        let work = AssertUnwindSafe(work(taken)).catch_unwind();
        self.tasks.spawn(async move { (number, work.await.ok()) });
    }

    /// Takes in how something ended.
    ///
    /// # Errors
    /// `Unknown` where nobody knows how, and nothing behind it may begin: a cursor that has passed a message takes it for a repeat.
    fn hear(&mut self, number: Number, ended: Option<Ended>) -> Result<()> {
        let now = self.now();
        if ended.is_none() && self.consumer.rules.order == Order::Part {
            let text = "a message was dropped by a panic that is not of the handler: start the consumer again, which goes on with it";
            return Err(Error::new(ErrorKind::Unknown, text));
        }
        let ended = ended.unwrap_or(Ended::Lost);
        self.summary.count(&ended);
        match ended {
            Ended::Handled(_) | Ended::Buried | Ended::Released | Ended::Lost => {
                self.plan.ended(now, number, End::Gone);
            }
            Ended::Kept(taken) => {
                self.plan.ended(now, number, End::Extended);
                self.hands.insert(number, taken);
            }
            Ended::SetBack(taken, setback) => {
                let after = self.plan.ended(now, number, setback.end());
                telemetry::set_back(&taken, &setback, after);
                self.hands.insert(number, taken);
            }
            Ended::NotBuried(taken, error) => {
                let after = self.plan.ended(now, number, End::NotBuried);
                telemetry::not_buried(&taken, &error, after);
                self.hands.insert(number, taken);
            }
        }
        Ok(())
    }

    /// Drops what did not come to its end, and leaves the broker.
    async fn leave(mut self) -> ConsumeSummary {
        // A handler that keeps its thread can't be dropped: it is not waited for.
        drop(timeout(FAREWELL, self.tasks.shutdown()).await);
        self.hands.clear();
        drop(timeout(FAREWELL, self.consumer.subscription.close()).await);
        self.summary
    }
}
