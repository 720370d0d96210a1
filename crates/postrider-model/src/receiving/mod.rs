//! The receiving side: every history of a few deliveries of its protocols, within bounds.
//!
//! [`documents`] has the entities in documents, [`inbox`] the inbox in the receiver's own transaction, [`keys`] requests
//! with an idempotency key. Each has its promises, and its rules broken on purpose. The first runs the core's machines, the
//! last asks the core what to do with a request; the inbox is SQL, and its model a model of that.

pub mod documents;
pub mod inbox;
pub mod keys;
