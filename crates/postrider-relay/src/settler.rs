//! Carries out settles, one at a time on one connection.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::machine::{Event, Settle};
use postrider_core::{Error, ErrorKind, RelayId, Result, Settled, Settler, Store};
use tokio::sync::mpsc;

use crate::hands::Signal;
use crate::telemetry;
use crate::unanswered::answered;

/// How long one settle may take. One that takes longer is given up with its connection; its outcome is unknown, and
/// settling again is harmless.
const DEADLINE: Duration = Duration::from_secs(30);

/// A settle to be carried out.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) me: RelayId,
    pub(crate) settle: Settle,
}

/// Settles what it is asked to, until the asking end is dropped.
pub(crate) async fn settle_all(
    store: Arc<dyn Store>,
    mut asked: mpsc::UnboundedReceiver<Asked>,
    signals: mpsc::UnboundedSender<Signal>,
) {
    let mut settler: Option<Box<dyn Settler>> = None;
    let mut was_recorded = true;
    while let Some(asked) = asked.recv().await {
        if asked.settle.ahead && !was_recorded {
            if signals.send(Signal::Machine(Event::NotSettled)).is_err() {
                return;
            }
            continue;
        }
        let started = telemetry::started();
        let work = answered(carry_out(&store, &mut settler, &asked), |since| telemetry::unanswered("settle", since));
        let answer = tokio::time::timeout(DEADLINE, work).await.unwrap_or_else(|_| {
            let text = format!("settling took longer than {DEADLINE:?}; look for locks on the outbox table");
            Err(Error::new(ErrorKind::Unknown, text))
        });
        telemetry::settle_took(started);
        was_recorded = answer.is_ok();
        if !was_recorded {
            settler = None;
        }
        if signals.send(Signal::Machine(Event::Settled(answer))).is_err() {
            return;
        }
    }
}

async fn carry_out(store: &Arc<dyn Store>, settler: &mut Option<Box<dyn Settler>>, asked: &Asked) -> Result<Settled> {
    let settler = match settler {
        Some(settler) => settler,
        None => settler.insert(store.settler().await?),
    };
    settler.settle(asked.me, &asked.settle.leases, &asked.settle.rows).await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use postrider_core::{LaneCount, Leases, Operator, Source, StoreProfile};
    use postrider_stores::History;
    use postrider_stores::memory::MemoryStore;
    use postrider_testkit::troubled::{Trouble, TroubledStore};

    use super::*;

    /// What became of a key's later rows is not recorded while that of the earlier ones is not.
    #[tokio::test]
    async fn what_was_asked_for_ahead_of_a_settle_that_failed_is_not_made() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let store = TroubledStore::wrap(Arc::new(MemoryStore::new(LaneCount::ONE, History::Off)), move |name| {
            let first = name == "settle" && counted.fetch_add(1, Ordering::Relaxed) == 0;
            if first { Trouble::Fail(ErrorKind::Unavailable) } else { Trouble::None }
        });
        let (ask, asked) = mpsc::unbounded_channel();
        let (signals, mut heard) = mpsc::unbounded_channel();
        for ahead in [false, true, false, true] {
            let settle = Settle { leases: Vec::new(), rows: Vec::new(), ahead };
            ask.send(Asked { me: RelayId(uuid::Uuid::nil()), settle }).unwrap();
        }
        drop(ask);
        settle_all(store, asked, signals).await;
        let mut answers = Vec::new();
        while let Some(Signal::Machine(event)) = heard.recv().await {
            answers.push(match event {
                Event::Settled(answer) => Some(answer.is_ok()),
                _ => None,
            });
        }
        assert_eq!(answers, [Some(false), None, Some(true), Some(true)]);
        assert_eq!(calls.load(Ordering::Relaxed), 3);
    }

    /// Counts the connections of settlers that are opened.
    #[derive(Debug)]
    struct Connecting {
        inner: Arc<dyn Store>,
        settlers: AtomicUsize,
    }

    #[async_trait]
    impl Store for Connecting {
        fn profile(&self) -> StoreProfile {
            self.inner.profile()
        }

        async fn source(&self) -> Result<Box<dyn Source>> {
            self.inner.source().await
        }

        async fn settler(&self) -> Result<Box<dyn Settler>> {
            self.settlers.fetch_add(1, Ordering::Relaxed);
            self.inner.settler().await
        }

        async fn leases(&self) -> Result<Box<dyn Leases>> {
            self.inner.leases().await
        }

        async fn operator(&self) -> Result<Box<dyn Operator>> {
            self.inner.operator().await
        }
    }

    #[tokio::test]
    async fn a_connection_serves_until_a_settle_fails_on_it() {
        let calls = AtomicUsize::new(0);
        let inner = TroubledStore::wrap(Arc::new(MemoryStore::new(LaneCount::ONE, History::Off)), move |_| {
            let third = calls.fetch_add(1, Ordering::Relaxed) == 2;
            if third { Trouble::Fail(ErrorKind::Unknown) } else { Trouble::None }
        });
        let store = Arc::new(Connecting { inner, settlers: AtomicUsize::new(0) });
        let (ask, asked) = mpsc::unbounded_channel();
        let (signals, mut heard) = mpsc::unbounded_channel();
        tokio::spawn(settle_all(Arc::<Connecting>::clone(&store), asked, signals));
        let mut opened = Vec::new();
        for _ in 0..5 {
            let settle = Settle { leases: Vec::new(), rows: Vec::new(), ahead: false };
            ask.send(Asked { me: RelayId(uuid::Uuid::nil()), settle }).unwrap();
            heard.recv().await.unwrap();
            opened.push(store.settlers.load(Ordering::Relaxed));
        }
        assert_eq!(opened, [1, 1, 1, 2, 2]);
    }
}
