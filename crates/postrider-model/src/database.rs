//! The database's side: what its statements do, each at one moment.

use postrider_core::{Recorded, Remains, RowId, RowState, Settled};

use super::bounds::{RETENTION, TTL, lane_of, ticks};
use super::mutation::Mutation;
use super::state::{Ending, Place, Row, Settle, State};

impl State {
    /// Becomes a member or stays one.
    pub(super) fn prolong(&mut self, relay: usize) {
        self.expires[relay] = Some(self.now + TTL);
    }

    /// Whether some membership has ended. The moment at which it ends is taken as ended: the earliest that a database
    /// might see.
    pub(super) fn has_expired(&self, mutation: Option<Mutation>) -> bool {
        self.expires.iter().any(|at| at.is_some_and(|at| self.is_past(at, mutation)))
    }

    fn is_past(&self, at: u8, mutation: Option<Mutation>) -> bool {
        at <= self.now || (mutation == Some(Mutation::LivingOwnerIsEvicted) && at <= self.now + 1)
    }

    /// Removes expired members and frees their lanes.
    pub(super) fn evict(&mut self, mutation: Option<Mutation>) {
        for place in 0..self.expires.len() {
            if self.expires[place].is_some_and(|at| self.is_past(at, mutation)) {
                self.expires[place] = None;
                let gone = self.relays[place].id(place);
                self.lanes.iter_mut().filter(|lane| lane.owner == Some(gone)).for_each(|lane| lane.free());
            }
        }
    }

    /// Records outcomes, fenced by owner and term.
    pub(super) fn carry_out(&mut self, settle: &Settle, mutation: Option<Mutation>) -> Settled {
        let mut settled = Settled::default();
        for held in settle.leases.iter().flatten() {
            let lane = &self.lanes[usize::from(held.lane.0)];
            let admitted = match mutation {
                Some(Mutation::SettleWithoutFence) => true,
                Some(Mutation::SettleWithoutTerm) => lane.owner == Some(settle.me),
                Some(_) | None => lane.admits(settle.me, held.term),
            };
            if admitted {
                settled.lanes.push(held.lane);
            }
        }
        for (message, ending) in settle.endings.iter().enumerate() {
            let Some((ending, held)) = ending.zip(settle.leases[lane_of(message)]) else { continue };
            if !settled.lanes.contains(&held.lane) || !self.rows[message].is_pending() {
                continue;
            }
            self.wrong.meddled |= !self.lanes[lane_of(message)].admits(settle.me, held.term);
            settled.rows.push(row_id(message));
            let row = &mut self.rows[message];
            row.suspicion = 0;
            match ending {
                Ending::Delivered => row.place = Place::History,
                Ending::Retry(attempts) => row.attempts = attempts,
                Ending::Dead(attempts) => (row.place, row.attempts) = (Place::Dead, attempts),
            }
        }
        settled
    }

    /// Rows grow older by a tick, and retention removes what it may.
    pub(super) fn prune(&mut self, mutation: Option<Mutation>) {
        for row in &mut self.rows {
            let what = match row.place {
                Place::History => Remains::History,
                Place::Dead | Place::RelayDied => Remains::Outbox(RowState::Dead),
                Place::Pending if mutation == Some(Mutation::RetentionByAge) => Remains::History,
                Place::Pending => Remains::Outbox(RowState::Pending),
                Place::Open | Place::RolledBack | Place::Gone => continue,
            };
            if RETENTION.removes(what, ticks(1)) {
                *row = Row::new(Place::Gone);
            }
        }
    }
}

/// The row of a message.
pub(super) fn row_id(message: usize) -> RowId {
    RowId(i64::try_from(message).unwrap_or(i64::MAX))
}

/// What an answer says of a message, for the relay that asked.
pub(super) fn recorded(settled: &Settled, settle: &Settle, message: usize) -> Option<Recorded> {
    let held = settle.leases[lane_of(message)]?;
    settle.endings[message]?;
    Some(settled.records().of(row_id(message), held.lane))
}
