//! Bounds, what was written down as wrong on the way, and whether the run proves anything.

use std::time::Duration;

use super::isolation::EXPIRED;
use super::{Case, Finding, repeats, takeovers};
use crate::plan::Kind;
use crate::record::Fault;
use crate::settings::BrokerKind;

const MOST_MEMORY: u64 = 256 << 20;
const MOST_FILES: u64 = 128;
const MOST_CONNECTIONS: u64 = 12;
/// The outbox, empty of all but the dead letters, between two runs of autovacuum; its poison has 80 kB each.
const MOST_TABLE: u64 = 256 << 20;
/// A row with its indexes, while it waits.
const ROW: u64 = 4 << 10;
/// A run of this length kills relays with nothing else in the way, and holds keys.
const LONG: Duration = Duration::from_secs(300);
/// PostgreSQL keeps `max_wal_size`, 1 GB by default, between two checkpoints.
const MOST_LOG: u64 = 1280 << 20;

/// I12: memory, files and connections of a relay; the outbox and the database's log.
pub fn bounds(case: &Case<'_>) -> Finding {
    let mut finding = Finding::new("I12", "memory, files and connections of a relay, table and log are bounded");
    let highest = case.record.highest;
    for (what, found, most) in [
        ("bytes of memory", highest.rss, MOST_MEMORY),
        ("open files", highest.files, MOST_FILES),
        ("connections", highest.connections, MOST_CONNECTIONS),
        ("bytes of table", highest.table, MOST_TABLE + highest.backlog * ROW),
        ("bytes of log", highest.log, MOST_LOG),
    ] {
        if found > most {
            finding.breaks(|| format!("{found} {what}, at most {most} expected"));
        }
    }
    finding.measured = format!(
        "memory {} MB, files {}, connections {}, backlog {}, table {} MB, log {} MB",
        highest.rss >> 20,
        highest.files,
        highest.connections,
        highest.backlog,
        highest.table >> 20,
        highest.log >> 20
    );
    finding
}

/// What was written down as wrong on the way, for one invariant.
pub fn told(id: &'static str, says: &'static str, case: &Case<'_>) -> Finding {
    let mut finding = Finding::new(id, says);
    finding.breaks_as_told(case);
    finding.measured = format!("{} wrong", finding.broken);
    finding
}

/// Whether a relay was paused with messages in its hands until others must have had its lanes: they look for a lease
/// that is over when they renew their own.
fn outlasts_its_lease(fault: &Fault, case: &Case<'_>) -> bool {
    let lasted = fault.until.min(case.ended).since(fault.from);
    let others_look = case.settings.lease() / 3;
    case.settings.relays > 1
        && fault.kind == Kind::RelayPause
        && fault.in_flight > 0
        && lasted > case.settings.lease() + others_look
}

/// Why the run proves little.
///
/// Ten minutes must have every chosen kind three times and sixty faults in all; other lengths as much in proportion.
pub fn vacuous(case: &Case<'_>) -> Vec<String> {
    let mut why = Vec::new();
    let kinds: Vec<Kind> = case.settings.kinds().unwrap_or_default();
    if kinds.is_empty() {
        return why;
    }
    let record = case.record;
    let load = case.settings.load().as_secs();
    let each = ((3 * load + 300) / 600).min(20);
    let wanted_in_all = load / 10;
    for kind in &kinds {
        let count = record.faults.iter().filter(|fault| fault.kind == *kind).count() as u64;
        if count < each {
            why.push(format!("{} happened {count} times, {each} are wanted", kind.name()));
        }
    }
    let all = record.faults.len() as u64;
    if all < wanted_in_all {
        why.push(format!("{all} faults, {wanted_in_all} are wanted"));
    }
    let (mut wanted, mut hit) = (0_u64, 0_u64);
    for fault in record.faults.iter().filter(|fault| fault.kind.wants_flight()) {
        wanted += 1;
        hit += u64::from(fault.in_flight > 0);
    }
    if hit * 2 < wanted {
        why.push(format!("{hit} of {wanted} kills and pauses had messages in flight, half are wanted"));
    }
    if kinds.contains(&Kind::WriterCut) && record.ends.unknown == 0 {
        why.push("no commit had an unknown end".to_owned());
    }
    let spent: Duration = record.faults.iter().map(|fault| fault.until.min(case.ended).since(fault.from)).sum();
    let moves = kinds.iter().any(|kind| matches!(kind, Kind::RelayKill | Kind::RelayPause | Kind::RelayTerm));
    if moves && record.takeovers < spent.as_secs() / 30 {
        why.push(format!("lanes changed hands {} times in {} s of faults", record.takeovers, spent.as_secs()));
    }
    let is_long = case.settings.load() >= LONG;
    if is_long && case.settings.broker != BrokerKind::File && record.replayed == 0 {
        why.push("no key was held and replayed".to_owned());
    }
    if is_long && !case.dead.iter().any(|(_, reason)| *reason == EXPIRED) {
        why.push("no message came to its end".to_owned());
    }
    let hands_over = is_long && kinds.contains(&Kind::RelayKill) && case.settings.relays > 1;
    if hands_over && takeovers(case).is_empty() {
        why.push("of no kill could the takeover be judged: something else was always in the way".to_owned());
    }
    let outlasted = record.faults.iter().filter(|fault| outlasts_its_lease(fault, case)).count();
    // A relay that wakes up looks at its lease before it settles, and has nothing refused to it but what had been sent.
    if outlasted > 0 && record.fenced() + record.stood_down == 0 {
        why.push(format!("{outlasted} pauses outlasted the lease, and no relay ever found its lanes gone"));
    }
    if kinds.contains(&Kind::DatabaseDeadlock) && record.deadlocks == 0 {
        why.push("no settle met a deadlock".to_owned());
    }
    if kinds.contains(&Kind::RelayKill) && repeats::count(&record.delivered) == 0 {
        why.push("there was no repeat at all: the kills missed".to_owned());
    }
    why
}
