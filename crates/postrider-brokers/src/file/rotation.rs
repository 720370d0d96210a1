//! When a file of lines gives way to a new one, what the old one is called, and which old ones go.

use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// How the moment of a rotation is written, in UTC: names in the order of the alphabet are in the order of time.
const STAMP: &str = "%Y%m%dT%H%M%S.%6fZ";
/// The same for reading.
const STAMP_READ: &str = "%Y%m%dT%H%M%S.%fZ";
/// How long it is.
const STAMP_LENGTH: usize = "20260131T235959.123456Z".len();

/// When a file of lines gives way to a new one, and how many old ones are kept. The default is never, and all.
///
/// The old file is called by its own name and the moment in UTC, `out.jsonl.20260131T235959.123456Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rotation {
    /// No file grows beyond so many bytes, unless a single batch does.
    pub size: Option<u64>,
    /// A file that is so old gives way before the next batch is written; one that nothing is written to stays.
    pub age: Option<Duration>,
    /// How many old files are kept; none keeps all. Only files with a name that a rotation gave are ever removed.
    pub keep: Option<NonZeroUsize>,
}

impl Rotation {
    /// Whether a file of this length and age gives way before so many bytes more are written to it. An empty one never does.
    pub(super) fn is_due(&self, length: u64, more: u64, age: Duration) -> bool {
        let is_full = self.size.is_some_and(|most| length.saturating_add(more) > most);
        length > 0 && (is_full || self.age.is_some_and(|most| age >= most))
    }
}

/// The old files of a path, the oldest first.
///
/// # Errors
/// When the folder can't be read.
pub(super) fn old_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(super::lines::folder(path))? {
        let entry = entry?.path();
        if stamp(path, &entry).is_some() {
            found.push(entry);
        }
    }
    found.sort();
    Ok(found)
}

/// What the file of a path is called when it gives way now: later than every old one that is there, whatever the clock says.
///
/// # Errors
/// When the folder can't be read.
pub(super) fn old_name(path: &Path, now: Timestamp) -> io::Result<PathBuf> {
    let newest = old_files(path)?.last().and_then(|newest| stamp(path, newest));
    let now = now.to_zoned(TimeZone::UTC).datetime();
    let moment = match newest.and_then(|newest| newest.checked_add(1.microsecond()).ok()) {
        Some(next) if next > now => next,
        _ => now,
    };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(moment.strftime(STAMP).to_string());
    Ok(path.with_file_name(name))
}

/// Removes the oldest of the old files until so many are left, and says how many went. One that cannot be removed keeps
/// none of the others.
///
/// # Errors
/// When the folder can't be read, or a file can't be removed: the first of these errors.
pub(super) fn remove_oldest(path: &Path, keep: NonZeroUsize) -> io::Result<usize> {
    let old = old_files(path)?;
    let surplus = old.len().saturating_sub(keep.get());
    let mut failed = None;
    for file in &old[..surplus] {
        match fs::remove_file(file) {
            Ok(()) => {}
            // Somebody else was quicker.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(surplus), Err)
}

/// The moment in the name of an old file of a path; none for any other name.
fn stamp(path: &Path, old: &Path) -> Option<DateTime> {
    // As bytes: a name need not be UTF-8, and one whose old files are not found would be renamed over them.
    let (name, old) = (path.file_name()?.as_encoded_bytes(), old.file_name()?.as_encoded_bytes());
    let stamp = old.strip_prefix(name)?.strip_prefix(b".")?;
    let stamp = std::str::from_utf8(stamp).ok().filter(|stamp| stamp.len() == STAMP_LENGTH)?;
    DateTime::strptime(STAMP_READ, stamp).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_file_gives_way_when_it_would_grow_too_large_or_is_too_old_and_never_while_it_is_empty() {
        let by_size = Rotation { size: Some(100), ..Rotation::default() };
        for (length, more, is_due) in [(60, 40, false), (60, 41, true), (100, 0, false), (0, 500, false)] {
            assert_eq!(by_size.is_due(length, more, MINUTE), is_due, "{length} and {more}");
        }
        let by_age = Rotation { age: Some(MINUTE), ..Rotation::default() };
        assert!(by_age.is_due(1, 1, MINUTE) && !by_age.is_due(1, 1, MINUTE / 2) && !by_age.is_due(0, 1, MINUTE));
        assert!(!Rotation::default().is_due(u64::MAX, u64::MAX, Duration::MAX));
    }

    #[test]
    fn an_old_file_is_called_by_its_moment_and_stands_behind_the_older_ones_whatever_the_clock_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let now: Timestamp = "2026-01-31T23:59:59.123456Z".parse().unwrap();
        let first = old_name(&path, now).unwrap();
        assert_eq!(first, folder.path().join("out.jsonl.20260131T235959.123456Z"));
        fs::write(&first, "").unwrap();
        for moment in [now, now - 1.hour()] {
            let next = old_name(&path, moment).unwrap();
            assert_eq!(next, folder.path().join("out.jsonl.20260131T235959.123457Z"));
        }
        assert_eq!(old_name(&path, now + 1.hour()).unwrap(), folder.path().join("out.jsonl.20260201T005959.123456Z"));
    }

    #[test]
    fn only_old_files_of_this_path_are_removed_and_the_oldest_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let foreign = [
            "out.jsonl",
            "out.jsonl.1",
            "out.jsonl.20260131T235959.123456Z.gz",
            "out.jsonl.20261331T235959.123456Z",
            "other.jsonl.20260131T235959.123456Z",
        ];
        let old = ["01", "02", "03"].map(|second| format!("out.jsonl.20260131T2359{second}.000000Z"));
        for name in foreign.iter().map(|name| (*name).to_owned()).chain(old.clone()) {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(remove_oldest(&path, NonZeroUsize::MIN.saturating_add(1)).unwrap(), 1);
        assert_eq!(old_files(&path).unwrap(), [&old[1], &old[2]].map(|name| folder.path().join(name)));
        assert_eq!(remove_oldest(&path, NonZeroUsize::MIN).unwrap(), 1);
        assert_eq!(old_files(&path).unwrap(), [folder.path().join(&old[2])]);
        assert!(foreign.iter().all(|name| folder.path().join(name).exists()));
    }

    #[test]
    fn a_file_that_cannot_be_removed_keeps_none_of_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let old =
            ["01", "02", "03"].map(|second| folder.path().join(format!("out.jsonl.20260131T2359{second}.000000Z")));
        // No file: removing it as one fails.
        fs::create_dir(&old[0]).unwrap();
        old[1..].iter().for_each(|file| fs::write(file, "").unwrap());
        remove_oldest(&path, NonZeroUsize::MIN).unwrap_err();
        assert_eq!(old_files(&path).unwrap(), [&old[0], &old[2]].map(PathBuf::clone));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_that_is_no_utf_8_has_old_files_as_any_other() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;

        let folder = tempfile::tempdir().unwrap();
        let [path, other] =
            [b"out-\xff.jsonl", b"out-\xfe.jsonl"].map(|name| folder.path().join(OsStr::from_bytes(name)));
        let now: Timestamp = "2026-01-31T23:59:59.123456Z".parse().unwrap();
        let first = old_name(&path, now).unwrap();
        fs::write(&first, "").unwrap();
        let second = old_name(&path, now).unwrap();
        assert!(second > first, "{second:?} after {first:?}");
        fs::write(&second, "").unwrap();
        assert!(old_files(&other).unwrap().is_empty());
        assert_eq!(remove_oldest(&path, NonZeroUsize::MIN).unwrap(), 1);
        assert_eq!(old_files(&path).unwrap(), [second]);
    }
}
