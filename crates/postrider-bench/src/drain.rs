//! How fast a relay empties an outbox.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_core::{Broker, DestinationName, DestinationTemplate, Error, ErrorKind, Result, Store};
use postrider_relay::{Relay, RelayHandle};
use tokio_util::sync::CancellationToken;

use crate::load::Load;
use crate::running::Running;
use crate::verdict::Verdict;
use crate::witness::{Book, Moments, Witness};

/// Without any progress for so long the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the relay is asked how far it is.
const LOOK: Duration = Duration::from_millis(20);

/// A drained outbox.
#[derive(Debug, Clone, Copy)]
pub struct Drained {
    /// From the relay's start, connecting included, to the answer of the last settle.
    pub took: Duration,
    /// What arrived.
    pub verdict: Verdict,
}

impl Drained {
    /// Messages per second.
    pub fn rate(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a count far below 2^52")]
        let messages = self.verdict.written as f64;
        messages / self.took.as_secs_f64()
    }

    /// A run of the limit, if everything arrived and nothing else did: a rate at which messages are lost is no limit, and no
    /// figure is put beside it.
    ///
    /// # Errors
    /// `Unknown`, with the verdict.
    pub fn as_limit(self) -> Result<Self> {
        if self.verdict.holds() {
            return Ok(self);
        }
        let what = format!("the limit, which has no relay in it, was measured wrong: {}", self.verdict);
        Err(Error::new(ErrorKind::Unknown, what))
    }
}

/// Drains an outbox that holds exactly the messages of a load with one relay at its defaults, and tells `progress` how
/// many are delivered.
///
/// # Errors
/// What ended the relay; `Unavailable` when nothing moves for 30 s.
pub async fn drain(
    store: Arc<dyn Store>,
    broker: Arc<dyn Broker>,
    load: &Load,
    mut progress: impl FnMut(u64),
) -> Result<Drained> {
    let book = Arc::new(Book::new(load.messages, Moments::NotKept));
    let witness = Arc::new(Witness::new(broker, Arc::clone(&book)));
    let relay = Relay::builder(store)
        .name("bench")
        .destination(DestinationName::new("bench"), witness, DestinationTemplate::topic())
        .build()?;
    let (handle, stop) = (relay.handle(), CancellationToken::new());
    let began = Instant::now();
    let running = Running::start(relay, stop.clone());
    let ended = finished(&handle, load.messages, began, &mut progress).await;
    stop.cancel();
    running.ended().await?;
    Ok(Drained { took: ended? - began, verdict: book.verdict(load.messages) })
}

/// When the last of so many messages was settled.
async fn finished(
    handle: &RelayHandle,
    messages: u64,
    began: Instant,
    progress: &mut impl FnMut(u64),
) -> Result<Instant> {
    loop {
        let snapshot = handle.snapshot();
        progress(snapshot.delivered);
        let last = snapshot.last_progress.unwrap_or(began);
        if snapshot.delivered >= messages {
            return Ok(last);
        }
        if last.elapsed() > PATIENCE {
            let why = snapshot.store_error.unwrap_or_else(|| {
                let paused = snapshot.destinations.into_iter().find_map(|destination| destination.paused);
                paused.map_or_else(|| "no reason is known".to_owned(), |(_, why, _)| why)
            });
            let text = format!(
                "{} of {messages} messages were delivered, then nothing moved for {PATIENCE:?}: {why}",
                snapshot.delivered
            );
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_at_which_messages_are_lost_or_invented_is_no_limit() {
        let run = |verdict| Drained { took: Duration::from_secs(1), verdict };
        assert!(run(Verdict::counted(10, 10, 0)).as_limit().is_ok());
        for wrong in [Verdict::counted(10, 9, 0), Verdict::counted(10, 11, 0)] {
            let error = run(wrong).as_limit().unwrap_err();
            assert!(error.to_string().contains(&wrong.to_string()), "{error}");
        }
    }
}
