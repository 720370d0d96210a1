//! Order per key.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::isolation::EXPIRED;
use super::{Case, Finding};
use crate::moment::Moment;
use crate::record::{Key, Outcome, Written};

/// I3: first deliveries of a key are 1, 2, 3 ... without a gap; repeats may only go back.
///
/// Messages that were given up count as delivered: their successors go on.
pub fn serialised(case: &Case<'_>) -> Finding {
    let mut finding =
        Finding::new("I3", "per key, in the broker's order: n is at most one more than the highest before");
    let mut skipped: HashMap<Key, HashSet<u32>> = HashMap::new();
    for (id, _) in case.dead {
        if let Some(written) = case.record.written.get(id) {
            skipped.entry(written.key).or_default().insert(written.n);
        }
    }
    let mut highest: HashMap<Key, (u32, Moment)> = HashMap::new();
    let mut checked = 0_u64;
    for delivered in &case.record.delivered {
        let Some(written) = case.record.written.get(&delivered.id) else { continue };
        if !written.key.is_serialised() || !written.in_ledger {
            continue;
        }
        checked += 1;
        let (top, at) = highest.entry(written.key).or_insert((0, Moment(0)));
        while skipped.get(&written.key).is_some_and(|given_up| given_up.contains(&(*top + 1))) {
            *top += 1;
        }
        if written.n > *top + 1 {
            let (key, n) = (written.key, written.n);
            let (before, then) = (*top, *at);
            finding.breaks_at(written, || {
                format!(
                    "key {key}: n {n} at {} (term {}) came when {before} (at {then}) was the highest",
                    delivered.at, delivered.term
                )
            });
        }
        if written.n > *top {
            (*top, *at) = (written.n, delivered.at);
        }
    }
    finding.measured = format!("checked {checked} over {} keys", highest.len());
    finding
}

/// I3b: of two transactions, one of which began after the other was acknowledged, the messages keep that order; in
/// every class of keys. What is for later takes its place when it is due: nothing waits for it until then. Nor does anything
/// wait for what had come to its end, and was given up for that: an attempt of it that nobody answered may be on its way all
/// the same, and a broker that stood still takes what came over several connections in any order.
pub fn unserialised(case: &Case<'_>) -> Finding {
    let mut finding = Finding::new("I3b", "what began after another's commit was acknowledged comes after it");
    let mut first: HashMap<Key, Vec<(Uuid, Moment)>> = HashMap::new();
    let mut seen: HashSet<Uuid> = HashSet::new();
    for delivered in &case.record.delivered {
        let Some(written) = case.record.written.get(&delivered.id) else { continue };
        if seen.insert(delivered.id) {
            first.entry(written.key).or_default().push((delivered.id, delivered.at));
        }
    }
    let over: HashSet<Uuid> = case.dead.iter().filter(|(_, reason)| *reason == EXPIRED).map(|(id, _)| *id).collect();
    let (mut checked, mut late) = (0_u64, 0_u64);
    for (key, ids) in &first {
        // From the end: the earliest acknowledgement among what comes later must not be before this one's beginning.
        let mut earliest = (Moment::NEVER, Uuid::nil());
        // Those that were given up at their end, and came all the same.
        let mut ended: Vec<(&Uuid, &Written)> = Vec::new();
        for (id, at) in ids.iter().rev() {
            let Some(written) = case.record.written.get(id) else { continue };
            checked += 1;
            let mut overtaken = (earliest.0 < written.begun).then_some(earliest);
            for (later, other) in ended.iter().filter(|(_, other)| other.acknowledged < written.begun) {
                if other.not_after <= *at {
                    late += 1;
                } else {
                    overtaken = overtaken.or(Some((other.acknowledged, **later)));
                }
            }
            if let Some((acknowledged, later)) = overtaken {
                finding.breaks_at(written, || {
                    let begun = written.begun;
                    format!("key {key}: {id} (begun at {begun}) came before {later} (acknowledged at {acknowledged})")
                });
            }
            let has_its_place = written.outcome == Outcome::Committed && written.not_before == Moment(0);
            if has_its_place && over.contains(id) {
                ended.push((id, written));
            } else if has_its_place && written.acknowledged < earliest.0 {
                earliest = (written.acknowledged, *id);
            }
        }
    }
    finding.measured = format!(
        "checked {checked} over {} keys; {late} came before one that was over by then and given up",
        first.len()
    );
    finding
}
