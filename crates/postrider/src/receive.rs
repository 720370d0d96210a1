//! What a message may be received in.

use crate::inbox::{Inbox, InboxError};
use crate::question::Question;

/// A transaction in which a message may be received: the same that one can be enqueued in, [`Enqueue`](crate::Enqueue).
#[diagnostic::on_unimplemented(
    message = "messages are received inside a transaction, and `{Self}` is not one",
    label = "not a reference to a transaction of an enabled driver",
    note = "begin a transaction, ask the inbox and write the effect through it, then commit it; the driver's feature of \
            `postrider` must be on (such as `sqlx-postgres`, `tokio-postgres`, `mysql_async`, `rusqlite` or `sea-orm`; with \
            diesel hand in `Diesel(connection)` or `DieselAsync(connection)`)"
)]
pub trait Receive: Sized {
    /// What the driver answers with: a future of the result where it is asynchronous, the result where it is not.
    type Received<R: Send + 'static>;

    #[doc(hidden)]
    fn ask<Q: Question>(self, inbox: &Inbox, question: Result<Q, InboxError>) -> Self::Received<Q::Answer>;
}
