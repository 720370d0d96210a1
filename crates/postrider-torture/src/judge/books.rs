//! What left the outbox, and by whom.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use uuid::Uuid;

use super::{Case, Finding};
use crate::moment::Moment;
use crate::settings::BrokerKind;

/// The databases stamp in milliseconds at worst.
const STAMP: Duration = Duration::from_millis(3);

/// I6: no row leaves the outbox before the broker has the message.
pub fn retention(case: &Case<'_>) -> Finding {
    let mut finding = Finding::new("I6", "no row leaves the outbox before the broker took the message");
    let mut first: HashMap<Uuid, Moment> = HashMap::new();
    for delivered in &case.record.delivered {
        first.entry(delivered.id).or_insert(delivered.at);
    }
    let mut checked = 0_u64;
    for (id, written) in &case.record.written {
        let Some(settled) = &written.settled else { continue };
        checked += 1;
        match first.get(id) {
            Some(at) if *at <= settled.at.after(STAMP) => {}
            Some(at) => finding.breaks_at(written, || {
                format!("{id} of key {} left at {} and was delivered at {at}", written.key, settled.at)
            }),
            None => finding.breaks_at(written, || {
                format!("{id} of key {} left at {} and was never delivered", written.key, settled.at)
            }),
        }
    }
    finding.measured = format!("rows that left {checked}");
    finding
}

/// I8: only the lane's owner removes rows, under the term under which it published them.
///
/// JetStream keeps the first of several messages with one id: what a successor publishes again, under a later term, is
/// acknowledged to it and delivered to nobody.
pub fn fencing(case: &Case<'_>) -> Finding {
    let mut finding = Finding::new("I8", "only the owner of a lane, under its term, changes its rows");
    let mut terms: HashMap<Uuid, HashSet<i64>> = HashMap::new();
    for delivered in &case.record.delivered {
        terms.entry(delivered.id).or_default().insert(delivered.term);
    }
    let mut checked = 0_u64;
    for (id, written) in &case.record.written {
        let Some(settled) = &written.settled else { continue };
        checked += 1;
        let keeps_the_first = case.settings.broker == BrokerKind::Nats;
        let is_its_own = |term: &i64| *term == settled.term || (keeps_the_first && *term < settled.term);
        let published = terms.get(id).is_some_and(|terms| terms.iter().any(is_its_own));
        if !settled.by_owner {
            finding.breaks_at(written, || {
                format!("{id} of key {} left at {} by a relay that did not own its lane", written.key, settled.at)
            });
        } else if terms.contains_key(id) && !published {
            finding.breaks_at(written, || {
                let (key, at, term) = (written.key, settled.at, settled.term);
                format!("{id} of key {key} left at {at} under term {term} and was published under {:?}", terms.get(id))
            });
        }
    }
    let (fenced, stood_down) = (case.record.fenced(), case.record.stood_down);
    finding.measured =
        format!("rows that left {checked}, settles refused {fenced}, leases found lost otherwise {stood_down}");
    finding
}
