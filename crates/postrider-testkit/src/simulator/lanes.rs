//! Members and lanes as the database keeps them.

use std::collections::BTreeMap;

use postrider_core::{HeldLane, Lane, RelayId, Renewal, Start, Term};

use super::rng::Rng;

/// One row of the lane table.
#[derive(Debug, Clone, Copy)]
struct LaneRow {
    owner: Option<RelayId>,
    term: Term,
    clean: bool,
    /// How it was left before the present owner came.
    start: Start,
}

/// The member table and the lane table; every moment is one of the database's clock.
#[derive(Debug)]
pub(super) struct LaneTable {
    lanes: Vec<LaneRow>,
    members: BTreeMap<RelayId, u64>,
}

fn number(lane: usize) -> Lane {
    Lane(u16::try_from(lane).unwrap_or(0))
}

impl LaneTable {
    pub(super) fn new(lanes: u16) -> Self {
        let untouched = LaneRow { owner: None, term: Term(0), clean: true, start: Start::Clean };
        Self { lanes: vec![untouched; usize::from(lanes)], members: BTreeMap::new() }
    }

    pub(super) fn count(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn is_owner(&self, lane: Lane, me: RelayId, term: Term) -> bool {
        self.lanes.get(usize::from(lane.0)).is_some_and(|row| row.owner == Some(me) && row.term == term)
    }

    pub(super) fn owner(&self, lane: Lane) -> Option<RelayId> {
        self.lanes.get(usize::from(lane.0)).and_then(|row| row.owner)
    }

    /// The term of a lane.
    pub(super) fn term(&self, lane: Lane) -> Term {
        self.lanes.get(usize::from(lane.0)).map_or(Term(0), |row| row.term)
    }

    pub(super) fn join(&mut self, me: RelayId, expires_at: u64) {
        self.members.insert(me, expires_at);
    }

    pub(super) fn renew(&mut self, me: RelayId, expires_at: u64) -> Renewal {
        match self.members.get_mut(&me) {
            Some(expiry) => {
                *expiry = expires_at;
                Renewal::Renewed
            }
            None => Renewal::Evicted,
        }
    }

    /// Removes expired members and frees their lanes.
    pub(super) fn evict(&mut self, now: u64) {
        self.members.retain(|_, expires_at| *expires_at >= now);
        self.free();
    }

    fn free(&mut self) {
        for row in &mut self.lanes {
            if row.owner.is_some_and(|owner| !self.members.contains_key(&owner)) {
                row.owner = None;
            }
        }
    }

    pub(super) fn living(&self, now: u64) -> Vec<RelayId> {
        self.members.iter().filter(|(_, expires_at)| **expires_at > now).map(|(id, _)| *id).collect()
    }

    pub(super) fn owned(&self, me: RelayId) -> Vec<HeldLane> {
        let mine = self.lanes.iter().enumerate().filter(|(_, row)| row.owner == Some(me));
        mine.map(|(lane, row)| HeldLane { lane: number(lane), term: row.term, start: row.start }).collect()
    }

    pub(super) fn acquire(&mut self, me: RelayId, want: u16, now: u64, rng: &mut Rng) -> Vec<HeldLane> {
        if self.members.get(&me).is_none_or(|expires_at| *expires_at <= now) {
            return Vec::new();
        }
        let mut free: Vec<usize> = (0..self.lanes.len()).filter(|lane| self.lanes[*lane].owner.is_none()).collect();
        let mut held = Vec::new();
        while held.len() < usize::from(want) && !free.is_empty() {
            let lane = free.swap_remove(rng.place(free.len()));
            let row = &mut self.lanes[lane];
            let start = if row.clean { Start::Clean } else { Start::Careful };
            *row = LaneRow { owner: Some(me), term: Term(row.term.0 + 1), clean: false, start };
            held.push(HeldLane { lane: number(lane), term: row.term, start });
        }
        held.sort_by_key(|held| held.lane);
        held
    }

    /// Only those that are still held under these terms.
    pub(super) fn release(&mut self, me: RelayId, lanes: &[HeldLane]) {
        for held in lanes {
            if self.is_owner(held.lane, me, held.term) {
                let row = &mut self.lanes[usize::from(held.lane.0)];
                row.owner = None;
                row.clean = held.start == Start::Clean;
            }
        }
    }

    pub(super) fn leave(&mut self, me: RelayId) {
        self.members.remove(&me);
        self.free();
    }
}
