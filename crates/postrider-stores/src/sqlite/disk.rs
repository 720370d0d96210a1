//! Whether the disk has room for what is written next.

use std::ffi::OsString;
use std::fs::{File, canonicalize, remove_file};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use postrider_core::{Error, ErrorKind, Result};

use super::SqliteOptions;
use super::fault::full;

/// What a connection may need at once: the index of the write-ahead log and a few pages.
const ROOM: usize = 64 << 10;

/// Writes a file beside the database and removes it.
///
/// A transaction that is rolled back would tell nothing: SQLite writes at the commit, and then to the room that its log
/// has already.
///
/// # Errors
/// `Unavailable` when the disk is full or fails. A folder that may not be written is none: where SQLite needs it, SQLite
/// says so.
pub(super) fn has_room(options: &SqliteOptions) -> Result<()> {
    let path = beside(options.file());
    let written = File::options().write(true).create_new(true).open(&path).and_then(|mut file| {
        let filled = fill(&mut file);
        remove_file(&path)?;
        filled
    });
    match written {
        Ok(()) => Ok(()),
        Err(error) => verdict(options, error),
    }
}

fn fill(file: &mut File) -> io::Result<()> {
    file.write_all(&vec![0; ROOM])?;
    // Some file systems find the room only now.
    file.sync_all()
}

fn verdict(options: &SqliteOptions, error: io::Error) -> Result<()> {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Err(full(options, "checking the store")),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::AlreadyExists => Ok(()),
        _ => {
            let what = format!("writing beside {} failed", options.file().display());
            Err(Error::new(ErrorKind::Unavailable, what).because(error).advise("look at the disk"))
        }
    }
}

/// On the disk of the file itself, where the path is a link to it.
fn beside(file: &Path) -> PathBuf {
    let mut path = OsString::from(canonicalize(file).unwrap_or_else(|_| file.to_owned()));
    path.push(format!("-check-{}", std::process::id()));
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_told_from_a_folder_that_may_not_be_written() {
        let options = SqliteOptions::new("app.db");
        let mut device = File::options().write(true).open("/dev/full").unwrap();
        let error = verdict(&options, fill(&mut device).unwrap_err()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "checking the store: the disk of app.db is full; free some space, nothing is lost"
        );
        verdict(&options, io::Error::from(io::ErrorKind::PermissionDenied)).unwrap();
        let broken = verdict(&options, io::Error::other("no answer")).unwrap_err();
        assert_eq!(broken.kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn nothing_is_left_beside_the_file() {
        let folder = tempfile::tempdir().unwrap();
        has_room(&SqliteOptions::new(folder.path().join("app.db"))).unwrap();
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
