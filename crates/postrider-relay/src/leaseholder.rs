//! Keeps the membership and takes lanes.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Error, ErrorKind, HeldLane, Lane, Leases, RelayId, Renewal, Result, Store, Tick};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use crate::clock::Clock;
use crate::hands::Signal;

/// How often a member that could hold more lanes looks for free ones.
const LOOK_FOR_LANES: Duration = Duration::from_millis(250);

/// How long a round may take on a new connection, or while there is no lane to lose.
const FRESH_DEADLINE: Duration = Duration::from_secs(10);

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
    Away(Error),
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
                Some(LeaseOrder::Forget(lane)) => {
                    self.held.retain(|held| *held != lane);
                    // A broker may have said so, not the store: then it is still ours, and nobody else can take it.
                    self.uncertain = true;
                }
                Some(LeaseOrder::Rejoin) => {
                    if in_time(self.ttl, self.leave()).await.is_err() {
                        self.leases = None;
                    }
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

    /// One round: renew when it is time, then look for free lanes.
    ///
    /// On a connection that worked it is given up after a third of the lease, so that a hanging one is replaced while
    /// the lease still lasts. A new connection gets longer: opening one may take longer than the lease on a busy
    /// machine, and giving it up each time would be the end of renewing.
    async fn turn(&mut self, renew: bool) -> Result<()> {
        let (mut leases, deadline) = match self.leases.take() {
            Some(leases) if !self.held.is_empty() => (leases, self.ttl / 3),
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
            self.take(leases).await?;
        }
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

async fn in_time<T>(deadline: Duration, call: impl Future<Output = Result<T>>) -> Result<T> {
    let late = || Err(Error::new(ErrorKind::Unavailable, "the store did not answer a lease statement in time"));
    timeout(deadline, call).await.unwrap_or_else(|_| late())
}
