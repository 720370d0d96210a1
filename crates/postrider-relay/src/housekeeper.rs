//! Retention of outbox and inbox, the outbox in numbers, and whether the outbox is empty.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Archive, Lane, Operator, Pruned, Result, Retention, Store, StoreStatus};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use crate::archiving::{Archiving, within};
use crate::forgetting::Forgetting;
use crate::hands::Signal;
use crate::snapshot::Left;
use crate::telemetry;

/// How often retention runs, and the outbox is counted.
const ROUND: Duration = Duration::from_secs(10);
/// Counting that stays slow takes no more than one of so many parts of the time, so that the 99th of a hundred messages
/// does not feel it: it is slow where millions of rows are gone that nobody may vacuum, and then the database works for it
/// alone.
const PARTS: u32 = 100;
/// The outbox is counted this often however slow that is.
const SELDOM: Duration = Duration::from_secs(60);
/// Rows removed by one statement, so that no lock lasts.
const PRUNE_BATCH: u32 = 1_000;
/// The pause between two batches of removals.
const PRUNE_PAUSE: Duration = Duration::from_millis(50);
/// Counts are exact up to here.
const COUNT_BOUND: u32 = 10_000;
/// How long one look, one removal, or one write into the archive may take. One that takes longer is given up, with the
/// connection.
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

/// How long what is settled is kept, and where it goes then; how long the inbox remembers what was handled.
#[derive(Debug)]
pub(crate) struct Keeping {
    pub(crate) retention: Retention,
    pub(crate) archive: Option<Arc<dyn Archive>>,
    pub(crate) inbox: Option<Duration>,
}

/// Keeps house until the asking end is dropped. A message on `asked` wants to know whether the outbox is empty.
pub(crate) async fn keep_house(
    store: Arc<dyn Store>,
    keeping: Keeping,
    mut duty: watch::Receiver<Duty>,
    mut asked: mpsc::UnboundedReceiver<()>,
    signals: mpsc::UnboundedSender<Signal>,
) {
    let mut operator: Option<Box<dyn Operator>> = None;
    let mut next_round = Instant::now();
    let mut counts = Counts::beginning(next_round);
    let mut archiving = Archiving::default();
    let mut forgetting = Forgetting::after(keeping.inbox);
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
                counts = Counts::beginning(next_round);
                forgetting.begin();
            }
            () = tokio::time::sleep_until(next_round) => {
                next_round = Instant::now() + ROUND;
                let duty = *duty.borrow();
                if was == Duty::On && duty == Duty::Off {
                    // The duty is lost as well where the store is away: nobody has it then, and what was shown last stands.
                    if look(&store, &mut operator, 1).await.is_err() {
                        continue;
                    }
                    telemetry::store_is_shown_elsewhere();
                }
                was = duty;
                if duty == Duty::Off {
                    continue;
                }
                if let Err(error) = round(&store, &mut operator, &keeping, &mut archiving, &mut counts).await {
                    operator = None;
                    tracing::debug!(%error, "housekeeping could not be done this time");
                }
                if let Some(keep) = forgetting.due()
                    && let Ok(operator) = hand(&store, &mut operator).await
                {
                    forgetting.round(&mut **operator, keep).await;
                }
            }
        }
    }
}

/// Counts, and removes what was kept long enough: the one also where the other fails.
async fn round(
    store: &Arc<dyn Store>,
    operator: &mut Option<Box<dyn Operator>>,
    keeping: &Keeping,
    archiving: &mut Archiving,
    counts: &mut Counts,
) -> Result<()> {
    let counted = count(store, operator, counts).await;
    counted.and(remove(store, operator, keeping, archiving).await)
}

async fn count(store: &Arc<dyn Store>, operator: &mut Option<Box<dyn Operator>>, counts: &mut Counts) -> Result<()> {
    let began = Instant::now();
    if began < counts.next {
        return Ok(());
    }
    let status = look(store, operator, COUNT_BOUND).await;
    counts.counted(began, began.elapsed());
    status.map(|status| telemetry::store(&status))
}

async fn remove(
    store: &Arc<dyn Store>,
    operator: &mut Option<Box<dyn Operator>>,
    Keeping { retention, archive, .. }: &Keeping,
    archiving: &mut Archiving,
) -> Result<()> {
    if retention.delivered.is_none() && retention.dead.is_none() {
        return Ok(());
    }
    let operator = hand(store, operator).await?;
    let end = Instant::now() + ROUND;
    loop {
        let is_done = match archive {
            Some(archive) => {
                let archived = archiving.prune(&mut **operator, &**archive, retention, DEADLINE).await;
                archived.inspect_err(telemetry::not_archived)? == Pruned::default()
            }
            None => {
                let pruned = in_time(operator.prune(retention, PRUNE_BATCH)).await?;
                pruned.delivered.max(pruned.dead) < u64::from(PRUNE_BATCH)
            }
        };
        if is_done || Instant::now() >= end {
            return Ok(());
        }
        sleep(PRUNE_PAUSE).await;
    }
}

/// When the outbox is counted.
#[derive(Debug)]
struct Counts {
    next: Instant,
    /// How long the last one took.
    took: Duration,
}

impl Counts {
    fn beginning(next: Instant) -> Self {
        Self { next, took: Duration::ZERO }
    }

    /// The quicker one of the last two says when the next one is: a lock or a busy moment that held up one of them is gone.
    fn counted(&mut self, began: Instant, took: Duration) {
        let quicker = std::mem::replace(&mut self.took, took).min(took);
        // The round that comes nearest to it counts, also when it comes a moment early.
        self.next = began + (quicker.saturating_mul(PARTS).clamp(ROUND, SELDOM) - ROUND / 2);
    }
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
    within(DEADLINE, "counting or pruning the outbox", call).await
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
pub(crate) mod tests;
