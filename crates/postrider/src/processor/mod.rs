//! Processing messages once where there is no SQL transaction: the entity that a message changes, and what it sends, in one
//! document.
//!
//! A [`Processor`] loads the entity that a [`Handler`] names for a message, runs the handler over its state, and writes the
//! new state together with what the handler wants sent, if nobody wrote the document in between. Then it sends, records that
//! it did, and says that the message can be acknowledged. A delivery that dies at any step is finished by the next one, by
//! the next message of the entity, or by [`Processor::keep_up`].
//!
//! Which messages were handled is kept in the document, for a while, or in a store of its own ([`KnownIds`]); a message that
//! is older than what is remembered is refused, not handled twice. With [`Tokens`], which sender and receiver share, nothing
//! is kept of a message that is over. `docs/exactly-once.md` says what to choose.

mod accepted;
mod builder;
mod entity;
mod handler;
mod keeping;
mod known_ids;
mod memory;
mod output;
mod processed;
mod records;
mod running;
mod sending;
mod suspects;
#[cfg(test)]
#[cfg(feature = "documents-memory")]
mod tests;
mod tokens;

pub use builder::ProcessorBuilder;
pub use handler::{EntityKey, Handler, Outputs};
pub use keeping::Kept;
pub use known_ids::KnownIds;
pub use processed::Processed;
pub use running::Processor;
pub use tokens::Tokens;
