//! The few events that show what went wrong with a key.

use std::fmt::Write as _;
use std::time::Duration;

use crate::moment::Moment;
use crate::record::{Key, Record, Written};

/// Numbers around the one that is looked at.
const AROUND: u32 = 3;
/// Lines at most.
const LINES: usize = 40;
/// Faults this long before and after are named, and messages of a key whose order nobody numbers.
const NEAR: Duration = Duration::from_secs(10);

/// A message among those of its key.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Its key.
    pub key: Key,
    /// Which of its key; 0 where nobody knows.
    pub n: u32,
    /// When its transaction began.
    pub begun: Moment,
}

/// What happened to a key around one of its messages, and the faults around that.
pub fn history(record: &Record, place: Place) -> String {
    let Place { key, n, begun } = place;
    let mut lines: Vec<(Moment, String)> = Vec::new();
    let near = |written: &Written| match n {
        0 => written.begun.after(NEAR) >= begun && written.begun <= begun.after(NEAR),
        n => written.n.abs_diff(n) <= AROUND,
    };
    for (id, written) in record.written.iter().filter(|(_, written)| written.key == key && near(written)) {
        let what = format!("{id} n {} begins, ends {:?}", written.n, written.outcome);
        lines.push((written.begun, what));
        if written.acknowledged != Moment::NEVER {
            lines.push((written.acknowledged, format!("{id} n {} is acknowledged", written.n)));
        }
        if let Some(settled) = &written.settled {
            let owner = if settled.by_owner { "the owner" } else { "somebody else" };
            lines.push((
                settled.at,
                format!("{id} n {} leaves the outbox, term {}, by {owner}", written.n, settled.term),
            ));
        }
    }
    for delivered in &record.delivered {
        let Some(written) = record.written.get(&delivered.id).filter(|written| written.key == key) else { continue };
        if near(written) {
            let (id, n) = (delivered.id, written.n);
            let (lane, term, attempt) = (delivered.lane, delivered.term, delivered.attempt);
            lines.push((delivered.at, format!("{id} n {n} is delivered: lane {lane}, term {term}, attempt {attempt}")));
        }
    }
    lines.sort();
    let span = lines.first().map(|(at, _)| *at).zip(lines.last().map(|(at, _)| *at));
    let mut text = format!("key {key} around n {n}:\n");
    for (at, what) in lines.iter().take(LINES) {
        let _ = writeln!(text, "  {at:>12}  {what}");
    }
    if lines.len() > LINES {
        let _ = writeln!(text, "  and {} events more", lines.len() - LINES);
    }
    if let Some((from, until)) = span {
        let (from, until) = (from.before(NEAR), until.after(NEAR));
        text.push_str("faults around:\n");
        for fault in record.faults.iter().filter(|fault| fault.from <= until && fault.until >= from).take(LINES) {
            let (kind, target) = (fault.kind.name(), &fault.target);
            let _ = writeln!(text, "  {:>12} to {:>12}  {kind} of {target}", fault.from, fault.until);
        }
    }
    text
}
