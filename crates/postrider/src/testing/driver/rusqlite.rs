//! rusqlite, synchronous.

use postrider_core::{Error, ErrorKind, Message};
use rusqlite::{Connection, Row, Savepoint, Transaction};

use super::parts::{self, Parts};
use super::reading::Reading;
use crate::outbox::Outbox;
use crate::testing::Enqueued;

impl Enqueued for &Connection {
    type Answer = Result<Vec<Message>, Error>;

    fn enqueued(self, outbox: &Outbox) -> Self::Answer {
        let reading = Reading::sqlite(outbox);
        let failed = |error: rusqlite::Error| reading.failed(ErrorKind::Config).because(error);
        let mut statement = self.prepare(&reading.sql).map_err(failed)?;
        let rows = statement.query_map((), columns).map_err(failed)?;
        rows.map(|row| parts::message(row.map_err(failed)?)).collect()
    }
}

impl Enqueued for &Transaction<'_> {
    type Answer = Result<Vec<Message>, Error>;

    fn enqueued(self, outbox: &Outbox) -> Self::Answer {
        <&Connection as Enqueued>::enqueued(self, outbox)
    }
}

impl Enqueued for &Savepoint<'_> {
    type Answer = Result<Vec<Message>, Error>;

    fn enqueued(self, outbox: &Outbox) -> Self::Answer {
        <&Connection as Enqueued>::enqueued(self, outbox)
    }
}

fn columns(row: &Row<'_>) -> rusqlite::Result<Parts> {
    Ok((
        row.get(0)?,
        row.get(1)?,
        row.get(2)?,
        row.get(3)?,
        row.get(4)?,
        row.get(5)?,
        row.get(6)?,
        row.get(7)?,
        row.get(8)?,
        row.get(9)?,
    ))
}
