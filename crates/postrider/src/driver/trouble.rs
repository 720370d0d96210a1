//! What a driver's own error says of the database: that it was away, out of something, or busy with others, and so nothing of
//! what it was asked.
//!
//! A handler's own statements fail with errors of its driver. Each cause of such an error is looked at by its type. Where an
//! application's error shows another as its own (`#[error(transparent)]`), its words and its causes are what is left of that.
//!
//! A statement that a time limit of the server's ended (SQLSTATE `57014`) is not among them: that may be its message's.

use std::error::Error as StdError;

#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite", feature = "sea-orm"))]
use self::of_sqlx::{is_sqlx, is_sqlx_by_its_words};

/// Whether an error, its causes left aside, is the database's trouble.
pub(crate) fn is_of_the_database(error: &(dyn StdError + 'static)) -> bool {
    let judges: &[fn(&(dyn StdError + 'static)) -> bool] = &[
        #[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite", feature = "sea-orm"))]
        is_sqlx,
        #[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite", feature = "sea-orm"))]
        |error| is_sqlx_by_its_words(&error.to_string()),
        #[cfg(feature = "sea-orm")]
        super::sea_orm::is_trouble,
        #[cfg(feature = "tokio-postgres")]
        super::tokio_postgres::is_trouble,
        #[cfg(feature = "mysql_async")]
        super::mysql_async::is_trouble,
        #[cfg(feature = "rusqlite")]
        super::rusqlite::is_trouble,
        #[cfg(feature = "_diesel")]
        super::diesel::is_trouble,
    ];
    judges.iter().any(|is_trouble| is_trouble(error))
}

/// What sqlx says, for itself and beneath SeaORM.
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite", feature = "sea-orm"))]
mod of_sqlx {
    use std::error::Error as StdError;
    use std::sync::Arc;

    #[cfg(feature = "sea-orm")]
    use ::sea_orm::sqlx;
    use sqlx::Error;
    use sqlx::error::DatabaseError;

    #[cfg(any(feature = "sea-orm", feature = "sqlx-mysql"))]
    use super::super::mysql;
    #[cfg(feature = "_postgres")]
    use super::super::postgres;
    #[cfg(feature = "_sqlite")]
    use super::super::sqlite;

    pub(super) fn is_sqlx(error: &(dyn StdError + 'static)) -> bool {
        let is_trouble = |error: &Error| match error {
            Error::Database(told) => is_told(&**told),
            Error::Io(_) | Error::Tls(_) | Error::PoolTimedOut | Error::PoolClosed | Error::WorkerCrashed => true,
            _ => false,
        };
        error.downcast_ref::<Error>().is_some_and(is_trouble)
            || error.downcast_ref::<Arc<Error>>().is_some_and(|error| is_trouble(error))
            || error.downcast_ref::<Box<dyn DatabaseError>>().is_some_and(|told| is_told(&**told))
    }

    pub(super) fn is_sqlx_by_its_words(said: &str) -> bool {
        [Error::PoolTimedOut, Error::PoolClosed, Error::WorkerCrashed].iter().any(|error| said == error.to_string())
            || said.starts_with("error communicating with database: ")
            || said.starts_with("error occurred while attempting to establish a TLS connection: ")
    }

    /// Which database it is, its code tells: an SQLSTATE has five characters, SQLite's numbers have fewer.
    fn is_told(told: &dyn DatabaseError) -> bool {
        let code = told.code().unwrap_or_default();
        let judged = [
            #[cfg(feature = "_postgres")]
            (code.len() == 5 && postgres::is_trouble(&code)),
            #[cfg(any(feature = "sea-orm", feature = "sqlx-mysql"))]
            (code.len() == 5 && mysql::number_shown(&told.to_string()).is_some_and(mysql::is_trouble)),
            #[cfg(feature = "_sqlite")]
            (code.len() < 5 && code.parse().is_ok_and(sqlite::is_trouble)),
        ];
        judged.contains(&true)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// The error, or one of its causes.
    fn is_trouble(error: impl StdError + 'static) -> bool {
        let mut cause: Option<&(dyn StdError + 'static)> = Some(&error);
        while let Some(one) = cause {
            if is_of_the_database(one) {
                return true;
            }
            cause = one.source();
        }
        false
    }

    /// A proxy that takes a connection and drops it.
    #[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
    #[test]
    fn a_connection_that_ended_is_trouble_and_what_a_statement_is_told_of_its_rows_is_not() {
        assert!(is_trouble(sqlx::Error::Io(io::ErrorKind::UnexpectedEof.into())));
        assert!(is_trouble(sqlx::Error::PoolTimedOut));
        assert!(!is_trouble(sqlx::Error::RowNotFound));
        assert!(!is_trouble(sqlx::Error::Protocol("too many parameters".to_owned())));
        assert!(!is_trouble(io::Error::from(io::ErrorKind::UnexpectedEof)), "of a payload that is too short, perhaps");
    }

    #[cfg(feature = "mysql_async")]
    #[test]
    fn mysql_async_tells_by_the_number_of_an_error() {
        use ::mysql_async::{DriverError, Error, ServerError};

        let server = |code| Error::Server(ServerError { code, message: String::new(), state: String::new() });
        for code in [1040, 1053, 1205, 1213, 1836] {
            assert!(is_trouble(server(code)), "{code}");
        }
        assert!(!is_trouble(server(1062)));
        assert!(is_trouble(Error::Driver(DriverError::ConnectionClosed)));
        assert!(is_trouble(Error::from(io::Error::from(io::ErrorKind::UnexpectedEof))));
        assert!(!is_trouble(Error::Driver(DriverError::MixedParams)));
    }

    #[cfg(feature = "rusqlite")]
    #[test]
    fn rusqlite_tells_by_the_code_of_an_error() {
        use ::rusqlite::{Error, ffi};

        let failed = |code| Error::SqliteFailure(ffi::Error::new(code), None);
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_BUSY_SNAPSHOT, ffi::SQLITE_FULL, ffi::SQLITE_CANTOPEN] {
            assert!(is_trouble(failed(code)), "{code}");
        }
        assert!(!is_trouble(failed(ffi::SQLITE_CONSTRAINT_UNIQUE)));
    }

    #[cfg(feature = "_diesel")]
    #[test]
    fn diesel_tells_by_its_kind_and_the_servers_words() {
        use ::diesel::ConnectionError;
        use ::diesel::result::{DatabaseErrorKind, Error};

        let told = |kind, words: &str| Error::DatabaseError(kind, Box::new(words.to_owned()));
        assert!(is_trouble(ConnectionError::BadConnection("refused".to_owned())));
        #[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql"))]
        assert!(is_trouble(told(DatabaseErrorKind::ClosedConnection, "")));
        #[cfg(feature = "diesel-postgres")]
        assert!(is_trouble(told(DatabaseErrorKind::Unknown, "deadlock detected")));
        #[cfg(feature = "diesel-mysql")]
        assert!(is_trouble(told(DatabaseErrorKind::Unknown, "Lock wait timeout exceeded; try restarting transaction")));
        #[cfg(feature = "diesel-sqlite")]
        assert!(is_trouble(told(DatabaseErrorKind::Unknown, "database or disk is full")));
        assert!(!is_trouble(told(DatabaseErrorKind::UniqueViolation, "duplicate key value")));
        assert!(!is_trouble(Error::NotFound));
    }

    #[cfg(feature = "sea-orm")]
    #[test]
    fn sea_orm_tells_by_what_stands_beneath() {
        use ::sea_orm::error::ConnAcquireErr;
        use ::sea_orm::{DbErr, RuntimeErr};

        let beneath = |error: ::sea_orm::sqlx::Error| DbErr::Query(RuntimeErr::SqlxError(std::sync::Arc::new(error)));
        assert!(is_trouble(DbErr::ConnectionAcquire(ConnAcquireErr::Timeout)));
        assert!(is_trouble(beneath(::sea_orm::sqlx::Error::Io(io::ErrorKind::UnexpectedEof.into()))));
        assert!(!is_trouble(beneath(::sea_orm::sqlx::Error::RowNotFound)));
        assert!(!is_trouble(DbErr::RecordNotInserted));
    }
}
