//! One connection, opened when it is needed and dropped at the first doubt.
//!
//! While a statement runs, the connection is out of its place: a call that is cancelled, times out or fails takes the
//! connection with it, and the next call opens a new one. What was not committed on it is undone by the server.
//!
//! Every statement reads what is committed when it begins (READ COMMITTED), and none leaves a lock on what it did not
//! find.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, DriverError, OptsBuilder, Params, Row, SslOpts};
use postrider_core::{Error, ErrorKind, Result};

use super::classify::{connecting, is_deadlock, is_lock_wait, silent, working};
use super::columns::Columns;
use super::dialect::Dialect;
use super::holders;
use super::options::MysqlOptions;
use crate::Encryption;

const CONNECT: Duration = Duration::from_secs(10);
/// How long an error may take to say who holds a lock.
const ASKING: Duration = Duration::from_secs(3);

/// What every session is like, whatever the server's defaults are: a time zone means nothing to integers, but much to
/// whoever reads an error of the server; a text is never cut down.
const SESSION: &str = "\
set session sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', autocommit = 1,
  sql_safe_updates = 0, sql_big_selects = 1, sql_select_limit = default, completion_type = 'NO_CHAIN', innodb_lock_wait_timeout = <wait>, lock_wait_timeout = <wait>";
const ISOLATION: &str = "set session transaction isolation level read committed, read write";
const SERVER: &str = "select version() as version, @@max_allowed_packet as packet";

/// A connection and what is known of its server.
pub(super) struct Open {
    conn: Conn,
    dialect: Dialect,
    /// The most bytes that the server sends as one row.
    packet: usize,
}

/// A connection of our own that mends itself.
pub(super) struct Link {
    options: Arc<MysqlOptions>,
    tls: Option<SslOpts>,
    open: Option<Open>,
    generation: u64,
    /// The server's number of the connection that was taken last.
    connection: u32,
    /// Whether the last error was a deadlock, which the server ended by undoing the transaction.
    deadlocked: AtomicBool,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("place", &self.options.place).field("open", &self.open.is_some()).finish()
    }
}

impl Link {
    pub(super) fn new(options: &Arc<MysqlOptions>, tls: &Option<SslOpts>) -> Self {
        Self {
            options: Arc::clone(options),
            tls: tls.clone(),
            open: None,
            generation: 0,
            connection: 0,
            deadlocked: AtomicBool::new(false),
        }
    }

    pub(super) fn options(&self) -> &MysqlOptions {
        &self.options
    }

    /// The number of the connection that stands; none when none does, as far as is known.
    pub(super) fn standing(&self) -> Option<u64> {
        self.open.as_ref().map(|_| self.generation)
    }

    /// Whether the last error was a deadlock; asked once.
    pub(super) fn met_deadlock(&self) -> bool {
        self.deadlocked.swap(false, Ordering::Relaxed)
    }

    /// Which server is at the other end.
    pub(super) async fn dialect(&mut self) -> Result<Dialect> {
        let open = self.take().await?;
        let dialect = open.dialect;
        self.open = Some(open);
        Ok(dialect)
    }

    /// The most bytes that the server at the other end sends as one row.
    pub(super) async fn packet(&mut self) -> Result<usize> {
        let open = self.take().await?;
        let packet = open.packet;
        self.open = Some(open);
        Ok(packet)
    }

    /// Runs one statement, prepared, and returns its rows.
    pub(super) async fn query(&mut self, doing: &str, sql: &str, params: impl Into<Params> + Send) -> Result<Vec<Row>> {
        let mut open = self.take().await?;
        let rows = self.within(doing, open.conn.exec(sql, params.into())).await?;
        self.open = Some(open);
        Ok(rows)
    }

    /// Runs one statement as it stands, for lists of numbers that are another one each time.
    pub(super) async fn text(&mut self, doing: &str, sql: &str) -> Result<Vec<Row>> {
        let mut open = self.take().await?;
        let rows = self.within(doing, open.conn.query(sql)).await?;
        self.open = Some(open);
        Ok(rows)
    }

    /// Runs one statement as it stands and sees what is not committed.
    pub(super) async fn uncommitted(&mut self, doing: &str, sql: &str) -> Result<Vec<Row>> {
        let mut open = self.take().await?;
        // For the next transaction only, which is the statement.
        self.within(doing, open.conn.query_drop("set transaction isolation level read uncommitted")).await?;
        let rows = self.within(doing, open.conn.query(sql)).await?;
        self.open = Some(open);
        Ok(rows)
    }

    /// Runs one statement and returns its only row.
    pub(super) async fn query_one(
        &mut self,
        doing: &str,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> Result<Columns> {
        let mut rows = self.query(doing, sql, params).await?;
        match (rows.pop(), rows.is_empty()) {
            (Some(row), true) => Ok(Columns::new(row)),
            _ => Err(Error::new(ErrorKind::Config, format!("{doing}: expected one row; run `postrider check`"))),
        }
    }

    /// Runs one statement and returns how many rows it matched.
    pub(super) async fn execute(&mut self, doing: &str, sql: &str, params: impl Into<Params> + Send) -> Result<u64> {
        let mut open = self.take().await?;
        self.within(doing, open.conn.exec_drop(sql, params.into())).await?;
        let matched = open.conn.affected_rows();
        self.open = Some(open);
        Ok(matched)
    }

    /// Runs one statement as it stands, for lists of numbers, and returns how many rows it matched.
    pub(super) async fn execute_text(&mut self, doing: &str, sql: &str) -> Result<u64> {
        let mut open = self.take().await?;
        self.within(doing, open.conn.query_drop(sql)).await?;
        let matched = open.conn.affected_rows();
        self.open = Some(open);
        Ok(matched)
    }

    /// Runs one statement as it stands that defines something.
    pub(super) async fn define(&mut self, doing: &str, sql: &str) -> Result<()> {
        let mut open = self.take().await?;
        self.within(doing, open.conn.query_drop(sql)).await?;
        self.open = Some(open);
        Ok(())
    }

    /// Begins a transaction; one that is dropped before its commit is undone.
    pub(super) async fn begin(&mut self, doing: &'static str) -> Result<Work<'_>> {
        let stood = self.open.is_some();
        let mut open = self.take().await?;
        let begun = self.within(doing, open.conn.query_drop("start transaction")).await;
        match begun {
            Ok(()) => Ok(Work { link: self, open, doing }),
            // It was closed while nobody used it, and nothing was asked of the server yet.
            Err(error) if stood && error.kind() == ErrorKind::Unknown => {
                let mut open = self.take().await?;
                self.within(doing, open.conn.query_drop("start transaction")).await?;
                Ok(Work { link: self, open, doing })
            }
            Err(error) => Err(error),
        }
    }

    async fn take(&mut self) -> Result<Open> {
        match self.open.take() {
            Some(open) => Ok(open),
            None => {
                let open = self.connect().await?;
                self.generation += 1;
                self.connection = open.conn.id();
                Ok(open)
            }
        }
    }

    async fn within<T>(&self, doing: &str, call: impl Future<Output = mysql_async::Result<T>>) -> Result<T> {
        let limit = self.options.timeout;
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.failed(doing, error).await),
            Err(_) => Err(timed_out(doing, limit)),
        }
    }

    /// What a failed statement means. Who holds a lock is asked on another connection: that of the statement is in doubt.
    async fn failed(&self, doing: &str, error: mysql_async::Error) -> Error {
        self.deadlocked.store(is_deadlock(&error), Ordering::Relaxed);
        let asks = self.options.lock_wait.is_some() && is_lock_wait(&error);
        let plain = working(doing, &error);
        if !asks {
            return plain;
        }
        let asking = async {
            let mut open = self.connect().await.ok()?;
            Some(holders::locked(&mut open.conn, open.dialect, self.connection, doing).await)
        };
        tokio::time::timeout(ASKING, asking).await.ok().flatten().unwrap_or(plain)
    }

    async fn connect(&self) -> Result<Open> {
        let encrypted = OptsBuilder::from_opts(self.options.opts.clone()).ssl_opts(self.tls.clone());
        let mut conn = match tokio::time::timeout(CONNECT, Conn::new(encrypted)).await {
            Err(_) => return Err(silent(&self.options.place)),
            Ok(Err(mysql_async::Error::Driver(DriverError::NoClientSslFlagFromServer)))
                if self.options.encryption == Encryption::Preferred =>
            {
                let plain = OptsBuilder::from_opts(self.options.opts.clone()).ssl_opts(None::<SslOpts>);
                match tokio::time::timeout(CONNECT, Conn::new(plain)).await {
                    Err(_) => return Err(silent(&self.options.place)),
                    Ok(connected) => connected.map_err(|error| connecting(&self.options.place, &error))?,
                }
            }
            Ok(connected) => connected.map_err(|error| connecting(&self.options.place, &error))?,
        };
        let doing = "preparing the connection";
        let setting = async {
            let wait = self.options.lock_wait.unwrap_or(self.options.timeout).as_secs().max(1);
            conn.query_drop(ISOLATION).await?;
            conn.query_drop(SESSION.replace("<wait>", &wait.to_string())).await?;
            let found: Option<(String, u64)> = conn.query_first(SERVER).await?;
            let (version, packet) = found.unwrap_or_default();
            let dialect = Dialect::read(&version);
            for setting in dialect.settings(self.options.timeout) {
                // What a version does not have yet, or has no more, was only a precaution.
                match conn.query_drop(format!("set session {setting}")).await {
                    Ok(()) => {}
                    Err(mysql_async::Error::Server(told)) => {
                        tracing::debug!(setting, code = told.code, "a setting of the session was refused");
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(Open { dialect, packet: usize::try_from(packet).unwrap_or(usize::MAX), conn })
        };
        match tokio::time::timeout(CONNECT, setting).await {
            Ok(prepared) => prepared.map_err(|error| working(doing, &error)),
            Err(_) => Err(silent(&self.options.place)),
        }
    }
}

/// A transaction.
pub(super) struct Work<'l> {
    link: &'l mut Link,
    open: Open,
    doing: &'static str,
}

impl Work<'_> {
    /// Runs one statement, prepared, and returns its rows.
    pub(super) async fn query(&mut self, sql: &str, params: impl Into<Params> + Send) -> Result<Vec<Row>> {
        undone(self.link.within(self.doing, self.open.conn.exec(sql, params.into())).await)
    }

    /// Runs one statement as it stands and returns its rows.
    pub(super) async fn text(&mut self, sql: &str) -> Result<Vec<Row>> {
        undone(self.link.within(self.doing, self.open.conn.query(sql)).await)
    }

    /// Runs one statement, prepared, and returns how many rows it matched.
    pub(super) async fn execute(&mut self, sql: &str, params: impl Into<Params> + Send) -> Result<u64> {
        undone(self.link.within(self.doing, self.open.conn.exec_drop(sql, params.into())).await)?;
        Ok(self.open.conn.affected_rows())
    }

    /// Runs one statement as it stands and returns how many rows it matched.
    pub(super) async fn execute_text(&mut self, sql: &str) -> Result<u64> {
        undone(self.link.within(self.doing, self.open.conn.query_drop(sql)).await)?;
        Ok(self.open.conn.affected_rows())
    }

    /// Undoes what was done and gives the connection back.
    pub(super) async fn undo(mut self) -> Result<()> {
        self.link.within(self.doing, self.open.conn.query_drop("rollback")).await?;
        self.link.open = Some(self.open);
        Ok(())
    }

    /// Commits. An error here is of kind `Unknown` unless the server said that it undid everything: it may have been done.
    pub(super) async fn commit(mut self) -> Result<()> {
        let limit = self.link.options.timeout;
        match tokio::time::timeout(limit, self.open.conn.query_drop("commit")).await {
            Ok(Ok(())) => {
                self.link.open = Some(self.open);
                Ok(())
            }
            Ok(Err(error @ mysql_async::Error::Server(_))) => Err(working(self.doing, &error)),
            Ok(Err(error)) => {
                let what =
                    format!("{}: the connection was lost at the commit and the outcome is not known", self.doing);
                Err(Error::new(ErrorKind::Unknown, what).because(error))
            }
            Err(_) => Err(timed_out(self.doing, limit)),
        }
    }
}

/// What fails before the commit was asked for is undone by the server, however it failed: nothing was changed.
fn undone<T>(done: Result<T>) -> Result<T> {
    done.map_err(|error| match error.kind() {
        ErrorKind::Unknown => {
            let what = "the transaction was not committed, and nothing of it is kept";
            Error::new(ErrorKind::Unavailable, what).because(error)
        }
        _ => error,
    })
}

fn timed_out(doing: &str, limit: Duration) -> Error {
    let what = format!("{doing}: the server did not answer within {limit:?}; the outcome is not known");
    Error::new(ErrorKind::Unknown, what)
}
