//! A file of JSON lines, followed while it grows.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::Fallible;
use crate::record::{Delivered, Recorder, print};
use crate::writers::NUMBER;

/// The file and its follower.
#[derive(Debug)]
pub struct LinesPlace {
    follower: Arc<Follower>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Follower {
    file: PathBuf,
    recorder: Arc<Recorder>,
    offset: Mutex<u64>,
}

impl Drop for LinesPlace {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl LinesPlace {
    /// Follows a file that is not there yet.
    pub fn start(folder: &Path, recorder: &Arc<Recorder>) -> Self {
        let follower = Arc::new(Follower {
            file: folder.join("delivered.jsonl"),
            recorder: Arc::clone(recorder),
            offset: Mutex::default(),
        });
        let follows = Arc::clone(&follower);
        let task = tokio::spawn(async move {
            loop {
                if let Err(error) = follows.take_in() {
                    follows.recorder.wrong("I7", format!("a line of the file cannot be read: {error}"));
                    return;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        Self { follower, task }
    }

    /// Where it is.
    pub fn file(&self) -> &Path {
        &self.follower.file
    }

    /// Takes in what there is.
    ///
    /// # Errors
    /// When a line is none of JSON.
    pub fn read_to_end(&self) -> Fallible<()> {
        self.follower.take_in()
    }
}

impl Follower {
    fn take_in(&self) -> Fallible<()> {
        let mut offset = self.offset.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(file) = File::open(&self.file) else { return Ok(()) };
        let mut reader = BufReader::new(file);
        reader.seek(SeekFrom::Start(*offset))?;
        let mut line = String::new();
        while reader.read_line(&mut line)? > 0 && line.ends_with('\n') {
            *offset += line.len() as u64;
            let delivered = self.delivered(&serde_json::from_str(&line)?);
            self.recorder.open().delivered.push(delivered);
            line.clear();
        }
        Ok(())
    }

    fn delivered(&self, line: &Value) -> Delivered {
        let header = |name: &str| line["headers"][name].as_str().unwrap_or_default();
        let payload = match line["payload"].as_str() {
            Some(text) => text.as_bytes().to_vec(),
            None => STANDARD.decode(line["payload_base64"].as_str().unwrap_or_default()).unwrap_or_default(),
        };
        let text = |name: &str| line[name].as_str().unwrap_or_default();
        Delivered {
            id: text("id").parse().unwrap_or_default(),
            at: self.recorder.now(),
            lane: header("postrider-lane").parse().unwrap_or(u16::MAX),
            term: header("postrider-term").parse().unwrap_or(-1),
            attempt: header("postrider-attempt").parse().unwrap_or(0),
            print: print(text("topic"), text("key"), header(NUMBER), &payload),
        }
    }
}
