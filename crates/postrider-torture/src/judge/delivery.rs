//! Lost messages, ghosts, and messages that were changed.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::{Case, Finding};
use crate::record::{Class, Outcome};

/// I1: what was committed is delivered, unless it was given up on.
pub fn no_loss(case: &Case<'_>) -> Finding {
    let mut finding = Finding::new("I1", "every committed message is delivered at least once, or a dead letter");
    let seen: HashSet<Uuid> = case.record.delivered.iter().map(|delivered| delivered.id).collect();
    let dead: HashSet<Uuid> = case.dead.iter().map(|(id, _)| *id).collect();
    let (mut committed, mut given_up) = (0_u64, 0_u64);
    for (id, written) in &case.record.written {
        if written.outcome == Outcome::Committed && !written.in_ledger {
            finding.breaks(|| format!("{id} of key {} was acknowledged and is not in the ledger", written.key));
        }
        if !written.in_ledger {
            continue;
        }
        committed += 1;
        if dead.contains(id) {
            given_up += 1;
        } else if !seen.contains(id) {
            finding.breaks_at(written, || {
                let left = written
                    .settled
                    .as_ref()
                    .map_or("never left the outbox".to_owned(), |settled| format!("left the outbox at {}", settled.at));
                let (key, n) = (written.key, written.n);
                format!("{id} of key {key} n {n}, committed at {}, {left}", written.acknowledged)
            });
        }
    }
    finding.breaks_as_told(case);
    finding.measured = format!("committed {committed}, dead {given_up}, lost {}", finding.broken);
    finding
}

/// I2: what was rolled back is never delivered.
pub fn no_ghost(case: &Case<'_>) -> Finding {
    let mut finding = Finding::new("I2", "nothing is delivered that was not committed");
    for delivered in &case.record.delivered {
        match case.record.written.get(&delivered.id) {
            Some(written) if written.in_ledger => {}
            Some(written) => finding.breaks_at(written, || {
                let (key, outcome, at) = (written.key, written.outcome, delivered.at);
                format!("{} of key {key}, whose transaction ended {outcome:?}, was delivered at {at}", delivered.id)
            }),
            None => {
                finding.breaks(|| format!("{} was delivered at {} and nobody wrote it", delivered.id, delivered.at))
            }
        }
    }
    for (id, written) in &case.record.written {
        if written.outcome == Outcome::RolledBack && written.in_ledger {
            finding.breaks(|| format!("{id} of key {} was rolled back and is in the ledger", written.key));
        }
    }
    finding.breaks_as_told(case);
    finding.measured = format!("delivered {}, ghosts {}", case.record.delivered.len(), finding.broken);
    finding
}

/// I7: the same id always has the same topic, key, header and bytes, and they are what was written.
pub fn integrity(case: &Case<'_>) -> Finding {
    let mut finding = Finding::new("I7", "id, topic, key, header and bytes arrive as they were written");
    let mut prints: HashMap<Uuid, u64> = HashMap::new();
    for delivered in &case.record.delivered {
        let Some(written) = case.record.written.get(&delivered.id) else { continue };
        let before = *prints.entry(delivered.id).or_insert(delivered.print);
        if delivered.print != written.print || delivered.print != before {
            finding.breaks_at(written, || format!("{} at {}", delivered.id, delivered.at));
        }
    }
    finding.breaks_as_told(case);
    let poison = case.record.written.values().filter(|written| written.key.class == Class::Poison).count();
    finding.measured = format!("compared {}, of {poison} poisoned none can arrive", case.record.delivered.len());
    finding
}
