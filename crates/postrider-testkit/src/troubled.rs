//! A store whose calls fail, hang, panic or lose their answer as a script says, while the test goes on.

use std::fmt::{self, Debug};
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    DeadFilter, DeadGroup, Error, ErrorKind, Explained, Finding, Forgotten, HeldLane, InboxStatus, Key, Lane, Leases,
    Message, MessageId, Operator, Page, PastRow, Position, Pruned, RefusedFilter, RefusedGroup, RefusedView, RelayId,
    Renewal, Result, Retention, Room, RowId, RowView, Settled, Settlement, Settler, Source, Store, StoreProfile,
    StoreStatus, Subject,
};

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    None,
    /// It has no effect and fails with a kind.
    Fail(ErrorKind),
    /// It has no effect and never returns.
    Hang,
    /// It takes effect and never returns.
    LoseAnswer,
    /// It takes effect, and the answer comes so much later.
    Late(Duration),
    /// It panics.
    Panic,
    /// As `None`, but for the question `discontinued?` before each `read`: the database is not the one it was.
    Discontinue,
}

type Script = dyn Fn(&'static str) -> Trouble + Send + Sync;

/// A store in trouble: the script is asked at every call of a seam, by the call's name.
pub struct TroubledStore {
    inner: Arc<dyn Store>,
    script: Arc<Script>,
}

impl TroubledStore {
    /// Wraps a store.
    pub fn wrap(
        inner: Arc<dyn Store>,
        script: impl Fn(&'static str) -> Trouble + Send + Sync + 'static,
    ) -> Arc<dyn Store> {
        Arc::new(Self { inner, script: Arc::new(script) })
    }
}

impl Debug for TroubledStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TroubledStore").field("inner", &self.inner).finish_non_exhaustive()
    }
}

struct Troubled<T: ?Sized> {
    inner: Box<T>,
    script: Arc<Script>,
}

impl<T: ?Sized> Debug for Troubled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Troubled").finish_non_exhaustive()
    }
}

async fn call<T>(script: &Script, name: &'static str, effect: impl Future<Output = Result<T>>) -> Result<T> {
    match script(name) {
        Trouble::None | Trouble::Discontinue => effect.await,
        Trouble::Fail(kind) => Err(Error::new(kind, "the store fails, as scripted")),
        Trouble::Hang => pending().await,
        Trouble::LoseAnswer => {
            drop(effect.await);
            pending().await
        }
        Trouble::Late(delay) => {
            let answer = effect.await;
            tokio::time::sleep(delay).await;
            answer
        }
        Trouble::Panic => panic!("the store panics in {name}, as scripted"),
    }
}

#[async_trait]
impl Store for TroubledStore {
    fn profile(&self) -> StoreProfile {
        self.inner.profile()
    }

    async fn source(&self) -> Result<Box<dyn Source>> {
        Ok(Box::new(Troubled { inner: self.inner.source().await?, script: Arc::clone(&self.script) }))
    }

    async fn settler(&self) -> Result<Box<dyn Settler>> {
        Ok(Box::new(Troubled { inner: self.inner.settler().await?, script: Arc::clone(&self.script) }))
    }

    async fn leases(&self) -> Result<Box<dyn Leases>> {
        Ok(Box::new(Troubled { inner: self.inner.leases().await?, script: Arc::clone(&self.script) }))
    }

    async fn operator(&self) -> Result<Box<dyn Operator>> {
        Ok(Box::new(Troubled { inner: self.inner.operator().await?, script: Arc::clone(&self.script) }))
    }
}

#[async_trait]
impl Source for Troubled<dyn Source> {
    async fn read(&mut self, lanes: &[HeldLane], room: Room) -> Result<Page> {
        if (self.script)("discontinued?") == Trouble::Discontinue {
            return Ok(Page { discontinued: true, ..Page::EMPTY });
        }
        call(&*self.script, "read", self.inner.read(lanes, room)).await
    }

    async fn due(&mut self, lanes: &[HeldLane], room: Room, window: &[RowId]) -> Result<Page> {
        call(&*self.script, "due", self.inner.due(lanes, room, window)).await
    }

    async fn key(&mut self, lane: HeldLane, key: &Key, room: Room) -> Result<Page> {
        call(&*self.script, "key", self.inner.key(lane, key, room)).await
    }

    async fn exceptional_keys(&mut self, lane: Lane, after: Option<&Key>, limit: usize) -> Result<Vec<Key>> {
        call(&*self.script, "exceptional_keys", self.inner.exceptional_keys(lane, after, limit)).await
    }

    async fn sweep(&mut self, lanes: &[HeldLane], after: RowId, room: Room) -> Result<Page> {
        call(&*self.script, "sweep", self.inner.sweep(lanes, after, room)).await
    }

    async fn load(&mut self, rows: &[RowId], room: Room) -> Result<Page> {
        call(&*self.script, "load", self.inner.load(rows, room)).await
    }
}

#[async_trait]
impl Settler for Troubled<dyn Settler> {
    async fn settle(&mut self, me: RelayId, leases: &[HeldLane], batch: &[Settlement]) -> Result<Settled> {
        call(&*self.script, "settle", self.inner.settle(me, leases, batch)).await
    }
}

#[async_trait]
impl Leases for Troubled<dyn Leases> {
    async fn join(&mut self, me: RelayId, name: &str, ttl: Duration) -> Result<()> {
        call(&*self.script, "join", self.inner.join(me, name, ttl)).await
    }

    async fn renew(&mut self, me: RelayId, ttl: Duration) -> Result<Renewal> {
        call(&*self.script, "renew", self.inner.renew(me, ttl)).await
    }

    async fn evict(&mut self) -> Result<usize> {
        call(&*self.script, "evict", self.inner.evict()).await
    }

    async fn members(&mut self) -> Result<Vec<RelayId>> {
        call(&*self.script, "members", self.inner.members()).await
    }

    async fn owned(&mut self, me: RelayId) -> Result<Vec<HeldLane>> {
        call(&*self.script, "owned", self.inner.owned(me)).await
    }

    async fn acquire(&mut self, me: RelayId, want: u16) -> Result<Vec<HeldLane>> {
        call(&*self.script, "acquire", self.inner.acquire(me, want)).await
    }

    async fn release(&mut self, me: RelayId, lanes: &[HeldLane]) -> Result<Vec<Lane>> {
        call(&*self.script, "release", self.inner.release(me, lanes)).await
    }

    async fn leave(&mut self, me: RelayId) -> Result<()> {
        call(&*self.script, "leave", self.inner.leave(me)).await
    }
}

#[async_trait]
impl Operator for Troubled<dyn Operator> {
    async fn status(&mut self, bound: u32) -> Result<StoreStatus> {
        call(&*self.script, "status", self.inner.status(bound)).await
    }

    async fn topics(&mut self) -> Result<Vec<String>> {
        self.inner.topics().await
    }

    async fn explain(&mut self, subject: &Subject, timeout: Duration) -> Result<Vec<Explained>> {
        self.inner.explain(subject, timeout).await
    }

    async fn dead(&mut self, filter: &DeadFilter, position: Position) -> Result<Vec<RowView>> {
        self.inner.dead(filter, position).await
    }

    async fn dead_groups(&mut self, filter: &DeadFilter) -> Result<Vec<DeadGroup>> {
        self.inner.dead_groups(filter).await
    }

    async fn replay(&mut self, filter: &DeadFilter, limit: u32) -> Result<Vec<MessageId>> {
        self.inner.replay(filter, limit).await
    }

    async fn discard(&mut self, filter: &DeadFilter, limit: u32) -> Result<Vec<MessageId>> {
        self.inner.discard(filter, limit).await
    }

    async fn prune(&mut self, retention: &Retention, limit: u32) -> Result<Pruned> {
        call(&*self.script, "prune", self.inner.prune(retention, limit)).await
    }

    async fn past(&mut self, retention: &Retention, room: Room) -> Result<Vec<PastRow>> {
        call(&*self.script, "past", self.inner.past(retention, room)).await
    }

    async fn remove_past(&mut self, retention: &Retention, rows: &[PastRow]) -> Result<Pruned> {
        call(&*self.script, "remove_past", self.inner.remove_past(retention, rows)).await
    }

    async fn prunable(&mut self, retention: &Retention) -> Result<Pruned> {
        self.inner.prunable(retention).await
    }

    async fn enqueue(&mut self, messages: &[Message]) -> Result<()> {
        self.inner.enqueue(messages).await
    }

    async fn check(&mut self) -> Result<Vec<Finding>> {
        self.inner.check().await
    }

    async fn forget(&mut self, keep: Duration, limit: u32) -> Result<Forgotten> {
        call(&*self.script, "forget", self.inner.forget(keep, limit)).await
    }

    async fn inbox(&mut self, bound: u32) -> Result<InboxStatus> {
        self.inner.inbox(bound).await
    }

    async fn refused(&mut self, filter: &RefusedFilter, limit: u32) -> Result<Vec<RefusedView>> {
        self.inner.refused(filter, limit).await
    }

    async fn refused_groups(&mut self, filter: &RefusedFilter) -> Result<Vec<RefusedGroup>> {
        self.inner.refused_groups(filter).await
    }

    async fn discard_refused(&mut self, filter: &RefusedFilter, limit: u32) -> Result<Vec<MessageId>> {
        self.inner.discard_refused(filter, limit).await
    }

    async fn check_inbox(&mut self) -> Result<Vec<Finding>> {
        self.inner.check_inbox().await
    }
}
