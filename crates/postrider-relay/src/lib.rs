//! Moves messages from a store to brokers.
//!
//! A [`Relay`] joins the other relays of the outbox, takes lanes, reads their messages, publishes them and records
//! what became of each, until it is told to stop. Every decision is made by the machine in `postrider-core`; this
//! crate carries it out. It knows the seams only, no database and no broker.
//!
//! ```no_run
//! use std::sync::Arc;
//! use postrider_core::{Broker, DestinationName, DestinationTemplate, Store};
//! use postrider_relay::Relay;
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn example(store: Arc<dyn Store>, broker: Arc<dyn Broker>) -> postrider_core::Result<()> {
//! let relay = Relay::builder(store)
//!     .name("orders-1")
//!     .destination(DestinationName::new("events"), broker, DestinationTemplate::topic())
//!     .build()?;
//! let stop = CancellationToken::new();
//! let summary = relay.run(stop).await?;
//! println!("{} delivered", summary.delivered);
//! # Ok(())
//! # }
//! ```
//!
//! **Promises**: at least once; in order per key and destination; bounded memory; a graceful stop repeats nothing;
//! a relay that lost its lease changes nothing. **Does not promise** that a message is published once: a crash
//! between the broker's acknowledgement and its record repeats it with the same id.

mod absence;
mod archiving;
mod builder;
mod causes;
mod clock;
mod dead_watch;
mod events;
mod forgetting;
mod hands;
mod housekeeper;
mod leaseholder;
mod membership;
#[cfg(test)]
mod observed;
mod pauses;
mod publisher;
mod reader;
mod relay_loop;
mod report;
mod settler;
mod snapshot;
mod stuck;
pub mod telemetry;
mod unanswered;

pub use archiving::Archiving;
pub use builder::{Relay, RelayBuilder};
pub use dead_watch::{DeadWatch, GaveUp};
pub use events::{RelayEvent, RelayEvents};
pub use postrider_core::machine::Ordering;
pub use snapshot::{DestinationSnapshot, Left, RelayHandle, RelaySnapshot, RelayState, Summary};
