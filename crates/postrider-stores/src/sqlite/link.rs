//! One connection, off the async threads.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_core::{Error, ErrorKind, Result, Timestamp};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Params, Row};

use super::SqliteOptions;
use super::fault::classify;

/// How long a statement waits for the write lock.
const BUSY: Duration = Duration::from_secs(5);
/// A writer that goes on at once leaves the lock for some ten microseconds; at this pace one of them is met soon.
const BETWEEN_TRIES: Duration = Duration::from_micros(500);

/// What a connection may do and what its commits are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Reads only.
    Reading,
    /// Writes what can be lost in a power failure at the price of a repeat: a commit does not wait for the disk.
    Settling,
    /// Writes what must not be lost.
    Writing,
}

/// A connection that is opened when it is needed, and again after an error.
///
/// While a call runs, the connection is away with it: a call that is cancelled takes its connection along.
#[derive(Debug)]
pub(super) struct Link {
    options: Arc<SqliteOptions>,
    used_for: Use,
    connection: Option<Connection>,
    opened: u64,
}

impl Link {
    pub(super) fn new(options: Arc<SqliteOptions>, used_for: Use) -> Self {
        Self { options, used_for, connection: None, opened: 0 }
    }

    /// How many connections there have been, the present one included.
    pub(super) fn opened(&self) -> u64 {
        self.opened
    }

    /// Runs `work` on a thread for blocking calls.
    pub(super) async fn run<T, F>(&mut self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Session<'_>) -> Result<T> + Send + 'static,
    {
        self.run_within(Duration::MAX, work).await
    }

    /// Runs `work` as [`run`](Self::run) does, and interrupts its statement after `limit`.
    pub(super) async fn run_within<T, F>(&mut self, limit: Duration, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Session<'_>) -> Result<T> + Send + 'static,
    {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.open().await?,
        };
        let options = Arc::clone(&self.options);
        let interrupt = connection.get_interrupt_handle();
        let mut task = tokio::task::spawn_blocking(move || {
            let answer = work(&mut Session { options: &options, connection: &mut connection });
            (connection, answer)
        });
        let joined = tokio::select! {
            joined = &mut task => joined,
            () = tokio::time::sleep(limit) => {
                interrupt.interrupt();
                task.await
            }
        };
        let (connection, answer) =
            joined.map_err(|error| Error::new(ErrorKind::Unknown, "a call to SQLite broke off").because(error))?;
        self.connection = answer.is_ok().then_some(connection);
        answer
    }

    async fn open(&mut self) -> Result<Connection> {
        let (options, used_for) = (Arc::clone(&self.options), self.used_for);
        let opened = tokio::task::spawn_blocking(move || open(&options, used_for)).await;
        let connection =
            opened.map_err(|error| Error::new(ErrorKind::Unknown, "opening SQLite broke off").because(error))??;
        self.opened += 1;
        Ok(connection)
    }
}

/// Opens the file, which must be there.
fn open(options: &SqliteOptions, used_for: Use) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    connect(options, flags).and_then(|connection| {
        let pragmas = match used_for {
            Use::Reading => "pragma query_only = on",
            Use::Settling => "pragma synchronous = normal",
            Use::Writing => "pragma synchronous = full",
        };
        connection.execute_batch(pragmas).map_err(|error| classify(options, "opening the store", error))?;
        Ok(connection)
    })
}

/// Waits for another writer: SQLite's own handler sleeps up to 100 ms between two tries, so that an application which
/// writes without a pause keeps a lease from being renewed for seconds.
fn wait_for_the_lock(tries: i32) -> bool {
    thread_local!(static SINCE: Cell<Instant> = Cell::new(Instant::now()));
    if tries == 0 {
        SINCE.set(Instant::now());
    }
    std::thread::sleep(BETWEEN_TRIES);
    SINCE.get().elapsed() < BUSY
}

/// Opens the file with these flags and the busy handler.
pub(super) fn connect(options: &SqliteOptions, flags: OpenFlags) -> Result<Connection> {
    let failed = |error| classify(options, "opening the store", error);
    let connection = Connection::open_with_flags(options.file(), flags).map_err(failed)?;
    connection.busy_handler(Some(wait_for_the_lock)).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// A connection in use, with the options that its statements and errors need.
#[derive(Debug)]
pub(super) struct Session<'c> {
    pub(super) options: &'c SqliteOptions,
    pub(super) connection: &'c mut Connection,
}

impl Session<'_> {
    /// Runs `work` in one transaction that sees one state of the database.
    pub(super) fn reading<T>(&mut self, doing: &str, work: impl FnOnce(&Statements<'_>) -> Done<T>) -> Result<T> {
        self.transaction("begin", doing, work)
    }

    /// Runs `work` in one transaction that holds the write lock from its beginning.
    pub(super) fn writing<T>(&mut self, doing: &str, work: impl FnOnce(&Statements<'_>) -> Done<T>) -> Result<T> {
        self.transaction("begin immediate", doing, work)
    }

    fn transaction<T>(&mut self, begin: &str, doing: &str, work: impl FnOnce(&Statements<'_>) -> Done<T>) -> Result<T> {
        let statements = Statements { options: self.options, connection: self.connection };
        let run = || -> Done<T> {
            statements.connection.execute_batch(begin)?;
            let value = work(&statements)?;
            #[cfg(feature = "failpoints")]
            before_commit(doing)?;
            statements.connection.execute_batch("commit")?;
            Ok(value)
        };
        run().map_err(|error| {
            if !statements.connection.is_autocommit() {
                // The connection is dropped after an error, which rolls back as well.
                drop(statements.connection.execute_batch("rollback"));
            }
            classify(self.options, doing, error)
        })
    }
}

/// Where a test makes a transaction hang or fail.
#[cfg(feature = "failpoints")]
fn before_commit(doing: &str) -> Done<()> {
    use crate::points::{Fault, before_commit};
    match before_commit(doing) {
        None | Some(Fault::Abort) => Ok(()),
        Some(Fault::Delay(time)) => {
            std::thread::sleep(time);
            Ok(())
        }
        Some(Fault::Error) => {
            let error = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR);
            Err(rusqlite::Error::SqliteFailure(error, Some("failpoint".to_owned())))
        }
    }
}

/// A number that changes whenever another connection commits. It means nothing on any other connection.
pub(super) fn data_version(session: &mut Session<'_>) -> Result<i64> {
    let read = || session.connection.prepare_cached("pragma data_version")?.query_row([], |row| row.get(0));
    read().map_err(|error| classify(session.options, "looking for new messages", error))
}

/// A result as SQLite gives it, not yet classified.
pub(super) type Done<T> = rusqlite::Result<T>;

/// Prepared statements of a connection; `{p}` in their text is the prefix of the tables.
#[derive(Debug)]
pub(super) struct Statements<'c> {
    pub(super) options: &'c SqliteOptions,
    pub(super) connection: &'c Connection,
}

impl Statements<'_> {
    /// Runs a statement and says how many rows it changed.
    pub(super) fn execute(&self, sql: &str, params: impl Params) -> Done<usize> {
        self.connection.prepare_cached(&self.options.prefix.sql(sql))?.execute(params)
    }

    /// Every row of a query.
    pub(super) fn all<T>(&self, sql: &str, params: impl Params, read: impl FnMut(&Row<'_>) -> Done<T>) -> Done<Vec<T>> {
        self.connection.prepare_cached(&self.options.prefix.sql(sql))?.query_map(params, read)?.collect()
    }

    /// Looks at the rows of a query until `look` says no; whether it never did.
    pub(super) fn each(
        &self,
        sql: &str,
        params: impl Params,
        mut look: impl FnMut(&Row<'_>) -> Done<bool>,
    ) -> Done<bool> {
        let mut statement = self.connection.prepare_cached(&self.options.prefix.sql(sql))?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            if !look(row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The first row of a query, if there is one.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Done<T>,
    ) -> Done<Option<T>> {
        self.connection.prepare_cached(&self.options.prefix.sql(sql))?.query_row(params, read).optional()
    }

    /// The database's clock: that of the machine it runs on, which is this one.
    pub(super) fn now(&self) -> Done<Timestamp> {
        const NOW: &str = "select cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000";
        self.first(NOW, [], |row| row.get(0)).map(|now| Timestamp(now.unwrap_or(0)))
    }
}
