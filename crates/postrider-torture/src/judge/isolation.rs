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
/// Where a message has waited for longer when poison comes, the relays were behind already: what waits there waits for what
/// stands before the poison.
const BEHIND: Duration = Duration::from_millis(500);
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
    let lags = lags(case);
    let (mut poison, mut moments, mut behind) = (0_u64, Vec::new(), Vec::new());
    for (id, written) in poisoned {
        poison += 1;
        let came = written.acknowledged;
        if came != Moment::NEVER {
            let which = if are_behind(&lags, came) { &mut behind } else { &mut moments };
            which.push((came, came.after(BESIDE)));
        }
        if case.drained.is_some() && !dead.contains_key(id) {
            finding.breaks_at(written, || format!("{id} is poison and no dead letter"));
        }
    }
    moments.sort_unstable();
    behind.sort_unstable();
    let disturbed = windows(&case.record.faults, aftermath(case.settings), |_| true);
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for (at, lag) in lags {
        if outside(&disturbed, at, at.after(lag)) < lag || within(&disturbed, at) {
            continue;
        }
        if within(&moments, at) {
            beside.push(lag);
        } else if !within(&behind, at) {
            alone.push(lag);
        }
    }
    let (without, with) = (percentile(&mut alone, 99), percentile(&mut beside, 99));
    if alone.len() >= ENOUGH && beside.len() >= ENOUGH && with > without * 2 + CHANCE {
        finding.breaks(|| format!("p99 from commit to delivery grew from {without:.1?} to {with:.1?} beside poison"));
    }
    finding.measured = format!(
        "poisoned {poison}, {} of it behind a backlog, dead {}, of which {expired} expired; replayed {}; p99 {with:.1?} beside poison ({}), {without:.1?} elsewhere ({})",
        behind.len(),
        dead.len(),
        case.record.replayed,
        beside.len(),
        alone.len()
    );
    finding
}

/// Whether at this moment a message waits that was committed well before it.
fn are_behind(lags: &[(Moment, Duration)], at: Moment) -> bool {
    lags.iter().any(|(committed, lag)| committed.after(BEHIND) < at && committed.after(*lag) > at)
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
