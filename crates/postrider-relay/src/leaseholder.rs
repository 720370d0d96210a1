//! Keeps the membership, takes a fair share of the lanes, and releases what is surplus.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Error, ErrorKind, HeldLane, Holdings, Lane, Leases, RelayId, Renewal, Result, Store, Tick, trusted_until,
    try_again_after,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use crate::clock::Clock;
use crate::hands::Signal;

/// How often a member looks at who else is living, and for free lanes while it has less than its share.
const LOOK_AROUND: Duration = Duration::from_millis(250);

/// How long a round may take on a new connection, or while there is no lane to lose.
const FRESH_DEADLINE: Duration = Duration::from_secs(10);

/// What the leaseholder found out.
#[derive(Debug)]
pub(crate) enum LeaseNews {
    /// It is a member, under this id.
    Joined(RelayId),
    /// The leases are good until then.
    Trusted(Tick),
    /// Everything that a round asks was answered.
    Answered,
    /// Lanes were acquired.
    Gained(Vec<HeldLane>),
    /// Lanes belong to somebody else now.
    Lost(Vec<Lane>),
    /// Other members are owed these lanes: they are to be released when nothing of them is on its way any more.
    Surplus(Vec<HeldLane>),
    /// The membership is lost, and every lane with it.
    Evicted,
    /// It has left as it was told to: what it says from now on is of another membership.
    Left,
    /// The store did not answer.
    Away(Error),
}

/// What the leaseholder is told.
#[derive(Debug)]
pub(crate) enum LeaseOrder {
    /// Nothing of these lanes is on its way any more, or they are somebody else's: release them, under these terms.
    Release(Vec<HeldLane>),
    /// Trust nothing: leave and join under a new id.
    Rejoin,
    /// Release every lane, these as they are here, and leave; says when it is done.
    Leave(Vec<HeldLane>, oneshot::Sender<()>),
}

/// The keeper of one relay's membership.
#[derive(Debug)]
pub(crate) struct Leaseholder {
    store: Arc<dyn Store>,
    name: String,
    ttl: Duration,
    clock: Clock,
    signals: mpsc::UnboundedSender<Signal>,
    leases: Option<Box<dyn Leases>>,
    /// The lanes of this membership; none while it is no member.
    holdings: Option<Holdings>,
    /// An id whose joining was not answered: it may be a member without anybody behind it.
    limbo: Option<RelayId>,
    /// A statement was not answered: lanes may be ours, or not ours any more, without our knowing.
    uncertain: bool,
}

impl Leaseholder {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        name: String,
        ttl: Duration,
        clock: Clock,
        signals: mpsc::UnboundedSender<Signal>,
    ) -> Self {
        Self { store, name, ttl, clock, signals, leases: None, holdings: None, limbo: None, uncertain: false }
    }

    /// Joins, renews every third of the lease, and comes to its share of the lanes, until told to leave.
    pub(crate) async fn keep(mut self, mut orders: mpsc::UnboundedReceiver<LeaseOrder>) {
        let mut renew_at = Instant::now();
        loop {
            let now = Instant::now();
            let outcome = self.turn(now >= renew_at).await;
            if now >= renew_at && outcome.is_ok() {
                renew_at = now + self.ttl / 3;
                self.signal(LeaseNews::Answered);
            }
            if let Err(error) = outcome {
                // Whatever happened on that connection, its outcome is not known.
                self.leases = None;
                self.uncertain = true;
                self.signal(LeaseNews::Away(error));
            }
            let now = Instant::now();
            let wake = match self.leases {
                None => now + try_again_after(self.ttl),
                Some(_) => renew_at.min(now + LOOK_AROUND).max(now),
            };
            let order = tokio::select! {
                order = orders.recv() => order,
                () = sleep_until(wake) => continue,
            };
            match order {
                Some(LeaseOrder::Release(lanes)) => self.done(lanes),
                Some(LeaseOrder::Rejoin) => {
                    if in_time(self.ttl, self.leave()).await.is_err() {
                        self.leases = None;
                    }
                    self.holdings = None;
                    self.signal(LeaseNews::Left);
                    renew_at = Instant::now();
                }
                Some(LeaseOrder::Leave(lanes, done)) => {
                    self.done(lanes);
                    if let Err(error) = self.leave_for_good().await {
                        tracing::warn!(%error, "the lanes could not be released; others get them when the lease ends");
                    }
                    done.send(()).unwrap_or_default();
                    return;
                }
                None => return,
            }
        }
    }

    /// One round: renew when it is time, then come to the fair share.
    ///
    /// On a connection that worked it is given up after a third of the lease, so that a hanging one is replaced while
    /// the lease still lasts. A new connection gets longer: opening one may take longer than the lease on a busy
    /// machine, and giving it up each time would be the end of renewing.
    async fn turn(&mut self, renew: bool) -> Result<()> {
        let holds_nothing = self.holdings.as_ref().is_none_or(Holdings::is_empty);
        let (mut leases, deadline) = match self.leases.take() {
            Some(leases) if !holds_nothing => (leases, self.ttl / 3),
            Some(leases) => (leases, FRESH_DEADLINE),
            None => (in_time(FRESH_DEADLINE, self.store.leases()).await?, FRESH_DEADLINE),
        };
        in_time(deadline, self.round(leases.as_mut(), renew)).await?;
        // The connection is put back only when every answer has come: one that was given up is dropped with it.
        self.leases = Some(leases);
        Ok(())
    }

    async fn round(&mut self, leases: &mut dyn Leases, renew: bool) -> Result<()> {
        if self.stay(leases, renew).await? {
            if renew {
                leases.evict().await?;
            }
            if renew || self.uncertain {
                self.look_up(leases).await?;
            }
            self.give(leases).await?;
            self.share(leases).await?;
        }
        Ok(())
    }

    /// Joins or renews; whether this is a member now.
    async fn stay(&mut self, leases: &mut dyn Leases, renew: bool) -> Result<bool> {
        let sent = self.clock.now();
        let trusted = trusted_until(sent, self.ttl);
        let Some(me) = self.holdings.as_ref().map(Holdings::me) else {
            self.join(leases).await?;
            self.signal(LeaseNews::Trusted(trusted));
            return Ok(true);
        };
        if !renew {
            return Ok(true);
        }
        match leases.renew(me, self.ttl).await? {
            Renewal::Renewed => self.signal(LeaseNews::Trusted(trusted)),
            Renewal::Evicted => {
                self.holdings = None;
                self.signal(LeaseNews::Evicted);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Becomes a member. The ids grow with time, so that a newcomer ranks last and takes the odd lane from nobody.
    async fn join(&mut self, leases: &mut dyn Leases) -> Result<()> {
        if let Some(limbo) = self.limbo {
            leases.leave(limbo).await?;
        }
        let me = RelayId(uuid::Uuid::now_v7());
        self.limbo = Some(me);
        leases.join(me, &self.name, self.ttl).await?;
        self.limbo = None;
        self.holdings = Some(Holdings::new(me));
        self.signal(LeaseNews::Joined(me));
        Ok(())
    }

    /// Looks up which lanes are ours, after a statement that was not answered, and now and then.
    async fn look_up(&mut self, leases: &mut dyn Leases) -> Result<()> {
        let Some(holdings) = &mut self.holdings else { return Ok(()) };
        let difference = holdings.reconcile(&leases.owned(holdings.me()).await?);
        self.uncertain = false;
        if !difference.lost.is_empty() {
            self.signal(LeaseNews::Lost(difference.lost));
        }
        if !difference.gained.is_empty() {
            self.signal(LeaseNews::Gained(difference.gained));
        }
        Ok(())
    }

    /// Releases the lanes of which nothing is on its way any more.
    async fn give(&mut self, leases: &mut dyn Leases) -> Result<()> {
        let Some(holdings) = &mut self.holdings else { return Ok(()) };
        let done = holdings.releasable();
        if !done.is_empty() {
            leases.release(holdings.me(), &done).await?;
            holdings.released(&done);
        }
        Ok(())
    }

    /// Hands back what is more than the fair share, or takes what is less.
    async fn share(&mut self, leases: &mut dyn Leases) -> Result<()> {
        let living = leases.members().await?;
        let lanes = self.store.profile().lanes;
        let Some(holdings) = &mut self.holdings else { return Ok(()) };
        let (me, balance) = (holdings.me(), holdings.balance(&living, lanes));
        if !balance.hand_back.is_empty() {
            self.signal(LeaseNews::Surplus(balance.hand_back));
        }
        if balance.take == 0 {
            return Ok(());
        }
        leases.evict().await?;
        let gained = leases.acquire(me, balance.take).await?;
        if let Some(holdings) = self.holdings.as_mut().filter(|_| !gained.is_empty()) {
            holdings.gain(&gained);
            self.signal(LeaseNews::Gained(gained));
        }
        Ok(())
    }

    fn done(&mut self, lanes: Vec<HeldLane>) {
        if let Some(holdings) = &mut self.holdings {
            lanes.into_iter().for_each(|held| holdings.done(held));
        }
    }

    /// Leaves within a lease time, and tries it once more on a new connection, so that one answer that is lost does not
    /// keep the others from the lanes.
    async fn leave_for_good(&mut self) -> Result<()> {
        let each = self.ttl / 2;
        if in_time(each, self.leave()).await.is_ok() {
            return Ok(());
        }
        self.leases = None;
        in_time(each, self.leave()).await
    }

    async fn leave(&mut self) -> Result<()> {
        let Some(holdings) = &self.holdings else { return Ok(()) };
        let (me, lanes) = (holdings.me(), holdings.all());
        if self.leases.is_none() {
            self.leases = Some(self.store.leases().await?);
        }
        let Some(leases) = &mut self.leases else { return Ok(()) };
        leases.release(me, &lanes).await?;
        leases.leave(me).await
    }

    fn signal(&self, news: LeaseNews) {
        drop(self.signals.send(Signal::Lease(news)));
    }
}

async fn in_time<T>(deadline: Duration, call: impl Future<Output = Result<T>>) -> Result<T> {
    let late = || Err(Error::new(ErrorKind::Unavailable, "the store did not answer a lease statement in time"));
    timeout(deadline, call).await.unwrap_or_else(|_| late())
}

#[cfg(test)]
mod tests;
