//! What is done with a message.

use std::error::Error;
use std::future::Future;
use std::sync::Arc;

use super::setback::Setback;
use crate::delivery::Delivery;
use crate::inbox::Seen;

/// What is done with a message.
///
/// It has its effect exactly once where it records the message's id in the transaction of the effect, as
/// [`Inbox`](crate::Inbox) does, or is a processor: the consumer delivers at least once. It is there for closures
/// that take a [`Delivery`] and return a future of a [`Result`]: of `()`, [`Handled`] or [`Seen`](crate::Seen), and any
/// error, which [`Setback::of`] judges; and for `Arc`s of what is a receiver, such as a processor's.
pub trait Receiver: Send + Sync + 'static {
    /// Handles one delivery. When it returns `Ok`, the effect must be committed: the message is acknowledged then.
    ///
    /// Dropped at any point, as it is when it takes too long, it must leave a message that can be handled once more. It must
    /// not keep its thread for long: what blocks belongs into `tokio::task::spawn_blocking`. That runs on when the delivery is
    /// dropped, and its effect may come after what follows: a time limit of its own has it end before.
    ///
    /// # Errors
    /// Why it is not over, and what follows from that.
    fn receive(&self, delivery: &Delivery) -> impl Future<Output = Result<Handled, Setback>> + Send;
}

/// That a message was handled, as far as the receiver knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Handled {
    /// Now, or it is not known whether before.
    Now,
    /// At an earlier delivery.
    Before,
}

impl From<()> for Handled {
    fn from((): ()) -> Self {
        Self::Now
    }
}

impl From<Seen> for Handled {
    fn from(seen: Seen) -> Self {
        match seen {
            Seen::First => Self::Now,
            Seen::Repeat => Self::Before,
        }
    }
}

impl<F, R, T, E> Receiver for F
where
    F: Fn(Delivery) -> R + Send + Sync + 'static,
    R: Future<Output = Result<T, E>> + Send,
    T: Into<Handled>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    fn receive(&self, delivery: &Delivery) -> impl Future<Output = Result<Handled, Setback>> + Send {
        let running = self(delivery.clone());
        async move {
            match running.await {
                Ok(done) => Ok(done.into()),
                Err(error) => Err(Setback::of(error)),
            }
        }
    }
}

impl<R: Receiver> Receiver for Arc<R> {
    fn receive(&self, delivery: &Delivery) -> impl Future<Output = Result<Handled, Setback>> + Send {
        R::receive(self, delivery)
    }
}
