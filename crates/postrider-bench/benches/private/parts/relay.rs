//! The real relay as a process of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use postrider_testkit::command::command;
use postrider_testkit::servers::process::{Signal, signal};

use super::processes::{peak_megabytes, process_seconds};

/// How long a relay may take to end that was told to.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long one may take to empty the largest backlog.
const EMPTYING: Duration = Duration::from_secs(3_600);

/// A relay that runs until it is dropped.
pub struct RelayProcess {
    child: Child,
    last_line: Option<JoinHandle<String>>,
}

/// What a relay used, and what it did with it.
#[derive(Debug, Clone, Copy)]
pub struct Used {
    /// Seconds of processor time.
    pub seconds: f64,
    /// Its largest resident set.
    pub megabytes: f64,
    /// How many messages it delivered and settled, as it says itself.
    pub delivered: u64,
}

impl RelayProcess {
    pub fn start(program: &Path, store: &str, broker: &str, further: &[&str]) -> Self {
        let mut command = command(program.to_str().unwrap());
        command
            .args(["relay", "--store", store, "--broker", broker, "--log-level", "warn", "--admin-listen", "off"])
            .args(further);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = child.stderr.take().unwrap();
        Self { child, last_line: Some(std::thread::spawn(|| last_line(said))) }
    }

    /// Waits until it ends by itself, and looks at it all the while.
    pub async fn ended(self) -> Used {
        tokio::task::spawn_blocking(|| self.watched(EMPTYING)).await.unwrap()
    }

    /// Tells it to end, and waits for that.
    pub async fn stopped(self) -> Used {
        signal(self.child.id(), Signal::Terminate).unwrap();
        tokio::task::spawn_blocking(|| self.watched(PATIENCE)).await.unwrap()
    }

    fn watched(mut self, patience: Duration) -> Used {
        let (began, mut seconds, mut megabytes) = (Instant::now(), 0.0_f64, 0.0_f64);
        loop {
            seconds = seconds.max(process_seconds(self.child.id()));
            megabytes = megabytes.max(peak_megabytes(self.child.id()));
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "the relay ended with {status}");
                let last = self.last_line.take().unwrap().join().unwrap();
                return Used { seconds, megabytes, delivered: delivered(&last) };
            }
            assert!(began.elapsed() < patience, "the relay still runs after {patience:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The last line of a relay is its summary; what it says before that is a warning.
fn last_line(said: ChildStderr) -> String {
    let mut last = String::new();
    for line in BufReader::new(said).lines() {
        let before = std::mem::replace(&mut last, line.unwrap());
        if !before.is_empty() {
            eprintln!("relay: {before}");
        }
    }
    last
}

fn delivered(summary: &str) -> u64 {
    let number = summary.strip_prefix("delivered ").and_then(|rest| rest.split(',').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("not a relay's summary: {summary}"))
}

/// In good order: the lanes of one that is killed wait for the end of its lease, and the next one would relay nothing
/// until then.
impl Drop for RelayProcess {
    fn drop(&mut self) {
        // Its number may be another's by now.
        if let Ok(Some(_)) = self.child.try_wait() {
            return;
        }
        let _ = signal(self.child.id(), Signal::Terminate);
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
