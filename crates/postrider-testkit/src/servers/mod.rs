//! Real servers, started privately on free ports with their own data folders.

pub mod azurite;
mod brought;
pub mod http_receiver;
mod installed;
pub mod kafka;
pub mod mariadb;
pub mod moto;
pub mod nats;
pub mod packages;
pub mod pgbouncer;
pub mod postgres;
pub mod process;
pub mod redis;

pub use installed::installed;
