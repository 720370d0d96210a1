//! An outbox without a database.

use std::sync::{Arc, Mutex, PoisonError};

use postrider_core::{LaneCount, Message, Store};
use postrider_stores::History;
use postrider_stores::memory::MemoryStore;

use crate::batch::Batch;
use crate::driver::Answering;
use crate::enqueue::Enqueue;
use crate::error::EnqueueError;
use crate::outbox::Outbox;

/// An outbox in memory, whose transactions messages are enqueued in as in those of a database. Clones share it.
///
/// It knows neither schema nor prefix: every [`Outbox`] writes into the same one.
#[derive(Debug, Clone)]
pub struct MemoryOutbox {
    store: MemoryStore,
    committed: Arc<Mutex<Vec<Message>>>,
}

impl Default for MemoryOutbox {
    fn default() -> Self {
        Self { store: MemoryStore::new(LaneCount::ONE, History::Off), committed: Arc::default() }
    }
}

impl MemoryOutbox {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a transaction: what is enqueued in it is there once it is [committed](MemoryTransaction::commit).
    pub fn begin(&self) -> MemoryTransaction {
        MemoryTransaction { outbox: self.clone(), written: Vec::new() }
    }

    /// Every message that was committed since the beginning, in that order, delivered or not.
    pub fn messages(&self) -> Vec<Message> {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The outbox as a relay reads it: for [`delivered`](super::delivered), or a relay of the test's own.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }
}

/// A transaction of a [`MemoryOutbox`], rolled back when it is dropped.
#[derive(Debug)]
#[must_use = "what is not committed is rolled back"]
pub struct MemoryTransaction {
    outbox: MemoryOutbox,
    written: Vec<Message>,
}

impl MemoryTransaction {
    /// What was enqueued in it so far.
    pub fn messages(&self) -> &[Message] {
        &self.written
    }

    /// Makes what was enqueued in it part of the outbox.
    pub fn commit(self) {
        let mut committed = self.outbox.committed.lock().unwrap_or_else(PoisonError::into_inner);
        self.outbox.store.enqueue_committed(&self.written);
        committed.extend(self.written);
    }

    /// Forgets what was enqueued in it.
    pub fn rollback(self) {}
}

impl Enqueue for &mut MemoryTransaction {
    type Answer<R: Send + 'static> = Result<R, EnqueueError>;

    fn write<R: Send + 'static>(self, _outbox: &Outbox, batch: Result<Batch<R>, EnqueueError>) -> Self::Answer<R> {
        let Batch { messages, ids } = batch?;
        self.written.extend(messages);
        Ok(ids)
    }
}

/// A transaction of a [`MemoryOutbox`] for an asynchronous handler: what is enqueued in it is answered by a future.
///
/// As with a driver, nothing is written before that is awaited. `&mut` of it is taken too, by handlers that enqueue more than
/// once.
#[derive(Debug)]
pub struct Awaited<'t>(pub &'t mut MemoryTransaction);

impl<'t> Enqueue for Awaited<'t> {
    type Answer<R: Send + 'static> = Answering<'t, R, EnqueueError>;

    fn write<R: Send + 'static>(self, outbox: &Outbox, batch: Result<Batch<R>, EnqueueError>) -> Self::Answer<R> {
        let outbox = outbox.clone();
        Box::pin(async move { self.0.write(&outbox, batch) })
    }
}

impl<'t> Enqueue for &'t mut Awaited<'_> {
    type Answer<R: Send + 'static> = Answering<'t, R, EnqueueError>;

    fn write<R: Send + 'static>(self, outbox: &Outbox, batch: Result<Batch<R>, EnqueueError>) -> Self::Answer<R> {
        Awaited(self.0).write(outbox, batch)
    }
}

#[cfg(test)]
mod tests {
    use postrider_core::MessageId;

    use super::*;

    #[test]
    fn what_is_committed_is_there_in_its_order_and_what_is_not_is_gone() {
        let (memory, outbox) = (MemoryOutbox::new(), Outbox::new());
        let messages: Vec<Message> = (0..3).map(|n| Message::new("t", n.to_string())).collect();
        let mut tx = memory.begin();
        outbox.enqueue_all(&mut tx, messages[..2].to_vec()).unwrap();
        assert_eq!((tx.messages(), memory.messages().len()), (&messages[..2], 0));
        tx.commit();
        let mut tx = memory.begin();
        outbox.enqueue(&mut tx, Message::new("t", "rolled back")).unwrap();
        tx.rollback();
        let mut tx = memory.clone().begin();
        outbox.enqueue(&mut tx, messages[2].clone()).unwrap();
        tx.commit();
        assert_eq!(memory.messages(), messages);
    }

    /// A handler that enqueues twice, whatever it is given.
    async fn placed_and_paid<T>(tx: &mut T) -> Result<(), EnqueueError>
    where
        for<'t> &'t mut T: Enqueue<Answer<MessageId>: Future<Output = Result<MessageId, EnqueueError>> + Send>,
    {
        Outbox::new().enqueue(&mut *tx, Message::new("orders.placed", "1")).await?;
        Outbox::new().enqueue(&mut *tx, Message::new("orders.paid", "2")).await?;
        Ok(())
    }

    #[tokio::test]
    async fn an_asynchronous_handler_is_given_it_too_and_nothing_is_written_before_it_awaits() {
        let memory = MemoryOutbox::new();
        let mut tx = memory.begin();
        placed_and_paid::<Awaited<'_>>(&mut Awaited(&mut tx)).await.unwrap();
        drop(Outbox::new().enqueue(Awaited(&mut tx), Message::new("orders.lost", "never awaited")));
        let refused = Outbox::new().enqueue(Awaited(&mut tx), Message::new("no topic", "x")).await;
        assert!(matches!(refused, Err(EnqueueError::Invalid { place: 1, .. })));
        tx.commit();
        let messages = memory.messages();
        let topics: Vec<_> = messages.iter().map(|message| message.topic.as_str()).collect();
        assert_eq!(topics, ["orders.placed", "orders.paid"]);
    }

    #[test]
    fn a_message_that_no_database_would_take_is_refused() {
        let memory = MemoryOutbox::new();
        let mut tx = memory.begin();
        let refused = Outbox::new().enqueue(&mut tx, Message::new("no topic", "x"));
        assert!(matches!(refused, Err(EnqueueError::Invalid { place: 1, .. })));
        assert!(tx.messages().is_empty());
    }
}
