//! Where messages wait and where they go: the real servers, and what can be seen of them from outside.

pub mod broker;
pub mod http;
pub mod lines;
pub mod nats;
pub mod postgres;
pub mod sqlite;
pub mod store;
