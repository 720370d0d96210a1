//! What a reader remembers: how far it has read each lane.

use std::collections::BTreeMap;

use postrider_core::{HeldLane, Lane, Page, Room, Row, RowId, Term};

use super::store::SimStore;

/// A read that did not fit one page and goes on by row number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Walk {
    until: u64,
    last: i64,
}

/// Lanes that have been read up to the same point.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cohort {
    lanes: BTreeMap<Lane, Term>,
    /// Everything that committed up to here was read; none for lanes that are new.
    read: Option<u64>,
    walk: Option<Walk>,
}

/// The reader of one relay, as the PostgreSQL source is: it remembers the snapshot up to which it has read.
#[derive(Debug, Default)]
pub(super) struct SimSource {
    cohorts: Vec<Cohort>,
    /// The life of the server in which that was.
    life: Option<u64>,
    /// The connection on which the cohorts tell the truth.
    connection: Option<u64>,
}

impl SimSource {
    /// New rows of the lanes held, as of `until`, which was observed at the beginning of the call.
    pub(super) fn read(
        &mut self,
        store: &SimStore,
        connection: u64,
        until: u64,
        lanes: &[HeldLane],
        room: Room,
    ) -> Page {
        if self.connection.take() != Some(connection) {
            self.cohorts.clear();
        }
        let life = self.life.replace(store.boot);
        if life.is_some_and(|life| life != store.boot) {
            self.cohorts.clear();
            return Page { discontinued: true, ..Page::EMPTY };
        }
        self.follow(lanes);
        let page = self.read_cohorts(store, until, room);
        self.connection = Some(connection);
        page
    }

    fn read_cohorts(&mut self, store: &SimStore, now: u64, room: Room) -> Page {
        let mut page = Page::EMPTY;
        let mut left = room;
        for cohort in &mut self.cohorts {
            if left.rows == 0 || (left.bytes == 0 && !page.rows.is_empty()) {
                page.more = true;
                break;
            }
            let (rows, more) = cohort.read(store, now, left);
            left.rows = left.rows.saturating_sub(rows.len());
            left.bytes = left.bytes.saturating_sub(rows.iter().map(|row| row.weight).sum());
            page.more |= more;
            page.rows.extend(rows);
        }
        page.reached = self.cohorts.iter().flat_map(Cohort::reached).collect();
        self.settle();
        page
    }

    /// The point up to which a lane was read; none while it is walked or new, or on another connection.
    pub(super) fn read_up_to(&self, connection: u64, lane: Lane) -> Option<u64> {
        if self.connection != Some(connection) {
            return None;
        }
        let cohort = self.cohorts.iter().find(|cohort| cohort.lanes.contains_key(&lane))?;
        if cohort.walk.is_some() { None } else { cohort.read }
    }

    fn follow(&mut self, held: &[HeldLane]) {
        let mut fresh: BTreeMap<Lane, Term> = held.iter().map(|held| (held.lane, held.term)).collect();
        for cohort in &mut self.cohorts {
            cohort.lanes.retain(|lane, term| {
                let known = fresh.get(lane) == Some(term);
                if known {
                    fresh.remove(lane);
                }
                known
            });
        }
        self.cohorts.retain(|cohort| !cohort.lanes.is_empty());
        if !fresh.is_empty() {
            self.cohorts.push(Cohort { lanes: fresh, read: None, walk: None });
        }
    }

    fn settle(&mut self) {
        if self.cohorts.len() < 2 {
            return;
        }
        let mut merged: Vec<Cohort> = Vec::with_capacity(self.cohorts.len());
        for cohort in self.cohorts.drain(..) {
            let same = merged.iter_mut().find(|known| {
                known.walk.is_none() && cohort.walk.is_none() && known.read.is_some() && known.read == cohort.read
            });
            match same {
                Some(known) => known.lanes.extend(cohort.lanes),
                None => merged.push(cohort),
            }
        }
        if merged.len() > 1 {
            merged.rotate_left(1);
        }
        self.cohorts = merged;
    }
}

impl Cohort {
    fn reached(&self) -> impl Iterator<Item = (Lane, RowId)> {
        let last = match (self.read, self.walk) {
            (Some(_), _) => i64::MAX,
            (None, walk) => walk.map_or(0, |walk| walk.last),
        };
        self.lanes.keys().map(move |lane| (*lane, RowId(last)))
    }

    fn read(&mut self, store: &SimStore, now: u64, room: Room) -> (Vec<Row>, bool) {
        if self.walk.is_none() {
            match self.read {
                Some(read) if read == now => return (Vec::new(), false),
                Some(read) => {
                    let mut ids = store.committed(read, now);
                    ids.retain(|id| self.lanes.contains_key(&store.row(*id).lane) && store.row(*id).is_ordinary());
                    ids.truncate(room.rows.saturating_add(1));
                    let fetched = ids.len();
                    let mut rows = store.fit(&ids, room.bytes);
                    rows.truncate(room.rows);
                    if fetched == rows.len() {
                        self.read = Some(now);
                        return (rows, false);
                    }
                    let last = rows.last().map_or(0, |row| row.id.0);
                    self.walk = Some(Walk { until: now, last });
                    return (rows, true);
                }
                None => self.walk = Some(Walk { until: now, last: 0 }),
            }
        }
        self.walk_on(store, room)
    }

    fn walk_on(&mut self, store: &SimStore, room: Room) -> (Vec<Row>, bool) {
        let Some(walk) = &mut self.walk else { return (Vec::new(), false) };
        let (read, now) = (self.read, store.clock());
        let ids: Vec<i64> = store
            .live_after(walk.last)
            .filter(|id| {
                let stored = store.row(*id);
                let visible = stored.committed_by(walk.until) && read.is_none_or(|read| !stored.committed_by(read));
                let due = read.is_some() || stored.deliver_at.is_none_or(|at| at <= now);
                visible && due && self.lanes.contains_key(&stored.lane) && stored.is_ordinary()
            })
            .take(room.rows)
            .collect();
        let rows = store.fit(&ids, room.bytes);
        let cut = ids.len() == room.rows || rows.len() < ids.len();
        if cut {
            walk.last = rows.last().map_or(walk.last, |row| row.id.0);
            return (rows, true);
        }
        self.read = Some(walk.until);
        self.walk = None;
        (rows, false)
    }
}
