//! Time: gaps, recovery, takeovers, and the application's own transactions.

use std::collections::HashMap;
use std::time::Duration;

use uuid::Uuid;

use super::{Case, Finding, MAX_BACKOFF, aftermath, outside, windows, within};
use crate::moment::Moment;
use crate::plan::Kind;
use crate::record::{Class, Fault, Key, Takeover};

/// What a poll, a page and a busy machine may add.
const GRACE: Duration = Duration::from_secs(2);
/// What draining may take on top of the backlog's own time.
const RECOVERY: Duration = Duration::from_secs(15);
/// Messages per second that a backlog drains with at least.
const DRAIN: u64 = 300;
/// What a takeover may take on top of the lease.
const TAKEOVER: Duration = Duration::from_secs(3);

/// I9: while nothing is wrong, a key with something to deliver is not left alone longer than a lease, a backoff and a
/// little. How long one message waits says nothing: before it may stand thousands of its key.
pub fn gaps(case: &Case<'_>) -> Finding {
    let mut finding = Finding::new("I9", "no pending key rests undisturbed for longer than lease + backoff + 2 s");
    let bound = case.settings.lease() + MAX_BACKOFF + GRACE;
    let disturbed = windows(&with_drains(case), aftermath(case.settings), |_| true);
    let mut first: HashMap<Uuid, Moment> = HashMap::new();
    for delivered in &case.record.delivered {
        first.entry(delivered.id).or_insert(delivered.at);
    }
    let mut of_keys: HashMap<Key, Vec<Moment>> = HashMap::new();
    for (id, at) in &first {
        if let Some(written) = case.record.written.get(id) {
            of_keys.entry(written.key).or_default().push(*at);
        }
    }
    of_keys.values_mut().for_each(|moments| moments.sort_unstable());
    let before = |key: Key, until: Moment| {
        let moments = of_keys.get(&key)?;
        moments.get(moments.partition_point(|at| *at < until).checked_sub(1)?).copied()
    };
    let mut longest = Duration::ZERO;
    for (id, written) in &case.record.written {
        // What is held rests until somebody replays it, and what has an end may have met it.
        let is_expected = written.key.is_prompt() || written.key.class == Class::Delayed;
        if !written.in_ledger || !is_expected || written.acknowledged == Moment::NEVER {
            continue;
        }
        let ready = written.acknowledged.max(written.not_before);
        let until = first.get(id).copied().unwrap_or(case.ended);
        let from = before(written.key, until).map_or(ready, |last| last.max(ready));
        let rested = outside(&disturbed, from, until);
        longest = longest.max(rested);
        if rested > bound {
            finding.breaks_at(written, || {
                let key = written.key;
                format!("{id} waits, and of key {key} nothing was delivered from {from} to {until}, undisturbed for {rested:.1?}")
            });
        }
    }
    finding.measured = format!("longest {longest:.2?} of {bound:.1?}");
    finding
}

/// The faults, each with the time in which what waited at its end drains.
fn with_drains(case: &Case<'_>) -> Vec<Fault> {
    let samples = &case.record.samples;
    let longer = |fault: &Fault| {
        let seen = samples.partition_point(|sample| sample.at <= fault.until);
        let waited = seen.checked_sub(1).and_then(|last| samples.get(last)).map_or(0, |sample| sample.backlog);
        Fault { until: fault.until.after(Duration::from_secs(waited / DRAIN)), ..fault.clone() }
    };
    case.record.faults.iter().map(longer).collect()
}

/// I10: after the last fault the backlog is gone in time; a killed relay's lanes have another owner in time.
pub fn recovery(case: &Case<'_>) -> Finding {
    let mut finding = Finding::new("I10", "after the last fault the backlog drains; takeover within lease + 3 s");
    let allowed = RECOVERY + Duration::from_secs(case.backlog / DRAIN) + case.settings.lease();
    match case.drained {
        Some(drained) => {
            let took = drained.since(case.healed);
            finding.measured = format!("{} drained in {took:.1?} of {allowed:.0?}", case.backlog);
            if took > allowed {
                finding.breaks(|| format!("it took {took:.1?}"));
            }
        }
        None => {
            finding.measured = format!("{} waited when everything had healed", case.backlog);
            finding.breaks(|| format!("{} messages still wait at {}", case.pending.len(), case.ended));
        }
    }
    let bound = case.settings.lease() + TAKEOVER;
    let all = takeovers(case);
    for (fault, took) in &all {
        let (target, from) = (&fault.target, fault.from);
        match took {
            Some(took) if *took <= bound => {}
            Some(took) => finding.breaks(|| format!("the lanes of {target} had no owner for {took:.1?} from {from}")),
            None => finding.breaks(|| format!("the lanes of {target} had no other owner ever, from {from}")),
        }
    }
    let worst = all.iter().filter_map(|(_, took)| *took).max().unwrap_or_default();
    finding.measured += &format!("; {} takeovers, longest {worst:.1?} of {bound:.1?}", all.len());
    finding
}

/// The takeovers that can be judged, with how long they took; nothing where they never came.
///
/// Of a kill that left lanes behind, with nothing else in the way until they had another owner or should have had one.
/// That one came late is no reason not to judge it.
pub fn takeovers<'a>(case: &Case<'a>) -> Vec<(&'a Fault, Option<Duration>)> {
    let faults = &case.record.faults;
    let bound = case.settings.lease() + TAKEOVER;
    let is_alone = |fault: &Fault, until: Moment| {
        !faults.iter().any(|other| {
            !std::ptr::eq(other, fault)
                && other.kind != Kind::WriterCut
                && other.from <= until
                && other.until.after(Duration::from_secs(3)) >= fault.from
        })
    };
    let mut judged = Vec::new();
    for fault in faults {
        let took = match fault.takeover {
            Takeover::Needless => continue,
            Takeover::Awaited => None,
            Takeover::After(took) => Some(took),
        };
        let until = fault.from.after(took.map_or(bound, |took| took.min(bound)));
        let has_had_its_time = took.is_some() || until <= case.healed;
        if has_had_its_time && is_alone(fault, until) {
            judged.push((fault, took));
        }
    }
    judged
}

/// I14: faults of relays and broker do nothing to the application's own transactions.
pub fn application(case: &Case<'_>) -> Finding {
    let mut finding = Finding::new("I14", "the application's transactions do not feel faults of relays and broker");
    let all = windows(&case.record.faults, Duration::from_secs(2), |_| true);
    let own = windows(&case.record.faults, Duration::from_secs(10), |fault| fault.kind.touches_application());
    let store = case.settings.store;
    let locked =
        windows(&case.record.faults, Duration::from_secs(2), |fault| fault.kind.may_keep_the_write_lock(store));
    let (mut quiet, mut during, mut failed) = (Vec::new(), Vec::new(), 0_u64);
    for felt in &case.record.felt {
        let end = felt.at.after(felt.took);
        let is_excused = |at| within(&own, at) || within(&locked, at);
        if is_excused(felt.at) || is_excused(end) {
            continue;
        }
        let hurt = within(&all, felt.at) || within(&all, end);
        if felt.well {
            if hurt { during.push(felt.took) } else { quiet.push(felt.took) }
        } else {
            failed += 1;
            finding.breaks(|| format!("a transaction failed at {}, and nothing was wrong with the database", felt.at));
        }
    }
    let (before, under) = (percentile(&mut quiet, 99), percentile(&mut during, 99));
    finding.measured = format!(
        "p99 {before:.1?} in quiet ({}), {under:.1?} under faults of others ({}), failed {failed}",
        quiet.len(),
        during.len()
    );
    // Receivers that catch up after an outage of the broker take the processors that the application needs.
    let is_alone = case.settings.consumer.is_none();
    // Enough of both, or the 99th of a hundred says nothing.
    if is_alone && quiet.len() >= 300 && during.len() >= 300 && under > before * 2 + Duration::from_millis(50) {
        finding.breaks(|| format!("p99 grew from {before:.1?} to {under:.1?}"));
    }
    finding
}

/// The time that this part of all, in percent, did not exceed.
pub fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(index).copied().unwrap_or_default()
}
