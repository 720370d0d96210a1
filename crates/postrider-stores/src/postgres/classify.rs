//! What an error of the driver or the server means, and what to do about it.

use postrider_core::{Error, ErrorKind};
use tokio_postgres::error::DbError;

use super::options::PostgresOptions;

/// An error while a connection was made: nothing was changed.
pub(super) fn connecting(options: &PostgresOptions, error: tokio_postgres::Error) -> Error {
    let place = &options.place;
    let Some(told) = error.as_db_error() else {
        let text = causes(&error);
        if text.contains("password missing") {
            let what =
                format!("cannot connect to PostgreSQL at {place}; the server asks for a password and none is given");
            return Error::new(ErrorKind::Config, what);
        }
        let tls = text.contains("certificate") || text.contains("TLS") || text.contains("tls");
        let (kind, advice) = if tls {
            (ErrorKind::Config, "check sslmode and sslrootcert, and that the server's certificate names this host")
        } else {
            (ErrorKind::Unavailable, "check that the server runs and that host and port are right")
        };
        return Error::new(kind, format!("cannot connect to PostgreSQL at {place}; {advice}: {text}"));
    };
    let (kind, advice) = match told.code().code() {
        "28P01" => (ErrorKind::Config, "the password is wrong or missing; give the right one"),
        "28000" => (ErrorKind::Config, "the server does not admit this user from here; see its pg_hba.conf"),
        "3D000" => (ErrorKind::Config, "the database does not exist; create it or correct the URL"),
        "42501" => (ErrorKind::Config, "the role may not connect; grant it the right to"),
        "53300" => (ErrorKind::Unavailable, "the server has no connection left; raise max_connections"),
        "08P01" | "0A000" => (ErrorKind::Config, "behind a pooler in transaction mode, set pooling = \"transaction\""),
        code if code.starts_with("57P") || code.starts_with("53") || code.starts_with("08") => {
            (ErrorKind::Unavailable, "the server is starting, stopping or overloaded; it is tried again")
        }
        _ => (ErrorKind::Config, "the server refuses the connection"),
    };
    Error::new(kind, format!("cannot connect to PostgreSQL at {place}; {advice}")).because(said(told))
}

/// An error of a statement.
pub(super) fn working(doing: &str, error: tokio_postgres::Error) -> Error {
    let Some(told) = error.as_db_error() else {
        let what = format!("{doing}: the connection to PostgreSQL was lost and the outcome is not known");
        return Error::new(ErrorKind::Unknown, what).because(causes(&error));
    };
    let (kind, advice) = match told.code().code() {
        "42P01" | "42883" | "42703" | "3F000" => {
            (ErrorKind::Config, "; the tables are missing or old: run `postrider migrate --store ...`")
        }
        "42501" => (ErrorKind::Config, "; the role lacks a right: see `roles.sql` and run `postrider check`"),
        "25006" | "55000" => (ErrorKind::Config, "; this is a read-only replica: give the URL of the primary"),
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

fn causes(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}
