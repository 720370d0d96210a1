//! The database of a run, whichever it is.

use std::time::Duration;

use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::mariadb::Family;
use uuid::Uuid;

use super::mariadb::MariadbPlace;
use super::postgres::PostgresPlace;
use super::sqlite::SqlitePlace;
use crate::Fallible;
use crate::settings::{Settings, StoreKind};

/// The database.
#[derive(Debug)]
pub enum Store {
    /// A private PostgreSQL.
    Postgres(Box<PostgresPlace>),
    /// A private MariaDB or MySQL.
    Mariadb(Box<MariadbPlace>),
    /// A file.
    Sqlite(SqlitePlace),
}

/// Which numbers rows get after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// Those behind the last that was drawn.
    GoOn,
    /// Those behind the last row that is there.
    GoBack,
}

/// A lane with its owner.
#[derive(Debug, Clone)]
pub struct Owned {
    /// The lane.
    pub lane: u16,
    /// Its term.
    pub term: i64,
    /// The label of its owner.
    pub owner: Option<String>,
}

/// What one look at the outbox shows.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// Messages that wait, without the dead.
    pub pending: u64,
    /// Messages that were given up.
    pub dead: u64,
    /// Those of them that hold their key.
    pub holding: u64,
    /// Its lanes.
    pub lanes: Vec<Owned>,
    /// Sessions that are idle in a transaction.
    pub idle: u64,
    /// Bytes of the outbox with its indexes; in SQLite of the whole file.
    pub table: u64,
    /// Bytes of the database's log that are kept.
    pub log: u64,
}

/// A row that left the outbox, as the trigger wrote it down.
#[derive(Debug, Clone)]
pub struct Gone {
    /// The message.
    pub id: Uuid,
    /// Its state when it left: 0 or 2 is a delivery.
    pub state: i16,
    /// The terms of the lanes at that moment: one where the database knows the lane, all of them elsewhere.
    pub terms: Vec<(Option<u16>, i64)>,
    /// Whether the session was that of the lane's owner; none where the database has no sessions.
    pub by_owner: Option<bool>,
    /// Who the session belonged to.
    pub by: String,
    /// When, in microseconds since 1970.
    pub wall: i128,
}

/// What stands in the database at the end.
#[derive(Debug, Default)]
pub struct Books {
    /// The ledger: message, key, number.
    pub ledger: Vec<(Uuid, String, u32)>,
    /// Rows that left the outbox.
    pub gone: Vec<Gone>,
    /// Messages that wait.
    pub pending: Vec<Uuid>,
    /// Messages that were given up, with the reason.
    pub dead: Vec<(Uuid, i16)>,
}

impl Store {
    /// Starts it, empty.
    ///
    /// # Errors
    /// When a server is missing or does not start.
    pub async fn start(settings: &Settings) -> Fallible<Self> {
        Ok(match settings.store {
            StoreKind::Postgres => Self::Postgres(Box::new(PostgresPlace::start().await?)),
            StoreKind::Mariadb => Self::Mariadb(Box::new(MariadbPlace::start(settings, Family::Mariadb).await?)),
            StoreKind::Mysql => Self::Mariadb(Box::new(MariadbPlace::start(settings, Family::Mysql).await?)),
            StoreKind::Sqlite => Self::Sqlite(SqlitePlace::start(&settings.out)?),
        })
    }

    /// Its name and version.
    pub fn version(&self) -> String {
        match self {
            Self::Postgres(place) => place.version().to_owned(),
            Self::Mariadb(place) => place.version().to_owned(),
            Self::Sqlite(_) => format!("SQLite {}", rusqlite::version()),
        }
    }

    /// The address for the relay of this name, through a proxy on this port.
    pub fn relay_url(&self, port: u16, name: &str) -> String {
        match self {
            Self::Postgres(place) => place.url(port, name),
            Self::Mariadb(place) => place.url(port, name),
            Self::Sqlite(place) => format!("sqlite:{}", place.file().display()),
        }
    }

    /// The server's port, where there is a server.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Postgres(place) => Some(place.port()),
            Self::Mariadb(place) => Some(place.port()),
            Self::Sqlite(_) => None,
        }
    }

    /// A look at the outbox; an error while the database is away.
    ///
    /// # Errors
    /// What the database said.
    pub async fn look(&self) -> Fallible<Look> {
        match self {
            Self::Postgres(place) => place.look().await,
            Self::Mariadb(place) => place.look().await,
            Self::Sqlite(place) => place.look(),
        }
    }

    /// The keys that are held by a dead letter.
    ///
    /// # Errors
    /// What the database said.
    pub async fn held(&self) -> Fallible<Vec<String>> {
        match self {
            Self::Postgres(place) => place.held().await,
            Self::Mariadb(place) => place.held().await,
            Self::Sqlite(place) => place.held(),
        }
    }

    /// Connections of the relay of this name.
    pub async fn connections(&self, name: &str) -> u64 {
        match self {
            Self::Postgres(place) => place.connections(name).await.unwrap_or(0),
            Self::Mariadb(place) => place.connections(name).await.unwrap_or(0),
            Self::Sqlite(_) => 0,
        }
    }

    /// Everything, when nobody writes any more.
    ///
    /// # Errors
    /// What the database said.
    pub async fn books(&self) -> Fallible<Books> {
        match self {
            Self::Postgres(place) => place.books().await,
            Self::Mariadb(place) => place.books().await,
            Self::Sqlite(place) => place.books(),
        }
    }

    /// Locks the outbox for a while.
    ///
    /// # Errors
    /// When the lock was not to be had, or what the database said.
    pub async fn lock(&self, lasts: Duration) -> Fallible<()> {
        match self {
            Self::Postgres(place) => place.lock(lasts).await,
            Self::Mariadb(place) => place.lock(lasts).await,
            Self::Sqlite(place) => place.lock(lasts).await,
        }
    }

    /// What stands between the application and the server, where there is a server.
    pub fn writers(&self) -> Option<&Proxy> {
        match self {
            Self::Postgres(place) => Some(place.writers()),
            Self::Mariadb(place) => Some(place.writers()),
            Self::Sqlite(_) => None,
        }
    }

    /// Ends the server at once.
    pub async fn kill(&self) {
        match self {
            Self::Postgres(place) => place.server().lock().await.kill9(),
            Self::Mariadb(place) => place.server().lock().await.kill9(),
            Self::Sqlite(_) => {}
        }
    }

    /// Stops the server in good order.
    pub async fn stop(&self) {
        match self {
            Self::Postgres(place) => place.server().lock().await.stop(),
            Self::Mariadb(place) => place.server().lock().await.stop(),
            Self::Sqlite(_) => {}
        }
    }

    /// Starts the server again with its data.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart(&self, numbers: Numbers) -> Fallible<()> {
        match self {
            Self::Postgres(place) => Ok(place.server().lock().await.restart().await?),
            Self::Mariadb(place) => place.restart(numbers).await,
            Self::Sqlite(_) => Ok(()),
        }
    }

    /// Ends a third of the relays' sessions from within the server.
    ///
    /// # Errors
    /// While the server is away.
    pub async fn terminate_backends(&self, draw: u64) -> Fallible<()> {
        match self {
            Self::Postgres(place) => place.terminate_backends(draw).await,
            Self::Mariadb(place) => place.kill_sessions(draw).await,
            Self::Sqlite(_) => Ok(()),
        }
    }

    /// Provokes deadlocks with the relays for a while; in how many rounds there was one, in which a settle was undone.
    ///
    /// # Errors
    /// While the server is away.
    pub async fn deadlock(&self, lasts: Duration) -> Fallible<u64> {
        match self {
            Self::Mariadb(place) => place.deadlock(lasts).await,
            Self::Postgres(_) | Self::Sqlite(_) => Ok(0),
        }
    }
}
