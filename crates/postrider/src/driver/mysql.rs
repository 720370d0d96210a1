//! What the drivers of MySQL and MariaDB share: what a refusal means.

use postrider_core::{Error, ErrorKind};
use postrider_stores::mysql::inbox::asks_again;
use postrider_stores::mysql::{Names, goes_away, is_out_of_something, quotes_values};

use crate::inbox::InboxError;
use crate::outbox::Outbox;

const MIGRATE: &str = "run `postrider migrate` or call postrider::migrate before the application writes, and check the \
                       database of the connection and the configured prefix";

/// What the names of the tables begin with.
pub(super) fn names(outbox: &Outbox) -> Result<Names, Error> {
    Names::new(&outbox.prefix)
}

/// Whether it is the server's trouble and no message's: it has no connection left, or somebody ended the statement, too.
const fn is_away(number: u16) -> bool {
    is_out_of_something(number) || goes_away(number) || matches!(number, 1040 | 1203 | 1317)
}

/// Whether an error of any statement, by its number, says nothing of what was asked.
#[cfg(feature = "consume")]
pub(super) fn is_trouble(number: u16) -> bool {
    is_away(number) || asks_again(number) || is_read_only(number)
}

/// Whether it is a replica, or was made to take no writes.
const fn is_read_only(number: u16) -> bool {
    matches!(number, 1290 | 1792 | 1836)
}

/// The number in what sqlx shows of an error, first in its words: `1205 (HY000): Lock wait timeout exceeded`. The SQLSTATE is
/// left out where the server gives none.
#[cfg(any(feature = "sea-orm", all(feature = "consume", feature = "sqlx-mysql")))]
pub(super) fn number_shown(shown: &str) -> Option<u16> {
    shown.split(|shown: char| !shown.is_ascii_digit()).next()?.parse().ok()
}

/// A refusal by the server, by its number; none when the connection failed.
pub(super) fn refused(names: &Names, number: Option<u16>) -> Error {
    let table = format!("{}outbox", names.prefix());
    let (kind, text) = match number {
        Some(1146 | 1049) => (ErrorKind::Config, format!("the outbox table {table} is not there: {MIGRATE}")),
        Some(1054) => (ErrorKind::Config, format!("the outbox table {table} lacks a column: {MIGRATE}")),
        Some(1044 | 1142 | 1143) => (
            ErrorKind::Config,
            format!("the application's user may not insert into {table}: `grant insert on {table} to USER`"),
        ),
        Some(number) if is_read_only(number) => {
            (ErrorKind::Config, format!("enqueueing into {table} in a read-only transaction or on a replica"))
        }
        Some(1213) => (
            ErrorKind::Throttled,
            format!("enqueueing into {table}: a deadlock, the server rolled the transaction back; run it again"),
        ),
        Some(1020) => (
            ErrorKind::Throttled,
            format!("enqueueing into {table}: a row changed, the server rolled the transaction back; run it again"),
        ),
        Some(1205) => (
            ErrorKind::Throttled,
            format!("enqueueing into {table}: somebody holds a lock; roll the transaction back and run it again"),
        ),
        Some(1153) => (
            ErrorKind::Config,
            format!("enqueueing into {table}: more bytes than max_allowed_packet of the server, raise it there"),
        ),
        Some(number) if is_away(number) => {
            (ErrorKind::Unavailable, format!("enqueueing into {table}: the server is out of something or going away"))
        }
        Some(_) => (ErrorKind::Rejected, format!("enqueueing into {table}: roll the transaction back")),
        None => (
            ErrorKind::Unavailable,
            format!("enqueueing into {table}: the connection failed, the transaction is lost; run it again"),
        ),
    };
    Error::new(kind, text)
}

/// A refusal of what an inbox was asked, by its number, with what the server said; none when the connection failed.
pub(super) fn not_received(number: Option<u16>, said: impl std::fmt::Display) -> InboxError {
    let (kind, text) = match number {
        Some(number) if asks_again(number) => {
            let error = Error::new(ErrorKind::Throttled, "asking the inbox: run the transaction again");
            return InboxError::Contended(Some(told(error, Some(number), said)));
        }
        Some(1146 | 1049 | 1054) => (ErrorKind::Config, format!("the inbox is not there, or is older: {MIGRATE}")),
        Some(1044 | 1142 | 1143) => (
            ErrorKind::Config,
            "the application's user may not use the inbox: grant it select, insert, update and delete on its tables"
                .to_owned(),
        ),
        Some(number) if is_read_only(number) => {
            (ErrorKind::Config, "asking the inbox in a read-only transaction or on a replica".to_owned())
        }
        Some(number) if is_away(number) => {
            (ErrorKind::Unavailable, "asking the inbox: the server is out of something or going away".to_owned())
        }
        Some(_) => (ErrorKind::Rejected, "asking the inbox: roll the transaction back".to_owned()),
        None => (
            ErrorKind::Unavailable,
            "asking the inbox: the connection failed, the transaction is lost; run it again".to_owned(),
        ),
    };
    told(Error::new(kind, text), number, said).into()
}

/// The error with what the server said, unless that may quote a value of the message.
pub(super) fn told(error: Error, number: Option<u16>, said: impl std::fmt::Display) -> Error {
    match number {
        Some(number) if quotes_values(number) => error.because(format!("error {number}")),
        _ => error.because(said.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trouble_of_the_server_is_not_the_fault_of_a_message() {
        let names = Names::new("postrider_").unwrap();
        for number in [1021, 1040, 1041, 1053, 1114] {
            assert_eq!(refused(&names, Some(number)).kind(), ErrorKind::Unavailable, "{number}");
            let InboxError::Database(error) = not_received(Some(number), "") else { panic!("{number}") };
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{number}");
        }
        assert_eq!(refused(&names, Some(1366)).kind(), ErrorKind::Rejected);
    }

    #[cfg(any(feature = "sea-orm", all(feature = "consume", feature = "sqlx-mysql")))]
    #[test]
    fn the_number_of_an_error_stands_first_with_and_without_an_sqlstate() {
        assert_eq!(number_shown("1205 (HY000): Lock wait timeout exceeded"), Some(1205));
        assert_eq!(number_shown("1040: Too many connections"), Some(1040));
        assert_eq!(number_shown("error communicating with database"), None);
    }
}
