//! The connections to one file, off the async threads.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postrider_core::{Error, ErrorKind, Result};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::sync::Semaphore;

use super::classify::classify;

/// How long a statement waits for the write lock.
const BUSY: Duration = Duration::from_secs(5);
/// SQLite's own handler sleeps up to 100 ms between two tries, and meets a busy writer seldom.
const BETWEEN_TRIES: Duration = Duration::from_micros(500);
/// The most calls at a time: one writes, and the others read or wait for it.
const AT_ONCE: usize = 4;

/// How long a call waits for the calls before it.
const TURN: Duration = Duration::from_secs(10);

/// A result as SQLite gives it, not yet classified.
pub(super) type Done<T> = rusqlite::Result<T>;

/// A file, with the connections to it that are not in use.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    room: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

/// Whether a file that is not there is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Made,
    Refused,
}

impl File {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, room: Arc::new(Semaphore::new(AT_ONCE)), idle: Mutex::default() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` on a thread for blocking calls, to its end, also where the call is dropped.
    pub(super) async fn run<T, F>(self: &Arc<Self>, doing: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Done<T> + Send + 'static,
    {
        self.run_on(Missing::Refused, doing, work).await
    }

    /// As [`run`](Self::run) does, with what is done where there is no file.
    pub(super) async fn run_on<T, F>(self: &Arc<Self>, missing: Missing, doing: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Done<T> + Send + 'static,
    {
        let turn = tokio::time::timeout(TURN, Arc::clone(&self.room).acquire_owned());
        let broken = |error: Box<dyn std::error::Error + Send + Sync>| {
            Error::new(ErrorKind::Unknown, format!("{doing}: a call to SQLite broke off")).because(error)
        };
        let room = turn.await.map_err(|_| self.crowded(doing))?.map_err(|error| broken(error.into()))?;
        let file = Arc::clone(self);
        let running = tokio::task::spawn_blocking(move || {
            let answer = file.with_connection(missing, work);
            drop(room);
            answer.map_err(|error| classify(&file.path, doing, error))
        });
        running.await.map_err(|error| broken(error.into()))?
    }

    fn crowded(&self, doing: &str) -> Error {
        let what = format!("{doing} in {}: the calls before it took longer than {TURN:?}", self.path.display());
        Error::new(ErrorKind::Unavailable, what).advise("look who keeps the file locked (`fuser -v FILE`)")
    }

    /// A connection goes back only after a success.
    fn with_connection<T>(&self, missing: Missing, work: impl FnOnce(&Connection) -> Done<T>) -> Done<T> {
        let standing = self.idle().pop();
        let connection = match standing {
            Some(connection) => connection,
            None => connect(&self.path, missing)?,
        };
        let value = work(&connection)?;
        self.idle().push(connection);
        Ok(value)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn connect(path: &Path, missing: Missing) -> Done<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if missing == Missing::Made {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_handler(Some(wait_for_the_lock))?;
    connection.execute_batch("pragma synchronous = full")?;
    Ok(connection)
}

fn wait_for_the_lock(tries: i32) -> bool {
    thread_local!(static SINCE: std::cell::Cell<Instant> = std::cell::Cell::new(Instant::now()));
    if tries == 0 {
        SINCE.set(Instant::now());
    }
    std::thread::sleep(BETWEEN_TRIES);
    SINCE.get().elapsed() < BUSY
}

/// Switches the file to WAL, after other writers where there are some. SQLite runs no busy handler for it: while another
/// connection writes, it is refused at once.
pub(super) fn switch_to_wal(connection: &Connection) -> Done<()> {
    let began = Instant::now();
    loop {
        match connection.query_row("pragma journal_mode = wal", [], |_| Ok(())) {
            Err(refused) if refused.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && began.elapsed() < BUSY => {
                // Waits as a writer does.
                connection.execute_batch("begin immediate; rollback")?;
                std::thread::sleep(BETWEEN_TRIES);
            }
            answer => return answer,
        }
    }
}
