//! What an error of the driver or the server means, and what to do about it.

use postrider_core::{Error, ErrorKind, causes};
use tokio_postgres::error::DbError;

use super::options::PostgresOptions;
use crate::doing::Doing;

/// An error while a connection was made: nothing was sent.
pub(super) fn connecting(options: &PostgresOptions, error: &tokio_postgres::Error) -> Error {
    let text = error.as_db_error().map_or_else(|| causes(error), said);
    let (kind, step) = match error.as_db_error().map(|told| told.code().code()) {
        Some("28P01" | "28000") => {
            (ErrorKind::Config, "correct user and password, or what pg_hba.conf of the server says")
        }
        Some("3D000") => (ErrorKind::Config, "correct the name of the database in the URL, or create it there"),
        Some("42501") => (ErrorKind::Config, "grant connect on the database to this role"),
        Some(code) if ["53", "57", "08"].iter().any(|class| code.starts_with(class)) => {
            (ErrorKind::Unavailable, "the server is starting, stopping or full: it is tried again")
        }
        Some(_) => (ErrorKind::Config, "correct what the server names; its log says more"),
        None if text.contains("does not allow writes") => (
            ErrorKind::Unavailable,
            "this is a read replica, or a server that takes no writes: give the URL of the primary",
        ),
        None if text.contains("password missing") => (ErrorKind::Config, "give the password in the URL"),
        None if text.contains("does not support TLS") => {
            (ErrorKind::Config, "switch TLS on at the server, or use sslmode=disable where the network is trusted")
        }
        None if text.contains("certificate") => (
            ErrorKind::Config,
            "check sslrootcert, and that the server's certificate names this host and is still valid",
        ),
        None => (ErrorKind::Unavailable, "start the server, or correct host and port in the URL"),
    };
    Error::new(kind, format!("cannot connect to PostgreSQL at {}: {text}", options.place())).advise(step)
}

/// No connection came about within the time of a call: nothing was sent.
pub(super) fn unconnected(options: &PostgresOptions) -> Error {
    let what = format!("no connection to PostgreSQL at {} within {:?}", options.place(), options.timeout);
    Error::new(ErrorKind::Unavailable, what)
        .advise("raise connections where all are in use, or look whether it answers")
}

/// A statement that was sent and has no answer.
pub(super) fn unanswered(doing: Doing, options: &PostgresOptions) -> Error {
    let what = format!("{doing}: PostgreSQL at {} did not answer within {:?}", options.place(), options.timeout);
    Error::new(doing.unanswered(), what)
}

/// An error of a statement that was sent.
pub(super) fn working(doing: Doing, options: &PostgresOptions, error: &tokio_postgres::Error) -> Error {
    let Some(told) = error.as_db_error() else {
        let what = format!("{doing}: the connection to PostgreSQL at {} was lost", options.place());
        return Error::new(doing.unanswered(), what).because(causes(error));
    };
    let code = told.code().code();
    let (kind, wrong) = match code {
        "42P01" | "42703" | "3F000" => {
            let what = format!("{doing}: there is no table {} in PostgreSQL at {}", options.table(), options.place());
            let step = "call prepare once, as a role that may create the table, or give another schema in the URL";
            return Error::new(ErrorKind::Config, what).because(said(told)).advise(step);
        }
        "42501" => (ErrorKind::Config, "grant select, insert, update and delete on the table to this role"),
        "25006" => (ErrorKind::Unavailable, "the server takes no writes: give the URL of the primary"),
        // What the server says of these could quote the document.
        "22P05" => {
            return rejected(
                doing,
                code,
                "the character U+0000 in a string or a name: PostgreSQL keeps none, take it out",
            );
        }
        _ if code.starts_with("22") => {
            return rejected(doing, code, "what is no JSON, or a number that PostgreSQL cannot hold");
        }
        _ if code.starts_with("54") => {
            return rejected(doing, code, "more levels or longer names than PostgreSQL takes");
        }
        _ if code.starts_with("53") || code.starts_with("58") => {
            (ErrorKind::Unavailable, "the server is out of something: see its log")
        }
        "40P01" | "55P03" => (ErrorKind::Unavailable, "it is tried again"),
        _ if code.starts_with("57") || code.starts_with("08") => (doing.unanswered(), "the server ended the statement"),
        _ => (ErrorKind::Config, "correct what the server names; its log says more"),
    };
    Error::new(kind, format!("{doing}: {wrong}")).because(said(told))
}

fn rejected(doing: Doing, code: &str, why: &str) -> Error {
    Error::new(ErrorKind::Rejected, format!("{doing}: the document has {why} (SQLSTATE {code})"))
}

/// Whether the row was changed by somebody else meanwhile, where the role or the database has a stricter isolation.
pub(super) fn was_overtaken(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|told| told.code().code() == "40001")
}

/// What the server said, without DETAIL, which can quote a row.
fn said(told: &DbError) -> String {
    format!("{} {}", told.code().code(), told.message())
}
