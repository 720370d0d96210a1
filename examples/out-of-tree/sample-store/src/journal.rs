//! Transactions as lines of a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use postrider_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::record::{Delivered, Record};

/// One change of the tables; a transaction is a list of them in one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Change {
    /// The row is this now.
    Row(i64, Box<Record>),
    /// The row is gone.
    Gone(i64),
    /// A row of the history.
    Delivered(i64, Box<Delivered>),
    /// That one is gone.
    Forgotten(i64),
    /// How a lane is left: its number, its term, and whether its next owner starts cleanly.
    Lane(u16, i64, bool),
}

/// The file, open.
#[derive(Debug)]
pub struct Journal {
    file: File,
    end: u64,
}

impl Journal {
    /// Opens or creates it, and hands every transaction in it to `apply`. What was torn is cut off.
    pub fn open(path: &Path, mut apply: impl FnMut(Vec<Change>)) -> Result<Self> {
        let failed = |error: io::Error| {
            Error::new(ErrorKind::Config, format!("opening the journal {}", path.display())).because(error)
        };
        let is_new = !path.exists();
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        file.try_lock().map_err(|_| {
            Error::new(
                ErrorKind::Config,
                format!("another process works on {}; give it a file of its own", path.display()),
            )
        })?;
        let text = fs::read(path).map_err(failed)?;
        let mut end = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            let changes = serde_json::from_slice(line).map_err(|error| {
                let text = format!("{} is no journal, at byte {end}; restore it", path.display());
                Error::new(ErrorKind::Config, text).because(error)
            })?;
            apply(changes);
            end += line.len() as u64;
        }
        file.set_len(end).map_err(failed)?;
        if is_new && let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        Ok(Self { file, end })
    }

    /// Writes a transaction; when it returns, it is on disk, or nothing of it is there.
    pub fn write(&mut self, changes: &[Change]) -> Result<()> {
        let failed = |error: io::Error| Error::new(ErrorKind::Unavailable, "writing the journal").because(error);
        let mut line = serde_json::to_vec(changes).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        let seek = self.file.seek(SeekFrom::Start(self.end));
        match seek.and_then(|_| self.file.write_all(&line)).and_then(|()| self.file.sync_data()) {
            Ok(()) => {
                self.end += line.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.file.set_len(self.end).and_then(|()| self.file.sync_data()).map_err(failed)?;
                Err(failed(error))
            }
        }
    }
}
