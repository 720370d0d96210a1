//! One step with one message: what is done with it, and how that ends.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use postrider_core::{Error, GivenUp};
use tokio::time::timeout;
use tracing::Instrument as _;

use super::burying::letter;
use super::receiver::{Handled, Receiver};
use super::setback::Setback;
use super::taken::{Content, Ownership, Taken};
use super::telemetry;
use crate::dead_letters::DeadLetters;
use crate::delivery::Delivery;
use crate::last_words::last_words;

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub handler: Duration,
    /// How often the broker is told meanwhile that a message is worked on.
    pub extend_every: Option<Duration>,
}

/// How a step ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// Handled, and acknowledged as far as that goes.
    Handled(Handled),
    /// With the dead letters, and acknowledged as far as that goes.
    Buried,
    /// Given back.
    Released,
    /// Another consumer's, and let go.
    Lost,
    /// Still in hand: the broker was told so.
    Kept(Taken),
    /// Still in hand: it could not be handled.
    SetBack(Taken, Setback),
    /// Still in hand: it could not be put where it belongs.
    NotBuried(Taken, Error),
}

/// Hands it to the receiver, and acknowledges it when that has returned.
pub(super) async fn handle<R: Receiver>(taken: Taken, receiver: Arc<R>, limits: Limits) -> Ended {
    let Content::Delivery(delivery) = &taken.content else {
        return Ended::SetBack(taken, Setback::give_up("it is no message"));
    };
    if is_lost_already(&taken, limits).await {
        return lost(&taken);
    }
    let span = tracing::info_span!("message", id = %delivery.id(), place = %taken.place);
    let work = attempt(&*receiver, delivery, limits.handler).instrument(span);
    match taken.while_kept(limits.extend_every, work).await {
        (Ok(handled), Ownership::Ours) => {
            taken.acknowledge().await;
            Ended::Handled(handled)
        }
        (Ok(handled), Ownership::Lost) => Ended::Handled(handled),
        (Err(setback), Ownership::Ours) => Ended::SetBack(taken, setback),
        (Err(_), Ownership::Lost) => lost(&taken),
    }
}

/// Runs the receiver once. One that takes too long is dropped, and one that panics has failed.
async fn attempt<R: Receiver>(receiver: &R, delivery: &Delivery, limit: Duration) -> Result<Handled, Setback> {
    // A closure may panic before there is a future of it.
    let running = AssertUnwindSafe(async { receiver.receive(delivery).await }).catch_unwind();
    match timeout(limit, running).await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => Err(Setback::failed(format!("the handler panicked: {}", last_words(panic.as_ref())))),
        Err(_) => Err(Setback::failed(format!("the handler took longer than {limit:?}, and was dropped"))),
    }
}

/// Puts it with the dead letters, and acknowledges it when it was accepted there.
pub(super) async fn bury(taken: Taken, dead: DeadLetters, given_up: Arc<GivenUp>, limits: Limits) -> Ended {
    if is_lost_already(&taken, limits).await {
        return lost(&taken);
    }
    let work = dead.bury(letter(&taken), given_up);
    match taken.while_kept(limits.extend_every, work).await {
        (Ok(()), Ownership::Ours) => {
            taken.acknowledge().await;
            Ended::Buried
        }
        (Ok(()), Ownership::Lost) => Ended::Buried,
        (Err(error), Ownership::Ours) => Ended::NotBuried(taken, error),
        (Err(_), Ownership::Lost) => lost(&taken),
    }
}

/// Whether it is another consumer's by now, where nothing asks for that while it waits: what
/// is begun then would be done beside its new owner, and behind what that one does.
async fn is_lost_already(taken: &Taken, limits: Limits) -> bool {
    limits.extend_every.is_none() && taken.extend(None).await == Ownership::Lost
}

/// Tells the broker that it is worked on.
pub(super) async fn extend(taken: Taken, limits: Limits) -> Ended {
    match taken.extend(limits.extend_every).await {
        Ownership::Ours => Ended::Kept(taken),
        Ownership::Lost => lost(&taken),
    }
}

fn lost(taken: &Taken) -> Ended {
    telemetry::lost(taken);
    Ended::Lost
}

/// Gives it back.
pub(super) async fn release(taken: Taken) -> Ended {
    taken.release().await;
    Ended::Released
}
