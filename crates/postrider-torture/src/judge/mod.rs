//! The verdict: each invariant, with how often it was broken and by what.

mod books;
mod delivery;
mod effects;
mod flight;
mod isolation;
mod liveness;
mod order;
mod repeats;
mod time;
mod window;

use std::time::Duration;

use serde::Serialize;

use crate::moment::Moment;
use crate::record::{Fault, Record, Written};
use crate::settings::{BrokerKind, Settings};

pub use isolation::lags;
pub use liveness::{percentile, takeovers};
pub use window::{Place, history};

/// The longest pause before a destination that is away is tried again, as the relays are configured.
pub const MAX_PAUSE: Duration = Duration::from_secs(1);
/// The longest interval between two attempts, as the relays are configured.
pub const MAX_BACKOFF: Duration = Duration::from_secs(1);
/// How long an acknowledgement is waited for, as the relays are configured.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(2);
/// How much later than that Kafka's client may tell that it did not come.
const KAFKA_NOTICES: Duration = Duration::from_secs(3);
/// What a crash of the database undoes reaches so far back: the removal of a delivered message is on disk 0.6 s after it
/// (docs/adr/0004), and comes some time after the broker took it.
pub const UNFLUSHED: Duration = Duration::from_secs(2);
/// Witnesses that are shown of each.
const WITNESSES: usize = 5;

/// What is judged beside the record.
#[derive(Debug)]
pub struct Case<'a> {
    /// What was asked for.
    pub settings: &'a Settings,
    /// What happened.
    pub record: &'a Record,
    /// Windows without faults.
    pub quiet: &'a [(Moment, Moment)],
    /// When the load ended and everything had healed.
    pub healed: Moment,
    /// Messages that waited then.
    pub backlog: u64,
    /// When nothing waited any more; none if it never came to that.
    pub drained: Option<Moment>,
    /// Messages that were given up, with the reason.
    pub dead: &'a [(uuid::Uuid, i16)],
    /// Messages that wait at the end.
    pub pending: &'a [uuid::Uuid],
    /// When the run was over.
    pub ended: Moment,
}

/// One invariant, judged.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Such as `I1`.
    pub id: &'static str,
    /// What must hold.
    pub says: &'static str,
    /// What was counted or measured.
    pub measured: String,
    /// How often it was broken.
    pub broken: u64,
    /// The first of them.
    pub witnesses: Vec<String>,
    /// The messages whose history shows it.
    #[serde(skip)]
    pub places: Vec<Place>,
}

impl Finding {
    fn new(id: &'static str, says: &'static str) -> Self {
        Self { id, says, measured: String::new(), broken: 0, witnesses: Vec::new(), places: Vec::new() }
    }

    fn breaks(&mut self, witness: impl FnOnce() -> String) {
        self.broken += 1;
        if self.witnesses.len() < WITNESSES {
            self.witnesses.push(witness());
        }
    }

    /// What was written down as wrong on the way, for this invariant.
    fn breaks_as_told(&mut self, case: &Case<'_>) {
        let id = self.id;
        for (_, what) in case.record.wrong.iter().filter(|(invariant, _)| *invariant == id) {
            self.breaks(|| what.clone());
        }
    }

    fn breaks_at(&mut self, written: &Written, witness: impl FnOnce() -> String) {
        if self.places.len() < WITNESSES {
            self.places.push(Place { key: written.key, n: written.n, begun: written.begun });
        }
        self.breaks(witness);
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Everything held, and the faults hit.
    Pass,
    /// Something was broken.
    Violation,
    /// Everything held, and the run proves little.
    Inconclusive,
}

/// The judgement of a run.
#[derive(Debug)]
pub struct Judgement {
    /// Each invariant.
    pub findings: Vec<Finding>,
    /// Why the run proves little; empty when it does not.
    pub vacuous: Vec<String>,
    /// What follows.
    pub verdict: Verdict,
}

/// Judges.
pub fn judge(case: &Case<'_>) -> Judgement {
    let mut findings = vec![
        delivery::no_loss(case),
        delivery::no_ghost(case),
        order::serialised(case),
        order::unserialised(case),
        repeats::explained(case),
        books::retention(case),
        delivery::integrity(case),
        books::fencing(case),
        liveness::gaps(case),
        liveness::recovery(case),
        isolation::isolation(case),
        flight::bounds(case),
        flight::told("I13", "status and metrics equal what was observed", case),
        liveness::application(case),
        time::kept(case),
        flight::told("I15", "no panic, no unexpected end, nothing left open", case),
    ];
    findings.extend(effects::once(case));
    findings.sort_by_key(|finding| {
        let number: String = finding.id.chars().filter(char::is_ascii_digit).collect();
        (number.parse().unwrap_or(0_u32), finding.id.len())
    });
    let vacuous = flight::vacuous(case);
    let verdict = if findings.iter().any(|finding| finding.broken > 0) {
        Verdict::Violation
    } else if vacuous.is_empty() {
        Verdict::Pass
    } else {
        Verdict::Inconclusive
    };
    Judgement { findings, vacuous, verdict }
}

/// What a fault may still cause after it has ended.
fn aftermath(settings: &Settings) -> Duration {
    settings.lease() + publish_takes(settings.broker) + MAX_PAUSE
}

/// How long one publish may take: to Kafka a message may be sent until the timeout is over, and is waited for as long.
fn publish_takes(broker: BrokerKind) -> Duration {
    match broker {
        BrokerKind::Nats | BrokerKind::Http | BrokerKind::File => PUBLISH_TIMEOUT,
        BrokerKind::Kafka | BrokerKind::Kafka3 => PUBLISH_TIMEOUT * 2 + KAFKA_NOTICES,
    }
}

/// Windows in which something was wrong, or what was wrong still had its effects: merged, in order.
fn windows(faults: &[Fault], after: Duration, counts: impl Fn(&Fault) -> bool) -> Vec<(Moment, Moment)> {
    let mut all: Vec<_> = faults
        .iter()
        .filter(|fault| counts(fault))
        .map(|fault| (fault.from.before(Duration::from_millis(50)), fault.until.after(after)))
        .collect();
    all.sort_unstable();
    let mut merged: Vec<(Moment, Moment)> = Vec::new();
    for (from, until) in all {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            _ => merged.push((from, until)),
        }
    }
    merged
}

/// Which of the windows a moment is in.
fn window_of(windows: &[(Moment, Moment)], at: Moment) -> Option<usize> {
    let before = windows.partition_point(|(from, _)| *from <= at).checked_sub(1)?;
    windows.get(before).filter(|(_, until)| at <= *until).map(|_| before)
}

fn within(windows: &[(Moment, Moment)], at: Moment) -> bool {
    window_of(windows, at).is_some()
}

/// How much of a span lies outside of the windows.
fn outside(windows: &[(Moment, Moment)], from: Moment, until: Moment) -> Duration {
    let covered: Duration = windows.iter().map(|(start, end)| (*end).min(until).since((*start).max(from))).sum();
    until.since(from).saturating_sub(covered)
}

#[cfg(test)]
mod tests;
