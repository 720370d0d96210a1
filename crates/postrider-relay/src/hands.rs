//! What carries the loop's actions out: a task or a publisher each, and the channel on which they answer.

use std::sync::Arc;

use postrider_core::machine::{Event, Read};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::builder::Plan;
use crate::clock::Clock;
use crate::housekeeper::{Duty, keep_house};
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
    Counted(Option<(bool, Left)>),
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
    tasks: JoinSet<()>,
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
        let mut tasks = JoinSet::new();
        tasks.spawn(holder.keep(orders));
        tasks.spawn(read_all(store(), asked_reads, tell.clone()));
        tasks.spawn(settle_all(store(), asked_settles, tell.clone()));
        tasks.spawn(keep_house(store(), plan.retention, on_duty, asked_counts, tell.clone()));
        let publisher = Publisher::new(plan.outlets.clone(), tell);
        Self { signals, reads, settles, leases, duty, counts, publisher, tasks }
    }

    /// Disconnects the brokers, releases the lanes, and ends every task.
    pub(crate) async fn put_down(mut self) {
        self.publisher.close().await;
        let (done, left) = oneshot::channel();
        if self.leases.send(LeaseOrder::Leave(done)).is_ok() {
            left.await.unwrap_or_default();
        }
        self.tasks.shutdown().await;
    }
}
