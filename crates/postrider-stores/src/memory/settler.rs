//! Recording outcomes.

use std::collections::BTreeSet;

use async_trait::async_trait;
use postrider_core::{HeldLane, Lane, Outcome, RelayId, Result, RowState, Settled, Settlement, Settler, Timestamp};

use super::MemoryStore;
use super::tables::Stored;
use crate::failures::{appended, micros};

/// The writer of outcomes.
#[derive(Debug)]
pub(super) struct MemorySettler(pub(super) MemoryStore);

#[async_trait]
impl Settler for MemorySettler {
    async fn settle(&mut self, me: RelayId, leases: &[HeldLane], batch: &[Settlement]) -> Result<Settled> {
        let mut tables = self.0.lock();
        let wanted: BTreeSet<Lane> = batch.iter().map(|settlement| settlement.lane).collect();
        let lanes: Vec<Lane> = leases
            .iter()
            .filter(|held| wanted.contains(&held.lane) && tables.holds(me, **held))
            .map(|held| held.lane)
            .collect();
        let mut settled = Settled { rows: Vec::new(), lanes };
        let now = tables.now();
        for settlement in batch {
            let open = |stored: &Stored| matches!(stored.state, RowState::Pending | RowState::SetAside);
            let found =
                tables.rows.get(&settlement.row).filter(|stored| stored.lane == settlement.lane && open(stored));
            let found = found.filter(|stored| settlement.is_for(Some(stored.message.id)));
            let Some(stored) = found.filter(|_| settled.lanes.contains(&settlement.lane)) else { continue };
            match changed(stored.clone(), me, settlement, now) {
                Some(stored) => tables.put(settlement.row, stored),
                None if settlement.outcome == Outcome::Dropped => drop(tables.take(settlement.row)),
                None => tables.deliver(settlement.row),
            }
            settled.rows.push(settlement.row);
        }
        Ok(settled)
    }
}

/// The row after its outcome; none when it is gone.
fn changed(mut stored: Stored, me: RelayId, settlement: &Settlement, now: Timestamp) -> Option<Stored> {
    stored.suspicion = settlement.suspicion;
    match &settlement.outcome {
        Outcome::Delivered | Outcome::Dropped => return None,
        Outcome::Retry { after, attempts, waiting_for, progress, failures }
        | Outcome::Forward { after, attempts, waiting_for, progress, failures, .. } => {
            stored.state = RowState::Pending;
            stored.attempts = *attempts;
            stored.waiting_for.clone_from(waiting_for);
            stored.progress.clone_from(progress);
            stored.errors = appended(stored.errors.as_deref(), now, me, settlement.attempt, failures);
            stored.last_attempt_at = Some(now);
            stored.next_attempt_at = Some(Timestamp(now.0.saturating_add(micros(*after))));
            if let Outcome::Forward { reason, .. } = settlement.outcome {
                stored.dead_reason = Some(reason);
            }
        }
        Outcome::SetAside { waiting_for } => {
            stored.state = RowState::SetAside;
            stored.waiting_for.clone_from(waiting_for);
            stored.next_attempt_at = None;
        }
        Outcome::Suspected { suspicion } => stored.suspicion = *suspicion,
        Outcome::Dead { reason, attempts, waiting_for, failures }
        | Outcome::Holding { reason, attempts, waiting_for, failures } => {
            let holds = matches!(settlement.outcome, Outcome::Holding { .. });
            stored.state = if holds { RowState::Holding } else { RowState::Dead };
            stored.attempts = *attempts;
            stored.waiting_for.clone_from(waiting_for);
            stored.errors = appended(stored.errors.as_deref(), now, me, settlement.attempt, failures);
            if !failures.is_empty() {
                stored.last_attempt_at = Some(now);
            }
            stored.next_attempt_at = None;
            stored.dead_at = Some(now);
            stored.dead_reason = Some(*reason);
        }
    }
    Some(stored)
}
