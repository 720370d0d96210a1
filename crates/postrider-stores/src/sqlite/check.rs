//! The doctor's findings.

use postrider_core::{Finding, Level, Result};

use super::disk::has_room;
use super::fault::{classify, refuse_read_only};
use super::link::Session;
use super::schema::journal_mode;

/// The first library in which two processes cannot damage the file when the log is reset.
const SOUND: [u32; 3] = [3, 51, 3];

const INTEGRITY: &str = "pragma quick_check(1)";

/// What is known about the file, its mode and the library.
pub(super) fn check(session: &mut Session<'_>) -> Result<Vec<Finding>> {
    let failed = |error| classify(session.options, "checking the store", error);
    let mode = journal_mode(session.connection).map_err(failed)?;
    let intact: String = session.connection.query_row(INTEGRITY, [], |row| row.get(0)).map_err(failed)?;
    let (version, lanes) = super::schema::inspect(session)?;
    let writable = refuse_read_only(session.options, session.connection)
        .and_then(|()| session.writing("checking the store", |_| Ok(())));
    Ok(vec![
        library(rusqlite::version()),
        mode_finding(&mode),
        Finding {
            level: if intact == "ok" { Level::Good } else { Level::Failure },
            subject: "file".to_owned(),
            found: format!("quick_check says {intact}"),
            advice: if intact == "ok" { String::new() } else { "restore the file from a backup".to_owned() },
        },
        Finding {
            level: Level::Good,
            subject: "schema".to_owned(),
            found: format!("version {version}, {} lanes", lanes.get()),
            advice: String::new(),
        },
        written(
            "write lock",
            "the file can be written",
            writable,
            "let the relay write the file and its folder, and keep write transactions short",
        ),
        written("disk", "has room to write", has_room(session.options), "see to the disk"),
        Finding {
            level: Level::Good,
            subject: "application".to_owned(),
            found: "SQLite has one writer; the relay holds the write lock at most 20 ms a time".to_owned(),
            advice: "let the application begin its write transactions with BEGIN IMMEDIATE and set a busy timeout of \
                     5 s or more"
                .to_owned(),
        },
    ])
}

/// What to say about a version of the SQLite library: below 3.51.3 two processes can damage the file when the
/// write-ahead log is reset.
pub fn library(version: &str) -> Finding {
    let numbers: Vec<u32> = version.split('.').map(|part| part.parse().unwrap_or(0)).collect();
    if numbers.as_slice() >= SOUND.as_slice() {
        return good("library", &format!("SQLite {version}"));
    }
    Finding {
        level: Level::Failure,
        subject: "library".to_owned(),
        found: format!("SQLite {version} can damage the file when two processes write it"),
        advice: "use SQLite 3.51.3 or later in the relay and in every process that writes the file".to_owned(),
    }
}

/// What came of an attempt to write, with what to do where the error does not say it.
fn written(subject: &str, found: &str, attempt: Result<()>, otherwise: &str) -> Finding {
    match attempt {
        Ok(()) => good(subject, found),
        Err(error) => Finding {
            level: Level::Failure,
            subject: subject.to_owned(),
            found: error.story(),
            advice: error.advice().unwrap_or(otherwise).to_owned(),
        },
    }
}

fn mode_finding(mode: &str) -> Finding {
    if mode == "wal" {
        return good("journal mode", "wal");
    }
    Finding {
        level: Level::Warning,
        subject: "journal mode".to_owned(),
        found: format!("{mode}: readers and writers wait for each other"),
        advice: "run `pragma journal_mode = wal` once, or `postrider migrate`, on a local file system".to_owned(),
    }
}

fn good(subject: &str, found: &str) -> Finding {
    Finding { level: Level::Good, subject: subject.to_owned(), found: found.to_owned(), advice: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_below_3_51_3_is_a_failure_and_the_bundled_one_is_not() {
        for old in ["3.51.2", "3.50.9", "3.7.17", "2.8", "nonsense"] {
            assert_eq!(library(old).level, Level::Failure, "{old}");
            assert!(library(old).advice.contains("3.51.3"));
        }
        for sound in ["3.51.3", "3.51.10", "3.60.0", "4.0.0", rusqlite::version()] {
            assert_eq!(library(sound).level, Level::Good, "{sound}");
        }
    }
}
