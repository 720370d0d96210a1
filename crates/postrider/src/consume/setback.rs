//! Why a message could not be handled, and whose fault that is.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use postrider_core::{DeadReason, Error, ErrorKind, causes};

use super::plan::End;
use crate::driver::trouble;
use crate::inbox::InboxError;

/// Why a message could not be handled, and what follows.
///
/// It is an error like others, so a handler may return it, or any error that has it as a cause.
#[derive(Debug)]
pub struct Setback(Marked);

/// What a setback is, as the first of its causes as well: a wrapper that shows another error as its own
/// (`#[error(transparent)]`, `anyhow`) hides that error and shows its causes.
#[derive(Debug)]
struct Marked {
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
        Self::marked(Blame::Message, error.into())
    }

    /// It failed by no fault of the message, such as a database that is away: it is tried again, and that is not counted.
    pub fn again(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::marked(Blame::Nobody, error.into())
    }

    /// It will fail at every attempt: it is given up at once, as [`DeadReason::Malformed`].
    pub fn give_up(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::give_up_as(DeadReason::Malformed, error)
    }

    /// The same with another reason, which the dead letter carries.
    pub fn give_up_as(reason: DeadReason, error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::marked(Blame::Forever(reason), error.into())
    }

    fn marked(blame: Blame, error: Box<dyn StdError + Send + Sync>) -> Self {
        Self(Marked { blame, error })
    }

    /// What an error says, by the first among it and its causes that says anything; otherwise it is counted.
    ///
    /// A [`Setback`] says what it is. What the inbox, the outbox or a broker of Postrider's could not do because something is
    /// away, contended, throttled, misconfigured or not known is not counted, nor is a connection that could not be made or
    /// broke ([`std::io::Error`]). Of the drivers whose features are on, nor is what they say of a database that is away, out of
    /// disk, memory or connections, read-only, or busy with others (a deadlock, a lock): in the handler's own statements, in its
    /// `begin` and in its commit. A statement that ran into a time limit of the server is counted. Given up at once is what is
    /// older than the inbox remembers, as [`DeadReason::Expired`].
    ///
    /// They are found behind wrappers too, those that show an error as their own among them (`#[error(transparent)]`, `anyhow`).
    /// Three are not found there unless they are a cause and not the whole (`#[source]`, `.context(..)`): a bare
    /// [`std::io::Error`], the error of a broker, and an error of diesel. Errors of pools (`deadpool`, `bb8`, `r2d2`) are found
    /// where they have the driver's as a cause; map others to [`Setback::again`].
    pub fn of(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let error = error.into();
        let mut cause: Option<&(dyn StdError + 'static)> = Some(&*error);
        while let Some(error_here) = cause {
            if let Some(blame) = blame(error_here) {
                return Self::marked(blame, error);
            }
            cause = error_here.source();
        }
        Self::failed(error)
    }

    /// Whether it is the fault of the message.
    pub(super) fn is_counted(&self) -> bool {
        self.0.blame != Blame::Nobody
    }

    /// What it is to the plan, with the whole story.
    pub(super) fn end(&self) -> End {
        match self.0.blame {
            Blame::Message => End::Failed(self.story()),
            Blame::Nobody => End::Again,
            Blame::Forever(reason) => End::GiveUp(reason, self.story()),
        }
    }

    /// What was said, and every cause of it.
    pub(super) fn story(&self) -> String {
        causes(&*self.0.error)
    }
}

/// What an error says by itself.
fn blame(error: &(dyn StdError + 'static)) -> Option<Blame> {
    if let Some(Setback(marked)) = error.downcast_ref::<Setback>() {
        return Some(marked.blame);
    }
    if let Some(marked) = error.downcast_ref::<Marked>() {
        return Some(marked.blame);
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return (is_of_a_connection(error.kind()) || is_of_a_name(error)).then_some(Blame::Nobody);
    }
    if trouble::is_of_the_database(error) {
        return Some(Blame::Nobody);
    }
    error.downcast_ref::<Error>().map(of_kind).or_else(|| by_its_words(&error.to_string()))
}

/// What an error without a cause says, by its words: a wrapper that shows it as its own hides its type.
fn by_its_words(said: &str) -> Option<Blame> {
    if said == InboxError::TooOld.to_string() {
        return Some(Blame::Forever(DeadReason::Expired));
    }
    if said == InboxError::Contended(None).to_string() {
        return Some(Blame::Nobody);
    }
    None
}

/// A name that could not be looked up has no kind of its own: <https://github.com/rust-lang/rust/issues/86442>.
fn is_of_a_name(error: &io::Error) -> bool {
    error.to_string().starts_with("failed to lookup address information")
}

/// An end that came too early is not among them: a payload that is too short ends so as well. Where a driver met it, the driver
/// tells.
fn is_of_a_connection(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{
        AddrNotAvailable, BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
        NetworkDown, NetworkUnreachable, NotConnected, TimedOut,
    };
    matches!(
        kind,
        AddrNotAvailable
            | BrokenPipe
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
        self.0.fmt(f)
    }
}

impl StdError for Setback {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

impl fmt::Display for Marked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl StdError for Marked {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::EnqueueError;

    /// An error of an application, with a cause.
    #[derive(Debug, thiserror::Error)]
    #[error("billing failed")]
    struct Billing(#[source] Box<dyn StdError + Send + Sync>);

    fn blame_of(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Blame {
        Setback::of(error).0.blame
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
        // A proxy in front of a database that is away.
        assert_eq!(blame_of(sqlx::Error::Io(io::Error::from(io::ErrorKind::UnexpectedEof))), Blame::Nobody);
        assert_eq!(blame_of(sqlx::Error::RowNotFound), Blame::Message);
    }

    #[tokio::test]
    async fn a_host_that_is_not_known_is_not_the_fault_of_the_message() {
        let error = tokio::net::TcpStream::connect("db.invalid:5432").await.unwrap_err();
        assert_eq!(blame_of(error), Blame::Nobody);
    }

    #[test]
    fn what_the_inbox_says_is_understood() {
        assert_eq!(blame_of(InboxError::TooOld), Blame::Forever(DeadReason::Expired));
        assert_eq!(blame_of(Billing(InboxError::Contended(None).into())), Blame::Nobody);
        assert_eq!(blame_of(InboxError::OutsideTransaction), Blame::Message);
    }

    /// A clock that is a little ahead has it pass within the attempts; one that is years ahead would keep its key for years.
    #[test]
    fn a_time_that_has_not_come_is_counted() {
        assert_eq!(blame_of(InboxError::Future), Blame::Message);
        assert_eq!(blame_of(Shown::Inbox(InboxError::Future)), Blame::Message);
    }

    /// An error of an application that shows others as its own.
    #[derive(Debug, thiserror::Error)]
    enum Shown {
        #[error(transparent)]
        Setback(#[from] Setback),
        #[error(transparent)]
        Inbox(#[from] InboxError),
        #[error(transparent)]
        Enqueue(#[from] EnqueueError),
        #[cfg(feature = "sqlx-postgres")]
        #[error(transparent)]
        Sqlx(#[from] sqlx::Error),
    }

    /// Else an outage fills the dead letters of everybody who writes his errors like this.
    #[test]
    fn what_stands_behind_a_wrapper_that_shows_it_as_its_own_is_understood() {
        let away = || Error::new(ErrorKind::Unavailable, "the database is away").because("refused");
        let all: Vec<(Shown, Blame)> = vec![
            (Setback::again("x").into(), Blame::Nobody),
            (Setback::give_up("x").into(), Blame::Forever(DeadReason::Malformed)),
            (InboxError::TooOld.into(), Blame::Forever(DeadReason::Expired)),
            (InboxError::Contended(None).into(), Blame::Nobody),
            (InboxError::Contended(Some(Error::new(ErrorKind::Throttled, "again"))).into(), Blame::Nobody),
            (InboxError::Database(away()).into(), Blame::Nobody),
            (EnqueueError::Database(away()).into(), Blame::Nobody),
            (EnqueueError::OutsideTransaction.into(), Blame::Message),
            #[cfg(feature = "sqlx-postgres")]
            (sqlx::Error::PoolTimedOut.into(), Blame::Nobody),
            #[cfg(feature = "sqlx-postgres")]
            (sqlx::Error::Io(io::Error::from(io::ErrorKind::ConnectionRefused)).into(), Blame::Nobody),
            #[cfg(feature = "sqlx-postgres")]
            (sqlx::Error::Io(io::Error::from(io::ErrorKind::UnexpectedEof)).into(), Blame::Nobody),
            #[cfg(feature = "sqlx-postgres")]
            (sqlx::Error::RowNotFound.into(), Blame::Message),
        ];
        for (shown, expected) in all {
            let said = shown.to_string();
            assert_eq!(blame_of(shown), expected, "{said}");
        }
        let twice = Billing(Shown::from(InboxError::Database(away())).into());
        assert_eq!(blame_of(twice), Blame::Nobody);
    }

    #[test]
    fn what_stands_behind_anyhow_is_understood() {
        let away = || Error::new(ErrorKind::Unavailable, "the database is away");
        assert_eq!(blame_of(anyhow::Error::from(Setback::again("x"))), Blame::Nobody);
        assert_eq!(blame_of(anyhow::Error::from(InboxError::TooOld)), Blame::Forever(DeadReason::Expired));
        assert_eq!(blame_of(anyhow::Error::from(InboxError::Database(away()))), Blame::Nobody);
        assert_eq!(blame_of(anyhow::Error::from(away()).context("charging the card")), Blame::Nobody);
        assert_eq!(blame_of(anyhow::anyhow!("no such item")), Blame::Message);
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
