//! A store with a point before and after every call that a relay makes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    HeldLane, Key, Lane, Leases, Operator, Page, RelayId, Renewal, Result, Room, RowId, Settled, Settlement, Settler,
    Source, Store, StoreProfile,
};

use super::operator::PointedOperator;
use super::step;

/// The same store with points.
pub(crate) fn pointed(inner: Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(PointedStore(inner))
}

#[derive(Debug)]
struct PointedStore(Arc<dyn Store>);

#[derive(Debug)]
struct Pointed<T: ?Sized>(Box<T>);

#[async_trait]
impl Store for PointedStore {
    fn profile(&self) -> StoreProfile {
        self.0.profile()
    }

    async fn source(&self) -> Result<Box<dyn Source>> {
        Ok(Box::new(Pointed(self.0.source().await?)))
    }

    async fn settler(&self) -> Result<Box<dyn Settler>> {
        Ok(Box::new(Pointed(self.0.settler().await?)))
    }

    async fn leases(&self) -> Result<Box<dyn Leases>> {
        Ok(Box::new(Pointed(self.0.leases().await?)))
    }

    async fn operator(&self) -> Result<Box<dyn Operator>> {
        Ok(Box::new(PointedOperator(self.0.operator().await?)))
    }
}

#[async_trait]
impl Source for Pointed<dyn Source> {
    async fn read(&mut self, lanes: &[HeldLane], room: Room) -> Result<Page> {
        step("read", self.0.read(lanes, room)).await
    }

    async fn due(&mut self, lanes: &[HeldLane], room: Room, window: &[RowId]) -> Result<Page> {
        step("due", self.0.due(lanes, room, window)).await
    }

    async fn key(&mut self, lane: HeldLane, key: &Key, room: Room) -> Result<Page> {
        step("key", self.0.key(lane, key, room)).await
    }

    async fn exceptional_keys(&mut self, lane: Lane, after: Option<&Key>, limit: usize) -> Result<Vec<Key>> {
        step("walk", self.0.exceptional_keys(lane, after, limit)).await
    }

    async fn sweep(&mut self, lanes: &[HeldLane], after: RowId, room: Room) -> Result<Page> {
        step("sweep", self.0.sweep(lanes, after, room)).await
    }

    async fn load(&mut self, rows: &[RowId], room: Room) -> Result<Page> {
        step("load", self.0.load(rows, room)).await
    }
}

#[async_trait]
impl Settler for Pointed<dyn Settler> {
    async fn settle(&mut self, me: RelayId, leases: &[HeldLane], batch: &[Settlement]) -> Result<Settled> {
        step("settle", self.0.settle(me, leases, batch)).await
    }
}

#[async_trait]
impl Leases for Pointed<dyn Leases> {
    async fn join(&mut self, me: RelayId, name: &str, ttl: Duration) -> Result<()> {
        step("join", self.0.join(me, name, ttl)).await
    }

    async fn renew(&mut self, me: RelayId, ttl: Duration) -> Result<Renewal> {
        step("renew", self.0.renew(me, ttl)).await
    }

    async fn evict(&mut self) -> Result<usize> {
        step("evict", self.0.evict()).await
    }

    async fn members(&mut self) -> Result<Vec<RelayId>> {
        step("members", self.0.members()).await
    }

    async fn owned(&mut self, me: RelayId) -> Result<Vec<HeldLane>> {
        step("owned", self.0.owned(me)).await
    }

    async fn acquire(&mut self, me: RelayId, want: u16) -> Result<Vec<HeldLane>> {
        step("acquire", self.0.acquire(me, want)).await
    }

    async fn release(&mut self, me: RelayId, lanes: &[HeldLane]) -> Result<Vec<Lane>> {
        step("release", self.0.release(me, lanes)).await
    }

    async fn leave(&mut self, me: RelayId) -> Result<()> {
        step("leave", self.0.leave(me)).await
    }
}
