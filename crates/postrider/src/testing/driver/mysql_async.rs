//! mysql_async.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Pool, Transaction};
use postrider_core::{Error, ErrorKind, Message};

use super::parts::{self, Parts};
use super::reading::Reading;
use crate::driver::Answering;
use crate::outbox::Outbox;
use crate::testing::Enqueued;

impl<'t> Enqueued for &'t Pool {
    type Answer = Answering<'t, Vec<Message>, Error>;

    fn enqueued(self, outbox: &Outbox) -> Self::Answer {
        let reading = Reading::mysql(outbox);
        Box::pin(async move {
            let mut connection = self.get_conn().await.map_err(|error| failed(&reading, error))?;
            read(&mut connection, reading).await
        })
    }
}

impl<'t> Enqueued for &'t mut Conn {
    type Answer = Answering<'t, Vec<Message>, Error>;

    fn enqueued(self, outbox: &Outbox) -> Self::Answer {
        Box::pin(read(self, Reading::mysql(outbox)))
    }
}

impl<'t> Enqueued for &'t mut Transaction<'_> {
    type Answer = Answering<'t, Vec<Message>, Error>;

    fn enqueued(self, outbox: &Outbox) -> Self::Answer {
        Box::pin(read(self, Reading::mysql(outbox)))
    }
}

async fn read(from: &mut impl Queryable, reading: Reading) -> Result<Vec<Message>, Error> {
    let rows = from.query::<Parts, _>(&*reading.sql).await.map_err(|error| failed(&reading, error))?;
    rows.into_iter().map(parts::message).collect()
}

fn failed(reading: &Reading, error: mysql_async::Error) -> Error {
    let kind = if matches!(error, mysql_async::Error::Server(_)) { ErrorKind::Config } else { ErrorKind::Unavailable };
    reading.failed(kind).because(error)
}
