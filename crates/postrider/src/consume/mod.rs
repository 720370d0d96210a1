//! What a broker has for a consumer, handed to an inbox handler or a [`Processor`](crate::Processor).
//!
//! A [`Consumer`] takes messages from a [`Subscription`](crate::Subscription), gives each to a [`Receiver`], and acknowledges it
//! when that has returned. Messages of one key are handled one after another, those of different keys at once. One that fails
//! is tried again in its place, and after its attempts it goes where dead letters go. The effect of a message happens once by
//! what the receiver does, the inbox or the processor; the consumer adds that no message is lost and none stands in the way.
//! `docs/exactly-once.md` has a page of it.

mod builder;
mod burying;
mod handling;
mod plan;
#[cfg(feature = "processor")]
mod processing;
mod receiver;
mod rules;
mod running;
mod setback;
mod summary;
mod taken;
mod taking;
mod telemetry;

pub use builder::ConsumerBuilder;
pub use receiver::{Handled, Receiver};
pub use rules::Order;
pub use running::Consumer;
pub use setback::Setback;
pub use summary::ConsumeSummary;
