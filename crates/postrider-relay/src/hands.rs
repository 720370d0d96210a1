//! What carries the loop's actions out: a task or a publisher each, and the channel on which they answer.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::machine::{Event, Read};
use postrider_core::{Error, ErrorKind, HeldLane};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{Id, JoinSet};
use tokio::time::timeout;

use crate::builder::Plan;
use crate::clock::Clock;
use crate::housekeeper::{Duty, Keeping, Rest, keep_house};
use crate::leaseholder::{LeaseNews, LeaseOrder, Leaseholder};
use crate::publisher::Publisher;
use crate::reader::read_all;
use crate::settler::{Asked, settle_all};
use crate::snapshot::Left;

/// What the loop hears.
#[derive(Debug)]
pub(crate) enum Signal {
    Machine(Event),
    Lease(LeaseNews),
    /// The database is not the one it was: no lease can be trusted.
    Discontinued,
    /// Whether the outbox is empty, and what is left in it; none when it could not be asked.
    Counted(Option<(Rest, Left)>),
}

/// The loop's hands. Dropping them ends every task: what was under way is like after a crash.
pub(crate) struct Hands {
    pub(crate) signals: mpsc::UnboundedReceiver<Signal>,
    pub(crate) reads: mpsc::UnboundedSender<Read>,
    pub(crate) settles: mpsc::UnboundedSender<Asked>,
    pub(crate) leases: mpsc::UnboundedSender<LeaseOrder>,
    pub(crate) duty: watch::Sender<Duty>,
    pub(crate) counts: mpsc::UnboundedSender<()>,
    pub(crate) publisher: Publisher,
    pub(crate) tasks: Tasks,
    /// How long putting down may wait for each side: after a lease time there is nothing left to give back.
    patience: Duration,
}

/// The tasks, none of which ends before it is told to.
#[derive(Default)]
pub(crate) struct Tasks {
    running: JoinSet<()>,
    names: Vec<(Id, &'static str)>,
}

impl Tasks {
    fn start(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let id = self.running.spawn(task).id();
        self.names.push((id, name));
    }

    /// Waits until one of them ends by itself: the relay cannot go on without it.
    pub(crate) async fn broken(&mut self) -> Error {
        let id = match self.running.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
            None => pending().await,
        };
        let name = self.names.iter().find(|(known, _)| *known == id).map_or("task", |(_, name)| name);
        let text = format!(
            "the relay's {name} ended unexpectedly; look for its panic in the log, report it, and start the relay \
             again: what was in flight is repeated"
        );
        Error::new(ErrorKind::Unknown, text)
    }
}

impl Hands {
    pub(crate) fn new(plan: &Plan, clock: Clock) -> Self {
        let (tell, signals) = mpsc::unbounded_channel();
        let (reads, asked_reads) = mpsc::unbounded_channel();
        let (settles, asked_settles) = mpsc::unbounded_channel();
        let (leases, orders) = mpsc::unbounded_channel();
        let (duty, on_duty) = watch::channel(Duty::Off);
        let (counts, asked_counts) = mpsc::unbounded_channel();
        let store = || Arc::clone(&plan.store);
        let holder = Leaseholder::new(store(), plan.name.clone(), plan.lease, clock, tell.clone());
        let mut tasks = Tasks::default();
        tasks.start("leaseholder", holder.keep(orders));
        tasks.start("reader", read_all(store(), asked_reads, tell.clone()));
        tasks.start("settler", settle_all(store(), asked_settles, tell.clone()));
        let keeping = Keeping { retention: plan.retention, archive: plan.archive.clone(), inbox: plan.inbox };
        tasks.start("housekeeper", keep_house(store(), keeping, on_duty, asked_counts, tell.clone()));
        let publisher = Publisher::new(plan.outlets.clone(), tell);
        Self { signals, reads, settles, leases, duty, counts, publisher, tasks, patience: plan.lease }
    }

    /// Releases the lanes, these as they are here, and meanwhile disconnects the brokers, and ends every task, whether or
    /// not they answer.
    pub(crate) async fn put_down(mut self, lanes: Vec<HeldLane>) {
        drop(timeout(self.patience, self.publisher.abandon()).await);
        let (done, left) = oneshot::channel();
        drop(self.leases.send(LeaseOrder::Leave(lanes, done)));
        drop(tokio::join!(timeout(self.patience, left), timeout(self.patience, self.publisher.close())));
        self.tasks.running.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_by_itself_is_named() {
        for ending in 0..3 {
            let mut tasks = Tasks::default();
            for (place, name) in ["first", "second", "third"].into_iter().enumerate() {
                tasks.start(name, async move {
                    if place != ending {
                        pending().await
                    }
                });
            }
            let text = timeout(Duration::from_secs(1), tasks.broken()).await.unwrap().to_string();
            let name = ["first", "second", "third"][ending];
            assert!(text.starts_with(&format!("the relay's {name} ended unexpectedly")), "{text}");
        }
    }
}
