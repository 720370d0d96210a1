//! What an error of the network or the server means, and what to do about it.
//!
//! Of what the client below says only a server's code and words are shown: an answer that it could not read would be quoted,
//! and may be a document.

use std::io;

use postrider_core::{Error, ErrorKind, causes};
use redis::RedisError;

use super::options::{Encryption, RedisOptions};
use crate::doing::Doing;

const UNPREPARED: &str = "call prepare once; where it was called before, this is another server or database, or everything \
    in it is gone: messages that were handled would be handled again";

const GRANT: &str = "grant this user what docs/documents.md lists";

/// An error before anything was asked.
pub(super) fn unreachable(options: &RedisOptions, error: &io::Error) -> Error {
    let (kind, step) = match (&options.encryption, error.kind()) {
        (Encryption::Verified(_), io::ErrorKind::InvalidData) => (
            ErrorKind::Config,
            "check ca_file, that the server's certificate names this host and is still valid, and that this is its port \
             for TLS",
        ),
        _ => (ErrorKind::Unavailable, "start the server, or correct host and port in the URL"),
    };
    Error::new(kind, format!("cannot connect to Redis at {}: {}", options.place(), causes(error))).advise(step)
}

/// A host that no certificate can name.
pub(super) fn misnamed(options: &RedisOptions) -> Error {
    let what = format!("cannot connect to Redis at {}: no certificate can name this host", options.place());
    Error::new(ErrorKind::Config, what).advise("correct the host in the URL")
}

/// An error of the greeting: nothing was asked but who it is.
pub(super) fn greeting(options: &RedisOptions, error: &RedisError) -> Error {
    let (kind, step) = match error.code() {
        None => (ErrorKind::Unavailable, "start the server, or use rediss: where it speaks TLS"),
        Some("NOAUTH" | "WRONGPASS") => (ErrorKind::Config, "correct user and password in the URL"),
        Some("DENIED") => (ErrorKind::Config, "give the server a password, or let it listen on this machine alone"),
        Some("NOPERM") => (ErrorKind::Config, GRANT),
        Some("ERR" | "NOPROTO") if says(error, "unknown command") || says(error, "NOPROTO") => {
            (ErrorKind::Config, "use Redis 6 or newer, or Valkey, without a proxy between")
        }
        Some("ERR") if says(error, "DB index") => {
            (ErrorKind::Config, "correct the number of the database in the URL: the server has fewer")
        }
        Some("ERR") if says(error, "max number of clients") => {
            (ErrorKind::Unavailable, "raise maxclients of the server, or lower connections in the URLs")
        }
        Some(code) if is_passing(code) => (ErrorKind::Unavailable, "the server is starting or busy: it is tried again"),
        Some(_) => (ErrorKind::Config, "correct what the server names; its log says more"),
    };
    Error::new(kind, format!("cannot connect to Redis at {}: {}", options.place(), said(error))).advise(step)
}

/// No connection came about within the time of a call: nothing was sent.
pub(super) fn unconnected(options: &RedisOptions) -> Error {
    let what = format!("no connection to Redis at {} within {:?}", options.place(), options.timeout);
    Error::new(ErrorKind::Unavailable, what)
        .advise("raise connections where all are in use, or look whether it answers")
}

/// A command that was sent and has no answer.
pub(super) fn unanswered(doing: Doing, options: &RedisOptions) -> Error {
    let what = format!("{doing}: Redis at {} did not answer within {:?}", options.place(), options.timeout);
    Error::new(doing.unanswered(), what)
}

/// There is no mark of `prepare`.
pub(super) fn unprepared(doing: Doing, options: &RedisOptions) -> Error {
    let what = format!("{doing}: nothing is prepared under {{{}}} in Redis at {}", options.prefix, options.place());
    Error::new(ErrorKind::Config, what).advise(UNPREPARED)
}

/// An answer that no command of ours has.
pub(super) fn misunderstood(doing: Doing, options: &RedisOptions) -> Error {
    let what = format!("{doing}: Redis at {} answers otherwise than this store's keys allow", options.place());
    let kind = match doing.unanswered() {
        ErrorKind::Unknown => ErrorKind::Unknown,
        _ => ErrorKind::Config,
    };
    Error::new(kind, what).advise("leave the prefix to Postrider alone, or choose another in the URL")
}

/// An error of a command that was sent.
pub(super) fn working(doing: Doing, options: &RedisOptions, error: &RedisError) -> Error {
    let Some(code) = error.code() else {
        if !error.is_io_error() {
            return misunderstood(doing, options);
        }
        let what = format!("{doing}: the connection to Redis at {} was lost", options.place());
        return Error::new(doing.unanswered(), what).because(causes(error));
    };
    let (kind, step) = match code {
        "READONLY" => (ErrorKind::Unavailable, "this is a read replica: give the URL of the primary"),
        "OOM" => (ErrorKind::Unavailable, "the server is out of memory: raise maxmemory, or take something away"),
        "MISCONF" => (ErrorKind::Unavailable, "the server cannot write to its disk: see its log"),
        "NOREPLICAS" => (ErrorKind::Unavailable, "fewer replicas follow than min-replicas-to-write: bring them back"),
        "ERR" if says(error, "SCRIPT KILL") => (ErrorKind::Unavailable, "somebody ended the script"),
        "NOAUTH" | "WRONGPASS" => (ErrorKind::Config, "correct user and password in the URL"),
        "NOPERM" => (ErrorKind::Config, GRANT),
        // A right that a script lacks, by Redis 7.0 and by later ones.
        "ERR" if says(error, "user executing the script") || says(error, "ACL failure in script") => {
            (ErrorKind::Config, GRANT)
        }
        "WRONGTYPE" => {
            (ErrorKind::Config, "something else stands under this prefix: choose another in the URL, or take it away")
        }
        "MOVED" | "ASK" | "CROSSSLOT" => (ErrorKind::Config, "use a server that is not in cluster mode"),
        code if is_passing(code) => (ErrorKind::Unavailable, "the server is starting or busy: it is tried again"),
        _ => (ErrorKind::Config, "correct what the server names; its log says more"),
    };
    Error::new(kind, format!("{doing}: {}", said(error))).advise(step)
}

/// Whether the server does not know the script: it certainly did not run.
pub(super) fn is_forgotten(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}

/// What passes by itself, and changed nothing.
fn is_passing(code: &str) -> bool {
    matches!(code, "LOADING" | "MASTERDOWN" | "BUSY" | "TRYAGAIN" | "CLUSTERDOWN")
}

fn says(error: &RedisError, words: &str) -> bool {
    error.detail().is_some_and(|detail| detail.contains(words))
}

/// What the server said; of an error that is not its own, what kind it is.
fn said(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) if error.is_io_error() => causes(error),
        (None, _) => error.category().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use redis::{FromRedisValue, Value, parse_redis_value};

    use super::*;

    fn told(line: &str) -> RedisError {
        let value = parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        Value::from_redis_value(&value).and_then(Value::extract_error).unwrap_err()
    }

    #[test]
    fn what_a_server_says_to_a_write_certainly_changed_nothing() {
        let options = RedisOptions::new("redis://u:hunter2@h/0").unwrap();
        for (line, kind, advice) in [
            ("READONLY You can't write against a read only replica.", ErrorKind::Unavailable, "the primary"),
            ("OOM command not allowed when used memory > 'maxmemory'.", ErrorKind::Unavailable, "maxmemory"),
            ("MISCONF Errors writing to the AOF file", ErrorKind::Unavailable, "disk"),
            ("NOREPLICAS Not enough good replicas to write.", ErrorKind::Unavailable, "min-replicas"),
            ("LOADING Redis is loading the dataset in memory", ErrorKind::Unavailable, "tried again"),
            ("MASTERDOWN Link with MASTER is down", ErrorKind::Unavailable, "tried again"),
            ("TRYAGAIN Multiple keys request", ErrorKind::Unavailable, "tried again"),
            ("BUSY Redis is busy running a script.", ErrorKind::Unavailable, "tried again"),
            ("NOPERM this user has no permissions", ErrorKind::Config, "grant"),
            ("ERR The user executing the script can't run this command or subcommand", ErrorKind::Config, "grant"),
            ("ERR ACL failure in script: User x has no permissions", ErrorKind::Config, "grant"),
            ("WRONGTYPE Operation against a key", ErrorKind::Config, "prefix"),
            ("MOVED 1 127.0.0.1:7", ErrorKind::Config, "cluster"),
            ("ERR something else", ErrorKind::Config, "names"),
        ] {
            let error = working(Doing::Writing("writing"), &options, &told(line));
            assert_eq!(error.kind(), kind, "{line}");
            assert!(error.advice().is_some_and(|step| step.contains(advice)), "{line}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn what_a_server_says_to_the_greeting_is_waited_for_or_needs_a_person() {
        let options = RedisOptions::new("redis://u:hunter2@h/0").unwrap();
        for (line, kind, advice) in [
            ("NOAUTH HELLO must be called with the client already authenticated", ErrorKind::Config, "password"),
            ("WRONGPASS invalid username-password pair", ErrorKind::Config, "password"),
            ("DENIED Redis is running in protected mode", ErrorKind::Config, "password"),
            ("ERR unknown command 'HELLO'", ErrorKind::Config, "Redis 6"),
            ("ERR DB index is out of range", ErrorKind::Config, "database"),
            ("ERR max number of clients reached", ErrorKind::Unavailable, "maxclients"),
            ("LOADING Redis is loading the dataset in memory", ErrorKind::Unavailable, "tried again"),
        ] {
            let error = greeting(&options, &told(line));
            assert_eq!(error.kind(), kind, "{line}");
            assert!(error.advice().is_some_and(|step| step.contains(advice)), "{line}: {error}");
        }
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_not_quoted() {
        let options = RedisOptions::new("redis://h/0").unwrap();
        let error = i64::from_redis_value(&Value::BulkString(b"canary".to_vec())).unwrap_err();
        for (doing, kind) in [(Doing::Writing("x"), ErrorKind::Unknown), (Doing::Reading("x"), ErrorKind::Config)] {
            let told = working(doing, &options, &error);
            assert_eq!(told.kind(), kind);
            assert!(!format!("{told} {told:?}").contains("canary"), "{told:?}");
        }
    }
}
