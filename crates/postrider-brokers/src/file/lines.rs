//! A file of whole lines, whatever happens.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use postrider_core::{Error, ErrorKind, Result};

use super::rotation::{self, Rotation};

/// How much is read at a time when the last whole line is looked for.
const STEP: u64 = 64 << 10;
/// How long a lock may be held by one who does not write: a process that its last owner started holds a copy of the file
/// until it has become the program that it is to be.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);

/// How many links are followed from one to the next, as many as Linux does.
const LINKS: usize = 40;

/// An append-only file that ends with a line break after every call that returned.
#[derive(Debug)]
pub(super) struct Lines {
    /// The file itself: no link to it.
    path: PathBuf,
    /// None after a failed sync: what the kernel still holds is not known, so the file is opened anew.
    file: Option<File>,
    /// Where the last whole line ends.
    end: u64,
    /// When its first line was written, as far as that is known.
    began: SystemTime,
    rotation: Rotation,
}

/// The file of a path, open: where its last whole line ends, and when it began.
struct Opened {
    file: File,
    end: u64,
    began: SystemTime,
}

impl Lines {
    pub(super) fn open(path: PathBuf, rotation: Rotation) -> Result<Self> {
        let path = followed(path);
        let Opened { file, end, began } = open(&path)?;
        Ok(Self { path, file: Some(file), end, began, rotation })
    }

    /// Appends whole lines and syncs them. On an error nothing of them stays.
    pub(super) fn append(&mut self, text: &[u8]) -> Result<()> {
        self.follow()?;
        self.rotate_before(text.len() as u64)?;
        if self.end == 0 {
            self.began = SystemTime::now();
        }
        let Some(file) = self.file.as_mut() else {
            return Err(Error::new(ErrorKind::Unavailable, format!("the file {} is not open", self.path.display())));
        };
        let written =
            file.seek(SeekFrom::Start(self.end)).and_then(|_| file.write_all(text)).and_then(|()| file.sync_data());
        match written {
            Ok(()) => {
                self.end += text.len() as u64;
                Ok(())
            }
            Err(error) => {
                // If this fails too, opening the file anew cuts off what is torn; whole lines are then repeated.
                if let Err(also) = file.set_len(self.end).and_then(|()| file.sync_data()) {
                    tracing::warn!(path = %self.path.display(), error = %also, "could not cut off a failed batch");
                }
                self.file = None;
                let text = format!("writing {}; free some space or repair the disk", self.path.display());
                Err(Error::new(ErrorKind::Unavailable, text).because(error))
            }
        }
    }

    /// Begins a new file when ours was moved away or removed, and follows one that a foreign hand changed.
    pub(super) fn follow(&mut self) -> Result<()> {
        if let Some(file) = &self.file
            && let Some(length) = same_file(file, &self.path)
        {
            if length != self.end {
                let broken = |error| Error::new(ErrorKind::Unavailable, "reading the end of the file").because(error);
                self.end = repair(file).map_err(broken)?;
            }
            return Ok(());
        }
        self.begin()
    }

    /// Gives way to a new file where it is time for one. Whenever the process ends in between, every line that was
    /// acknowledged stands in a whole file, under the old name or under the new one.
    fn rotate_before(&mut self, more: u64) -> Result<()> {
        let age = SystemTime::now().duration_since(self.began).unwrap_or_default();
        if !self.rotation.is_due(self.end, more, age) {
            return Ok(());
        }
        let Some(file) = &self.file else { return Ok(()) };
        let broken = |error: io::Error| {
            let text = format!("rotating {}; its folder must be writable, or set no rotation", self.path.display());
            Error::new(kind_of_open(&error), text).because(error)
        };
        file.sync_data().map_err(broken)?;
        let old = rotation::old_name(&self.path, Timestamp::now()).map_err(broken)?;
        fs::rename(&self.path, &old).map_err(broken)?;
        // The old name is durable before there is a new file: a crash of the machine cannot leave that alone.
        sync_folder(&self.path).map_err(broken)?;
        self.begin()?;
        if let Some(keep) = self.rotation.keep
            && let Err(error) = rotation::remove_oldest(&self.path, keep)
        {
            tracing::warn!(path = %self.path.display(), %error, "could not remove the oldest rotated files");
        }
        Ok(())
    }

    /// Opens what the path names now.
    fn begin(&mut self) -> Result<()> {
        // The lock of the old file goes first: the new one may be the same file, opened again.
        self.file = None;
        let Opened { file, end, began } = open(&self.path)?;
        (self.file, self.end, self.began) = (Some(file), end, began);
        Ok(())
    }
}

/// What a path names through links, whether it is there yet or not: a rotation would rename the link and not the file,
/// and the folder that is synced would not be the file's.
fn followed(path: PathBuf) -> PathBuf {
    let mut end = path.clone();
    for _ in 0..LINKS {
        match fs::read_link(&end) {
            Ok(target) => end = folder(&end).join(target),
            Err(_) => break,
        }
    }
    // A link below /proc may name what has no path.
    if path.exists() && !end.exists() { path } else { end }
}

fn open(path: &Path) -> Result<Opened> {
    let doing = |what: &str| format!("{what} the file {}", path.display());
    let fresh = !path.exists();
    // No `append`: a failed batch is overwritten by the next one at the same place.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|error| Error::new(kind_of_open(&error), doing("opening")).because(error))?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        let text = format!("{} is not a regular file; name a file, or use stdout:", path.display());
        return Err(Error::new(ErrorKind::Config, text));
    }
    match lock(&file) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let text = format!(
                "another process writes {}, or another broker or archive of this one does; name another file: one \
                 relay writes a file, and an archive and a file broker never share one",
                path.display()
            );
            return Err(Error::new(ErrorKind::Config, text));
        }
        Err(TryLockError::Error(error)) => {
            return Err(Error::new(ErrorKind::Config, doing("locking")).because(error));
        }
    }
    let broken = |error: io::Error| Error::new(ErrorKind::Unavailable, doing("reading the end of")).because(error);
    let end = repair(&file).map_err(broken)?;
    // An empty file may have been made by one who died before that.
    if fresh || end == 0 {
        sync_folder(path).map_err(broken)?;
    }
    // Not every file system knows when a file was made.
    let began = file.metadata().and_then(|metadata| metadata.created().or_else(|_| metadata.modified()));
    Ok(Opened { file, end, began: began.unwrap_or_else(|_| SystemTime::now()) })
}

fn lock(file: &File) -> std::result::Result<(), TryLockError> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_PATIENCE => thread::sleep(LOCK_PATIENCE / 50),
            done => return done,
        }
    }
}

/// A full disk or table of files passes by itself; the rest needs a human.
fn kind_of_open(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::Interrupted => {
            ErrorKind::Unavailable
        }
        _ => ErrorKind::Config,
    }
}

/// Cuts off what stands after the last line break, and returns the length that remains.
fn repair(mut file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let mut upto = length;
    let mut piece = Vec::new();
    let end = loop {
        if upto == 0 {
            break 0;
        }
        let from = upto.saturating_sub(STEP);
        file.seek(SeekFrom::Start(from))?;
        piece.clear();
        Read::take(file, upto - from).read_to_end(&mut piece)?;
        if let Some(at) = piece.iter().rposition(|byte| *byte == b'\n') {
            break from + at as u64 + 1;
        }
        upto = from;
    };
    if end < length {
        file.set_len(end)?;
        file.sync_data()?;
    }
    Ok(end)
}

/// The name of a new file is durable only once its folder is synced.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder(path))?.sync_all() } else { Ok(()) }
}

/// The folder of a file.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The length of our file, if the path still names it.
#[cfg(unix)]
fn same_file(file: &File, path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let (ours, named) = (file.metadata().ok()?, path.metadata().ok()?);
    (ours.dev() == named.dev() && ours.ino() == named.ino()).then_some(ours.len())
}

/// The length of our file, if the path still names one.
#[cfg(not(unix))]
fn same_file(file: &File, path: &Path) -> Option<u64> {
    path.metadata().ok()?;
    file.metadata().ok().map(|ours| ours.len())
}
