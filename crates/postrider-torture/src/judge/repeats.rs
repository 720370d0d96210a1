//! Repeats, each of which must belong to a fault.

use std::collections::HashMap;
use std::time::Duration;

use uuid::Uuid;

use super::{Case, Finding, UNFLUSHED, aftermath, publish_takes, window_of, windows};
use crate::fleet::WINDOW_ROWS;
use crate::moment::Moment;
use crate::plan::Kind;
use crate::record::{Delivered, Fault};
use crate::settings::BrokerKind;

/// I4: no repeat without a fault that can cause one, and no more of them than were in flight.
pub fn explained(case: &Case<'_>) -> Finding {
    let mut finding = Finding::new(
        "I4",
        "every repeat belongs to a fault, no more than were in flight; none in quiet, none by a graceful stop",
    );
    let excused = windows(&case.record.faults, aftermath(case.settings), |fault| fault.kind.excuses_repeats());
    let mut in_windows = vec![0_u64; excused.len()];
    let mut last: HashMap<Uuid, &Delivered> = HashMap::new();
    let (mut repeats, mut earliest) = (0_u64, Duration::ZERO);
    for delivered in &case.record.delivered {
        let Some(before) = last.insert(delivered.id, delivered) else { continue };
        repeats += 1;
        let window = window_of(&excused, before.at).or_else(|| window_of(&excused, delivered.at)).or_else(|| {
            let window = window_of(&excused, unheard_end(before, delivered, case.settings.broker)?)?;
            earliest = earliest.max(excused.get(window)?.0.since(before.at));
            Some(window)
        });
        if let Some(count) = window.and_then(|window| in_windows.get_mut(window)) {
            *count += 1;
        } else {
            let id = delivered.id;
            let twice = || {
                format!(
                    "at {} (term {}) and again at {} (term {})",
                    before.at, before.term, delivered.at, delivered.term
                )
            };
            match case.record.written.get(&id) {
                Some(written) => {
                    finding.breaks_at(written, || format!("{id} of key {} n {}: {}", written.key, written.n, twice()));
                }
                None => finding.breaks(|| format!("{id}, which nobody wrote: {}", twice())),
            }
        }
    }
    let mut fullest = (0, 0);
    for ((from, until), count) in excused.iter().zip(in_windows) {
        let faults = case.record.faults.iter().filter(|fault| fault.kind.excuses_repeats());
        let within = faults.filter(|fault| *from <= fault.from && fault.from <= *until);
        let most = within.map(|fault| in_flight_at_most(fault, case)).sum();
        if count > most {
            finding.breaks(|| {
                format!("{count} repeats by the faults from {from} to {until}, at most {most} were in flight")
            });
        }
        if count >= fullest.0 {
            fullest = (count, most);
        }
    }
    let messages = last.len().max(1);
    #[expect(clippy::cast_precision_loss, reason = "a rate to one decimal place")]
    let rate = repeats as f64 * 1000.0 / messages as f64;
    finding.measured = format!(
        "repeats {repeats} ({rate:.1} of 1,000), at most {} in one disturbance that excuses {}, in calls under way up to \
         {earliest:?} before a fault, unexplained {}",
        fullest.0, fullest.1, finding.broken
    );
    finding
}

/// By when the relay had heard what became of a message, where another one sent it again: a call is answered as a whole, so a
/// relay that is lost takes the acceptances of its last calls with it, and their messages may come again long after the fault,
/// behind a backlog. A relay that keeps its lane keeps what it heard, and has no such excuse.
fn unheard_end(before: &Delivered, again: &Delivered, broker: BrokerKind) -> Option<Moment> {
    (before.term < again.term).then(|| before.at.after(publish_takes(broker)))
}

/// How many messages a fault may have caught between their delivery and their removal from the outbox: the windows of
/// the relays that it touched, and what a killed database forgets.
fn in_flight_at_most(fault: &Fault, case: &Case<'_>) -> u64 {
    let of_all = case.settings.relays as u64 + 1;
    let relays = if fault.kind.touches_every_relay() { of_all } else { 1 };
    let forgotten = match fault.kind {
        Kind::DatabaseKill => {
            let from = fault.from.before(UNFLUSHED);
            let forgets = |at: Moment| from <= at && at <= fault.until;
            case.record.delivered.iter().filter(|delivered| forgets(delivered.at)).count() as u64
        }
        _ => 0,
    };
    relays * WINDOW_ROWS + forgotten
}

/// How many repeats there were.
pub fn count(delivered: &[crate::record::Delivered]) -> usize {
    let distinct: std::collections::HashSet<Uuid> = delivered.iter().map(|delivered| delivered.id).collect();
    delivered.len() - distinct.len()
}
