//! What an application writes in its own transaction, through every driver, read back by a driver that is none of ours.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first surprise")]

mod accepted;
mod cases;
mod contention;
mod diesel;
mod inbox;
mod keys;
mod lost;
mod meeting;
mod migrate;
mod mysql;
mod older_snapshot;
mod partitions;
mod postgres;
mod sea_orm;
mod sqlite;
mod together;
mod tokens;
mod trace;
