//! What applications import: a message written in the same transaction as the data that it tells about.
//!
//! An application enqueues messages inside its own database transaction; the relay (`postrider relay`, or the one in
//! this crate, inside the application's process) delivers every committed message to a broker, at least once, in order
//! per key, and none of a transaction that was rolled back.
//!
//! Nothing is on by default. Name what the application has:
//!
//! | feature | gives |
//! |---|---|
//! | `sqlx-postgres`, `sqlx-sqlite`, `tokio-postgres`, `rusqlite` | [`Outbox::enqueue`] in that driver's transactions, [`migrate`] on its connections |
//! | `opentelemetry` | the trace context of the current span in the headers of what is enqueued |
//! | `relay` | the relay inside the application: `Relay` |
//! | `store-sqlite`, `store-postgres`, `store-memory` | what that relay reads: `stores` |
//! | `broker-http`, `broker-nats`, `broker-file`, `broker-stdout`, `broker-memory` | where it delivers to: `brokers` |
//!
//! # Enqueue
//!
#![cfg_attr(feature = "rusqlite", doc = "```")]
#![cfg_attr(not(feature = "rusqlite"), doc = "```ignore")]
//! use postrider::{Message, Outbox};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("shop.db");
//! let mut database = rusqlite::Connection::open(path)?;
//! postrider::migrate(&database)?; // once, at start
//! database.execute("create table if not exists orders (id integer primary key, item text)", ())?;
//!
//! let outbox = Outbox::new(); // names only; clone it freely
//! let tx = database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
//! tx.execute("insert into orders values (7, 'book')", ())?;
//! let order = serde_json::json!({ "order": 7, "item": "book" });
//! outbox.enqueue(&tx, Message::json("orders.placed", &order)?.key(7))?;
//! tx.commit()?; // the order and its message, or neither
//!
//! let waiting: i64 = database.query_row("select count(*) from postrider_outbox", (), |row| row.get(0))?;
//! assert_eq!(waiting, 1);
//! # Ok(())
//! # }
//! ```
//!
//! With sqlx and tokio-postgres the same call is awaited:
//!
#![cfg_attr(feature = "sqlx-postgres", doc = "```no_run")]
#![cfg_attr(not(feature = "sqlx-postgres"), doc = "```ignore")]
//! # use postrider::{Message, Outbox};
//! # async fn place(pool: sqlx::PgPool, outbox: Outbox) -> Result<(), Box<dyn std::error::Error>> {
//! let mut tx = pool.begin().await?;
//! sqlx::query("insert into orders values (7, 'book')").execute(&mut *tx).await?;
//! outbox.enqueue(&mut tx, Message::new("orders.placed", "book").key(7)).await?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! No call takes a pool or a plain connection: without a transaction of the caller's there is nothing to be part of.
//! A message is checked when it is enqueued ([`Message`] has the limits), so that what no broker would take is refused
//! where it is written, and the transaction can go on.
//!
//! * **Order.** Messages of one key leave in the order of their transactions if these are ordered themselves: lock the
//!   row that the message is about first (`update`, `select .. for update`, an advisory lock), then enqueue.
//! * **SQLite** has one writer. Begin with `begin immediate` (`pool.begin_with("begin immediate")` in sqlx) and set a
//!   busy timeout of 5 s or more (the default of sqlx and rusqlite); a transaction that reads first and then writes is
//!   otherwise refused as busy at once.
//! * **PostgreSQL** refuses everything in a transaction after a failed statement: when
//!   [`EnqueueError::Database`] comes back, roll it back.
//! * **Trace context.** With `opentelemetry`, `traceparent`, `tracestate` and `baggage` of
//!   `opentelemetry::Context::current()` become headers at the moment of the call, unless the caller set them. With
//!   the `tracing` crate, `tracing-opentelemetry` must be set to activate the context of its spans.
//! * **Any other language** writes the same table: see `examples/from-sql` and `examples/from-python`.

mod batch;
mod driver;
mod enqueue;
mod error;
mod migrate;
mod outbox;
mod trace;

pub use enqueue::Enqueue;
pub use error::{EnqueueError, NameError};
pub use migrate::{MigrateTarget, migrate};
pub use outbox::Outbox;
pub use postrider_core::{
    Attributes, Error, ErrorKind, Headers, Invalid, Key, LaneCount, Message, MessageId, RetryOverride, Timestamp, Topic,
};
