//! What is taken from NATS, against a real server: the suite, and what only NATS has.
#![cfg(feature = "nats")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod consumers;
mod deleted;
mod findings;
mod kept;
mod messages;
mod permissions;
mod scene;
mod suite;
mod troubles;
