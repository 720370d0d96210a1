//! What kind of thing went wrong. Backends classify; the core judges.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// A result whose error carries its kind.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The closed list of what can go wrong with a store or a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The other side, or the network to it, is away. Nothing was changed there.
    Unavailable,
    /// The other side asks for patience; [`Error::retry_after`] may say how long.
    Throttled,
    /// This message is refused, whatever the others do.
    Rejected,
    /// The outcome is not known: it may have happened. Done again with the same id.
    Unknown,
    /// The lease is lost: stand down, change nothing.
    Fenced,
    /// A human is needed: a missing stream, wrong credentials, a table that is not there.
    Config,
}

impl ErrorKind {
    /// The word used in logs, metrics and the `errors` column.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Throttled => "throttled",
            Self::Rejected => "rejected",
            Self::Unknown => "unknown",
            Self::Fenced => "fenced",
            Self::Config => "config",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error with its kind, what was being done, and its cause.
///
/// The text never carries payloads or credentials. Where a user can act, it says what was expected and what to do.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    doing: String,
    advice: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
    retry_after: Option<Duration>,
    unsent: bool,
}

impl Error {
    /// An error of a kind, with what was being done or what is wrong and what to do about it.
    pub fn new(kind: ErrorKind, doing: impl Into<String>) -> Self {
        Self { kind, doing: doing.into(), advice: None, source: None, retry_after: None, unsent: false }
    }

    /// The same error with its cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same error with the next step, where who made it knows better than its kind tells: one line without line
    /// breaks. It is not part of the story.
    #[must_use]
    pub fn advise(mut self, step: impl Into<String>) -> Self {
        self.advice = Some(step.into());
        self
    }

    /// The same error with the delay that the other side asked for.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    /// The same error of an attempt that certainly never left this process: nothing of the message was handed to the
    /// network. It is charged to nobody and is no evidence against the message.
    #[must_use]
    pub fn unsent(mut self) -> Self {
        self.unsent = true;
        self
    }

    /// Whether the attempt certainly never left this process.
    pub fn is_unsent(&self) -> bool {
        self.unsent
    }

    /// What kind of thing happened.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The next step for a person, where it is known.
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }

    /// The delay the other side asked for, if any.
    pub fn delay(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The whole story in one line: what was being done and every cause.
    pub fn story(&self) -> String {
        told(self.doing.clone(), self.source())
    }

    /// The story and, where it is known, the next step, in one line: for a log.
    pub fn story_and_advice(&self) -> String {
        match &self.advice {
            Some(step) => format!("{}; {step}", self.story()),
            None => self.story(),
        }
    }
}

/// An error and every cause of it, in one line; what was said before is not said again.
pub fn causes(error: &dyn StdError) -> String {
    told(error.to_string(), error.source())
}

fn told(mut text: String, mut cause: Option<&(dyn StdError + 'static)>) -> String {
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.story_and_advice())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_has_the_causes_and_the_next_step() {
        let error = Error::new(ErrorKind::Unavailable, "cannot connect").because("refused");
        assert_eq!(error.story_and_advice(), "cannot connect: refused");
        let advised = error.advise("start the server");
        assert_eq!((advised.story(), advised.advice()), ("cannot connect: refused".into(), Some("start the server")));
        assert_eq!(advised.story_and_advice(), "cannot connect: refused; start the server");
    }

    #[test]
    fn every_kind_has_its_word() {
        let kinds = [
            ErrorKind::Unavailable,
            ErrorKind::Throttled,
            ErrorKind::Rejected,
            ErrorKind::Unknown,
            ErrorKind::Fenced,
            ErrorKind::Config,
        ];
        let words = ["unavailable", "throttled", "rejected", "unknown", "fenced", "config"];
        assert_eq!(kinds.map(ErrorKind::as_str), words);
        assert_eq!(kinds.map(|kind| kind.to_string()), words);
    }

    #[test]
    fn an_error_is_shown_with_its_causes_and_gives_them_out() {
        let error = Error::new(ErrorKind::Throttled, "publishing").because("too many").advise("wait");
        assert_eq!(error.to_string(), "publishing: too many; wait");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("too many"));
        assert_eq!(error.delay(), None);
        assert_eq!(error.retry_after(Duration::from_secs(3)).delay(), Some(Duration::from_secs(3)));
        assert!(Error::new(ErrorKind::Config, "no stream").source().is_none());
    }
}
