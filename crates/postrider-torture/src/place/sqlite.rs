//! SQLite: a file, a ledger beside the outbox, and a trigger that writes down what leaves it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use uuid::Uuid;

use super::store::{Books, Gone, Look, Owned};
use crate::Fallible;

/// SQLite has no lane in the row and no sessions: the trigger keeps the terms of all lanes.
const SETUP: &str = "
create table torture_counter (key text primary key, n integer not null) without rowid;
create table torture_ledger (message_id text primary key, key text not null, n integer not null) without rowid;
create table torture_member (id text primary key, name text not null) without rowid;
create table torture_gone (message_id text, state integer, terms text, at integer);
create trigger torture_joined after insert on postrider_relay begin
  insert or ignore into torture_member values (new.id, new.name);
end;
create trigger torture_gone after delete on postrider_outbox begin
  insert into torture_gone
  select old.message_id, old.state, (select group_concat(lane || ':' || term) from postrider_lane),
         cast(unixepoch('subsec') * 1000000 as integer);
end;";
const COUNT: &str = "select count(*) filter (where state not in (1, 3)), count(*) filter (where state in (1, 3)), \
    count(*) filter (where state = 3) from postrider_outbox";
const HELD: &str = "select distinct key from postrider_outbox where state = 3";
const LANES: &str = "select l.lane, l.term, m.name from postrider_lane l left join torture_member m on m.id = l.owner";

/// The file.
#[derive(Debug)]
pub struct SqlitePlace {
    file: PathBuf,
}

impl SqlitePlace {
    /// A file with an outbox.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn start(folder: &Path) -> Fallible<Self> {
        let file = folder.join("application.db");
        let connection = Connection::open(&file)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        postrider::migrate(&connection)?;
        connection.execute_batch(SETUP)?;
        Ok(Self { file })
    }

    /// Where it is.
    pub fn file(&self) -> PathBuf {
        self.file.clone()
    }

    fn reader(&self) -> Fallible<Connection> {
        let connection = Connection::open_with_flags(&self.file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        Ok(connection)
    }

    /// One look.
    ///
    /// # Errors
    /// What SQLite said.
    pub fn look(&self) -> Fallible<Look> {
        let connection = self.reader()?;
        let counts = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let (pending, dead, holding): (i64, i64, i64) = connection.query_row(COUNT, [], counts)?;
        let mut statement = connection.prepare(LANES)?;
        let lanes = statement
            .query_map([], |row| Ok(Owned { lane: row.get(0)?, term: row.get(1)?, owner: row.get(2)? }))?
            .collect::<Result<_, _>>()?;
        let bytes = |file: &Path| std::fs::metadata(file).map_or(0, |file| file.len());
        let (table, log) = (bytes(&self.file), bytes(&self.file.with_extension("db-wal")));
        let (pending, dead, holding) = (u64::try_from(pending)?, u64::try_from(dead)?, u64::try_from(holding)?);
        Ok(Look { pending, dead, holding, lanes, idle: 0, table, log })
    }

    /// The keys that are held.
    ///
    /// # Errors
    /// What SQLite said.
    pub fn held(&self) -> Fallible<Vec<String>> {
        let connection = self.reader()?;
        let mut statement = connection.prepare(HELD)?;
        let keys = statement.query_map([], |row| row.get::<_, Option<String>>(0))?;
        Ok(keys.filter_map(Result::transpose).collect::<Result<_, _>>()?)
    }

    /// Holds the one write lock for a while.
    ///
    /// # Errors
    /// When it was not to be had.
    pub async fn lock(&self, lasts: Duration) -> Fallible<()> {
        let connection = Connection::open(&self.file)?;
        connection.busy_timeout(Duration::from_millis(500))?;
        connection.execute_batch("begin immediate")?;
        tokio::time::sleep(lasts).await;
        connection.execute_batch("rollback")?;
        Ok(())
    }

    /// Everything.
    ///
    /// # Errors
    /// What SQLite said.
    pub fn books(&self) -> Fallible<Books> {
        let connection = self.reader()?;
        let mut books = Books::default();
        let mut statement = connection.prepare("select message_id, key, n from torture_ledger")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            books.ledger.push((id(row.get(0)?)?, row.get(1)?, row.get(2)?));
        }
        let mut statement = connection.prepare("select message_id, state, terms, at from torture_gone")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            books.gone.push(Gone {
                id: id(row.get(0)?)?,
                state: row.get(1)?,
                terms: terms(&row.get::<_, String>(2)?),
                by_owner: None,
                by: String::new(),
                wall: row.get::<_, i64>(3)?.into(),
            });
        }
        let mut statement = connection.prepare("select message_id, state, dead_reason from postrider_outbox")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (message, state): (Uuid, i16) = (id(row.get(0)?)?, row.get(1)?);
            match state {
                1 | 3 => books.dead.push((message, row.get::<_, Option<i16>>(2)?.unwrap_or(0))),
                _ => books.pending.push(message),
            }
        }
        Ok(books)
    }
}

fn id(text: String) -> Fallible<Uuid> {
    Ok(Uuid::parse_str(&text)?)
}

fn terms(text: &str) -> Vec<(Option<u16>, i64)> {
    let pair = |pair: &str| {
        let (lane, term) = pair.split_once(':')?;
        Some((lane.parse().ok(), term.parse().ok()?))
    };
    text.split(',').filter_map(pair).collect()
}
