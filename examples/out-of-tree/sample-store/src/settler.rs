//! Recording outcomes.

use async_trait::async_trait;
use postrider_core::{
    DestinationName, HeldLane, Lane, Outcome, RelayId, Result, RowState, Settled, Settlement, Settler,
};

use crate::JournalStore;
use crate::journal::Change;
use crate::record::{Delivered, Record};
use crate::tables::micros;

/// The writer of outcomes.
#[derive(Debug)]
pub struct JournalSettler(pub JournalStore);

#[async_trait]
impl Settler for JournalSettler {
    async fn settle(&mut self, me: RelayId, leases: &[HeldLane], batch: &[Settlement]) -> Result<Settled> {
        let mut tables = self.0.lock();
        let is_wanted = |held: &&HeldLane| batch.iter().any(|settlement| settlement.lane == held.lane);
        // The fence: under the lock under which the rows are changed, the lanes are ours.
        let held = leases.iter().filter(is_wanted).filter(|held| tables.holds(me, **held));
        let lanes: Vec<Lane> = held.map(|held| held.lane).collect();
        let now = tables.now().0;
        let (mut rows, mut changes) = (Vec::new(), Vec::new());
        for settlement in batch.iter().filter(|settlement| lanes.contains(&settlement.lane)) {
            let record = tables.rows.get(&settlement.row).filter(|record| record.lane == settlement.lane.0);
            let Some(record) = record.filter(|record| record.is_live()) else { continue };
            // A table that was emptied draws its numbers again: what became of one message is not recorded of another.
            if !settlement.is_for(record.columns.id()) {
                continue;
            }
            // A row that stands in the batch twice ends once.
            if rows.contains(&settlement.row) {
                continue;
            }
            changes.extend(changed(record.clone(), me, settlement, now));
            rows.push(settlement.row);
        }
        tables.commit(changes)?;
        Ok(Settled { rows, lanes })
    }
}

fn changed(mut record: Record, me: RelayId, settlement: &Settlement, now: i64) -> Vec<Change> {
    let id = settlement.row.0;
    record.suspicion = settlement.suspicion;
    match &settlement.outcome {
        Outcome::Delivered => {
            let Record { columns, created_at, attempts, .. } = record;
            let delivered = Delivered { columns, created_at, attempts, settled_at: now };
            return vec![Change::Gone(id), Change::Delivered(id, Box::new(delivered))];
        }
        Outcome::Dropped => return vec![Change::Gone(id)],
        Outcome::Suspected { suspicion } => record.suspicion = *suspicion,
        Outcome::SetAside { waiting_for } => {
            record.state = RowState::SetAside.code();
            record.waiting_for = names(waiting_for);
            record.next_attempt_at = None;
        }
        Outcome::Retry { after, attempts, waiting_for, progress, failures }
        | Outcome::Forward { after, attempts, waiting_for, progress, failures, .. } => {
            record.state = RowState::Pending.code();
            record.attempts = *attempts;
            record.waiting_for = names(waiting_for);
            record.progress = progress.iter().map(|(name, count)| (name.to_string(), *count)).collect();
            record.failed(now, me, settlement.attempt, failures);
            record.last_attempt_at = Some(now);
            record.next_attempt_at = Some(now.saturating_add(micros(*after)));
            if let Outcome::Forward { reason, .. } = settlement.outcome {
                record.dead_reason = Some(reason.code());
            }
        }
        Outcome::Dead { reason, attempts, waiting_for, failures }
        | Outcome::Holding { reason, attempts, waiting_for, failures } => {
            let holds = matches!(settlement.outcome, Outcome::Holding { .. });
            record.state = if holds { RowState::Holding.code() } else { RowState::Dead.code() };
            record.attempts = *attempts;
            record.waiting_for = names(waiting_for);
            record.failed(now, me, settlement.attempt, failures);
            if !failures.is_empty() {
                record.last_attempt_at = Some(now);
            }
            record.next_attempt_at = None;
            record.dead_at = Some(now);
            record.dead_reason = Some(reason.code());
        }
    }
    vec![Change::Row(id, Box::new(record))]
}

fn names(names: &Option<Vec<DestinationName>>) -> Option<Vec<String>> {
    Some(names.as_ref()?.iter().map(ToString::to_string).collect())
}
