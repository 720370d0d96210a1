//! Where messages go: one folder per broker, one feature each.
//!
//! [`open`] finds the backend of a URL in a static list and hands it the URL and its options; each backend reads its
//! own options and refuses what it does not know. A broker in a crate of its own needs none of this: it implements
//! [`postrider_core::Broker`] and is given to the relay as it is.
//!
//! | URL | feature | an acknowledgement means |
//! |---|---|---|
//! | `memory:` | `memory` | counted and forgotten |
//! | `stdout:` | `stdout` | the whole line was written and flushed |
//! | `file:///path/out.jsonl`, `file:out.jsonl` | `file` | the line is on disk |
//! | `http://…`, `https://…` | `http` | the receiver answered 2xx |
//! | `nats://…`, `tls://…` | `nats` | JetStream stored it |
//! | `kafka://…`, `kafka+ssl://…` | `kafka`, with TLS and SCRAM `kafka-tls` | every replica in sync has it |
//!
//! [`subscribe`] is the other direction: it takes part in what a broker gives to a consumer, named and read as
//! [`SubscriptionConfig`] says. NATS and Kafka give messages; what each of them promises, and what its failures mean, stands in
//! its module `subscription`.
//!
//! A secret option `token` may be given as `token`, as `token_file = "path"` or as `token_env = "NAME"`; it never
//! appears in errors or in `Debug`. Durations are written `500ms`, `10s`, `2m`, `1h`; sizes `64KiB`, `1MiB`.

#[cfg(feature = "http")]
mod chains;
mod config;
#[cfg(any(feature = "http", feature = "nats"))]
mod dead_letter;
#[cfg(feature = "file")]
pub mod file;
#[cfg(feature = "http")]
pub mod http;
#[cfg(any(feature = "file", feature = "stdout"))]
mod json_line;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(any(feature = "kafka", feature = "nats"))]
mod key_order;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(any(
    feature = "memory",
    feature = "file",
    feature = "stdout",
    feature = "http",
    feature = "nats",
    feature = "kafka"
))]
#[cfg_attr(
    not(all(feature = "http", feature = "nats", feature = "kafka")),
    allow(dead_code, reason = "each backend reads its options with the readers that it needs")
)]
mod options;
mod registry;
#[cfg(feature = "stdout")]
pub mod stdout;
#[cfg(any(feature = "http", feature = "nats"))]
mod tls;

pub use config::{BrokerConfig, SubscriptionConfig};
pub use registry::{Backend, Open, Subscribe, backend, backends, open, subscribe};
