//! Running a program to its end or to its time limit, with what it says kept in files.
//!
//! Files and not pipes: a server that a test left behind holds a pipe open for ever, a file it does not.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;

/// How a program ended.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// Whether it was ended because its time was up.
    pub timed_out: bool,
    /// What it wrote on standard output.
    pub out: String,
    /// What it wrote on standard error.
    pub err: String,
    /// How long it ran.
    pub took: Duration,
}

impl Ran {
    /// Whether it ended by itself with exit code 0.
    pub fn succeeded(&self) -> bool {
        self.code == Some(0) && !self.timed_out
    }

    /// One phrase about how it ended.
    pub fn ending(&self) -> String {
        match (self.timed_out, self.code) {
            (true, _) => format!("ended after its time limit ({})", seconds(self.took)),
            (false, Some(code)) => format!("exit code {code}"),
            (false, None) => "ended by a signal".to_owned(),
        }
    }

    /// Both outputs, standard error last.
    pub fn said(&self) -> String {
        format!("{}{}", self.out, self.err)
    }
}

/// Runs a program; its outputs go to `log` with the endings `.out` and `.err`.
pub fn run(command: &mut Command, log: &Path, limit: Duration) -> Result<Ran> {
    let (out, err) = (with_ending(log, "out"), with_ending(log, "err"));
    command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&err)?).process_group(0);
    let started = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let mut timed_out = false;
    let mut nap = Duration::from_millis(2);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > limit {
            timed_out = true;
            end_group(&mut child)?;
            break child.wait()?;
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(Duration::from_millis(50));
    };
    Ok(Ran { code: status.code(), timed_out, out: read(&out)?, err: read(&err)?, took: started.elapsed() })
}

/// A duration as people read it.
pub fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 120.0 { format!("{seconds:.1} s") } else { format!("{:.1} min", seconds / 60.0) }
}

/// The last lines of a text, for a report of failure.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn with_ending(log: &Path, ending: &str) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

fn read(file: &Path) -> Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned())
}

/// Ends the child and what stands in its process group. The shell's own `kill` is used because the program of that
/// name is not installed everywhere.
fn end_group(child: &mut Child) -> Result<()> {
    let group = child.id();
    let script = format!("kill -s TERM -- -{group}; sleep 2; kill -s KILL -- -{group}");
    Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status()?;
    // Without effect where the group is gone already.
    Ok(child.kill()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_end_is_ended_with_its_children() {
        let log = std::env::temp_dir().join(format!("xtask-limit-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 30 & echo begun; wait"]);
        let ran = run(&mut command, &log, Duration::from_millis(300)).unwrap();
        assert!(ran.timed_out && !ran.succeeded());
        assert_eq!(ran.out, "begun\n");
        assert!(ran.took < Duration::from_secs(20));
    }
}
