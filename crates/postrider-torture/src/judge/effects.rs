//! What receivers made of the messages.

use std::collections::{BTreeMap, HashSet};

use super::{Case, Finding};
use crate::place::kafka::{PARTITIONS, TOPICS};
use crate::receivers::{ConsumerKind, counted_for};
use crate::record::Effects;

/// A cursor for each partition of each topic.
const MOST_CURSORS: u64 = TOPICS.len() as u64 * PARTITIONS.unsigned_abs() as u64;

/// I5: each message that was delivered has its effects once, however often it came, and nothing else has one; with a cursor, each
/// record that a relay published. Of what is read again when it is forgotten, something is refused; no token is left, and no more
/// cursors than there are partitions.
pub fn once(case: &Case<'_>) -> Option<Finding> {
    let kind = case.settings.consumer?;
    let mut finding = Finding::new("I5", "each delivered message has its effect once, and nothing else has one");
    finding.breaks_as_told(case);
    let Some(found) = &case.record.effects else {
        finding.breaks(|| "nobody knows the effects".to_owned());
        return Some(finding);
    };
    let records = case.record.delivered.iter().map(|delivered| delivered.id);
    let delivered: HashSet<_> = records.clone().collect();
    let counted: Vec<_> = if kind.counts_records() { records.collect() } else { delivered.iter().copied().collect() };
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for what in counted.iter().flat_map(|id| counted_for(kind, *id)) {
        *expected.entry(what).or_default() += 1;
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
    if kind.refuses() && !delivered.is_empty() && found.refused == 0 {
        finding.breaks(|| "everything was forgotten and read again, and nothing was refused".to_owned());
    }
    if found.tokens > 0 {
        finding.breaks(|| format!("{} tokens are left when every message is over", found.tokens));
    }
    if found.cursors > MOST_CURSORS {
        finding.breaks(|| format!("{} cursors are left, and there are {MOST_CURSORS} partitions", found.cursors));
    }
    let Effects { refused, tokens, cursors, revoked, kills, .. } = found;
    finding.measured = format!(
        "messages {}, effects {}, receivers killed {kills} times, wrong {}; {}",
        delivered.len(),
        found.counts.values().sum::<u64>(),
        finding.broken,
        match kind {
            ConsumerKind::Token => format!("tokens left {tokens}, revoked because no message came with them {revoked}"),
            ConsumerKind::Cursor => format!("records {}, cursors left {cursors}", counted.len()),
            ConsumerKind::Inbox | ConsumerKind::Processor | ConsumerKind::KnownIds => {
                format!("refused when they came again {refused}")
            }
        }
    );
    Some(finding)
}
