//! Behaviour that every backend of a seam must show.

pub mod broker;
pub mod store;
