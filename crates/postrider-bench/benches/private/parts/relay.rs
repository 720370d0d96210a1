//! The real relay as a process of its own.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use postrider_testkit::command::command;
use postrider_testkit::servers::process::{Signal, signal};

use super::processes::{peak_megabytes, process_seconds};

/// How long a relay may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A relay that runs until it is dropped.
pub struct RelayProcess {
    child: Child,
}

/// What a relay used.
#[derive(Debug, Clone, Copy)]
pub struct Used {
    /// Seconds of processor time.
    pub seconds: f64,
    /// Its largest resident set.
    pub megabytes: f64,
}

impl RelayProcess {
    pub fn start(program: &Path, store: &str, broker: &str, further: &[&str]) -> Self {
        let mut command = command(program.to_str().unwrap());
        command
            .args(["relay", "--store", store, "--broker", broker, "--log-level", "warn", "--admin-listen", "off"])
            .args(further);
        Self { child: command.stdout(Stdio::null()).spawn().unwrap() }
    }

    /// Waits for its end, and looks at it all the while.
    pub fn used(mut self) -> Used {
        let mut used = Used { seconds: 0.0, megabytes: 0.0 };
        loop {
            used.seconds = used.seconds.max(process_seconds(self.child.id()));
            used.megabytes = used.megabytes.max(peak_megabytes(self.child.id()));
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "the relay ended with {status}");
                return used;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// In good order: the lanes of one that is killed wait for the end of its lease, and the next one would relay nothing
/// until then.
impl Drop for RelayProcess {
    fn drop(&mut self) {
        let _ = signal(self.child.id(), Signal::Terminate);
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
