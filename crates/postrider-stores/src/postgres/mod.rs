//! PostgreSQL.

pub mod enqueue;
