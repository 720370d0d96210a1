//! A relay at work while something is measured.

use postrider_core::{Error, ErrorKind, Result};
use postrider_relay::{Relay, Summary};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A relay in a task of its own, which ends with the measurement however that ends.
pub(crate) struct Running(JoinSet<Result<Summary>>);

impl Running {
    pub(crate) fn start(relay: Relay, stop: CancellationToken) -> Self {
        let mut task = JoinSet::new();
        task.spawn(relay.run(stop));
        Self(task)
    }

    /// Waits for its end.
    pub(crate) async fn ended(mut self) -> Result<()> {
        match self.0.join_next().await {
            Some(Err(error)) => Err(Error::new(ErrorKind::Unknown, "the relay ended by a panic").because(error)),
            Some(Ok(ended)) => ended.map(drop),
            None => Ok(()),
        }
    }
}
