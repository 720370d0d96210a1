//! Why a message could not be handled, and whose fault that is.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use postrider_core::{DeadReason, Error, ErrorKind, causes};

use super::plan::End;
use crate::error::EnqueueError;
use crate::inbox::InboxError;

/// Why a message could not be handled, and what follows.
///
/// It is an error like others, so a handler may return it, or any error that has it as a cause.
#[derive(Debug)]
pub struct Setback {
    blame: Blame,
    error: Box<dyn StdError + Send + Sync>,
}

/// Whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blame {
    /// The message's, this time.
    Message,
    /// Somebody else's.
    Nobody,
    /// The message's, every time.
    Forever(DeadReason),
}

impl Setback {
    /// It failed, and that is counted: after the attempts of the policy the message is given up.
    pub fn failed(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { blame: Blame::Message, error: error.into() }
    }

    /// It failed by no fault of the message, such as a database that is away: it is tried again, and that is not counted.
    pub fn again(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { blame: Blame::Nobody, error: error.into() }
    }

    /// It will fail at every attempt: it is given up at once, as [`DeadReason::Malformed`].
    pub fn give_up(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::give_up_as(DeadReason::Malformed, error)
    }

    /// The same with another reason, which the dead letter carries.
    pub fn give_up_as(reason: DeadReason, error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { blame: Blame::Forever(reason), error: error.into() }
    }

    /// What an error says, by the first among it and its causes that says anything; otherwise it is counted.
    ///
    /// A [`Setback`] says what it is. What the inbox, the outbox or a broker of Postrider's could not do because something is
    /// away, contended, throttled, misconfigured or not known is not counted, nor is a connection that could not be made or
    /// broke ([`std::io::Error`]), nor a pool of sqlx's that gave none. Given up at once is what is older than the inbox
    /// remembers, as [`DeadReason::Expired`].
    pub fn of(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let error = error.into();
        let mut cause: Option<&(dyn StdError + 'static)> = Some(&*error);
        while let Some(error_here) = cause {
            if let Some(blame) = blame(error_here) {
                return Self { blame, error };
            }
            cause = error_here.source();
        }
        Self::failed(error)
    }

    /// Whether it is the fault of the message.
    pub(super) fn is_counted(&self) -> bool {
        self.blame != Blame::Nobody
    }

    /// What it is to the plan, with the whole story.
    pub(super) fn end(&self) -> End {
        match self.blame {
            Blame::Message => End::Failed(self.story()),
            Blame::Nobody => End::Again,
            Blame::Forever(reason) => End::GiveUp(reason, self.story()),
        }
    }

    /// What was said, and every cause of it.
    pub(super) fn story(&self) -> String {
        causes(&*self.error)
    }
}

/// What an error says by itself.
fn blame(error: &(dyn StdError + 'static)) -> Option<Blame> {
    if let Some(setback) = error.downcast_ref::<Setback>() {
        return Some(setback.blame);
    }
    if let Some(error) = error.downcast_ref::<InboxError>() {
        return match error {
            InboxError::TooOld => Some(Blame::Forever(DeadReason::Expired)),
            InboxError::Future | InboxError::Contended(_) => Some(Blame::Nobody),
            InboxError::Database(error) => Some(of_kind(error)),
            _ => None,
        };
    }
    if let Some(EnqueueError::Database(error)) = error.downcast_ref::<EnqueueError>() {
        return Some(of_kind(error));
    }
    #[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
    if let Some(sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed) = error.downcast_ref::<sqlx::Error>() {
        return Some(Blame::Nobody);
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return is_of_a_connection(error.kind()).then_some(Blame::Nobody);
    }
    error.downcast_ref::<Error>().map(of_kind)
}

fn is_of_a_connection(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable, NetworkDown,
        NetworkUnreachable, NotConnected, TimedOut,
    };
    matches!(
        kind,
        BrokenPipe
            | ConnectionAborted
            | ConnectionRefused
            | ConnectionReset
            | HostUnreachable
            | NetworkDown
            | NetworkUnreachable
            | NotConnected
            | TimedOut
    )
}

fn of_kind(error: &Error) -> Blame {
    match error.kind() {
        ErrorKind::Rejected => Blame::Message,
        ErrorKind::Unavailable | ErrorKind::Throttled | ErrorKind::Unknown | ErrorKind::Fenced | ErrorKind::Config => {
            Blame::Nobody
        }
    }
}

impl fmt::Display for Setback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl StdError for Setback {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error of an application, with a cause.
    #[derive(Debug, thiserror::Error)]
    #[error("billing failed")]
    struct Billing(#[source] Box<dyn StdError + Send + Sync>);

    fn blame_of(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Blame {
        Setback::of(error).blame
    }

    #[test]
    fn any_error_is_counted_and_a_setback_says_otherwise_wherever_it_stands() {
        assert_eq!(blame_of("no such item"), Blame::Message);
        assert_eq!(blame_of(Billing("no such item".into())), Blame::Message);
        assert_eq!(blame_of(Setback::failed("x")), Blame::Message);
        for error in [Box::new(Setback::again("x")) as Box<dyn StdError + Send + Sync>, Setback::again("x").into()] {
            assert_eq!(blame_of(Billing(error)), Blame::Nobody);
        }
        assert_eq!(blame_of(Setback::give_up("x")), Blame::Forever(DeadReason::Malformed));
        let expired = Setback::give_up_as(DeadReason::Expired, "x");
        assert_eq!(blame_of(Billing(expired.into())), Blame::Forever(DeadReason::Expired));
    }

    #[test]
    fn what_is_away_is_not_the_fault_of_the_message() {
        use ErrorKind::{Config, Fenced, Rejected, Throttled, Unavailable, Unknown};
        for kind in [Unavailable, Throttled, Unknown, Fenced, Config] {
            assert_eq!(blame_of(Error::new(kind, "x")), Blame::Nobody, "{kind}");
            assert_eq!(blame_of(InboxError::Database(Error::new(kind, "x"))), Blame::Nobody, "{kind}");
            assert_eq!(blame_of(EnqueueError::Database(Error::new(kind, "x"))), Blame::Nobody, "{kind}");
        }
        assert_eq!(blame_of(Error::new(Rejected, "x")), Blame::Message);
        assert_eq!(blame_of(InboxError::Database(Error::new(Rejected, "x"))), Blame::Message);
        assert_eq!(blame_of(EnqueueError::OutsideTransaction), Blame::Message);
    }

    #[test]
    fn a_connection_that_broke_is_not_the_fault_of_the_message_and_a_file_that_is_not_there_may_be() {
        let broke = || io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(blame_of(broke()), Blame::Nobody);
        assert_eq!(blame_of(Billing(Billing(broke().into()).into())), Blame::Nobody);
        assert_eq!(blame_of(io::Error::from(io::ErrorKind::NotFound)), Blame::Message);
        // What the caller says of it comes before what it is.
        assert_eq!(blame_of(Setback::failed(broke())), Blame::Message);
    }

    #[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
    #[test]
    fn a_pool_without_a_connection_is_not_the_fault_of_the_message() {
        assert_eq!(blame_of(sqlx::Error::PoolTimedOut), Blame::Nobody);
        assert_eq!(blame_of(sqlx::Error::Io(io::Error::from(io::ErrorKind::ConnectionRefused))), Blame::Nobody);
        assert_eq!(blame_of(sqlx::Error::RowNotFound), Blame::Message);
    }

    #[test]
    fn what_the_inbox_says_is_understood() {
        assert_eq!(blame_of(InboxError::TooOld), Blame::Forever(DeadReason::Expired));
        assert_eq!(blame_of(Billing(InboxError::Contended(None).into())), Blame::Nobody);
        assert_eq!(blame_of(InboxError::Future), Blame::Nobody);
        assert_eq!(blame_of(InboxError::OutsideTransaction), Blame::Message);
    }

    #[test]
    fn it_is_shown_as_what_it_is_made_of_with_every_cause_in_the_story() {
        let setback = Setback::failed(Billing("no such item".into()));
        assert_eq!(setback.to_string(), "billing failed");
        assert_eq!(setback.story(), "billing failed: no such item");
        assert_eq!(causes(&setback), "billing failed: no such item");
        assert!(matches!(setback.end(), End::Failed(story) if story == "billing failed: no such item"));
    }
}
