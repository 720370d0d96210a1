//! The two stages that a message goes through.

use std::time::Duration;

use async_nats::jetstream::{self, stream::Config};

use crate::Fallible;
use crate::place::nats::{STREAM, SUBJECTS};

/// Where outputs go.
pub const OUTPUT: &str = "outputs.counted";
/// Repeats are to be seen, not swallowed: the server's shortest.
const WINDOW: Duration = Duration::from_millis(100);

/// One of two stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Receives what the relays deliver.
    First,
    /// Receives the outputs of the first.
    Second,
}

impl Stage {
    /// The name of its consumer, which is also that of its collection.
    pub const fn name(self) -> &'static str {
        match self {
            Self::First => "effects",
            Self::Second => "outputs",
        }
    }

    /// The stream that it reads.
    pub const fn stream(self) -> &'static str {
        match self {
            Self::First => STREAM,
            Self::Second => "OUTPUTS",
        }
    }

    /// What it reads of that stream.
    pub const fn subject(self) -> &'static str {
        match self {
            Self::First => SUBJECTS,
            Self::Second => OUTPUT,
        }
    }

    /// Makes the stream, where it is not there already.
    ///
    /// # Errors
    /// When the server cannot be told.
    pub async fn prepare(self, broker: &str) -> Fallible<()> {
        if self == Self::Second {
            let config = Config {
                name: self.stream().to_owned(),
                subjects: vec![OUTPUT.to_owned()],
                duplicate_window: WINDOW,
                ..Config::default()
            };
            jetstream::new(async_nats::connect(broker).await?).create_stream(config).await?;
        }
        Ok(())
    }
}
