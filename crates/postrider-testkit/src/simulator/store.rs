//! The outbox in a database: rows that become visible when their transaction commits, and the fenced settle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Closed, Content, DeadReason, DestinationName, Due, Expires, GivenUp, Head, HeldLane, Key, Lane, Lifetime, Message,
    Outcome, Page, RelayId, Retrying, Room, Row, RowId, RowState, Settled, Settlement, Start,
};

use super::lanes::LaneTable;

/// So many rows that stand before another one are looked at; of more a read does not tell what they owe.
const MOST_LOOKED_AT: usize = 3;

/// A row.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) lane: Lane,
    pub(super) key: Option<usize>,
    pub(super) message: Arc<Message>,
    pub(super) malformed: bool,
    pub(super) weight: usize,
    pub(super) state: RowState,
    pub(super) deliver_at: Option<u64>,
    pub(super) created_at: u64,
    /// The end of time for one that is never over.
    pub(super) expires_at: Option<u64>,
    pub(super) next_attempt_at: Option<u64>,
    pub(super) attempts: u32,
    /// Why it was given up, while it is owed where dead letters are forwarded.
    pub(super) given_up: Option<DeadReason>,
    pub(super) waiting_for: Option<Vec<DestinationName>>,
    pub(super) progress: BTreeMap<DestinationName, u32>,
    pub(super) suspicion: u16,
    /// Its transaction's place in the order of the commits; none while that is open.
    pub(super) commit: Option<u64>,
    /// It is no more: rolled back, delivered, or removed by hand.
    pub(super) gone: bool,
}

impl Stored {
    fn is_exceptional(&self) -> bool {
        matches!(self.state, RowState::SetAside | RowState::Holding)
            || (self.state == RowState::Pending && self.next_attempt_at.is_some())
    }

    pub(super) fn is_ordinary(&self) -> bool {
        !self.gone && self.state == RowState::Pending && self.next_attempt_at.is_none()
    }

    fn lifetime(&self, now: u64) -> Lifetime {
        Lifetime {
            age: Duration::from_micros(now.saturating_sub(self.created_at)),
            expires: match self.expires_at {
                None => Expires::ByPolicy,
                Some(u64::MAX) => Expires::Never,
                Some(at) => Expires::In(Duration::from_micros(at.saturating_sub(now))),
            },
        }
    }

    fn scheduled(&self) -> Option<u64> {
        if self.state == RowState::Pending { self.next_attempt_at.or(self.deliver_at) } else { None }
    }

    pub(super) fn committed_by(&self, moment: u64) -> bool {
        self.commit.is_some_and(|commit| commit <= moment)
    }

    /// Whether it may be settled.
    pub(super) fn is_open(&self) -> bool {
        !self.gone && matches!(self.state, RowState::Pending | RowState::SetAside)
    }

    /// Whether it is there for everybody and not given up.
    pub(super) fn is_waiting(&self) -> bool {
        !self.gone && self.commit.is_some() && self.state != RowState::Dead
    }
}

/// The database.
#[derive(Debug)]
pub(super) struct SimStore {
    now: u64,
    /// How far its clock is from the true time.
    pub(super) offset: i64,
    /// Which life of the server this is.
    pub(super) boot: u64,
    /// The last commit.
    pub(super) commits: u64,
    pub(super) lanes: LaneTable,
    /// What rows keep their order with: the keys, or everything, which is one group.
    groups: Vec<Key>,
    whole: bool,
    rows: Vec<Stored>,
    /// Rows by the place of their commit.
    order: Vec<(u64, i64)>,
    live: BTreeSet<i64>,
    due: BTreeSet<(u64, i64)>,
    exceptional: Vec<BTreeSet<i64>>,
    /// Rows that are there for everybody and not given up.
    waiting: usize,
}

impl SimStore {
    /// `whole` is a store of one lane, whose relay keeps one order of all messages.
    pub(super) fn new(keys: Vec<Key>, whole: bool, lanes: LaneTable) -> Self {
        let groups = if whole { vec![Key::everything()] } else { keys };
        Self {
            now: 0,
            offset: 0,
            boot: 1,
            commits: 0,
            lanes,
            exceptional: groups.iter().map(|_| BTreeSet::new()).collect(),
            groups,
            whole,
            rows: Vec::new(),
            order: Vec::new(),
            live: BTreeSet::new(),
            due: BTreeSet::new(),
            waiting: 0,
        }
    }

    /// True time goes on.
    pub(super) fn pass(&mut self, now: u64) {
        self.now = now;
    }

    /// The database's own clock.
    pub(super) fn clock(&self) -> u64 {
        self.now.saturating_add_signed(self.offset)
    }

    pub(super) fn row(&self, id: i64) -> &Stored {
        &self.rows[place(id)]
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (i64, &Stored)> {
        self.rows.iter().enumerate().map(|(place, row)| (i64::try_from(place + 1).unwrap_or(0), row))
    }

    /// A row in a few words.
    pub(super) fn describe(&self, id: i64) -> String {
        let row = self.row(id);
        let (state, key, owes) = (row.state, row.key, &row.waiting_for);
        format!("#{id} lane {} key {key:?} {state:?} next {:?} owes {owes:?}", row.lane, row.next_attempt_at)
    }

    /// How many rows are there for everybody and not given up.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Rows not yet removed beyond a row, by number.
    pub(super) fn live_after(&self, after: i64) -> impl Iterator<Item = i64> {
        self.live.range(after + 1..).copied()
    }

    /// Rows that committed after one moment and by another, by number.
    pub(super) fn committed(&self, after: u64, until: u64) -> Vec<i64> {
        let start = self.order.partition_point(|(commit, _)| *commit <= after);
        let end = self.order.partition_point(|(commit, _)| *commit <= until);
        let mut ids: Vec<i64> = self.order[start..end].iter().map(|(_, id)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// The number that the next row gets.
    pub(super) fn next_id(&self) -> i64 {
        i64::try_from(self.rows.len() + 1).unwrap_or(0)
    }

    /// A row is written by a transaction that is still open.
    pub(super) fn insert(&mut self, stored: Stored) {
        self.rows.push(stored);
    }

    pub(super) fn commit(&mut self, ids: &[i64]) {
        self.commits += 1;
        for id in ids {
            self.rows[place(*id)].commit = Some(self.commits);
            self.order.push((self.commits, *id));
            self.live.insert(*id);
            self.index(*id);
        }
    }

    pub(super) fn roll_back(&mut self, ids: &[i64]) {
        for id in ids {
            self.rows[place(*id)].gone = true;
        }
    }

    /// The row leaves the table.
    pub(super) fn remove(&mut self, id: i64) {
        self.unindex(id);
        self.live.remove(&id);
        self.rows[place(id)].gone = true;
    }

    /// What a row keeps its order with, by place.
    fn group(&self, stored: &Stored) -> Option<usize> {
        if self.whole { Some(0) } else { stored.key }
    }

    /// What an operator's replay does: what is replayed has no end.
    pub(super) fn replay(&mut self, id: i64) {
        let now = self.clock();
        self.change(id, |stored| {
            stored.state = RowState::Pending;
            stored.next_attempt_at = Some(now);
            stored.attempts = 0;
            stored.expires_at = Some(u64::MAX);
            stored.given_up = None;
            stored.progress.clear();
        });
    }

    /// What an operator's discard does, and retention's: the first row set aside for one that holds its key may go.
    pub(super) fn discard(&mut self, id: i64) {
        let held = self.row(id).state == RowState::Holding;
        let group = self.group(self.row(id)).filter(|_| held);
        self.remove(id);
        let now = self.clock();
        let is_aside = |id: &i64| self.row(*id).state == RowState::SetAside;
        let freed = group.and_then(|group| self.exceptional[group].iter().copied().find(is_aside));
        if let Some(freed) = freed {
            self.change(freed, |stored| {
                stored.state = RowState::Pending;
                stored.next_attempt_at = Some(now);
            });
        }
    }

    fn change(&mut self, id: i64, change: impl FnOnce(&mut Stored)) {
        self.unindex(id);
        change(&mut self.rows[place(id)]);
        self.index(id);
    }

    fn index(&mut self, id: i64) {
        let stored = &self.rows[place(id)];
        self.waiting += usize::from(stored.state != RowState::Dead);
        if let Some(at) = stored.scheduled() {
            self.due.insert((at, id));
        }
        if let Some(group) = self.group(stored).filter(|_| stored.is_exceptional()) {
            self.exceptional[group].insert(id);
        }
    }

    fn unindex(&mut self, id: i64) {
        let stored = &self.rows[place(id)];
        self.waiting -= usize::from(stored.state != RowState::Dead);
        if let Some(at) = stored.scheduled() {
            self.due.remove(&(at, id));
        }
        if let Some(group) = self.group(stored) {
            self.exceptional[group].remove(&id);
        }
    }

    pub(super) fn due(&self, lanes: &[HeldLane], room: Room, window: &[RowId]) -> Page {
        let now = self.clock();
        let ids = self.due.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id);
        let ours = |id: &i64| lanes.iter().any(|held| held.lane == self.row(*id).lane) && !window.contains(&RowId(*id));
        let ids: Vec<i64> = ids.filter(ours).take(room.rows).collect();
        self.page(&ids, room)
    }

    pub(super) fn key(&self, lane: Lane, key: &Key, room: Room) -> Page {
        let Ok(place) = self.groups.binary_search(key) else { return Page::EMPTY };
        let ids = self.exceptional[place].iter().copied().filter(|id| self.row(*id).lane == lane);
        let ids: Vec<i64> = ids.take(room.rows).collect();
        let mut page = self.page(&ids, room);
        for row in &mut page.rows {
            row.closed = Closed::Open;
        }
        page
    }

    pub(super) fn exceptional_keys(&self, lane: Lane, after: Option<&Key>, limit: usize) -> Vec<Key> {
        let keys = self.groups.iter().zip(&self.exceptional);
        let here = keys.filter(|(key, ids)| {
            after.is_none_or(|after| *key > after) && ids.iter().any(|id| self.row(*id).lane == lane)
        });
        here.map(|(key, _)| key.clone()).take(limit).collect()
    }

    /// A step of a sweep of lanes, each up to the point that it was read to: rows are passed over as well.
    pub(super) fn sweep(&self, read: &BTreeMap<Lane, u64>, after: RowId, room: Room) -> Page {
        let passed: Vec<i64> = self.live_after(after.0.max(0)).take(room.rows).collect();
        let finds = passed.iter().copied().filter(|id| {
            let stored = self.row(*id);
            let was_read = read.get(&stored.lane).is_some_and(|read| stored.committed_by(*read));
            was_read && stored.is_ordinary() && stored.deliver_at.is_none()
        });
        let page = self.page(&finds.collect::<Vec<_>>(), room);
        let reached = match (page.more, page.rows.last(), passed.last()) {
            (true, Some(row), _) => row.id,
            (true, None, _) => after,
            (false, _, Some(last)) => RowId(*last),
            (false, _, None) => RowId(i64::MAX),
        };
        Page { reached: read.keys().map(|lane| (*lane, reached)).collect(), ..page }
    }

    /// Rows whole, whatever the start of their lanes.
    pub(super) fn load(&self, rows: &[RowId], room: Room) -> Page {
        let mut ids: Vec<i64> = rows.iter().map(|row| row.0).filter(|id| self.row(*id).is_open()).collect();
        ids.sort_unstable();
        let rows = self.fit(&ids, room.bytes);
        Page { more: rows.len() < ids.len(), rows, ..Page::EMPTY }
    }

    /// Where the start of its lane is careful, a row comes as its head.
    pub(super) fn behead(&self, page: &mut Page, lanes: &[HeldLane]) {
        for row in &mut page.rows {
            let careful = lanes.iter().any(|held| held.lane == row.lane && held.start == Start::Careful);
            if let (Content::Message(message), true) = (&row.content, careful) {
                row.content = Content::Head(Head {
                    id: Some(message.id),
                    topic: message.topic.clone(),
                    key: message.key.clone(),
                    suspicion: self.row(row.id.0).suspicion,
                    has_retry: message.retry.is_some(),
                });
            }
        }
    }

    fn page(&self, ids: &[i64], room: Room) -> Page {
        let rows = self.fit(ids, room.bytes);
        Page { more: ids.len() == room.rows || rows.len() < ids.len(), rows, ..Page::EMPTY }
    }

    /// The first rows that fit, the very first one whatever it weighs.
    pub(super) fn fit(&self, ids: &[i64], bytes: usize) -> Vec<Row> {
        let mut running = 0;
        let mut rows = Vec::with_capacity(ids.len());
        for id in ids {
            running += self.row(*id).weight.max(1);
            if running > bytes && !rows.is_empty() {
                break;
            }
            rows.push(self.view(*id));
        }
        rows
    }

    fn view(&self, id: i64) -> Row {
        let (stored, now) = (self.row(id), self.clock());
        let content = if stored.malformed {
            let reason = "nonsense".to_owned();
            Content::Malformed { id: Some(stored.message.id), key: stored.message.key.clone(), reason }
        } else {
            Content::Message(Arc::clone(&stored.message))
        };
        let due = match stored.next_attempt_at.or(stored.deliver_at) {
            Some(at) if at > now => Due::In(Duration::from_micros(at - now)),
            Some(_) | None => Due::Now,
        };
        Row {
            id: RowId(id),
            lane: stored.lane,
            content,
            weight: stored.weight,
            state: stored.state,
            due,
            lifetime: stored.lifetime(now),
            retrying: if stored.next_attempt_at.is_some() { Retrying::Yes } else { Retrying::No },
            attempts: stored.attempts,
            given_up: stored.given_up.map(|reason| GivenUp {
                reason,
                attempts: stored.attempts,
                error: "simulated".to_owned(),
            }),
            waiting_for: stored.waiting_for.clone(),
            progress: stored.progress.clone(),
            closed: self.closed(id, stored),
        }
    }

    fn closed(&self, id: i64, stored: &Stored) -> Closed {
        let Some(group) = self.group(stored) else { return Closed::Open };
        let mut owed = BTreeSet::new();
        for (place, before) in self.exceptional[group].range(..id).enumerate() {
            if place == MOST_LOOKED_AT {
                return Closed::ForMany(owed.into_iter().collect());
            }
            match &self.row(*before).waiting_for {
                Some(names) => owed.extend(names.iter().cloned()),
                None => return Closed::ForAll,
            }
        }
        if owed.is_empty() { Closed::Open } else { Closed::For(owed.into_iter().collect()) }
    }

    /// Records outcomes, in the lanes that are still the relay's under the terms given.
    pub(super) fn settle(&mut self, me: RelayId, leases: &[HeldLane], batch: &[Settlement]) -> Settled {
        let wanted: BTreeSet<Lane> = batch.iter().map(|settlement| settlement.lane).collect();
        let ours = |held: &&HeldLane| wanted.contains(&held.lane) && self.lanes.is_owner(held.lane, me, held.term);
        let lanes: Vec<Lane> = leases.iter().filter(ours).map(|held| held.lane).collect();
        let mut settled = Settled { rows: Vec::new(), lanes };
        let now = self.clock();
        for settlement in batch {
            let id = settlement.row.0;
            let stored = self.row(id);
            if !stored.is_open() || stored.lane != settlement.lane || !settled.lanes.contains(&settlement.lane) {
                continue;
            }
            settled.rows.push(settlement.row);
            self.rows[place(id)].suspicion = settlement.suspicion;
            match &settlement.outcome {
                Outcome::Delivered | Outcome::Dropped => self.remove(id),
                Outcome::Retry { after, attempts, waiting_for, progress, .. }
                | Outcome::Forward { after, attempts, waiting_for, progress, .. } => self.change(id, |stored| {
                    if let Outcome::Forward { reason, .. } = settlement.outcome {
                        stored.given_up = Some(reason);
                    }
                    stored.state = RowState::Pending;
                    stored.attempts = *attempts;
                    stored.waiting_for.clone_from(waiting_for);
                    stored.progress.clone_from(progress);
                    stored.next_attempt_at = Some(now + u64::try_from(after.as_micros()).unwrap_or(u64::MAX / 2));
                }),
                Outcome::SetAside { waiting_for } => self.change(id, |stored| {
                    stored.state = RowState::SetAside;
                    stored.waiting_for.clone_from(waiting_for);
                    stored.next_attempt_at = None;
                }),
                Outcome::Suspected { suspicion } => self.rows[place(id)].suspicion = *suspicion,
                Outcome::Dead { attempts, waiting_for, .. } | Outcome::Holding { attempts, waiting_for, .. } => self
                    .change(id, |stored| {
                        stored.state = match settlement.outcome {
                            Outcome::Holding { .. } => RowState::Holding,
                            _ => RowState::Dead,
                        };
                        stored.attempts = *attempts;
                        stored.waiting_for.clone_from(waiting_for);
                        stored.next_attempt_at = None;
                    }),
            }
        }
        settled
    }
}

fn place(id: i64) -> usize {
    usize::try_from(id - 1).unwrap_or(usize::MAX)
}
