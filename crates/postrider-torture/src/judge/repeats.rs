//! Repeats, each of which must belong to a fault.

use std::collections::HashMap;

use uuid::Uuid;

use super::{Case, Finding, aftermath, windows, within};
use crate::moment::Moment;

/// I4: no repeat without a fault that can cause one.
pub fn explained(case: &Case<'_>) -> Finding {
    let mut finding = Finding::new("I4", "every repeat belongs to a fault; none in quiet, none by a graceful stop");
    let excused = windows(&case.record.faults, aftermath(case.settings), |fault| fault.kind.excuses_repeats());
    let mut last: HashMap<Uuid, Moment> = HashMap::new();
    let mut repeats = 0_u64;
    for delivered in &case.record.delivered {
        let Some(before) = last.insert(delivered.id, delivered.at) else { continue };
        repeats += 1;
        if !within(&excused, before) && !within(&excused, delivered.at) {
            let (key, n) = case.record.written.get(&delivered.id).map_or_else(
                || (crate::record::Key { class: crate::record::Class::Unserialised, number: 0 }, 0),
                |written| (written.key, written.n),
            );
            finding.breaks_at(key, n, || {
                format!(
                    "{} of key {key} n {n}: at {before} and again at {} (term {})",
                    delivered.id, delivered.at, delivered.term
                )
            });
        }
    }
    let messages = last.len().max(1);
    #[expect(clippy::cast_precision_loss, reason = "a rate to one decimal place")]
    let rate = repeats as f64 * 1000.0 / messages as f64;
    finding.measured = format!("repeats {repeats} ({rate:.1} of 1,000), unexplained {}", finding.broken);
    finding
}

/// How many repeats there were.
pub fn count(delivered: &[crate::record::Delivered]) -> usize {
    let distinct: std::collections::HashSet<Uuid> = delivered.iter().map(|delivered| delivered.id).collect();
    delivered.len() - distinct.len()
}
