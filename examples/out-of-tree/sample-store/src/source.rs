//! Finding rows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use async_trait::async_trait;
use postrider_core::{Closed, HeldLane, Key, Lane, Page, Result, Room, Row, RowId, Source, Start, Term};

use crate::JournalStore;
use crate::record::Record;

/// A reader that knows, per lane and term, the last row it has read. Numbers are drawn under the lock under which rows are
/// committed: what is committed later has a higher one.
#[derive(Debug)]
pub struct JournalSource {
    store: JournalStore,
    read: BTreeMap<Lane, (Term, RowId)>,
    /// Where the reading under way ends.
    until: Option<RowId>,
}

impl JournalSource {
    pub fn new(store: JournalStore) -> Self {
        Self { store, read: BTreeMap::new(), until: None }
    }

    /// Forgets lanes that are not held any more, and begins those that are new.
    fn follow(&mut self, lanes: &[HeldLane]) {
        let before = std::mem::take(&mut self.read);
        let known = |held: &HeldLane| before.get(&held.lane).filter(|(term, _)| *term == held.term).copied();
        self.read = lanes.iter().map(|held| (held.lane, known(held).unwrap_or((held.term, RowId(0))))).collect();
    }
}

/// A page that is filled up to its room; the first row comes whatever it weighs.
struct Filling {
    room: Room,
    page: Page,
}

impl Filling {
    fn new(room: Room) -> Self {
        Self { room, page: Page::EMPTY }
    }

    /// Takes a row, if there is room for it.
    fn take(&mut self, row: Row) -> bool {
        let fits = self.page.rows.is_empty() || row.weight <= self.room.bytes;
        if self.room.rows == 0 || !fits {
            self.page.more = true;
            return false;
        }
        self.room = Room { rows: self.room.rows - 1, bytes: self.room.bytes.saturating_sub(row.weight) };
        self.page.rows.push(row);
        true
    }
}

#[async_trait]
impl Source for JournalSource {
    async fn read(&mut self, lanes: &[HeldLane], room: Room) -> Result<Page> {
        self.follow(lanes);
        let Some(from) = self.read.values().map(|(_, last)| *last).min() else { return Ok(Page::EMPTY) };
        let tables = self.store.lock();
        let now = tables.now().0;
        let highest = tables.rows.last_key_value().map_or(from, |(id, _)| *id);
        // What is committed while a reading of several pages goes on is left to the next one, so that it ends.
        let until = self.until.unwrap_or(highest).max(from);
        let (mut filling, mut passed) = (Filling::new(room), from);
        for (id, record) in tables.rows.range((Bound::Excluded(from), Bound::Included(until))) {
            let is_unread = self.read.get(&Lane(record.lane)).is_some_and(|(_, last)| last < id);
            let waits = record.columns.deliver_at.is_some_and(|at| at > now);
            if is_unread && record.is_ordinary() && !waits {
                if !filling.take(tables.row(*id, record, start(lanes, record))) {
                    break;
                }
            }
            passed = *id;
        }
        let mut page = filling.page;
        self.read.values_mut().for_each(|(_, last)| *last = passed.max(*last));
        self.until = page.more.then_some(until);
        if page.more {
            page.reached = self.read.iter().map(|(lane, (_, last))| (*lane, *last)).collect();
        }
        Ok(page)
    }

    async fn due(&mut self, lanes: &[HeldLane], room: Room, window: &[RowId]) -> Result<Page> {
        let (tables, window) = (self.store.lock(), window.iter().collect::<BTreeSet<_>>());
        let now = tables.now().0;
        let is_held = |record: &Record| lanes.iter().any(|held| held.lane.0 == record.lane);
        let due = tables.rows.iter().filter(|(id, record)| !window.contains(id) && is_held(record));
        let mut due: Vec<_> =
            due.filter_map(|(id, record)| Some((record.due_at().filter(|at| *at <= now)?, *id, record))).collect();
        due.sort_by_key(|(at, id, _)| (*at, *id));
        let mut filling = Filling::new(room);
        for (_, id, record) in due {
            if !filling.take(tables.row(id, record, start(lanes, record))) {
                break;
            }
        }
        Ok(filling.page)
    }

    async fn key(&mut self, lane: HeldLane, key: &Key, room: Room) -> Result<Page> {
        let tables = self.store.lock();
        let mut filling = Filling::new(room);
        for id in tables.exceptions(key) {
            let Some(record) = tables.rows.get(&id).filter(|record| record.lane == lane.lane.0) else { continue };
            if !filling.take(Row { closed: Closed::Open, ..tables.row(id, record, lane.start) }) {
                break;
            }
        }
        Ok(filling.page)
    }

    async fn exceptional_keys(&mut self, lane: Lane, after: Option<&Key>, limit: usize) -> Result<Vec<Key>> {
        Ok(self.store.lock().exceptional_keys(lane, after, limit))
    }

    async fn sweep(&mut self, lanes: &[HeldLane], after: RowId, room: Room) -> Result<Page> {
        let tables = self.store.lock();
        let known: BTreeMap<Lane, RowId> =
            lanes.iter().filter_map(|held| Some((held.lane, self.read.get(&held.lane)?.1))).collect();
        let (mut filling, mut reached) = (Filling::new(room), RowId(i64::MAX));
        for (id, record) in tables.rows.range((Bound::Excluded(after), Bound::Unbounded)) {
            let was_read = known.get(&Lane(record.lane)).is_some_and(|last| id <= last);
            if was_read && record.is_ordinary() && record.columns.deliver_at.is_none() {
                let before = filling.page.rows.last().map_or(after, |row| row.id);
                if !filling.take(tables.row(*id, record, start(lanes, record))) {
                    reached = before;
                    break;
                }
            }
        }
        let reached = known.into_keys().map(|lane| (lane, reached)).collect();
        Ok(Page { reached, more: false, ..filling.page })
    }

    async fn load(&mut self, rows: &[RowId], room: Room) -> Result<Page> {
        let tables = self.store.lock();
        let mut filling = Filling::new(room);
        for id in rows.iter().collect::<BTreeSet<_>>() {
            let Some(record) = tables.rows.get(id).filter(|record| record.is_live()) else { continue };
            if !filling.take(tables.row(*id, record, Start::Clean)) {
                break;
            }
        }
        Ok(filling.page)
    }
}

fn start(lanes: &[HeldLane], record: &Record) -> Start {
    lanes.iter().find(|held| held.lane.0 == record.lane).map_or(Start::Clean, |held| held.start)
}
