//! Messages for later, and messages with an end.

use std::time::Duration;

use super::{Case, Finding, aftermath, outside, windows};
use crate::moment::Moment;

/// The databases stamp in milliseconds at worst.
const STAMP: Duration = Duration::from_millis(3);
/// What was sent before its end arrives by then, where nothing is in its way.
const ARRIVES: Duration = Duration::from_secs(1);

/// I16: nothing is delivered before its time, nor sent after its end.
pub fn kept(case: &Case<'_>) -> Finding {
    let mut finding = Finding::new("I16", "nothing is delivered before its time, nor sent after its end");
    let disturbed = windows(&case.record.faults, aftermath(case.settings), |_| true);
    let (mut delayed, mut ending) = (0_u64, 0_u64);
    for delivered in &case.record.delivered {
        let Some(written) = case.record.written.get(&delivered.id) else { continue };
        let (id, key, at) = (delivered.id, written.key, delivered.at);
        delayed += u64::from(written.not_before != Moment(0));
        ending += u64::from(written.not_after != Moment::NEVER);
        if at.after(STAMP) < written.not_before {
            finding.breaks_at(written, || format!("{id} of key {key} is for {} and came at {at}", written.not_before));
        }
        if outside(&disturbed, written.not_after, at) > ARRIVES {
            finding.breaks_at(written, || format!("{id} of key {key} ended at {} and came at {at}", written.not_after));
        }
    }
    finding.measured = format!("delivered {delayed} that were for later, {ending} that had an end");
    finding
}
