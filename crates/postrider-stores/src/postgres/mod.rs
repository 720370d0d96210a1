//! PostgreSQL.

pub mod enqueue;
mod names;
pub mod schema;

pub use names::Names;
