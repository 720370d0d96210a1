//! diesel-async: a connection inside `connection.transaction(..)`.

use diesel_async::{AsyncConnection, TransactionManager};

use super::Answering;
use super::diesel::{DieselBackend, inside};
use crate::batch::Batch;
use crate::enqueue::Enqueue;
use crate::error::EnqueueError;
use crate::inbox::{Inbox, InboxError};
use crate::outbox::Outbox;
use crate::question::Question;
use crate::receive::Receive;

/// A connection of diesel-async inside `connection.transaction(..)`, to enqueue in.
///
/// Any connection whose backend is PostgreSQL, MySQL or SQLite, pooled ones too; the backend's own feature of this crate
/// (`diesel-postgres`, `diesel-mysql`, `diesel-sqlite`) must be on beside `diesel-async`. That a transaction is open is
/// looked at when a message is enqueued: without one the answer is [`EnqueueError::OutsideTransaction`], and nothing is
/// written.
///
/// ```ignore
/// connection
///     .transaction(async |tx| {
///         diesel::insert_into(orders::table).values(&order).execute(tx).await?;
///         outbox.enqueue(DieselAsync(tx), Message::json("orders.placed", &order)?.key(order.id)).await?;
///         Ok::<_, Failure>(())
///     })
///     .await?;
/// ```
#[derive(Debug)]
pub struct DieselAsync<'c, C>(pub &'c mut C);

impl<'c, C> Enqueue for DieselAsync<'c, C>
where
    C: AsyncConnection,
    C::Backend: DieselBackend,
{
    type Answer<R: Send + 'static> = Answering<'c, R, EnqueueError>;

    fn write<R: Send + 'static>(self, outbox: &Outbox, batch: Result<Batch<R>, EnqueueError>) -> Self::Answer<R> {
        let outbox = outbox.clone();
        Box::pin(async move {
            let Batch { messages, ids } = batch?;
            let status = <C::TransactionManager as TransactionManager<C>>::transaction_manager_status_mut(self.0);
            inside(status.transaction_depth(), EnqueueError::OutsideTransaction)?;
            for rows in messages.chunks(C::Backend::ROWS) {
                C::Backend::insert_async(self.0, &outbox, rows).await?;
            }
            Ok(ids)
        })
    }
}

impl<'c, C> Receive for DieselAsync<'c, C>
where
    C: AsyncConnection,
    C::Backend: DieselBackend,
{
    type Received<R: Send + 'static> = Answering<'c, R, InboxError>;

    fn ask<Q: Question>(self, inbox: &Inbox, question: Result<Q, InboxError>) -> Self::Received<Q::Answer> {
        let inbox = inbox.clone();
        Box::pin(async move {
            let question = question?;
            let status = <C::TransactionManager as TransactionManager<C>>::transaction_manager_status_mut(self.0);
            inside(status.transaction_depth(), InboxError::OutsideTransaction)?;
            C::Backend::ask_async(self.0, &inbox, question).await
        })
    }
}
