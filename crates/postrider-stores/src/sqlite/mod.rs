//! SQLite.

pub mod enqueue;
