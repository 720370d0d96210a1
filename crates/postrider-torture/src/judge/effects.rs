//! What receivers made of the messages.

use std::collections::{BTreeMap, HashSet};

use super::{Case, Finding};
use crate::receivers::counted_for;

/// I5: each message that was delivered has its effect once, however often it came, and nothing else has one.
pub fn once(case: &Case<'_>) -> Option<Finding> {
    let kind = case.settings.consumer?;
    let mut finding = Finding::new("I5", "each delivered message has one effect, and nothing else has one");
    finding.breaks_as_told(case);
    let Some(found) = &case.record.effects else {
        finding.breaks(|| "nobody knows the effects".to_owned());
        return Some(finding);
    };
    let delivered: HashSet<_> = case.record.delivered.iter().map(|delivered| delivered.id).collect();
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for id in &delivered {
        *expected.entry(counted_for(kind, *id)).or_default() += 1;
    }
    for (what, count) in &expected {
        let effects = found.counts.get(what).copied().unwrap_or_default();
        if effects != *count {
            finding.breaks(|| format!("{what}: {effects} effects of {count} messages"));
        }
    }
    for what in found.counts.keys().filter(|what| !expected.contains_key(*what)) {
        finding.breaks(|| format!("{what}: effects of no message that was delivered"));
    }
    let refused = found.refused.map(|refused| format!(", {refused} refused when they came again")).unwrap_or_default();
    finding.measured = format!(
        "messages {}, receivers killed {} times, wrong {}{refused}",
        delivered.len(),
        found.kills,
        finding.broken
    );
    Some(finding)
}
