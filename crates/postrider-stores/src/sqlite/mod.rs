//! SQLite.

pub mod enqueue;
pub mod upgrade;
