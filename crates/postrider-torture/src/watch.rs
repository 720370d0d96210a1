//! Looks at everything from outside while the run goes on: the outbox, its lanes, and the relays' processes.

use std::collections::{HashMap, HashSet};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::fleet::{Fleet, Report, Slot, usage};
use crate::judge::UNFLUSHED;
use crate::moment::Moment;
use crate::place::store::{Books, Look, Owned, Store};
use crate::plan::Kind;
use crate::record::{Record, Recorder, Sample, Takeover};
use crate::settings::Settings;

/// How often the outbox is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How often the processes are.
const PROCESSES: Duration = Duration::from_secs(1);
/// How often the relays are asked what was refused to them.
const FENCES: Duration = Duration::from_millis(500);
/// The relays' gauges about the outbox are this old at most: a minute where the last count was slow (docs/metrics.md),
/// and a count.
const GAUGES: Duration = Duration::from_secs(65);

/// The watchers.
#[derive(Debug)]
pub struct Watch {
    tasks: Vec<JoinHandle<()>>,
}

impl Watch {
    /// Starts them.
    pub fn start(recorder: &Arc<Recorder>, fleet: &Arc<Fleet>, store: &Arc<Store>) -> Self {
        let outbox = Outbox { recorder: Arc::clone(recorder), store: Arc::clone(store), owners: HashMap::new() };
        let processes = look_at_processes(Arc::clone(recorder), Arc::clone(fleet), Arc::clone(store));
        let fences = look_at_fences(Arc::clone(recorder), Arc::clone(fleet));
        Self { tasks: vec![tokio::spawn(outbox.look_for_ever()), tokio::spawn(processes), tokio::spawn(fences)] }
    }

    /// Ends them.
    pub async fn stop(self) {
        for task in self.tasks {
            task.abort();
            let _ = task.await;
        }
    }
}

#[derive(Debug)]
struct Outbox {
    recorder: Arc<Recorder>,
    store: Arc<Store>,
    /// Each lane's last known owner and term.
    owners: HashMap<u16, (i64, Option<String>)>,
}

impl Outbox {
    async fn look_for_ever(mut self) {
        // Lanes of killed relays that have no other owner yet: the fault, and the term they had.
        let mut orphans: HashMap<usize, HashMap<u16, i64>> = HashMap::new();
        let mut known = 0;
        let recorder = Arc::clone(&self.recorder);
        loop {
            if let Ok(look) = self.store.look().await {
                let at = recorder.now();
                let mut record = recorder.open();
                while let Some(fault) = record.faults.get(known) {
                    if fault.kind == Kind::RelayKill {
                        let owned = self.owners.iter().filter(|(_, (_, owner))| owner.as_ref() == Some(&fault.target));
                        let lanes: HashMap<u16, i64> = owned.map(|(lane, (term, _))| (*lane, *term)).collect();
                        if !lanes.is_empty() {
                            record.faults[known].takeover = Takeover::Awaited;
                            orphans.insert(known, lanes);
                        }
                    }
                    known += 1;
                }
                orphans.retain(|fault, lanes| {
                    lanes.retain(|lane, term| {
                        !look.lanes.iter().any(|now| now.lane == *lane && now.owner.is_some() && now.term > *term)
                    });
                    if lanes.is_empty()
                        && let Some(fault) = record.faults.get_mut(*fault)
                    {
                        fault.takeover = Takeover::After(at.since(fault.from));
                    }
                    !lanes.is_empty()
                });
                note(&mut record, at, &look);
                if self.moved(&look.lanes) {
                    record.takeovers += 1;
                }
            }
            sleep(LOOK).await;
        }
    }

    /// Whether a lane has another owner than at the last look.
    fn moved(&mut self, lanes: &[Owned]) -> bool {
        let mut moved = false;
        for lane in lanes.iter().filter(|lane| lane.owner.is_some()) {
            let now = (lane.term, lane.owner.clone());
            let before = self.owners.insert(lane.lane, now.clone());
            moved |= before.is_some_and(|before| before != now);
        }
        moved
    }
}

fn note(record: &mut Record, at: Moment, look: &Look) {
    let highest = &mut record.highest;
    highest.backlog = highest.backlog.max(look.pending);
    highest.table = highest.table.max(look.table);
    highest.log = highest.log.max(look.log);
    let rss = record.samples.last().map_or(0, |sample| sample.rss);
    record.samples.push(Sample { at, backlog: look.pending, rss });
}

async fn look_at_processes(recorder: Arc<Recorder>, fleet: Arc<Fleet>, store: Arc<Store>) {
    loop {
        let mut largest = 0;
        for slot in fleet.slots() {
            // Whatever is being done to a process right now is known to who does it.
            let ended = slot.try_hold().and_then(|mut held| {
                let ended = Slot::ended(&mut held)?;
                let name = held.as_ref().map(|running| running.name.clone()).unwrap_or_default();
                let told = format!("{name} ended by itself, {ended}: {}", slot.log_end(6));
                Fleet::kill(slot, &mut held);
                let again = slot.number < fleet.regular().len();
                let started = if again { fleet.start(slot, &mut held, 0) } else { Ok(()) };
                Some(match started {
                    Ok(()) => told,
                    Err(error) => format!("{told}; and {error}"),
                })
            });
            if let Some(told) = ended {
                recorder.wrong("I15", told);
            }
            let Some(facts) = slot.facts() else { continue };
            let (rss, files) = usage(facts.pid);
            let connections = store.connections(&facts.name).await;
            largest = largest.max(rss);
            let mut record = recorder.open();
            record.highest.rss = record.highest.rss.max(rss);
            record.highest.files = record.highest.files.max(files);
            record.highest.connections = record.highest.connections.max(connections);
        }
        if let Some(sample) = recorder.open().samples.last_mut() {
            sample.rss = largest;
        }
        sleep(PROCESSES).await;
    }
}

/// Apart from the others: a relay that stands still keeps who asks it waiting.
async fn look_at_fences(recorder: Arc<Recorder>, fleet: Arc<Fleet>) {
    loop {
        for slot in fleet.slots() {
            let (Some(facts), Some(text)) = (slot.facts(), slot.metrics().await) else { continue };
            if let Some(fenced) = value(&text, "postrider_fenced_total") {
                recorder.open().fenced.insert(facts.name, fenced);
            }
        }
        sleep(FENCES).await;
    }
}

/// What the relays and `postrider status` say when everything is still.
#[derive(Debug, Default)]
pub struct Settlement {
    looked: bool,
    reports: Vec<(String, Option<Report>)>,
    wrong: Vec<String>,
    idle: Vec<String>,
}

impl Settlement {
    /// Looks, when the outbox has been empty for a while.
    pub async fn look(fleet: &Fleet, store: &Store, settings: &Settings) -> Self {
        let mut settlement = Self { looked: true, ..Self::default() };
        let truth = store.look().await.unwrap_or_default();
        settlement.gauges(fleet, truth.dead).await;
        if truth.idle > 0 {
            settlement.idle.push(format!("{} sessions are idle in a transaction", truth.idle));
        }
        for slot in fleet.regular() {
            let name = slot.facts().map(|facts| facts.name).unwrap_or_default();
            settlement.reports.push((name, slot.report().await));
        }
        settlement.status(fleet, store, settings, truth.dead).await;
        settlement
    }

    /// The gauges about the outbox, of the relay that counts: within a few seconds they say what is so.
    async fn gauges(&mut self, fleet: &Fleet, dead: u64) {
        let until = tokio::time::Instant::now() + GAUGES;
        loop {
            let (mut pending, mut letters, mut oldest) = (None, None, None);
            for slot in fleet.regular() {
                let Some(text) = slot.metrics().await else { continue };
                // The owner of the first lane counts; the others may show what they saw when they were it.
                if !value(&text, "postrider_lane_held{lane=\"0\"}").is_some_and(|held: f64| held > 0.0) {
                    continue;
                }
                pending = value(&text, "postrider_pending_messages");
                letters = value(&text, "postrider_dead_letters");
                oldest = value(&text, "postrider_oldest_pending_seconds");
            }
            #[expect(clippy::cast_precision_loss, reason = "a few dead letters")]
            let well = pending == Some(0.0) && letters == Some(dead as f64) && oldest.unwrap_or(0.0) == 0.0;
            if well {
                return;
            }
            if tokio::time::Instant::now() > until {
                let told = format!(
                    "the gauges say pending {pending:?}, dead {letters:?}, oldest {oldest:?}; the outbox has 0 and {dead}"
                );
                self.wrong.push(told);
                return;
            }
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// `postrider status` over everything.
    async fn status(&mut self, fleet: &Fleet, store: &Store, settings: &Settings, dead: u64) {
        let Some(admin) = fleet.regular().iter().find_map(|slot| slot.facts()?.admin) else {
            self.wrong.push("no relay says where its admin address is".to_owned());
            return;
        };
        let mut command = postrider_testkit::command::command(&settings.relay_bin.to_string_lossy());
        command.args(["status", "--json", "--admin", &admin, "--store"]).current_dir(&settings.out);
        command.arg(store.relay_url(store.port().unwrap_or(0), "status"));
        let output = match tokio::process::Command::from(command).output().await {
            Ok(output) => output,
            Err(error) => return self.wrong.push(format!("postrider status cannot be run: {error}")),
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let count = |name: &str| json[name]["value"].as_u64();
        if output.status.code() != Some(0) {
            let err = String::from_utf8_lossy(&output.stderr).into_owned();
            self.wrong.push(format!("postrider status ends with {}: {text}{err}", output.status));
        }
        for (name, truth) in [("pending", 0), ("dead", dead)] {
            if count(name) != Some(truth) {
                self.wrong.push(format!("postrider status says {name} {:?}, the outbox has {truth}", count(name)));
            }
        }
    }

    /// Compares with the books.
    pub fn judge(self, record: &mut Record, books: &Books) {
        if !self.looked {
            return;
        }
        record.wrong.extend(self.wrong.into_iter().map(|what| ("I13", what)));
        record.wrong.extend(self.idle.into_iter().map(|what| ("I15", what)));
        let known: HashSet<&str> = books.gone.iter().map(|gone| gone.by.as_str()).collect();
        if known.len() < 2 && known.contains("") {
            return;
        }
        let undone = undone_at_most(record);
        for (name, report) in self.reports {
            let Some(report) = report else {
                record.wrong.push(("I13", format!("{name} says nothing about itself")));
                continue;
            };
            let removed =
                books.gone.iter().filter(|gone| gone.by == name && matches!(gone.state, 0 | 2)).count() as u64;
            // After a lost answer of the database a relay finds rows gone and does not know that it was itself.
            if report.delivered > removed + undone {
                let told = format!(
                    "{name} says delivered {}, and removed {removed}; crashes of the database undid {undone} at most",
                    report.delivered
                );
                record.wrong.push(("I13", told));
            }
            // Nor does it count what it removed and heard nothing of before its lanes were taken.
            if report.delivered < removed / 2 {
                let told = format!("{name} says delivered {}, and removed {removed}", report.delivered);
                record.wrong.push(("I13", told));
            }
        }
    }
}

/// How many removals the crashes of the database can have undone.
fn undone_at_most(record: &Record) -> u64 {
    let crashes = || record.faults.iter().filter(|fault| fault.kind == Kind::DatabaseKill).map(|fault| fault.from);
    let near = |at: Moment| crashes().any(|crash| crash.before(UNFLUSHED) <= at && at <= crash);
    record.delivered.iter().filter(|delivered| near(delivered.at)).count() as u64
}

/// The value of a counter or of a gauge in Prometheus' text.
fn value<T: FromStr>(text: &str, name: &str) -> Option<T> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}
