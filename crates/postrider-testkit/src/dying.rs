//! A store and a broker through which a relay dies at one chosen call.
//!
//! [`Fuse`] counts every call that the relay makes to either. The fatal one never returns: it either has no effect
//! ([`Moment::Before`]) or takes effect and loses its answer ([`Moment::After`]), and every later call never returns
//! either. [`Fuse::blown`] then tells the test to drop the relay, which is its crash.

use std::future::{Future, pending};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    Broker, BrokerProfile, Destination, Finding, HeldLane, Key, Lane, Leases, Operator, Outgoing, Page, Published,
    RelayId, Renewal, Result, Room, RowId, Settled, Settlement, Settler, Source, Store, StoreProfile,
};
use tokio::sync::watch;

/// When in the fatal call the relay dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before the call takes effect.
    Before,
    /// After it took effect, before the answer.
    After,
}

/// Which call kills the relay, and when in it.
#[derive(Debug)]
pub struct Fuse {
    calls: AtomicUsize,
    fatal: usize,
    moment: Moment,
    blown: watch::Sender<Option<&'static str>>,
    names: Mutex<Vec<&'static str>>,
}

impl Fuse {
    /// The relay dies at call number `fatal`, counted from 0.
    pub fn new(fatal: usize, moment: Moment) -> Arc<Self> {
        let blown = watch::Sender::new(None);
        Arc::new(Self { calls: AtomicUsize::new(0), fatal, moment, blown, names: Mutex::default() })
    }

    /// Waits until the relay has died, and says in which call.
    pub async fn blown(&self) -> &'static str {
        let mut blown = self.blown.subscribe();
        loop {
            if let Some(name) = *blown.borrow_and_update() {
                return name;
            }
            if blown.changed().await.is_err() {
                pending::<()>().await;
            }
        }
    }

    /// The names of the calls so far, in order.
    pub fn calls(&self) -> Vec<&'static str> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn call<T>(&self, name: &'static str, effect: impl Future<Output = T>) -> T {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        self.names.lock().unwrap_or_else(PoisonError::into_inner).push(name);
        if self.blown.borrow().is_some() {
            return pending().await;
        }
        if number == self.fatal {
            if self.moment == Moment::After {
                drop(effect.await);
            }
            self.blown.send_replace(Some(name));
            return pending().await;
        }
        let answer = effect.await;
        if self.blown.borrow().is_some() { pending().await } else { answer }
    }
}

/// A store through which a relay dies.
#[derive(Debug)]
pub struct DyingStore {
    inner: Arc<dyn Store>,
    fuse: Arc<Fuse>,
}

impl DyingStore {
    /// Wraps a store.
    pub fn wrap(inner: Arc<dyn Store>, fuse: Arc<Fuse>) -> Arc<dyn Store> {
        Arc::new(Self { inner, fuse })
    }
}

#[async_trait]
impl Store for DyingStore {
    fn profile(&self) -> StoreProfile {
        self.inner.profile()
    }

    async fn source(&self) -> Result<Box<dyn Source>> {
        Ok(Box::new(Dying { inner: self.inner.source().await?, fuse: Arc::clone(&self.fuse) }))
    }

    async fn settler(&self) -> Result<Box<dyn Settler>> {
        Ok(Box::new(Dying { inner: self.inner.settler().await?, fuse: Arc::clone(&self.fuse) }))
    }

    async fn leases(&self) -> Result<Box<dyn Leases>> {
        Ok(Box::new(Dying { inner: self.inner.leases().await?, fuse: Arc::clone(&self.fuse) }))
    }

    async fn operator(&self) -> Result<Box<dyn Operator>> {
        self.inner.operator().await
    }
}

#[derive(Debug)]
struct Dying<T: ?Sized> {
    fuse: Arc<Fuse>,
    inner: Box<T>,
}

#[async_trait]
impl Source for Dying<dyn Source> {
    async fn read(&mut self, lanes: &[HeldLane], room: Room) -> Result<Page> {
        self.fuse.call("read", self.inner.read(lanes, room)).await
    }

    async fn due(&mut self, lanes: &[HeldLane], room: Room, window: &[RowId]) -> Result<Page> {
        self.fuse.call("due", self.inner.due(lanes, room, window)).await
    }

    async fn key(&mut self, lane: HeldLane, key: &Key, room: Room) -> Result<Page> {
        self.fuse.call("key", self.inner.key(lane, key, room)).await
    }

    async fn exceptional_keys(&mut self, lane: Lane, after: Option<&Key>, limit: usize) -> Result<Vec<Key>> {
        self.fuse.call("exceptional_keys", self.inner.exceptional_keys(lane, after, limit)).await
    }

    async fn sweep(&mut self, lanes: &[HeldLane], after: RowId, room: Room) -> Result<Page> {
        self.fuse.call("sweep", self.inner.sweep(lanes, after, room)).await
    }

    async fn load(&mut self, rows: &[RowId], room: Room) -> Result<Page> {
        self.fuse.call("load", self.inner.load(rows, room)).await
    }
}

#[async_trait]
impl Settler for Dying<dyn Settler> {
    async fn settle(&mut self, me: RelayId, leases: &[HeldLane], batch: &[Settlement]) -> Result<Settled> {
        self.fuse.call("settle", self.inner.settle(me, leases, batch)).await
    }
}

#[async_trait]
impl Leases for Dying<dyn Leases> {
    async fn join(&mut self, me: RelayId, name: &str, ttl: Duration) -> Result<()> {
        self.fuse.call("join", self.inner.join(me, name, ttl)).await
    }

    async fn renew(&mut self, me: RelayId, ttl: Duration) -> Result<Renewal> {
        self.fuse.call("renew", self.inner.renew(me, ttl)).await
    }

    async fn evict(&mut self) -> Result<usize> {
        self.fuse.call("evict", self.inner.evict()).await
    }

    async fn members(&mut self) -> Result<Vec<RelayId>> {
        self.fuse.call("members", self.inner.members()).await
    }

    async fn owned(&mut self, me: RelayId) -> Result<Vec<HeldLane>> {
        self.fuse.call("owned", self.inner.owned(me)).await
    }

    async fn acquire(&mut self, me: RelayId, want: u16) -> Result<Vec<HeldLane>> {
        self.fuse.call("acquire", self.inner.acquire(me, want)).await
    }

    async fn release(&mut self, me: RelayId, lanes: &[HeldLane]) -> Result<Vec<Lane>> {
        self.fuse.call("release", self.inner.release(me, lanes)).await
    }

    async fn leave(&mut self, me: RelayId) -> Result<()> {
        self.fuse.call("leave", self.inner.leave(me)).await
    }
}

/// A broker through which a relay dies.
#[derive(Debug)]
pub struct DyingBroker {
    inner: Arc<dyn Broker>,
    fuse: Arc<Fuse>,
}

impl DyingBroker {
    /// Wraps a broker.
    pub fn wrap(inner: Arc<dyn Broker>, fuse: Arc<Fuse>) -> Arc<dyn Broker> {
        Arc::new(Self { inner, fuse })
    }
}

#[async_trait]
impl Broker for DyingBroker {
    fn profile(&self) -> BrokerProfile {
        self.inner.profile()
    }

    async fn publish(&self, batch: &[Outgoing]) -> Vec<Published> {
        self.fuse.call("publish", self.inner.publish(batch)).await
    }

    async fn check(&self, destinations: &[Destination]) -> Result<Vec<Finding>> {
        self.fuse.call("check", self.inner.check(destinations)).await
    }

    async fn close(&self) {
        self.fuse.call("close", self.inner.close()).await;
    }
}
