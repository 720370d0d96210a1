//! For the tests of an application: what did this handler enqueue, and what would its receivers get?
//!
//! Three tools, for tests that use a database and for those that use none:
//!
//! * [`enqueued`] reads the messages in an outbox of a real database, in the order in which they were written, also within a
//!   transaction that is not committed;
//! * [`MemoryOutbox`] takes messages without any database: its transactions are accepted wherever those of a driver are;
//! * [`delivered`] runs a relay over a store until nothing is left to do, and gives what a broker would have got.
//!
//! Put the feature into the dependencies of the tests: `postrider = { ..., features = ["testing"] }` under
//! `[dev-dependencies]`.
//!
//! # A handler that is given a transaction of rusqlite
//!
#![cfg_attr(feature = "rusqlite", doc = "```")]
#![cfg_attr(not(feature = "rusqlite"), doc = "```ignore")]
//! use postrider::{Message, Outbox, testing};
//!
//! fn place_order(tx: &rusqlite::Transaction<'_>, item: &str) -> Result<(), Box<dyn std::error::Error>> {
//!     tx.execute("insert into orders (item) values (?1)", [item])?;
//!     Outbox::new().enqueue(tx, Message::new("orders.placed", item.to_owned()).key("ann"))?;
//!     Ok(())
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut database = rusqlite::Connection::open_in_memory()?;
//! postrider::migrate(&database)?;
//! database.execute("create table orders (id integer primary key, item text)", ())?;
//!
//! let tx = database.transaction()?;
//! place_order(&tx, "book")?;
//! let messages = testing::enqueued(&Outbox::new(), &tx)?;
//! assert_eq!(messages.len(), 1);
//! assert_eq!((messages[0].topic.as_str(), &messages[0].payload[..]), ("orders.placed", &b"book"[..]));
//!
//! tx.rollback()?;
//! assert!(testing::enqueued(&Outbox::new(), &database)?.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! # A handler that is given a transaction of sqlx
//!
#![cfg_attr(feature = "sqlx-sqlite", doc = "```")]
#![cfg_attr(not(feature = "sqlx-sqlite"), doc = "```ignore")]
//! use postrider::{Message, Outbox, testing};
//! use sqlx::{Sqlite, SqlitePool, Transaction};
//!
//! async fn place_order(tx: &mut Transaction<'_, Sqlite>) -> Result<(), Box<dyn std::error::Error>> {
//!     Outbox::new().enqueue(tx, Message::new("orders.placed", "book").key("ann")).await?;
//!     Ok(())
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let pool = SqlitePool::connect(&format!("sqlite://{}/app.db?mode=rwc", folder.path().display())).await?;
//! postrider::migrate(&pool).await?;
//! let mut tx = pool.begin_with("begin immediate").await?;
//! place_order(&mut tx).await?;
//! let messages = testing::enqueued(&Outbox::new(), &mut *tx).await?;
//! assert_eq!(messages[0].key.as_ref().map(|key| key.as_str()), Some("ann"));
//! tx.commit().await?;
//! assert_eq!(testing::enqueued(&Outbox::new(), &pool).await?, messages);
//! # Ok(())
//! # }
//! ```
//!
//! The other drivers likewise: [`Enqueued`] lists what each can hand in.
//!
//! # A handler that is given a connection of diesel
//!
#![cfg_attr(all(feature = "diesel-sqlite", feature = "store-sqlite"), doc = "```")]
#![cfg_attr(not(all(feature = "diesel-sqlite", feature = "store-sqlite")), doc = "```ignore")]
//! use diesel::{Connection, SqliteConnection};
//! use postrider::{Diesel, Message, Outbox, testing};
//!
//! fn place_order(tx: &mut SqliteConnection) -> Result<(), Box<dyn std::error::Error>> {
//!     Outbox::new().enqueue(Diesel(tx), Message::new("orders.placed", "book").key("ann"))?;
//!     Ok(())
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("app.db").display().to_string();
//! # stores::migrate(&path)?;
//! let mut connection = SqliteConnection::establish(&path)?;
//! connection.transaction(|tx| {
//!     place_order(tx)?;
//!     let messages = testing::enqueued(&Outbox::new(), Diesel(tx))?;
//!     assert_eq!(messages[0].topic.as_str(), "orders.placed");
//!     Ok(())
//! })
//! # }
//!
//! # mod stores {
//! #     #[tokio::main]
//! #     pub async fn migrate(path: &str) -> postrider::Result<()> {
//! #         postrider::stores::migrate(&format!("sqlite:{path}"), &Default::default()).await
//! #     }
//! # }
//! ```
//!
//! # Without any database
//!
//! A handler that is generic over its transaction can be given one that is in memory:
//!
//! ```
//! use postrider::testing::MemoryOutbox;
//! use postrider::{Enqueue, EnqueueError, Message, MessageId, Outbox};
//!
//! fn placed<T>(tx: T) -> Result<MessageId, EnqueueError>
//! where
//!     T: Enqueue<Answer<MessageId> = Result<MessageId, EnqueueError>>,
//! {
//!     Outbox::new().enqueue(tx, Message::new("orders.placed", "book"))
//! }
//!
//! # fn main() -> Result<(), EnqueueError> {
//! let memory = MemoryOutbox::new();
//! let mut tx = memory.begin();
//! let id = placed(&mut tx)?;
//! tx.commit();
//! drop(memory.begin()); // rolled back: nothing of it is there
//! assert_eq!(memory.messages().iter().map(|message| message.id).collect::<Vec<_>>(), [id]);
//! # Ok(())
//! # }
//! ```
//!
//! An asynchronous one takes it as [`Awaited`], and a transaction of an asynchronous driver as well:
//!
#![cfg_attr(feature = "sqlx-sqlite", doc = "```")]
#![cfg_attr(not(feature = "sqlx-sqlite"), doc = "```ignore")]
//! use postrider::testing::{Awaited, MemoryOutbox};
//! use postrider::{Enqueue, EnqueueError, Message, MessageId, Outbox};
//!
//! async fn placed<T>(tx: T) -> Result<MessageId, EnqueueError>
//! where
//!     T: Enqueue<Answer<MessageId>: Future<Output = Result<MessageId, EnqueueError>>>,
//! {
//!     Outbox::new().enqueue(tx, Message::new("orders.placed", "book")).await
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let pool = sqlx::SqlitePool::connect(&format!("sqlite://{}/app.db?mode=rwc", folder.path().display())).await?;
//! # postrider::migrate(&pool).await?;
//! let memory = MemoryOutbox::new();
//! let mut tx = memory.begin();
//! let id = placed(Awaited(&mut tx)).await?; // in the test
//! tx.commit();
//! assert_eq!(memory.messages()[0].id, id);
//!
//! let mut tx = pool.begin().await?;
//! placed(&mut tx).await?; // in production
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What receivers would get
//!
//! ```
//! use postrider::testing::{MemoryOutbox, delivered};
//! use postrider::{Message, Outbox};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let memory = MemoryOutbox::new();
//! let mut tx = memory.begin();
//! Outbox::new().enqueue(&mut tx, Message::new("orders.placed", "1").key("ann"))?;
//! Outbox::new().enqueue(&mut tx, Message::new("orders.paid", "2").key("ann"))?;
//! tx.commit();
//!
//! let got = delivered(memory.store()).await?; // any store will do: `stores::open(url, ...)`
//! assert_eq!(got.iter().map(|message| message.topic.as_str()).collect::<Vec<_>>(), ["orders.placed", "orders.paid"]);
//! # Ok(())
//! # }
//! ```

mod delivery;
mod driver;
mod enqueued;
mod memory;

pub use delivery::delivered;
#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
pub use driver::DieselReadable;
pub use enqueued::{Enqueued, enqueued};
pub use memory::{Awaited, MemoryOutbox, MemoryTransaction};
