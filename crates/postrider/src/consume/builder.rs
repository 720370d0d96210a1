//! How a consumer is put together.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Attempts, Broker, Destination, Error, ErrorKind, Result, RetryPolicy, Subscription};

use super::handling::Limits;
use super::receiver::Receiver;
use super::rules::{Graveyard, Order, Rules};
use super::running::Consumer;
use crate::dead_letters::DeadLetters;

const HOUR: Duration = Duration::from_secs(3_600);
/// The most keys at once.
const MOST_AT_ONCE: usize = 1_024;
/// The most messages in hand.
const LARGEST_WINDOW: usize = 10_000;
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 3_600);

/// What a [`Consumer`] is made of; every setting but the subscription and the receiver has a default.
pub struct ConsumerBuilder<R> {
    subscription: Arc<dyn Subscription>,
    receiver: R,
    order: Order,
    concurrency: usize,
    window: usize,
    handler_timeout: Duration,
    grace: Duration,
    retry: RetryPolicy,
    dead_letters: Option<DeadLetters>,
}

impl<R> fmt::Debug for ConsumerBuilder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerBuilder")
            .field("subscription", &self.subscription)
            .field("order", &self.order)
            .field("concurrency", &self.concurrency)
            .field("window", &self.window)
            .field("handler_timeout", &self.handler_timeout)
            .field("grace", &self.grace)
            .field("retry", &self.retry)
            .field("dead_letters", &self.dead_letters)
            .finish_non_exhaustive()
    }
}

impl<R: Receiver> ConsumerBuilder<R> {
    pub(super) fn new(subscription: Arc<dyn Subscription>, receiver: R) -> Self {
        Self {
            subscription,
            receiver,
            order: Order::Key,
            concurrency: 16,
            window: 256,
            handler_timeout: Duration::from_secs(90),
            grace: Duration::from_secs(10),
            retry: RetryPolicy::default(),
            dead_letters: None,
        }
    }

    /// Which messages are handled one after another: those of one key without.
    #[must_use]
    pub fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// How many messages are handled at once, each of another key (or of [another part](Order::Part)); 1 to 1,024, 16 without.
    #[must_use]
    pub fn concurrency(self, lines: usize) -> Self {
        Self { concurrency: lines, ..self }
    }

    /// How many messages are in hand, those that wait included; 1 to 10,000 and at least as many as are handled at once,
    /// 256 without. It bounds the memory, and how many may wait behind a key that fails.
    #[must_use]
    pub fn window(self, messages: usize) -> Self {
        Self { window: messages, ..self }
    }

    /// How long the receiver may take for one message; 1 ms to 24 hours, 90 s without. One that takes longer is dropped, and its
    /// message has failed.
    ///
    /// What a handler waits for must end before, so that it can say that the message is not to blame: a pool of sqlx's gives up
    /// after 30 s, and a processor has a limit of its own for its handler and sends outputs after that.
    #[must_use]
    pub fn handler_timeout(self, limit: Duration) -> Self {
        Self { handler_timeout: limit, ..self }
    }

    /// When a message is tried again, and after how many attempts it is given up: at least one, of 10 without. `initial` and
    /// `maximum` are 1 ms to 24 hours. A consumer does not know how old a message is, so `max_age` is refused.
    #[must_use]
    pub fn retry(self, policy: RetryPolicy) -> Self {
        Self { retry: policy, ..self }
    }

    /// Where messages go that are given up: a broker, and the place in it, which this consumer must not read itself.
    ///
    /// They have the id, the key, the topic and the headers that they had, and `postrider-dead-reason`, `-attempts` and `-error`.
    /// Without it no message is given up: after its attempts it is tried for ever, at the longest interval.
    #[must_use]
    pub fn dead_letters(self, broker: Arc<dyn Broker>, destination: Destination) -> Self {
        Self { dead_letters: Some(DeadLetters { broker, destination }), ..self }
    }

    /// How long messages that are being handled may take to their end when the consumer stops; up to an hour, 10 s without.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// The consumer. Nothing is asked of the broker yet.
    ///
    /// # Errors
    /// `Config` for a setting out of its range, with the range, and for an order that the broker does not keep.
    pub fn build(self) -> Result<Consumer<R>> {
        if self.order == Order::Part && !self.subscription.keeps_order() {
            let text = format!(
                "order is Part: {} hands the messages of a consumer to all of its processes, in no order; expected a subscription \
                 that keeps the order of each part of its source, or Order::Key with the inbox",
                self.subscription.name()
            );
            return Err(Error::new(ErrorKind::Config, text));
        }
        within("concurrency", self.concurrency, 1..=MOST_AT_ONCE)?;
        within("window", self.window, self.concurrency..=LARGEST_WINDOW)?;
        let shortest = Duration::from_millis(1);
        within("handler_timeout", self.handler_timeout, shortest..=24 * HOUR)?;
        within("grace", self.grace, Duration::ZERO..=HOUR)?;
        within("retry.maximum", self.retry.maximum, shortest..=LONGEST_PAUSE)?;
        within("retry.initial", self.retry.initial, shortest..=self.retry.maximum)?;
        within("retry.multiplier", self.retry.multiplier, 1.0..=1_000.0)?;
        if let Attempts::AtMost(attempts) = self.retry.attempts {
            within("retry.attempts", attempts, 1..=u32::MAX)?;
        }
        if self.retry.max_age.is_some() {
            let text = "retry.max_age: a consumer does not know how old a message is; leave it out";
            return Err(Error::new(ErrorKind::Config, text));
        }
        // What begins or ends meanwhile is told again after two parts at most; two words may be lost, and the third is heard in
        // the fourth part.
        let extend_every = self.subscription.hold().map(|hold| (hold / 5).max(shortest));
        let graveyard = if self.dead_letters.is_some() { Graveyard::Given } else { Graveyard::Nowhere };
        Ok(Consumer {
            rules: Rules {
                order: self.order,
                concurrency: self.concurrency,
                window: self.window,
                retry: self.retry,
                graveyard,
                extend_every,
            },
            limits: Limits { handler: self.handler_timeout, extend_every },
            subscription: self.subscription,
            receiver: Arc::new(self.receiver),
            dead_letters: self.dead_letters,
            grace: self.grace,
        })
    }
}

fn within<T: PartialOrd + fmt::Debug>(what: &str, found: T, range: RangeInclusive<T>) -> Result<()> {
    if range.contains(&found) {
        return Ok(());
    }
    let text = format!("{what} is {found:?}: expected {:?} to {:?}", range.start(), range.end());
    Err(Error::new(ErrorKind::Config, text))
}
