//! Keeps the membership and takes lanes.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{HeldLane, Lane, Leases, RelayId, Renewal, Result, Store, Tick};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use crate::clock::Clock;
use crate::relay_loop::Signal;

/// How often a member that could hold more lanes looks for free ones.
const LOOK_FOR_LANES: Duration = Duration::from_millis(250);

/// What the leaseholder found out.
#[derive(Debug)]
pub(crate) enum LeaseNews {
    /// It is a member, under this id.
    Joined(RelayId),
    /// The leases are good until then.
    Trusted(Tick),
    /// Lanes were acquired.
    Gained(Vec<HeldLane>),
    /// The membership is lost, and every lane with it.
    Evicted,
    /// The store did not answer.
    Away(postrider_core::Error),
}

/// What the leaseholder is told.
#[derive(Debug)]
pub(crate) enum LeaseOrder {
    /// This lane belongs to somebody else now.
    Forget(Lane),
    /// Trust nothing: leave and join under a new id.
    Rejoin,
    /// Release every lane and leave; says when it is done.
    Leave(oneshot::Sender<()>),
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
    me: Option<RelayId>,
    held: Vec<Lane>,
    /// An acquisition was not answered: lanes may be ours without our knowing.
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
        Self { store, name, ttl, clock, signals, leases: None, me: None, held: Vec::new(), uncertain: false }
    }

    /// Joins, renews every third of the lease, and takes free lanes, until told to leave.
    pub(crate) async fn keep(mut self, mut orders: mpsc::UnboundedReceiver<LeaseOrder>) {
        let mut renew_at = Instant::now();
        loop {
            let now = Instant::now();
            let outcome = self.turn(now >= renew_at).await;
            if now >= renew_at && outcome.is_ok() {
                renew_at = now + self.ttl / 3;
            }
            if let Err(error) = outcome {
                // Whatever happened on that connection, its outcome is not known.
                self.leases = None;
                self.signal(LeaseNews::Away(error));
            }
            let complete = self.held.len() >= usize::from(self.store.profile().lanes.get());
            let look_at = Instant::now() + LOOK_FOR_LANES;
            let wake = if complete { renew_at.max(Instant::now()) } else { renew_at.min(look_at).max(Instant::now()) };
            let wake = if self.leases.is_none() { look_at } else { wake };
            let order = tokio::select! {
                order = orders.recv() => order,
                () = sleep_until(wake) => continue,
            };
            match order {
                Some(LeaseOrder::Forget(lane)) => self.held.retain(|held| *held != lane),
                Some(LeaseOrder::Rejoin) => {
                    drop(timeout(self.ttl, self.leave()).await);
                    self.me = None;
                    self.held.clear();
                    renew_at = Instant::now();
                }
                Some(LeaseOrder::Leave(done)) => {
                    if let Ok(Err(error)) = timeout(self.ttl, self.leave()).await {
                        tracing::warn!(%error, "the lanes could not be released; others get them when the lease ends");
                    }
                    done.send(()).unwrap_or_default();
                    return;
                }
                None => return,
            }
        }
    }

    /// One round: renew when it is time, then look for free lanes. Given up, with its connection, after a third of
    /// the lease, so that a hanging connection is replaced while the lease still lasts.
    async fn turn(&mut self, renew: bool) -> Result<()> {
        let deadline = (self.ttl / 3).max(Duration::from_millis(300));
        let expired = || {
            let text = "the store did not answer a lease statement in time";
            postrider_core::Error::new(postrider_core::ErrorKind::Unavailable, text)
        };
        timeout(deadline, self.round(renew)).await.unwrap_or_else(|_| Err(expired()))
    }

    async fn round(&mut self, renew: bool) -> Result<()> {
        if self.leases.is_none() {
            self.leases = Some(self.store.leases().await?);
        }
        let Some(mut leases) = self.leases.take() else { return Ok(()) };
        // The connection is put back only when every answer has come: one that was given up is dropped with it.
        if self.stay(leases.as_mut(), renew).await? {
            self.take(leases.as_mut()).await?;
        }
        self.leases = Some(leases);
        Ok(())
    }

    /// Joins or renews; whether this is a member now.
    async fn stay(&mut self, leases: &mut dyn Leases, renew: bool) -> Result<bool> {
        let sent = self.clock.now();
        let trusted = sent + (self.ttl - self.ttl / 10);
        let Some(me) = self.me else {
            let me = RelayId(uuid::Uuid::new_v4());
            leases.join(me, &self.name, self.ttl).await?;
            self.me = Some(me);
            self.signal(LeaseNews::Joined(me));
            self.signal(LeaseNews::Trusted(trusted));
            return Ok(true);
        };
        if !renew {
            return Ok(true);
        }
        match leases.renew(me, self.ttl).await? {
            Renewal::Renewed => self.signal(LeaseNews::Trusted(trusted)),
            Renewal::Evicted => {
                self.me = None;
                self.held.clear();
                self.signal(LeaseNews::Evicted);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Frees the lanes of the dead, and takes what is free.
    async fn take(&mut self, leases: &mut dyn Leases) -> Result<()> {
        let Some(me) = self.me else { return Ok(()) };
        let all = self.store.profile().lanes;
        leases.evict().await?;
        if self.uncertain {
            let unknown: Vec<_> = all.all().filter(|lane| !self.held.contains(lane)).collect();
            leases.release(me, &unknown).await?;
            self.uncertain = false;
        }
        let held = u16::try_from(self.held.len()).unwrap_or(u16::MAX);
        let want = all.get().saturating_sub(held);
        if want > 0 {
            self.uncertain = true;
            let gained = leases.acquire(me, want).await?;
            self.uncertain = false;
            if !gained.is_empty() {
                self.held.extend(gained.iter().map(|held| held.lane));
                self.signal(LeaseNews::Gained(gained));
            }
        }
        Ok(())
    }

    async fn leave(&mut self) -> Result<()> {
        let Some(me) = self.me else { return Ok(()) };
        if self.leases.is_none() {
            self.leases = Some(self.store.leases().await?);
        }
        let Some(leases) = &mut self.leases else { return Ok(()) };
        leases.release(me, &self.held).await?;
        leases.leave(me).await
    }

    fn signal(&self, news: LeaseNews) {
        drop(self.signals.send(Signal::Lease(news)));
    }
}
