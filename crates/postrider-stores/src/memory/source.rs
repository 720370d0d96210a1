//! Finding rows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use async_trait::async_trait;
use postrider_core::{Closed, HeldLane, Key, Lane, Page, Result, Room, Row, RowId, RowState, Source, Start, Term};

use super::MemoryStore;
use super::tables::Stored;
use crate::page::Filling;

/// A reader that knows, per lane and term, the last id it has read.
#[derive(Debug)]
pub(super) struct MemorySource {
    store: MemoryStore,
    read: BTreeMap<Lane, (Term, RowId)>,
    /// Where the reading under way ends.
    until: Option<RowId>,
}

impl MemorySource {
    pub(super) fn new(store: MemoryStore) -> Self {
        Self { store, read: BTreeMap::new(), until: None }
    }

    fn follow(&mut self, lanes: &[HeldLane]) {
        self.read = lanes
            .iter()
            .map(|held| match self.read.get(&held.lane) {
                Some((term, last)) if *term == held.term => (held.lane, (held.term, *last)),
                Some(_) | None => (held.lane, (held.term, RowId(0))),
            })
            .collect();
    }
}

#[async_trait]
impl Source for MemorySource {
    async fn read(&mut self, lanes: &[HeldLane], room: Room) -> Result<Page> {
        self.follow(lanes);
        let Some(from) = self.read.values().map(|(_, last)| *last).min() else { return Ok(Page::EMPTY) };
        let tables = self.store.lock();
        let now = tables.now();
        let mut filling = Filling::new(room);
        let mut page = Page::EMPTY;
        let mut passed = from;
        let highest = tables.rows.last_key_value().map_or(from, |(id, _)| *id);
        // What was read before the reading began may lie behind its end, where rows were removed.
        let until = self.until.unwrap_or(highest).max(from);
        for (id, stored) in tables.rows.range((Bound::Excluded(from), Bound::Included(until))) {
            let unread = self.read.get(&stored.lane).is_some_and(|(_, last)| last < id);
            let waits = stored.message.deliver_at.is_some_and(|at| at > now);
            if unread && stored.ordinary() && !waits {
                if !filling.admit(stored.message.weight()) {
                    page.more = true;
                    break;
                }
                page.rows.push(tables.view_as(*id, stored, start(lanes, stored.lane)));
            }
            passed = *id;
        }
        for (_, last) in self.read.values_mut() {
            *last = passed.max(*last);
        }
        self.until = page.more.then_some(until);
        if page.more {
            page.reached = self.read.iter().map(|(lane, (_, last))| (*lane, *last)).collect();
        }
        Ok(page)
    }

    async fn due(&mut self, lanes: &[HeldLane], room: Room, window: &[RowId]) -> Result<Page> {
        let held: BTreeSet<Lane> = lanes.iter().map(|held| held.lane).collect();
        let window: BTreeSet<RowId> = window.iter().copied().collect();
        let tables = self.store.lock();
        let now = tables.now();
        let mut filling = Filling::new(room);
        let mut page = Page::EMPTY;
        for (_, id) in tables.due.range(..=(now, RowId(i64::MAX))) {
            let Some(stored) = tables.rows.get(id) else { continue };
            if !held.contains(&stored.lane) || window.contains(id) {
                continue;
            }
            if !filling.admit(stored.message.weight()) {
                page.more = true;
                break;
            }
            page.rows.push(tables.view_as(*id, stored, start(lanes, stored.lane)));
        }
        Ok(page)
    }

    async fn key(&mut self, lane: HeldLane, key: &Key, room: Room) -> Result<Page> {
        let tables = self.store.lock();
        let mut filling = Filling::new(room);
        let mut page = Page::EMPTY;
        for id in tables.exceptions(key) {
            let Some(stored) = tables.rows.get(&id).filter(|stored| stored.lane == lane.lane) else { continue };
            if !filling.admit(stored.message.weight()) {
                page.more = true;
                break;
            }
            let mut row = tables.view_as(id, stored, lane.start);
            row.closed = Closed::Open;
            page.rows.push(row);
        }
        Ok(page)
    }

    async fn exceptional_keys(&mut self, lane: Lane, after: Option<&Key>, limit: usize) -> Result<Vec<Key>> {
        let tables = self.store.lock();
        let from = match after {
            Some(key) => Bound::Excluded((key.clone(), RowId(i64::MAX))),
            None => Bound::Unbounded,
        };
        let mut keys: Vec<Key> = Vec::new();
        for (key, id) in tables.exceptional.range((from, Bound::Unbounded)) {
            if keys.last() == Some(key) || tables.rows.get(id).is_none_or(|stored| stored.lane != lane) {
                continue;
            }
            if keys.len() == limit {
                break;
            }
            keys.push(key.clone());
        }
        Ok(keys)
    }

    async fn sweep(&mut self, lanes: &[HeldLane], after: RowId, room: Room) -> Result<Page> {
        let known = lanes.iter().filter_map(|held| Some((held.lane, self.read.get(&held.lane)?.1)));
        let known: BTreeMap<Lane, RowId> = known.collect();
        let tables = self.store.lock();
        let mut filling = Filling::new(room);
        let (mut rows, mut reached) = (Vec::new(), RowId(i64::MAX));
        for (id, stored) in tables.rows.range((Bound::Excluded(after), Bound::Unbounded)) {
            let was_read = known.get(&stored.lane).is_some_and(|last| id <= last);
            if !was_read || !stored.ordinary() || stored.message.deliver_at.is_some() {
                continue;
            }
            if !filling.admit(stored.message.weight()) {
                reached = rows.last().map_or(after, |row: &Row| row.id);
                break;
            }
            rows.push(tables.view_as(*id, stored, start(lanes, stored.lane)));
        }
        let reached = known.into_keys().map(|lane| (lane, reached)).collect();
        Ok(Page { rows, reached, ..Page::EMPTY })
    }

    async fn load(&mut self, rows: &[RowId], room: Room) -> Result<Page> {
        let tables = self.store.lock();
        let mut filling = Filling::new(room);
        let mut page = Page::EMPTY;
        for id in rows.iter().collect::<BTreeSet<_>>() {
            let open = |stored: &&Stored| matches!(stored.state, RowState::Pending | RowState::SetAside);
            let Some(stored) = tables.rows.get(id).filter(open) else { continue };
            if !filling.admit(stored.message.weight()) {
                page.more = true;
                break;
            }
            page.rows.push(tables.view(*id, stored));
        }
        Ok(page)
    }
}

fn start(lanes: &[HeldLane], lane: Lane) -> Start {
    lanes.iter().find(|held| held.lane == lane).map_or(Start::Clean, |held| held.start)
}
