//! What can go wrong when a message is enqueued.

use postrider_core::{Error, Invalid, MessageId};

/// Why messages were not enqueued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// A message breaks a limit or a grammar. Nothing was written, and the transaction can go on.
    #[error("message {id} (number {place} of the call) cannot be enqueued: {reason}")]
    Invalid {
        /// Which message of the call it is, counted from 1.
        place: usize,
        /// Its id.
        id: MessageId,
        /// What is wrong with it.
        reason: Invalid,
    },
    /// No transaction is open, or not any more. Nothing was written.
    #[error(
        "no transaction is open: none was begun, or it has ended already (a commit or rollback was sent as SQL, or a \
         failed statement rolled it back); enqueue in the transaction that writes the data"
    )]
    OutsideTransaction,
    /// The database refused the INSERT, or its connection was lost. Roll the transaction back.
    #[error("{0}")]
    Database(#[from] Error),
}

/// A schema or prefix that cannot be part of a table's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{found:?} cannot be a {what}: expected a lower-case letter or '_', followed by lower-case letters, digits or \
     '_', at most {longest}"
)]
pub struct NameError {
    pub(crate) what: &'static str,
    pub(crate) longest: usize,
    pub(crate) found: String,
}
