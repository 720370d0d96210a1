//! Where messages wait and where they go: the real servers, and what can be seen of them from outside.

pub mod broker;
pub mod http;
pub mod kafka;
pub mod kafka_log;
pub mod lines;
pub mod mariadb;
pub mod nats;
pub mod postgres;
pub mod sqlite;
pub mod store;
