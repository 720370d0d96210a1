//! tokio-postgres.

use postrider_core::{Error, ErrorKind, Message};
use tokio_postgres::{Client, GenericClient, Row, Transaction};

use super::parts::{self, Parts};
use super::reading::Reading;
use crate::driver::Answering;
use crate::outbox::Outbox;
use crate::testing::Enqueued;

impl<'t> Enqueued for &'t Client {
    type Answer = Answering<'t, Vec<Message>, Error>;

    fn enqueued(self, outbox: &Outbox) -> Self::Answer {
        Box::pin(read(self, Reading::postgres(outbox)))
    }
}

impl<'t> Enqueued for &'t Transaction<'_> {
    type Answer = Answering<'t, Vec<Message>, Error>;

    fn enqueued(self, outbox: &Outbox) -> Self::Answer {
        Box::pin(read(self, Reading::postgres(outbox)))
    }
}

async fn read(from: &(impl GenericClient + Sync), reading: Reading) -> Result<Vec<Message>, Error> {
    let failed = |error: tokio_postgres::Error| {
        let kind = if error.code().is_some() { ErrorKind::Config } else { ErrorKind::Unavailable };
        reading.failed(kind).because(error)
    };
    let rows = from.query_typed(&reading.sql, &[]).await.map_err(failed)?;
    rows.iter().map(|row| parts::message(columns(row).map_err(failed)?)).collect()
}

fn columns(row: &Row) -> Result<Parts, tokio_postgres::Error> {
    Ok((
        row.try_get(0)?,
        row.try_get(1)?,
        row.try_get(2)?,
        row.try_get(3)?,
        row.try_get(4)?,
        row.try_get(5)?,
        row.try_get(6)?,
        row.try_get(7)?,
        row.try_get(8)?,
        row.try_get(9)?,
    ))
}
