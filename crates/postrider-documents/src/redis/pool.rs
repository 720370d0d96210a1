//! A few connections, opened when they are needed and dropped at the first doubt.
//!
//! While a call runs, its connection is out of the pool: one that is dropped, times out or fails takes it along. So no answer
//! is ever taken for that to another call, and nothing is sent twice.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postrider_core::Result;
use redis::{FromRedisValue, Pipeline, RedisError};
use rustls::ClientConfig;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::classify::{unanswered, unconnected, working};
use super::connection::Connection;
use super::options::{Encryption, RedisOptions};
use crate::authorities::verifying;
use crate::doing::Doing;

/// The connections to one server.
pub(super) struct Pool {
    pub(super) options: RedisOptions,
    tls: Option<Arc<ClientConfig>>,
    room: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

/// A connection in use, until the time of its call is over.
pub(super) struct Lent<'p> {
    pool: &'p Pool,
    connection: Connection,
    deadline: Instant,
    _room: SemaphorePermit<'p>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Pool {
    pub(super) fn new(options: RedisOptions) -> Result<Self> {
        let tls = match &options.encryption {
            Encryption::Disabled => None,
            Encryption::Verified(file) => Some(Arc::new(verifying("ca_file", file.as_deref())?)),
        };
        let room = Semaphore::new(options.connections);
        Ok(Self { options, tls, room, idle: Mutex::default() })
    }

    /// A connection for one call, whose time begins now.
    pub(super) async fn lend(&self) -> Result<Lent<'_>> {
        let deadline = Instant::now() + self.options.timeout;
        let lending = async {
            let room = self.room.acquire().await.map_err(|_| unconnected(&self.options))?;
            let standing = {
                let mut idle = self.idle();
                idle.retain(|connection| !connection.is_closed());
                idle.pop()
            };
            let connection = match standing {
                Some(connection) => connection,
                None => Connection::open(&self.options, self.tls.as_ref()).await?,
            };
            Ok(Lent { pool: self, connection, deadline, _room: room })
        };
        timeout_at(deadline, lending).await.unwrap_or_else(|_| Err(unconnected(&self.options)))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lent<'_> {
    /// What the server calls itself, with its version.
    pub(super) fn server(&self) -> &str {
        &self.connection.server
    }

    /// Asks, and has what the server answers or what it refuses with.
    ///
    /// # Errors
    /// When there is no answer.
    pub(super) async fn answer<T: FromRedisValue>(
        &mut self,
        doing: Doing,
        asked: &Pipeline,
    ) -> Result<std::result::Result<T, RedisError>> {
        let answer = timeout_at(self.deadline, asked.query_async(&mut self.connection.client)).await;
        let lost = match answer {
            Ok(Err(error)) if error.code().is_none() => working(doing, &self.pool.options, &error),
            Ok(answer) => return Ok(answer),
            Err(_) => unanswered(doing, &self.pool.options),
        };
        // What ended one connection has most likely ended the others.
        self.pool.idle().clear();
        Err(lost)
    }

    /// Asks, and has what the server answers.
    ///
    /// # Errors
    /// When there is no answer, or it is a refusal.
    pub(super) async fn ask<T: FromRedisValue>(&mut self, doing: Doing, asked: &Pipeline) -> Result<T> {
        self.answer(doing, asked).await?.map_err(|error| working(doing, &self.pool.options, &error))
    }

    /// Gives the connection to the next call. One that is not given back is closed.
    pub(super) fn give_back(self) {
        self.pool.idle().push(self.connection);
    }
}
