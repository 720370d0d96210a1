//! Behaviour that every backend of a seam must show.

pub mod broker;
pub mod documents;
mod report;
pub mod store;

pub use report::{Exclusion, Report};
