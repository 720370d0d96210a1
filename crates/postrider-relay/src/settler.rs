//! Carries out settles, one at a time on one connection.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::machine::Event;
use postrider_core::{Error, ErrorKind, HeldLane, RelayId, Result, Settled, Settlement, Settler, Store};
use tokio::sync::mpsc;

use crate::hands::Signal;
use crate::telemetry;

/// How long one settle may take. One that takes longer is given up with its connection; its outcome is unknown, and
/// settling again is harmless.
const DEADLINE: Duration = Duration::from_secs(30);

/// A settle to be carried out.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) me: RelayId,
    pub(crate) lanes: Vec<HeldLane>,
    pub(crate) batch: Vec<Settlement>,
}

/// Settles what it is asked to, until the asking end is dropped.
pub(crate) async fn settle_all(
    store: Arc<dyn Store>,
    mut asked: mpsc::UnboundedReceiver<Asked>,
    signals: mpsc::UnboundedSender<Signal>,
) {
    let mut settler: Option<Box<dyn Settler>> = None;
    while let Some(asked) = asked.recv().await {
        let started = telemetry::started();
        let answer =
            tokio::time::timeout(DEADLINE, carry_out(&store, &mut settler, &asked)).await.unwrap_or_else(|_| {
                let text = format!("settling took longer than {DEADLINE:?}; look for locks on the outbox table");
                Err(Error::new(ErrorKind::Unknown, text))
            });
        telemetry::settle_took(started);
        if answer.is_err() {
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
    settler.settle(asked.me, &asked.lanes, &asked.batch).await
}
