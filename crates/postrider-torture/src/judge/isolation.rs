//! Poison, and those beside it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use uuid::Uuid;

use super::{Case, Finding, aftermath, outside, percentile, windows, within};
use crate::moment::Moment;
use crate::record::Class;

/// A poisoned message has become a dead letter by then, and whoever had to wait for it waited then.
const BESIDE: Duration = Duration::from_secs(1);
/// What the 99th of the messages beside poison may take longer than twice that of the others: both hold bulk
/// transactions of thousands of messages, which come by chance.
const CHANCE: Duration = Duration::from_millis(500);
/// Fewer messages than this have no 99th.
const ENOUGH: usize = 300;

/// The reason of a dead letter whose end had come.
pub const EXPIRED: i16 = 3;

/// I11: poison dies, and nothing else does; what is written beside it is not kept waiting.
pub fn isolation(case: &Case<'_>) -> Finding {
    let mut finding =
        Finding::new("I11", "poison dies, what expires may, nothing else does, and nothing else waits for it");
    let dead: HashMap<Uuid, i16> = case.dead.iter().copied().collect();
    let mut expired = 0_u64;
    for (id, reason) in &dead {
        match case.record.written.get(id) {
            Some(written) if written.key.class == Class::Poison => {}
            Some(written) if written.key.class == Class::Expiring && *reason == EXPIRED => expired += 1,
            Some(written) => {
                finding.breaks_at(written, || format!("{id} of key {} was given up, reason {reason}", written.key))
            }
            None => finding.breaks(|| format!("{id}, which nobody wrote, was given up")),
        }
    }
    let poisoned =
        case.record.written.iter().filter(|(_, written)| written.key.class == Class::Poison && written.in_ledger);
    let (mut poison, mut moments) = (0_u64, Vec::new());
    for (id, written) in poisoned {
        poison += 1;
        if written.acknowledged != Moment::NEVER {
            moments.push((written.acknowledged, written.acknowledged.after(BESIDE)));
        }
        if case.drained.is_some() && !dead.contains_key(id) {
            finding.breaks_at(written, || format!("{id} is poison and no dead letter"));
        }
    }
    moments.sort_unstable();
    let disturbed = windows(&case.record.faults, aftermath(case.settings), |_| true);
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for (at, lag) in lags(case) {
        if outside(&disturbed, at, at.after(lag)) < lag || within(&disturbed, at) {
            continue;
        }
        if within(&moments, at) { beside.push(lag) } else { alone.push(lag) }
    }
    let (without, with) = (percentile(&mut alone, 99), percentile(&mut beside, 99));
    if alone.len() >= ENOUGH && beside.len() >= ENOUGH && with > without * 2 + CHANCE {
        finding.breaks(|| format!("p99 from commit to delivery grew from {without:.1?} to {with:.1?} beside poison"));
    }
    finding.measured = format!(
        "poisoned {poison}, dead {}, of which {expired} expired; replayed {}; p99 {with:.1?} beside poison ({}), {without:.1?} elsewhere ({})",
        dead.len(),
        case.record.replayed,
        beside.len(),
        alone.len()
    );
    finding
}

/// From the acknowledgement of each commit to its first delivery, in the order of the commits.
pub fn lags(case: &Case<'_>) -> Vec<(Moment, Duration)> {
    let mut seen = HashSet::new();
    let mut lags = Vec::new();
    for delivered in &case.record.delivered {
        let Some(written) = case.record.written.get(&delivered.id) else { continue };
        let is_first = seen.insert(delivered.id);
        if is_first && written.key.is_prompt() && written.acknowledged != Moment::NEVER {
            lags.push((written.acknowledged, delivered.at.since(written.acknowledged)));
        }
    }
    lags.sort_unstable();
    lags
}
