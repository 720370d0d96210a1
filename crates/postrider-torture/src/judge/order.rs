//! Order per key.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::{Case, Finding};
use crate::moment::Moment;
use crate::record::{Key, Outcome};

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
/// wait for what was given up, which may be on its way to the broker all the same: nobody knows what became of an attempt
/// that was not answered.
pub fn unserialised(case: &Case<'_>) -> Finding {
    let mut finding = Finding::new("I3b", "what began after another's commit was acknowledged comes after it");
    let mut first: HashMap<Key, Vec<Uuid>> = HashMap::new();
    let mut seen: HashSet<Uuid> = HashSet::new();
    for delivered in &case.record.delivered {
        let Some(written) = case.record.written.get(&delivered.id) else { continue };
        if seen.insert(delivered.id) {
            first.entry(written.key).or_default().push(delivered.id);
        }
    }
    let given_up: HashSet<Uuid> = case.dead.iter().map(|(id, _)| *id).collect();
    let (mut checked, mut late) = (0_u64, 0_u64);
    for (key, ids) in &first {
        // From the end: the earliest acknowledgement among what comes later must not be before this one's beginning.
        let mut earliest = (Moment::NEVER, Uuid::nil());
        let mut earliest_given_up = Moment::NEVER;
        for id in ids.iter().rev() {
            let Some(written) = case.record.written.get(id) else { continue };
            checked += 1;
            if earliest.0 < written.begun {
                finding.breaks_at(written, || {
                    let (later, at) = (earliest.1, earliest.0);
                    format!("key {key}: {id} (begun at {}) came before {later} (acknowledged at {at})", written.begun)
                });
            }
            late += u64::from(earliest_given_up < written.begun);
            let has_its_place = written.outcome == Outcome::Committed && written.not_before == Moment(0);
            if has_its_place && given_up.contains(id) {
                earliest_given_up = earliest_given_up.min(written.acknowledged);
            } else if has_its_place && written.acknowledged < earliest.0 {
                earliest = (written.acknowledged, *id);
            }
        }
    }
    finding.measured =
        format!("checked {checked} over {} keys; {late} came before one that had been given up", first.len());
    finding
}
