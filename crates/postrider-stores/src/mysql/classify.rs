//! What an error of the driver or the server means, and what to do about it.

use std::io;

use mysql_async::{DriverError, Error as Failed, IoError, ServerError};
use postrider_core::{Error, ErrorKind, causes};

use super::dialect::Dialect;
use super::quoting::quotes_values;
use super::trouble::{goes_away, is_out_of_something};

/// Deadlock: the server has undone the whole transaction, and doing it again is enough.
const DEADLOCK: u16 = 1213;
const LOCK_WAIT: u16 = 1205;
/// A row was changed after the snapshot of the transaction, which the server has undone (MariaDB, `innodb_snapshot_isolation`).
const CHANGED: u16 = 1020;

const PASSWORD: &str = "give the user and the password that the server knows, in the address or by outbox.store_password_file; \
    `alter user NAME identified by '...'` sets another; MariaDB says the same to whoever comes in the clear where it wants \
    encryption: sslmode=require";
const DATABASE: &str = "correct the name at the end of the address, or create it there: `create database NAME`";
const GRANT: &str = "correct user and database in the address, or run as an administrator: `grant select, insert, update, delete on DATABASE.* to USER`";
const ADMIT: &str = "look at user and host in the address, then at `select user, host from mysql.user`, which says who may come from where";
const FULL: &str = "close connections that are idle (`show processlist`), or raise max_connections or the user's limit, then run this again";
const ENCRYPT: &str =
    "put sslmode=verify-full into the address (sslrootcert=FILE for a private authority), or sslmode=require";
const STARTING: &str = "run this again in a moment; if it stays, look at the server's log";
const REFUSES: &str = "correct what the server names; its log says more";
const RESOLVE: &str = "correct the host in the address, or the name service of this machine (`getent hosts NAME`)";
const LISTENS: &str = "start the server, or correct host and port in the address; bind_address and skip_networking of the server say \
    where it listens";
const SOCKET: &str = "start the server, or correct the path of its socket in the address";
const RIGHT: &str = "run `postrider check` as this user: it names the right and the statement that grants it";
const ROWS: &str =
    "set binlog_format to ROW, or to MIXED: `set global binlog_format = 'ROW'`, and in the server's configuration";
const PRIMARY: &str = "give the URL of the primary";
const SILENT: &str = "correct host and port in the address, or let a firewall between pass it";
const NO_TLS: &str = "switch TLS on at the server (ssl_cert, ssl_key), or put sslmode=disable into the address where the network is trusted";
const CERTIFICATE: &str =
    "check sslmode and sslrootcert, and that the server's certificate names this host and is still valid";

/// Whether a lock was waited for in vain.
pub(super) fn is_lock_wait(error: &Failed) -> bool {
    matches!(error, Failed::Server(told) if told.code == LOCK_WAIT)
}

/// Whether the server undid the transaction because two waited for each other.
pub(super) fn is_deadlock(error: &Failed) -> bool {
    matches!(error, Failed::Server(told) if told.code == DEADLOCK)
}

/// An error while a connection was made: nothing was changed.
pub(super) fn connecting(place: &str, error: &Failed) -> Error {
    let Failed::Server(told) = error else { return unreached(place, error) };
    let (kind, wrong, step) = match told.code {
        1045 | 1698 | 1862 => {
            (ErrorKind::Config, "the password is wrong or missing, or there is no such user", PASSWORD)
        }
        1044 | 1142 => (ErrorKind::Config, "the user may not use this database", GRANT),
        1049 => (ErrorKind::Config, "the database does not exist", DATABASE),
        1130 | 1129 => (ErrorKind::Config, "the server does not admit this machine", ADMIT),
        1040 | 1203 | 1226 => (ErrorKind::Unavailable, "the server has no connection left", FULL),
        3159 => (ErrorKind::Config, "the server wants an encrypted connection", ENCRYPT),
        code if goes_away(code) => (ErrorKind::Unavailable, "the server is starting, stopping or overloaded", STARTING),
        _ => (ErrorKind::Config, "the server refuses the connection", REFUSES),
    };
    Error::new(kind, format!("cannot connect to the database at {place}; {wrong}")).because(said(told)).advise(step)
}

/// The server gives no answer within the time to connect.
pub(super) fn silent(place: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("cannot connect to the database at {place}; it does not answer"))
        .advise(SILENT)
}

/// No server was spoken to, or none that could be understood.
fn unreached(place: &str, error: &Failed) -> Error {
    let text = causes(error);
    let (kind, wrong, step) = match error {
        Failed::Driver(DriverError::NoClientSslFlagFromServer) => {
            (ErrorKind::Config, "the server does not offer TLS", NO_TLS)
        }
        Failed::Io(IoError::Tls(_)) => (ErrorKind::Config, "the encrypted connection cannot be trusted", CERTIFICATE),
        _ if text.contains("certificate") => {
            (ErrorKind::Config, "the encrypted connection cannot be trusted", CERTIFICATE)
        }
        _ if text.contains("failed to lookup address") => {
            (ErrorKind::Unavailable, "the name of the host is not known", RESOLVE)
        }
        Failed::Io(IoError::Io(error)) => match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                (ErrorKind::Unavailable, "nobody listens at this host and port", LISTENS)
            }
            io::ErrorKind::NotFound => (ErrorKind::Unavailable, "no server has its socket there", SOCKET),
            io::ErrorKind::TimedOut => return silent(place),
            _ => (ErrorKind::Unavailable, "it cannot be reached", SILENT),
        },
        _ => (ErrorKind::Unavailable, "it cannot be spoken to", SILENT),
    };
    Error::new(kind, format!("cannot connect to the database at {place}; {wrong}: {text}")).advise(step)
}

/// An error of a statement.
pub(super) fn working(doing: &str, error: &Failed) -> Error {
    let Failed::Server(told) = error else {
        let what = format!("{doing}: the connection to the database was lost and the outcome is not known");
        return Error::new(ErrorKind::Unknown, what).because(causes(error));
    };
    let for_a_human = |wrong: &str, step: &str| {
        Error::new(ErrorKind::Config, format!("{doing}; {wrong}")).because(said(told)).advise(step)
    };
    let (kind, advice) = match told.code {
        1146 | 1054 | 1305 | 1051 => {
            (ErrorKind::Config, "; the tables are missing or old: run `postrider migrate --store ...`")
        }
        1044 | 1142 | 1143 | 1227 | 1370 | 1419 => {
            return for_a_human("the user lacks a right", RIGHT);
        }
        1665 => return for_a_human("the server's binary log takes no statements under READ COMMITTED", ROWS),
        1290 | 1792 | 1836 | 3100 => {
            return for_a_human("the server takes no writes, as a replica does", PRIMARY);
        }
        // The transaction is over, or its connection is dropped now: nothing of it is kept.
        LOCK_WAIT | DEADLOCK | CHANGED | 1206 | 3572 => (ErrorKind::Unavailable, "; it is tried again"),
        code if Dialect::is_time_limit(code) => (ErrorKind::Unknown, "; it took too long and was cancelled"),
        1317 => (ErrorKind::Unknown, "; somebody cancelled it"),
        code if is_out_of_something(code) => (ErrorKind::Unavailable, "; the server is out of something: see its log"),
        code if goes_away(code) => (ErrorKind::Unknown, "; the server went away"),
        1153 | 1301 => {
            (ErrorKind::Config, "; a message is larger than max_allowed_packet of the server: raise it there")
        }
        _ => (ErrorKind::Config, "; run `postrider check`"),
    };
    Error::new(kind, format!("{doing}{advice}")).because(said(told))
}

/// What the server said, unless it may quote a value.
fn said(told: &ServerError) -> String {
    if quotes_values(told.code) {
        return format!("error {} ({})", told.code, told.state);
    }
    format!("error {} ({}) {}", told.code, told.state, told.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: u16, message: &str) -> Failed {
        Failed::Server(ServerError { code, state: "HY000".to_owned(), message: message.to_owned() })
    }

    #[test]
    fn a_deadlock_and_a_lock_that_was_waited_for_in_vain_are_tried_again() {
        for code in [DEADLOCK, LOCK_WAIT, CHANGED, 3572] {
            assert_eq!(working("settling", &told(code, "")).kind(), ErrorKind::Unavailable, "{code}");
        }
    }

    #[test]
    fn what_was_ended_in_the_middle_is_not_known() {
        for code in [1317, 1053, 1969, 3024] {
            assert_eq!(working("settling", &told(code, "")).kind(), ErrorKind::Unknown, "{code}");
        }
        let lost = Failed::Driver(DriverError::ConnectionClosed);
        assert_eq!(working("settling", &lost).kind(), ErrorKind::Unknown);
    }

    #[test]
    fn a_value_that_the_server_quotes_is_not_repeated() {
        let error = working("enqueueing", &told(1366, "Incorrect string value: 'hush' for column `key`"));
        assert!(!error.story().contains("hush") && error.story().contains("1366"), "{error}");
    }

    #[test]
    fn an_error_while_connecting_says_what_to_do_and_never_the_password() {
        for (code, kind, step) in [
            (1045, ErrorKind::Config, "password"),
            (1049, ErrorKind::Config, "create database"),
            (1040, ErrorKind::Unavailable, "max_connections"),
            (3159, ErrorKind::Config, "sslmode"),
        ] {
            let error = connecting("h:3306/d", &told(code, "no"));
            assert_eq!(error.kind(), kind, "{code}");
            assert!(error.advice().is_some_and(|advice| advice.contains(step)), "{error}");
        }
    }
}
