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
//! | `sqlx-postgres`, `sqlx-mysql`, `sqlx-sqlite`, `tokio-postgres`, `mysql_async`, `rusqlite` | [`Outbox::enqueue`] in that driver's transactions, [`migrate`] on its connections |
//! | `diesel-postgres`, `diesel-mysql`, `diesel-sqlite`, and `diesel-async` beside them | `Diesel`, `DieselAsync`: the same inside `connection.transaction(..)` |
//! | `sea-orm` | the same in transactions of SeaORM, on whichever database |
//! | `opentelemetry` | the trace context of the current span in the headers of what is enqueued |
//! | `relay` | the relay inside the application: `Relay` |
//! | `store-sqlite`, `store-postgres`, `store-mysql`, `store-memory` | what that relay reads: [`stores`] |
//! | `broker-http`, `broker-nats`, `broker-kafka` (`broker-kafka-tls` with TLS and SCRAM), `broker-file`, `broker-stdout`, `broker-memory` | where it delivers to: `brokers` |
//! | `processor` | messages processed once over documents: `Processor` |
//! | `documents-postgres`, `documents-sqlite`, `documents-redis`, `documents-objects`, `documents-dynamodb`, `documents-memory` | where documents are kept: `documents` |
//! | `consume` | what a broker has for a consumer, handed to an inbox handler or a processor: `consume` |
//! | `consume-nats`, `consume-kafka` | the same with the broker: NATS JetStream, Kafka |
//! | `http-idempotency` | requests with an `Idempotency-Key` answered once: a layer for axum and tower |
//! | `testing` | for tests: what was enqueued, an outbox without a database, what would be delivered: `testing` |
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
//! With sqlx, tokio-postgres, mysql_async and SeaORM the same call is awaited:
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
//! No call takes a pool or a plain connection: without a transaction of the caller's there is nothing to be part of. diesel
//! alone has no type for a transaction, so its connections are asked when a message is enqueued.
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
//! * **MySQL and MariaDB** end a transaction when a statement defines something (`create table`, `alter table`): what is
//!   enqueued after it is committed by itself. Define nothing inside. Tables must be InnoDB's; `postrider check` looks.
//! * **Trace context.** With `opentelemetry`, `traceparent`, `tracestate` and `baggage` of
//!   `opentelemetry::Context::current()` become headers at the moment of the call, unless the caller set them. With
//!   the `tracing` crate, `tracing-opentelemetry` must be set to activate the context of its spans.
//!
//! # Receive
//!
//! [`Inbox::first_seen`] records in the receiver's transaction that a message is handled, and says whether it was before; a
//! message that it enqueues goes with it. [`Inbox::advance`] does the same with one number for a source that delivers in order.
//! [`IdempotencyKeys`] do it for requests, with the answer that they got. With `consume`, a `Consumer` hands what a broker has to
//! such a handler. `docs/exactly-once.md` says which to choose.
//!
//! # Relay from the same process
//!
#![cfg_attr(all(feature = "relay", feature = "store-sqlite", feature = "broker-stdout"), doc = "```")]
#![cfg_attr(not(all(feature = "relay", feature = "store-sqlite", feature = "broker-stdout")), doc = "```ignore")]
//! use postrider::{CancellationToken, DestinationName, DestinationTemplate, Relay, brokers, stores};
//!
//! # #[tokio::main]
//! # async fn main() -> postrider::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let url = format!("sqlite://{}/shop.db", folder.path().display());
//! # stores::migrate(&url, &stores::MigrateOptions::default()).await?;
//! let store = stores::open(&url, &stores::StoreOptions::default()).await?;
//! let broker = brokers::open(&brokers::BrokerConfig::new("stdout:"))?;
//! let relay = Relay::builder(store)
//!     .name("shop")
//!     .destination(DestinationName::new("events"), broker, DestinationTemplate::topic())
//! #   .until_empty()
//!     .build()?;
//! let hints = relay.handle();
//! let stop = CancellationToken::new();
//! let relaying = tokio::spawn(relay.run(stop.clone()));
//!
//! hints.hint(); // after a commit: "look now"; saves the polling interval, and may be left out
//! # let summary = relaying.await.unwrap()?;
//! # return Ok(());
//! stop.cancel(); // on shutdown: what is in flight is finished and recorded
//! let summary = relaying.await.unwrap()?;
//! # Ok(())
//! # }
//! ```
//!
//! `relay.handle()` also tells what happens, message by message and lane by lane (`RelayHandle::events`), without ever
//! slowing the relay:
//!
#![cfg_attr(all(feature = "relay", feature = "store-memory", feature = "broker-memory"), doc = "```")]
#![cfg_attr(not(all(feature = "relay", feature = "store-memory", feature = "broker-memory")), doc = "```ignore")]
//! # use std::sync::Arc;
//! # use postrider::{DestinationName, DestinationTemplate, LaneCount, Message, brokers, stores};
//! use postrider::{CancellationToken, Relay, RelayEvent};
//!
//! # #[tokio::main]
//! # async fn main() -> postrider::Result<()> {
//! # let store = stores::memory::MemoryStore::new(LaneCount::ONE, stores::History::Off);
//! # store.enqueue_committed(&[Message::new("orders.placed", "7")]);
//! # let broker = brokers::open(&brokers::BrokerConfig::new("memory:"))?;
//! # let relay = Relay::builder(Arc::new(store))
//! #     .destination(DestinationName::new("events"), broker, DestinationTemplate::topic())
//! #     .until_empty()
//! #     .build()?;
//! let mut events = relay.handle().events();
//! tokio::spawn(relay.run(CancellationToken::new()));
//! let mut delivered = 0;
//! while let Some(event) = events.next().await {
//!     match event {
//!         RelayEvent::Delivered { id, topic, .. } => {
//!             println!("{topic} {id} is delivered");
//!             delivered += 1;
//!         }
//!         RelayEvent::Dead(dead) => println!("given up: {}", dead.error),
//!         RelayEvent::Missed(count) => println!("too slow: {count} events are missing"),
//!         _ => {}
//!     }
//! }
//! # assert_eq!(delivered, 1);
//! # Ok(())
//! # }
//! ```
//!
//! Several calls of `destination` give every message to several brokers or places, and `route` says which topics go to
//! which; each is isolated from the others. A message is delivered when each of its destinations has accepted it.
//!
//! Any number of processes may do this: they share the lanes of the outbox, and what one of them leaves behind another
//! takes over. [`Outbox`] and relay know nothing of each other; the table is all there is between them.
//!
//! # Any other language
//!
//! It writes a row into the same table, or calls `postrider_enqueue` on PostgreSQL, MySQL and MariaDB: see `docs/sql.md`,
//! `examples/from-sql`, `examples/from-python`, and `examples/mysql-kafka` with Python, Node, PHP, Java and Go.

mod batch;
#[cfg(feature = "consume")]
pub mod consume;
#[cfg(any(feature = "processor", feature = "consume"))]
mod dead_letters;
#[cfg(any(feature = "processor", feature = "consume"))]
mod delivery;
mod driver;
mod enqueue;
mod error;
mod idempotency;
mod inbox;
#[cfg(any(feature = "processor", feature = "consume"))]
mod last_words;
mod migrate;
mod outbox;
#[cfg(feature = "processor")]
mod processor;
mod question;
mod receive;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(any(feature = "processor", feature = "consume"))]
mod token;
mod trace;

#[cfg(any(feature = "processor", feature = "consume"))]
pub use delivery::Delivery;
#[cfg(feature = "diesel-async")]
pub use driver::DieselAsync;
#[cfg(feature = "_diesel")]
pub use driver::{Diesel, DieselBackend};
pub use enqueue::Enqueue;
pub use error::{EnqueueError, NameError};
#[cfg(all(
    feature = "http-idempotency",
    any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite")
))]
pub use idempotency::PooledKeys;
pub use idempotency::{IdempotencyKeys, ScopedKey};
#[cfg(feature = "http-idempotency")]
pub use idempotency::{IdempotencyLayer, IdempotencyService, IdempotentRequest, KeyBackend};
pub use inbox::{Inbox, InboxError, Seen};
pub use migrate::{MigrateTarget, migrate};
pub use outbox::Outbox;
#[cfg(any(
    feature = "broker-memory",
    feature = "broker-stdout",
    feature = "broker-file",
    feature = "broker-http",
    feature = "broker-nats",
    feature = "broker-kafka"
))]
pub use postrider_brokers as brokers;
pub use postrider_core::receiving::{Advance, Begun, Epoch, Fingerprint, Lapse, Sequence};
pub use postrider_core::{
    Accepted, AllowList, Archive, Attempt, Attempts, Attributes, Broker, BrokerProfile, Confirmation, DeadReason,
    DeliveredView, Destination, DestinationName, DestinationTemplate, Durability, Error, ErrorKind, Finding, GivenUp,
    Headers, Incoming, Invalid, Isolation, Key, Lane, LaneCount, Level, Message, MessageId, OnDead, OnExpire,
    OrderInBatch, Outgoing, PastRow, Place, Placeholder, Published, Receipt, Result, Retention, RetryOverride,
    RetryPolicy, RowId, RowView, SourcePosition, Store, Subscription, TOKEN_HEADER, Term, Timestamp, Topic,
    TopicPattern, Wire,
};
#[cfg(feature = "processor")]
pub use postrider_documents as documents;
#[cfg(feature = "relay")]
pub use postrider_relay::{
    DeadWatch, GaveUp, Ordering, Relay, RelayBuilder, RelayEvent, RelayEvents, RelayHandle, RelaySnapshot, RelayState,
    Summary,
};
pub use postrider_stores as stores;
pub use postrider_stores::keys::StoredAnswer;
pub use postrider_stores::received::Forgotten;
#[cfg(feature = "processor")]
pub use processor::{EntityKey, Handler, Kept, KnownIds, Outputs, Processed, Processor, ProcessorBuilder, Tokens};
pub use receive::Receive;
#[cfg(any(feature = "processor", feature = "consume"))]
pub use token::Token;
#[cfg(any(feature = "relay", feature = "consume"))]
pub use tokio_util::sync::CancellationToken;

/// The Rust of the README, compiled with the examples above.
#[cfg(all(doctest, feature = "sqlx-postgres", feature = "store-postgres", feature = "broker-nats"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The Rust of the page on the receiving side.
#[cfg(all(
    doctest,
    feature = "rusqlite",
    feature = "sqlx-sqlite",
    feature = "tokio-postgres",
    feature = "documents-memory",
    feature = "broker-memory",
    feature = "http-idempotency",
    feature = "consume-nats"
))]
#[doc = include_str!("../../../docs/exactly-once.md")]
struct ExactlyOnce;
