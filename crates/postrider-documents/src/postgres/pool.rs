//! A few connections, opened when they are needed and dropped at the first doubt.
//!
//! While a statement runs, its connection is out of the pool: a call that is dropped, times out or fails takes it along.
//! Statements are unnamed, so that nothing of them stays behind in the server connection of a pooler.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use postrider_core::Result;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::tls::TlsStream;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Connection, NoTls, Row, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::classify::{connecting, unanswered, unconnected, was_overtaken, working};
use super::options::PostgresOptions;
use super::tls;
use crate::doing::Doing;

/// A parameter with its type.
pub(super) type Parameter<'p> = (&'p (dyn ToSql + Sync), Type);

/// What a statement came to within its time.
type Answer<T> = Result<Result<T, tokio_postgres::Error>, Elapsed>;

/// A connection in use.
struct Lent<'p> {
    client: Client,
    deadline: Instant,
    _room: SemaphorePermit<'p>,
}

/// The connections to one server.
pub(super) struct Pool {
    pub(super) options: PostgresOptions,
    tls: Option<MakeRustlsConnect>,
    room: Semaphore,
    idle: Mutex<Vec<Client>>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("place", &self.options.place()).finish_non_exhaustive()
    }
}

impl Pool {
    pub(super) fn new(options: PostgresOptions) -> Result<Self> {
        let (tls, room) = (tls::connector(&options.encryption)?, Semaphore::new(options.connections));
        Ok(Self { options, tls, room, idle: Mutex::default() })
    }

    /// Runs one statement and returns its rows.
    pub(super) async fn query(&self, doing: Doing, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>> {
        let lent = self.lend().await?;
        let answer = timeout_at(lent.deadline, lent.client.query_typed(sql, parameters)).await;
        self.take_back(doing, lent, answer)
    }

    /// Runs one statement and tells whether it changed a row. One that somebody else's transaction overtook changed none.
    pub(super) async fn change(&self, doing: Doing, sql: &str, parameters: &[Parameter<'_>]) -> Result<bool> {
        let lent = self.lend().await?;
        let answer = match timeout_at(lent.deadline, lent.client.execute_typed(sql, parameters)).await {
            Ok(Err(error)) if was_overtaken(&error) => Ok(Ok(0)),
            answer => answer,
        };
        Ok(self.take_back(doing, lent, answer)? > 0)
    }

    /// Runs statements without parameters in one transaction.
    pub(super) async fn script(&self, doing: Doing, sql: &str) -> Result<()> {
        let lent = self.lend().await?;
        let answer = timeout_at(lent.deadline, lent.client.batch_execute(sql)).await;
        self.take_back(doing, lent, answer)
    }

    async fn lend(&self) -> Result<Lent<'_>> {
        let deadline = Instant::now() + self.options.timeout;
        let lending = async {
            let room = self.room.acquire().await.map_err(|_| unconnected(&self.options))?;
            let standing = {
                let mut idle = self.idle();
                idle.retain(|client| !client.is_closed());
                idle.pop()
            };
            let client = match standing {
                Some(client) => client,
                None => self.connect().await.map_err(|error| connecting(&self.options, &error))?,
            };
            Ok(Lent { client, deadline, _room: room })
        };
        timeout_at(deadline, lending).await.unwrap_or_else(|_| Err(unconnected(&self.options)))
    }

    fn take_back<T>(&self, doing: Doing, lent: Lent<'_>, answer: Answer<T>) -> Result<T> {
        match answer {
            Ok(Ok(value)) => {
                self.idle().push(lent.client);
                Ok(value)
            }
            Ok(Err(error)) => {
                if error.as_db_error().is_none() {
                    // What ended one connection has most likely ended the others.
                    self.idle().clear();
                }
                Err(working(doing, &self.options, &error))
            }
            Err(_) => {
                self.idle().clear();
                Err(unanswered(doing, &self.options))
            }
        }
    }

    async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        match &self.tls {
            None => self.options.config.connect(NoTls).await.map(driven),
            Some(tls) => self.options.config.connect(tls.clone()).await.map(driven),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client of a connection, which is driven until either side ends it.
fn driven<S>((client, connection): (Client, Connection<Socket, S>)) -> Client
where
    S: TlsStream + Unpin + Send + 'static,
{
    // Whoever waits for an answer on it is told why it ended.
    tokio::spawn(async move { drop(connection.await) });
    client
}
