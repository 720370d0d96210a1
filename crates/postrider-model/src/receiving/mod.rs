//! The receiving side: every history of a few deliveries of its protocols, within bounds.
//!
//! [`documents`] has the entities in documents, [`inbox`] the inbox in the receiver's own transaction, [`keys`] requests
//! with an idempotency key. Each has its promises, and its rules broken on purpose.

pub mod documents;
pub mod inbox;
pub mod keys;
