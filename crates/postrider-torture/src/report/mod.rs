//! What a run comes to, as a table, as JSON and as a picture.

mod picture;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde::Serialize;

use crate::Fallible;
use crate::judge::{Case, Finding, Judgement, Verdict, history, lags, percentile, takeovers};
use crate::moment::Moment;
use crate::plan::Kind;
use crate::receivers::ConsumerKind;
use crate::settings::{BrokerKind, Settings, StoreKind};

/// What a figure is worth nothing without.
#[derive(Debug, Clone, Serialize)]
pub struct Circumstances {
    commit: String,
    /// The commit of every other relay, where that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    beside: Option<String>,
    build: String,
    store: StoreKind,
    broker: BrokerKind,
    /// How receivers remembered what they handled, where there were some.
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer: Option<ConsumerKind>,
    versions: String,
    machine: String,
    seed: u64,
    minutes: f64,
    relays: usize,
    writers: usize,
    rate: u32,
    lease_ms: u64,
    /// Whether the broker is killed, or only restarted in good order.
    broker_killed: bool,
    not_run: Vec<String>,
    repeat_it: String,
}

impl Circumstances {
    /// Of a run.
    pub fn of(settings: &Settings, store: String, broker: String, not_run: Vec<String>, broker_killed: bool) -> Self {
        let word = |value: &dyn erased::Word| value.word();
        let repeat_it = format!(
            "cargo xtask torture --seed {} --minutes {} --store {} --broker {} --relays {} --writers {} --rate {} \
             --lease-ms {} --mean-gap-ms {} --faults {}",
            settings.seed,
            settings.minutes,
            word(&settings.store),
            word(&settings.broker),
            settings.relays,
            settings.writers,
            settings.rate,
            settings.lease_ms,
            settings.mean_gap_ms,
            if settings.faults.is_empty() { "none" } else { &settings.faults },
        );
        let consumer = settings.consumer.map(|kind| format!(" --consumer {}", kind.word())).unwrap_or_default();
        let beside = settings.other_commit.as_ref().map(|commit| format!(" --beside {commit}")).unwrap_or_default();
        Self {
            commit: settings.commit.clone(),
            beside: settings.other_commit.clone(),
            build: settings.build.clone(),
            store: settings.store,
            broker: settings.broker,
            consumer: settings.consumer,
            versions: format!("{store}, {broker}"),
            machine: machine(),
            seed: settings.seed,
            minutes: settings.minutes,
            relays: settings.relays,
            writers: settings.writers,
            rate: settings.rate,
            lease_ms: settings.lease_ms,
            broker_killed: broker_killed && settings.broker.is_killed(),
            not_run,
            repeat_it: repeat_it + &consumer + &beside,
        }
    }
}

mod erased {
    //! The word of a choice, as it stands on the command line.

    use clap::ValueEnum;

    /// Something that has a word.
    pub trait Word {
        /// The word.
        fn word(&self) -> String;
    }

    impl<T: ValueEnum> Word for T {
        fn word(&self) -> String {
            self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
        }
    }
}

/// One kind of fault, counted.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Count {
    happened: u64,
    in_flight: u64,
}

/// Everything that is kept of a run.
#[derive(Debug, Serialize)]
struct Report<'a> {
    verdict: Verdict,
    #[serde(flatten)]
    circumstances: &'a Circumstances,
    messages: u64,
    transactions: u64,
    rolled_back: u64,
    unknown: u64,
    delivered: u64,
    repeats: u64,
    dead: u64,
    faults: u64,
    faults_by_kind: BTreeMap<&'static str, Count>,
    lanes_changed_hands: u64,
    settles_refused: u64,
    leases_found_lost: u64,
    takeovers: u64,
    takeover_p50_ms: u64,
    takeover_max_ms: u64,
    drained_ms: Option<u64>,
    lag_quiet_p50_ms: f64,
    lag_quiet_p99_ms: f64,
    lag_max_ms: u64,
    highest_memory_mb: u64,
    highest_backlog: u64,
    findings: &'a [Finding],
    proves_little_because: &'a [String],
}

/// Prints the table, and writes `report.json` and `report.svg`.
///
/// # Errors
/// When they cannot be written.
pub fn write(case: &Case<'_>, judgement: &Judgement, circumstances: &Circumstances) -> Fallible<()> {
    let report = summed(case, judgement, circumstances);
    print!("{}", table::draw(&report));
    for finding in judgement.findings.iter().filter(|finding| finding.broken > 0) {
        println!("\n{} broken {} times: {}", finding.id, finding.broken, finding.says);
        for witness in &finding.witnesses {
            println!("  {witness}");
        }
        if let Some(place) = finding.places.first() {
            println!("{}", history(case.record, *place));
        }
    }
    println!("\nrepeat it: {}", circumstances.repeat_it);
    println!("logs: {}", case.settings.out.display());
    println!("verdict: {:?}", judgement.verdict);
    fs::write(case.settings.out.join("report.json"), format!("{}\n", serde_json::to_string_pretty(&report)?))?;
    fs::write(case.settings.out.join("report.svg"), picture::draw(case))?;
    Ok(())
}

fn summed<'a>(case: &Case<'_>, judgement: &'a Judgement, circumstances: &'a Circumstances) -> Report<'a> {
    let record = case.record;
    let mut by_kind: BTreeMap<&'static str, Count> = BTreeMap::new();
    for kind in case.settings.kinds().unwrap_or_default() {
        by_kind.insert(Kind::name(kind), Count::default());
    }
    for fault in &record.faults {
        let count = by_kind.entry(fault.kind.name()).or_default();
        count.happened += 1;
        count.in_flight += u64::from(fault.in_flight > 0);
    }
    let mut takeovers: Vec<Duration> = takeovers(case).into_iter().filter_map(|(_, took)| took).collect();
    let lags = lags(case);
    let mut quiet: Vec<Duration> = lags
        .iter()
        .filter(|(at, _)| case.quiet.iter().any(|(from, until)| quiet_core(*from, *until, *at)))
        .map(|(_, lag)| *lag)
        .collect();
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let fine = |duration: Duration| (duration.as_secs_f64() * 100_000.0).round() / 100.0;
    let distinct: std::collections::HashSet<_> = record.delivered.iter().map(|delivered| delivered.id).collect();
    Report {
        verdict: judgement.verdict,
        circumstances,
        messages: record.written.values().filter(|written| written.in_ledger).count() as u64,
        transactions: record.ends.committed,
        rolled_back: record.ends.rolled_back,
        unknown: record.ends.unknown,
        delivered: record.delivered.len() as u64,
        repeats: (record.delivered.len() - distinct.len()) as u64,
        dead: case.dead.len() as u64,
        faults: record.faults.len() as u64,
        faults_by_kind: by_kind,
        lanes_changed_hands: record.takeovers,
        settles_refused: record.fenced(),
        leases_found_lost: record.stood_down,
        takeovers: takeovers.len() as u64,
        takeover_p50_ms: millis(percentile(&mut takeovers, 50)),
        takeover_max_ms: millis(percentile(&mut takeovers, 100)),
        drained_ms: case.drained.map(|drained| millis(drained.since(case.healed))),
        lag_quiet_p50_ms: fine(percentile(&mut quiet, 50)),
        lag_quiet_p99_ms: fine(percentile(&mut quiet, 99)),
        lag_max_ms: millis(lags.iter().map(|(_, lag)| *lag).max().unwrap_or_default()),
        highest_memory_mb: record.highest.rss >> 20,
        highest_backlog: record.highest.backlog,
        findings: &judgement.findings,
        proves_little_because: &judgement.vacuous,
    }
}

/// The second half of a quiet window: what went before it has healed.
fn quiet_core(from: Moment, until: Moment, at: Moment) -> bool {
    let middle = from.after(until.since(from) / 2);
    middle <= at && at < until
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or("unknown").trim().to_owned();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cores} cores, {memory} of memory, Linux {}", kernel.trim())
}
