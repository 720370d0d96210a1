//! Retention, the outbox in numbers, and whether the outbox is empty.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Error, ErrorKind, Lane, Operator, Result, Retention, Store, StoreStatus};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::hands::Signal;
use crate::snapshot::Left;
use crate::telemetry;

/// How often retention runs, and the outbox is counted.
const ROUND: Duration = Duration::from_secs(10);
/// Counting takes no more than one of so many parts of the time, so that the 99th of a hundred messages does not feel it:
/// it is slow where millions of rows are gone that nobody may vacuum, and then the database works for it alone.
const PARTS: u32 = 100;
/// The outbox is counted this often however slow that is.
const SELDOM: Duration = Duration::from_secs(60);
/// Rows removed by one statement, so that no lock lasts.
const PRUNE_BATCH: u32 = 1_000;
/// The pause between two batches of removals.
const PRUNE_PAUSE: Duration = Duration::from_millis(50);
/// Counts are exact up to here.
const COUNT_BOUND: u32 = 10_000;
/// How long one look or one removal may take. One that takes longer is given up with its connection.
const DEADLINE: Duration = Duration::from_secs(30);

/// Whether this relay does the housekeeping: the one that owns the first lane does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duty {
    On,
    Off,
}

impl Duty {
    /// The duty of the owner of these lanes, which are in order.
    pub(crate) fn of(lanes: &[Lane]) -> Self {
        if lanes.first() == Some(&Lane(0)) { Self::On } else { Self::Off }
    }
}

/// Keeps house until the asking end is dropped. A message on `asked` wants to know whether the outbox is empty.
pub(crate) async fn keep_house(
    store: Arc<dyn Store>,
    retention: Retention,
    mut duty: watch::Receiver<Duty>,
    mut asked: mpsc::UnboundedReceiver<()>,
    signals: mpsc::UnboundedSender<Signal>,
) {
    let mut operator: Option<Box<dyn Operator>> = None;
    let mut next_round = Instant::now();
    let mut next_count = next_round;
    let mut was = Duty::Off;
    loop {
        tokio::select! {
            // A question first: while every round hangs up to its deadline, the next one is due at once.
            biased;
            question = asked.recv() => {
                let Some(()) = question else { return };
                let answer = look(&store, &mut operator, u32::MAX).await;
                let left = answer.ok().map(|status| (rest(&status), left(&status)));
                drop(signals.send(Signal::Counted(left)));
            }
            Ok(()) = duty.changed() => {
                // Who comes to it shows the outbox at once.
                next_round = Instant::now();
                next_count = next_round;
            }
            () = tokio::time::sleep_until(next_round) => {
                next_round = Instant::now() + ROUND;
                let duty = *duty.borrow();
                if was == Duty::On && duty == Duty::Off {
                    telemetry::store_is_shown_elsewhere();
                }
                was = duty;
                if duty == Duty::On && let Err(error) = round(&store, &mut operator, &retention, &mut next_count).await {
                    operator = None;
                    tracing::debug!(%error, "housekeeping could not be done this time");
                }
            }
        }
    }
}

async fn round(
    store: &Arc<dyn Store>,
    operator: &mut Option<Box<dyn Operator>>,
    retention: &Retention,
    next_count: &mut Instant,
) -> Result<()> {
    let began = Instant::now();
    if began >= *next_count {
        telemetry::store(&look(store, operator, COUNT_BOUND).await?);
        *next_count = began + until_next_count(began.elapsed());
    }
    if retention.delivered.is_none() && retention.dead.is_none() {
        return Ok(());
    }
    let operator = hand(store, operator).await?;
    let end = Instant::now() + ROUND;
    loop {
        let pruned = in_time(operator.prune(retention, PRUNE_BATCH)).await?;
        let most = pruned.delivered.max(pruned.dead);
        if most < u64::from(PRUNE_BATCH) || Instant::now() >= end {
            return Ok(());
        }
        sleep(PRUNE_PAUSE).await;
    }
}

/// How long after one count the next one begins, by how long it took.
fn until_next_count(took: Duration) -> Duration {
    // The round that comes nearest to it counts, also when it comes a moment early.
    took.saturating_mul(PARTS).clamp(ROUND, SELDOM) - ROUND / 2
}

async fn look(store: &Arc<dyn Store>, operator: &mut Option<Box<dyn Operator>>, bound: u32) -> Result<StoreStatus> {
    let status = in_time(hand(store, operator).await?.status(bound)).await;
    if status.is_err() {
        *operator = None;
    }
    status
}

/// The operator that there is, or a new one.
async fn hand<'a>(
    store: &Arc<dyn Store>,
    operator: &'a mut Option<Box<dyn Operator>>,
) -> Result<&'a mut Box<dyn Operator>> {
    match operator {
        Some(operator) => Ok(operator),
        None => Ok(operator.insert(in_time(store.operator()).await?)),
    }
}

async fn in_time<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    let late = || Err(Error::new(ErrorKind::Unavailable, "counting or pruning the outbox took too long"));
    timeout(DEADLINE, call).await.unwrap_or_else(|_| late())
}

/// What is left for relays to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing.
    Nothing,
    /// So many messages that were tried and will be again, and what waits behind them.
    Retrying(u64),
    /// Others too.
    More,
}

fn rest(status: &StoreStatus) -> Rest {
    let retrying = status.retrying.value();
    let waiting = retrying.saturating_add(status.set_aside.value()).saturating_add(status.delayed.value());
    if is_empty(status) {
        Rest::Nothing
    } else if status.pending.value() <= waiting {
        Rest::Retrying(retrying)
    } else {
        Rest::More
    }
}

fn is_empty(status: &StoreStatus) -> bool {
    // What waits behind held keys waits for an operator, not for this relay.
    let held_back = status.held_back.value();
    (status.oldest_age.is_none() || held_back > 0)
        && status.retrying.value() == 0
        && status.set_aside.value() <= held_back
        && status.pending.value() <= status.delayed.value().saturating_add(held_back)
}

fn left(status: &StoreStatus) -> Left {
    Left {
        delayed: status.delayed.value(),
        dead: status.dead.value(),
        holding: status.holding.value(),
        held_back: status.held_back.value(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_count_is_seldom_and_a_quick_one_is_of_every_round() {
        let rounds = |millis: u64| {
            let until = until_next_count(Duration::from_millis(millis));
            (1..).find(|round| ROUND * *round >= until).unwrap_or(0)
        };
        assert_eq!((rounds(0), rounds(3), rounds(100)), (1, 1, 1));
        assert_eq!((rounds(200), rounds(400), rounds(600), rounds(30_000)), (2, 4, 6, 6));
    }
}
