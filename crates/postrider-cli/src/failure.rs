//! What a user sees when a verb cannot go on: one line that says what, one line that says what to do next.

use postrider_core::{Error, ErrorKind};

use crate::exit::Exit;

/// A result whose error is for the user's eyes.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// The next step where tables are missing or old.
const MIGRATE: &str = "run `postrider migrate`, and this again";

/// The next step where an address is of a kind that is still to come.
const NOT_YET: &str = "it is not supported yet; README, \"Not there yet\", says what to use until then";

/// The next step where an address is of a kind that this program was built without.
const NOT_BUILT_IN: &str =
    "build it with that feature, or name another address; `postrider --version --verbose` lists what is built in";

/// The next step where a file of lines is locked by somebody else.
const HELD: &str = "see who has it open (`lsof FILE`): this relay, already running, is as it should be; stop anything else, or \
                    name another file in broker.NAME.url (--broker)";

/// Why a verb ended, and the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What is wrong, in one line.
    pub(crate) what: String,
    /// What to do about it, in one line.
    pub(crate) next: String,
    /// The exit code.
    pub(crate) exit: Exit,
}

impl Failure {
    /// Wrong usage, or a wrong setting.
    pub(crate) fn usage(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what: what.into(), next: next.into(), exit: Exit::Unknown }
    }

    /// A change that needs a confirmation.
    pub(crate) fn refused(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what: what.into(), next: next.into(), exit: Exit::Refused }
    }

    /// A bad answer.
    pub(crate) fn bad(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what: what.into(), next: next.into(), exit: Exit::Bad }
    }

    /// What the other side said, where it says what to do.
    fn advised(error: &Error) -> Option<Self> {
        let step = error.advice()?;
        Some(Self { what: one_line(&error.story()), next: one_line(step), exit: Exit::Unknown })
    }

    /// What the store said.
    pub(crate) fn store(error: &Error) -> Self {
        if let Some(advised) = Self::advised(error) {
            return advised;
        }
        let next = match error.kind() {
            ErrorKind::Unavailable => {
                "check that the database runs and that the address (--store, outbox.store) is right, then run this again"
            }
            ErrorKind::Throttled => "the database is busy: run this again in a moment",
            ErrorKind::Unknown => "the outcome is not known: look at the state with `postrider status` before a repeat",
            ErrorKind::Rejected => "correct the message and run this again",
            ErrorKind::Fenced => "another relay has taken over: run this again",
            ErrorKind::Config => return Self::settings(one_line(&error.story())),
        };
        Self { what: one_line(&error.story()), next: next.to_owned(), exit: Exit::Unknown }
    }

    /// A store that a human must see to: what it says decides the next step.
    fn settings(what: String) -> Self {
        let next = if what.contains("newer") {
            "use a postrider that is as new as the tables; this one changes nothing there"
        } else if what.contains("postrider migrate") {
            MIGRATE
        } else if what.contains("was built without") {
            NOT_BUILT_IN
        } else if what.contains("cannot create") {
            "make the folder, or get the right to write to it, and run this again"
        } else if what.contains("asks for a password") {
            "give outbox.store_password_file, a file that holds the password, or POSTRIDER_OUTBOX__STORE_PASSWORD"
        } else {
            "correct the address or the [outbox] section (`postrider config show` prints what is in force), or the database"
        };
        Self { what, next: next.to_owned(), exit: Exit::Unknown }
    }

    /// Whether a migration is the next step.
    pub(crate) fn is_for_migrate(&self) -> bool {
        self.next == MIGRATE
    }

    /// What a broker said.
    pub(crate) fn broker(error: &Error) -> Self {
        let what = one_line(&error.story());
        if let Some(advised) = Self::advised(error) {
            return advised;
        }
        let next = match error.kind() {
            ErrorKind::Config if what.contains("not supported yet") => NOT_YET,
            ErrorKind::Config if what.contains("was built without") => NOT_BUILT_IN,
            ErrorKind::Config if is_held(&what) => HELD,
            ErrorKind::Unavailable | ErrorKind::Throttled | ErrorKind::Unknown => {
                "check that the broker runs and that its address (--broker, broker.NAME.url) is right"
            }
            ErrorKind::Rejected | ErrorKind::Fenced | ErrorKind::Config => {
                "correct the [broker] section; `postrider config show` prints what is in force and where it comes from"
            }
        };
        Self { what, next: next.to_owned(), exit: Exit::Unknown }
    }

    /// What the archive said when it was opened.
    pub(crate) fn archive(error: &Error) -> Self {
        let what = one_line(&format!("retention.archive: {}", error.story()));
        let next = match error.kind() {
            ErrorKind::Config if is_held(&what) => {
                "a relay or a prune that archives has it for moments: run this again; if it stays, see who has it open \
                 (`lsof FILE`), and stop that or name another file; until then nothing past its retention is removed"
            }
            ErrorKind::Config => {
                "name a file in a folder that is there and that the relay's user may write to; until then nothing past its \
                 retention is removed"
            }
            _ => "free some space or repair the disk; until then nothing past its retention is removed",
        };
        Self { what, next: next.to_owned(), exit: Exit::Unknown }
    }

    /// The two lines.
    pub(crate) fn lines(&self) -> String {
        format!("error: {}\nnext: {}", self.what, self.next)
    }
}

/// Whether a file of lines said that somebody else has its lock.
fn is_held(what: &str) -> bool {
    what.contains("another process writes")
}

/// The text with its line breaks replaced, so that one error stays one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split(['\r', '\n']).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_two_lines_whatever_its_cause_says() {
        let error =
            Error::new(ErrorKind::Unavailable, "connecting to the database").because("refused\nby the host\r\n");
        let lines = Failure::store(&error).lines();
        assert_eq!(lines.lines().count(), 2, "{lines}");
        assert!(lines.contains("refused; by the host"), "{lines}");
    }
}
