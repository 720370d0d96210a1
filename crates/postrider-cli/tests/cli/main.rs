//! The real binary, run on SQLite and, where they are there, on PostgreSQL and MariaDB.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod admin;
mod archiving;
mod bad_input;
mod bench;
mod broker_bad_input;
mod configuration;
mod dead_letters;
mod expiring;
mod forwarding;
mod harness;
mod holding;
mod inbox;
#[cfg(feature = "kafka")]
mod kafka;
mod locked;
#[cfg(feature = "mysql")]
mod mysql;
mod next_steps;
mod notifying;
mod postgres;
mod relaying;
mod routes;
