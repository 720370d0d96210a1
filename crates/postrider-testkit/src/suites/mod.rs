//! Behaviour that every backend of a seam must show.

pub mod broker;
pub mod documents;
mod report;
pub mod store;
pub mod subscriptions;

pub use report::{Exclusion, Report};
