//! What must hold when the machine sends a message, ends one, or gives a lane back.

use super::{Happening, World};
use crate::machine::*;
use crate::*;

impl World {
    /// Lanes are released: nobody may be working on them any more.
    pub(super) fn release(&mut self, lanes: Vec<HeldLane>) {
        for held in &lanes {
            let mine = |sent: &(Lane, Term)| *sent == (held.lane, held.term);
            let flying = self.flying.iter().any(|((epoch, _), sent)| *epoch == self.epoch && sent.iter().any(mine));
            assert!(!flying, "released while a message of it is on its way");
            assert!(!self.settling.contains(held), "released while a settle of it is under way");
            assert!(self.machine.held().iter().all(|mine| mine.lane != held.lane), "released and still held");
            self.seen.handed_back += u64::from(self.table.terms[&held.lane] == held.term);
        }
        self.left_careful(&lanes);
        let after = self.rng.below(40_000);
        self.happens(after, Happening::Gain(lanes.into_iter().map(|held| held.lane).collect()));
    }

    /// These lanes were given back: who gets them next begins as they say.
    pub(super) fn left_careful(&mut self, lanes: &[HeldLane]) {
        let careful = lanes.iter().filter(|held| held.start == Start::Careful);
        self.unclean.extend(careful.filter(|held| self.table.terms[&held.lane] == held.term).map(|held| held.lane));
    }

    /// Nothing is ended before its time.
    pub(super) fn is_over(&self, row: i64) {
        let Some(end) = self.end(row) else { return };
        assert!(self.now >= end, "row {row} ended at {} and not after {end}", self.now);
    }

    /// Nothing is sent later than its time and the time of the read that brought it, but as a dead letter.
    pub(super) fn is_fresh(&self, batch: &[Outgoing]) {
        let alive = batch.iter().filter(|outgoing| outgoing.given_up.is_none());
        for row in alive.filter_map(|outgoing| self.ids.get(&outgoing.message.id)) {
            let end = self.end(*row).unwrap_or(u64::MAX).saturating_add(self.store_latency.1);
            assert!(self.now <= end, "row {row} was sent at {}, after {end}", self.now);
        }
    }

    /// When a row is over, by the table and the policy.
    fn end(&self, row: i64) -> Option<u64> {
        let stored = self.table.rows.get(&row)?;
        if stored.expires_at == Some(u64::MAX) {
            return None;
        }
        let max_age = self.settings.policy(&stored.message).max_age;
        let by_policy = max_age.map(|most| stored.created_at + u64::try_from(most.as_micros()).unwrap());
        [stored.expires_at, by_policy].into_iter().flatten().min()
    }
}
