//! What an error of the driver or the server means, and what to do about it.

use std::io;

use postrider_core::{Error, ErrorKind, causes};
use tokio_postgres::error::DbError;

use super::options::PostgresOptions;

/// An error while a connection was made: nothing was changed.
pub(super) fn connecting(options: &PostgresOptions, error: tokio_postgres::Error) -> Error {
    let place = &options.place;
    let Some(told) = error.as_db_error() else { return unreached(place, &error) };
    let text = said(told);
    let (kind, wrong, step) = match told.code().code() {
        "28P01" => (ErrorKind::Config, "the password is wrong or missing, or there is no such user", PASSWORD),
        "28000" if text.contains("no encryption") || text.contains("SSL off") => {
            (ErrorKind::Config, "the server wants an encrypted connection", ENCRYPT)
        }
        "28000" => (ErrorKind::Config, "the server does not admit this user from here", ADMIT),
        "3D000" => (ErrorKind::Config, "the database does not exist", DATABASE),
        "42501" => (ErrorKind::Config, "the role may not connect to this database", GRANT),
        "53300" => (ErrorKind::Unavailable, "the server has no connection left", FULL),
        "08P01" | "0A000" if text.contains("startup parameter") || text.contains("command-line") => {
            (ErrorKind::Config, "a pooler refuses what only a direct connection can have", POOLER)
        }
        "08P01" | "0A000" => (ErrorKind::Config, "the pooler refuses the connection", POOLER_LOG),
        code if code.starts_with("57P") || code.starts_with("53") || code.starts_with("08") => {
            (ErrorKind::Unavailable, "the server is starting, stopping or overloaded", STARTING)
        }
        _ => (ErrorKind::Config, "the server refuses the connection", REFUSES),
    };
    Error::new(kind, format!("cannot connect to PostgreSQL at {place}; {wrong}")).because(text).advise(step)
}

const PASSWORD: &str = "give the user and the password that the server knows, in the address or by outbox.store_password_file; \
    `alter role NAME password '...'` sets another";
const ENCRYPT: &str =
    "put sslmode=verify-full into the address (sslrootcert=FILE for a private authority), or sslmode=require";
const ADMIT: &str =
    "look at user and host in the address, then at pg_hba.conf of the server, which says who may come from where";
const DATABASE: &str = "correct the name at the end of the address, or create it there: `create database NAME`";
const GRANT: &str = "run as the owner of the database: `grant connect on database NAME to ROLE`";
const FULL: &str = "close connections that are idle (`select usename, application_name, state, count(*) from pg_stat_activity \
    group by 1, 2, 3`), or raise max_connections or the limit of the role or the database, then run this again";
const POOLER: &str = "behind a pooler in transaction mode, set outbox.pooling = \"transaction\"";
const POOLER_LOG: &str = "behind a pooler in transaction mode, set outbox.pooling = \"transaction\"; otherwise the pooler's own log \
    says which database and user it knows, and whether it reaches the server";
const STARTING: &str = "run this again in a moment; if it stays, look at the server's log";
const REFUSES: &str = "correct what the server names; its log says more";
const RESOLVE: &str = "correct the host in the address, or the name service of this machine (`getent hosts NAME`)";
const LISTENS: &str = "start the server, or correct host and port in the address; `pg_isready -h HOST -p PORT` asks it, and \
    listen_addresses says where it listens";
const SOCKET: &str = "start the server, or correct the folder of its socket and the port in the address";
const RIGHT: &str = "run `postrider check` as this role, which names the right; `postrider migrate --roles` prints roles with all of them";
const PRIMARY: &str = "give the URL of the primary";
const SILENT: &str =
    "correct host and port in the address, or let a firewall between pass it; `pg_isready -h HOST -p PORT` asks it";
const NO_TLS: &str =
    "switch TLS on at the server (ssl = on), or put sslmode=disable into the address where the network is trusted";
const CERTIFICATE: &str =
    "check sslmode and sslrootcert, and that the server's certificate names this host and is still valid";

/// The server gives no answer within the time to connect.
pub(super) fn silent(place: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("cannot connect to PostgreSQL at {place}; it does not answer"))
        .advise(SILENT)
}

/// No server was spoken to, or none that could be understood.
fn unreached(place: &str, error: &tokio_postgres::Error) -> Error {
    let text = causes(error);
    if text.contains("password missing") {
        let what = format!("cannot connect to PostgreSQL at {place}; the server asks for a password and none is given");
        return Error::new(ErrorKind::Config, what);
    }
    let (kind, wrong, step) = if text.contains("does not support TLS") {
        (ErrorKind::Config, "the server does not offer TLS", NO_TLS)
    } else if text.contains("certificate") || text.contains("TLS") || text.contains("tls") {
        (ErrorKind::Config, "the encrypted connection cannot be trusted", CERTIFICATE)
    } else if text.contains("failed to lookup address") {
        (ErrorKind::Unavailable, "the name of the host is not known", RESOLVE)
    } else {
        match refusal(error) {
            Some(io::ErrorKind::ConnectionRefused) => {
                (ErrorKind::Unavailable, "nobody listens at this host and port", LISTENS)
            }
            Some(io::ErrorKind::NotFound) => (ErrorKind::Unavailable, "no server has its socket there", SOCKET),
            Some(io::ErrorKind::TimedOut) => return silent(place),
            _ => (ErrorKind::Unavailable, "it cannot be reached", SILENT),
        }
    };
    Error::new(kind, format!("cannot connect to PostgreSQL at {place}; {wrong}: {text}")).advise(step)
}

/// What the operating system said.
fn refusal(error: &tokio_postgres::Error) -> Option<io::ErrorKind> {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    None
}

/// An error of a statement.
pub(super) fn working(doing: &str, error: tokio_postgres::Error) -> Error {
    let Some(told) = error.as_db_error() else {
        let what = format!("{doing}: the connection to PostgreSQL was lost and the outcome is not known");
        return Error::new(ErrorKind::Unknown, what).because(causes(&error));
    };
    let for_a_human = |wrong: &str, step: &str| {
        Error::new(ErrorKind::Config, format!("{doing}; {wrong}")).because(said(told)).advise(step)
    };
    let (kind, advice) = match told.code().code() {
        "42P01" | "42883" | "42703" | "3F000" => {
            (ErrorKind::Config, "; the tables are missing or old: run `postrider migrate --store ...`")
        }
        "42501" => return for_a_human("the role lacks a right", RIGHT),
        "25006" | "55000" => return for_a_human("this is a read-only replica", PRIMARY),
        // The relay is told to reconnect: nothing of a statement that was ended like this is kept.
        "40001" | "40P01" | "55P03" | "55006" => (ErrorKind::Unavailable, "; it is tried again"),
        "57014" => (ErrorKind::Unknown, "; it took too long and was cancelled"),
        code if code.starts_with("53") || code.starts_with("58") => {
            (ErrorKind::Unavailable, "; the server is out of something: see its log")
        }
        code if code.starts_with("57P") || code.starts_with("08") => (ErrorKind::Unknown, "; the server went away"),
        _ => (ErrorKind::Config, "; run `postrider check`"),
    };
    Error::new(kind, format!("{doing}{advice}")).because(said(told))
}

/// What the server said, without DETAIL, which can quote a row with its payload.
fn said(told: &DbError) -> String {
    let mut text = format!("{} {}", told.code().code(), told.message());
    if let Some(hint) = told.hint() {
        text.push_str(&format!(" ({hint})"));
    }
    text
}
