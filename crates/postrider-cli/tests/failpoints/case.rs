//! One point and one fault: the run, and what is wrong with it.

use std::fmt;
use std::fs::File;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use postrider_testkit::command::command;
use postrider_testkit::servers::process::{Signal, signal};
use postrider_testkit::verdict::{Verdict, judge};

use super::load::Place;

/// The lease of the relays.
const LEASE: &str = "1s";
/// What hangs does so for three leases.
const HANGS: &str = "3000";
const PATIENCE: Duration = Duration::from_secs(90);

/// What happens at the point, the first time that a process is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Abort,
    Delay,
    Error,
}

impl Fault {
    pub const ALL: [Self; 3] = [Self::Abort, Self::Delay, Self::Error];

    const fn word(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::Delay => HANGS,
            Self::Error => "error",
        }
    }
}

/// A relay that does not outlive its case.
struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A point and a fault.
#[derive(Debug)]
pub struct Case {
    pub point: String,
    pub fault: Fault,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.point, self.fault)
    }
}

/// The names of all points, as the binary tells them.
pub fn points() -> Vec<String> {
    let run = binary("sqlite:none.db").env("FAILPOINTS", "list").output().unwrap();
    let names: Vec<String> = String::from_utf8(run.stdout).unwrap().lines().map(str::to_owned).collect();
    assert!(names.len() > 40, "{names:?}");
    names
}

impl Case {
    fn step(&self) -> &str {
        self.point.split('.').next().unwrap_or_default()
    }

    /// Runs it in a fresh outbox.
    pub fn take(&self, place: &Place) -> Result<Verdict, String> {
        // The first sweep begins with the first lane's turn, which comes the sooner the more lanes there are.
        let migrate = ["migrate", "--lanes", if self.step() == "sweep" { "1024" } else { "8" }];
        if self.step() == "migrate" {
            self.once(place, &migrate)?;
        }
        succeed(place, &migrate)?;
        let mut committed = place.write();
        let met = match self.step() {
            "migrate" => None,
            "retention" => {
                finish(place, "kept")?;
                committed.extend(place.write());
                self.once(place, &PRUNE)?;
                succeed(place, &PRUNE)?;
                None
            }
            _ => Some(self.meet(place)?),
        };
        committed.extend(place.write());
        finish(place, "second")?;
        if let Some(relay) = met {
            end(relay)?;
        }
        let accepted = place.accepted();
        let verdict = judge(&committed, accepted.iter().map(String::as_str));
        if verdict.holds() { Ok(verdict) } else { Err(format!("{verdict}; {}", said(place, &["dead", "list"]))) }
    }

    fn armed(&self) -> String {
        format!("{}={}", self.point, self.fault.word())
    }

    fn is_said_by(&self, text: &str) -> bool {
        text.contains(&format!("failpoint {}:", self.point))
    }

    /// Runs a verb that ends by itself and meets the fault.
    fn once(&self, place: &Place, words: &[&str]) -> Result<(), String> {
        let run = binary(&place.store).args(words).env("FAILPOINTS", self.armed()).output();
        let run = run.map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&run.stderr);
        if !self.is_said_by(&said) {
            return Err(format!("the point was not reached: {said}"));
        }
        if run.status.success() != (self.fault == Fault::Delay) {
            return Err(format!("ended with {}: {said}", run.status));
        }
        Ok(())
    }

    /// Starts a relay that meets the fault, and waits until it has.
    fn meet(&self, place: &Place) -> Result<Relay, String> {
        if matches!(self.point.as_str(), "load.before" | "load.after" | "evict.commit") {
            die_before(place)?;
        }
        // Only a relay that is to end by itself counts at once.
        let words: &[&str] = if self.step() == "count" { &["--until-empty"] } else { &[] };
        let mut relay = relay(place, "first", words, Some(&self.armed()))?;
        if matches!(self.step(), "release" | "leave") {
            wait(
                || format!("the first relay delivers nothing: {}", log(place, "first")),
                || !place.accepted().is_empty(),
            )?;
            signal(relay.0.id(), Signal::Terminate).map_err(|error| error.to_string())?;
        }
        let not_reached = || format!("the point was not reached: {}", log(place, "first"));
        wait(not_reached, || self.is_said_by(&log(place, "first")))?;
        if self.fault == Fault::Abort {
            let status = wait_for(&mut relay)?;
            if status.success() {
                return Err(format!("the relay that was to die ended with {status}"));
            }
        }
        Ok(relay)
    }
}

const PRUNE: [&str; 3] = ["prune", "--delivered", "0s"];

/// A relay dies with messages in its hands, so that the next one evicts it and begins carefully.
fn die_before(place: &Place) -> Result<(), String> {
    let mut relay = relay(place, "before", &[], Some("publish.after=abort"))?;
    wait_for(&mut relay).map(drop)
}

pub fn binary(store: &str) -> Command {
    let mut command = command(env!("CARGO_BIN_EXE_postrider"));
    command.env_remove("FAILPOINTS").env("POSTRIDER_OUTBOX__STORE", store);
    command
}

/// What a verb prints, for a failure.
fn said(place: &Place, words: &[&str]) -> String {
    match binary(&place.store).args(words).output() {
        Ok(run) => format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr)),
        Err(error) => error.to_string(),
    }
}

fn succeed(place: &Place, words: &[&str]) -> Result<(), String> {
    let run = binary(&place.store).args(words).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&run.stderr);
    if run.status.success() { Ok(()) } else { Err(format!("{words:?} ended with {}: {said}", run.status)) }
}

fn relay(place: &Place, name: &str, words: &[&str], armed: Option<&str>) -> Result<Relay, String> {
    let log = File::create(place.log(name)).map_err(|error| error.to_string())?;
    let mut command = binary(&place.store);
    command.args(["relay", "--relay-lease", LEASE, "--admin-listen", "off", "--relay-name", name]);
    command.args(["--outbox-history", "1h", "--retry-initial", "200ms", "--broker", &place.receiver.url()]).args(words);
    if let Some(armed) = armed {
        command.env("FAILPOINTS", armed);
    }
    command.stdout(Stdio::null()).stderr(log).spawn().map(Relay).map_err(|error| error.to_string())
}

/// A relay without faults that runs until nothing is left.
fn finish(place: &Place, name: &str) -> Result<(), String> {
    let mut relay = relay(place, name, &["--until-empty"], None)?;
    let status = wait_for(&mut relay).map_err(|what| format!("{what}; {}", said(place, &["status"])))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("the relay that was to finish ended with {status}: {}", log(place, name)))
}

/// Ends a relay, if it still runs.
fn end(mut relay: Relay) -> Result<(), String> {
    if relay.0.try_wait().map_err(|error| error.to_string())?.is_none() {
        signal(relay.0.id(), Signal::Terminate).map_err(|error| error.to_string())?;
        wait_for(&mut relay)?;
    }
    Ok(())
}

fn log(place: &Place, name: &str) -> String {
    std::fs::read_to_string(place.log(name)).unwrap_or_default()
}

fn wait_for(relay: &mut Relay) -> Result<ExitStatus, String> {
    let mut status = None;
    wait(
        || "a relay does not end".to_owned(),
        || {
            status = relay.0.try_wait().ok().flatten();
            status.is_some()
        },
    )?;
    status.ok_or_else(|| "a relay does not end".to_owned())
}

fn wait(what: impl Fn() -> String, mut condition: impl FnMut() -> bool) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        if Instant::now() > deadline {
            return Err(what());
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}
