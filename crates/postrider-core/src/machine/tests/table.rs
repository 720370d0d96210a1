//! The outbox table in memory, with what the source and the settler promise of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::machine::{Read, Wanted};
use crate::*;

/// A row.
#[derive(Debug, Clone)]
pub struct Stored {
    pub lane: Lane,
    pub message: Arc<Message>,
    pub malformed: bool,
    pub weight: usize,
    pub state: RowState,
    pub deliver_at: Option<u64>,
    pub created_at: u64,
    /// The end of time for "never, whatever the policy says".
    pub expires_at: Option<u64>,
    pub next_attempt_at: Option<u64>,
    pub attempts: u32,
    pub waiting_for: Option<Vec<DestinationName>>,
    pub progress: BTreeMap<DestinationName, u32>,
    pub suspicion: u16,
    pub version: u64,
    pub given_up: Option<DeadReason>,
}

impl Stored {
    fn exceptional(&self) -> bool {
        matches!(self.state, RowState::SetAside | RowState::Holding) || self.next_attempt_at.is_some()
    }

    fn ordinary(&self) -> bool {
        self.state == RowState::Pending && self.next_attempt_at.is_none()
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
}

/// The table, the terms of its lanes, and where the source has read up to.
#[derive(Debug)]
pub struct Table {
    pub rows: BTreeMap<i64, Stored>,
    pub lanes: u16,
    /// Whether all rows are one group, as in a store of one lane.
    pub whole: bool,
    pub terms: BTreeMap<Lane, Term>,
    pub reasons: BTreeMap<i64, DeadReason>,
    given: HashMap<Lane, (Term, BTreeSet<i64>)>,
    version: u64,
}

impl Table {
    pub fn new(lanes: u16) -> Self {
        let terms = (0..lanes).map(|lane| (Lane(lane), Term(0))).collect();
        Self {
            whole: false,
            rows: BTreeMap::new(),
            lanes,
            terms,
            given: HashMap::new(),
            reasons: BTreeMap::new(),
            version: 0,
        }
    }

    pub fn lane(&self, id: i64, message: &Message) -> Lane {
        let count = LaneCount::new(self.lanes).unwrap();
        message.key.as_ref().map_or_else(|| lane_of(&id.to_string(), count), |key| lane_of(key.as_str(), count))
    }

    pub fn put(&mut self, id: i64, mut stored: Stored) {
        self.version += 1;
        stored.version = self.version;
        self.rows.insert(id, stored);
    }

    /// The source's connection is lost, and with it where it has read up to.
    pub fn disconnect(&mut self) {
        self.given.clear();
    }

    /// What an operator's replay does.
    pub fn replay(&mut self, id: i64, now: u64) {
        let is_dead = |stored: &Stored| matches!(stored.state, RowState::Dead | RowState::Holding);
        let Some(mut stored) = self.rows.get(&id).cloned().filter(is_dead) else { return };
        stored.state = RowState::Pending;
        stored.next_attempt_at = Some(now);
        stored.attempts = 0;
        stored.expires_at = Some(u64::MAX);
        stored.given_up = None;
        stored.progress.clear();
        self.put(id, stored);
    }

    /// What an operator's discard does.
    pub fn discard(&mut self, id: i64, now: u64) {
        let Some(gone) = self.rows.remove(&id).filter(|stored| stored.state == RowState::Holding) else { return };
        let mine = |row: &&Stored| row.message.key == gone.message.key && row.state == RowState::SetAside;
        let freed = self.rows.range(id..).find(|(_, row)| mine(row)).map(|(id, row)| (*id, row.clone()));
        if let Some((id, stored)) = freed {
            self.put(id, Stored { state: RowState::Pending, next_attempt_at: Some(now), ..stored });
        }
    }

    /// Whether a row of a key would overtake a head that holds it at this destination.
    pub fn is_held(&self, id: i64, destination: &DestinationName) -> bool {
        let Some(key) = self.rows.get(&id).and_then(|row| row.message.key.as_ref()) else { return false };
        let owes = |row: &Stored| row.waiting_for.as_ref().is_none_or(|names| names.contains(destination));
        let holds = |row: &Stored| {
            // One that is no message is given up as it is read: rows behind it may be in flight when it comes late.
            row.state == RowState::Holding && !row.malformed && row.message.key.as_ref() == Some(key) && owes(row)
        };
        let everywhere = |row: &Stored| row.message.topic.as_str() == "all";
        self.rows.range(..id).any(|(_, row)| holds(row) && (everywhere(row) || destination.as_str() == "a"))
    }

    /// Where the start of its lane is careful, a row comes as its head.
    pub fn read(&mut self, read: &Read, now: u64) -> Result<Page, Vec<Key>> {
        let mut page = self.read_whole(read, now)?;
        for row in &mut page.rows {
            let careful = read.held(row.lane).is_some_and(|held| held.start == Start::Careful);
            if let (Content::Message(message), true) = (&row.content, careful) {
                row.content = Content::Head(Head {
                    id: Some(message.id),
                    topic: message.topic.clone(),
                    key: message.key.clone(),
                    suspicion: self.rows[&row.id.0].suspicion,
                    has_retry: message.retry.is_some(),
                });
            }
        }
        Ok(page)
    }

    fn read_whole(&mut self, read: &Read, now: u64) -> Result<Page, Vec<Key>> {
        let mut page = Filling::new(read.room);
        match &read.wanted {
            Wanted::New => {
                let lanes = &read.lanes;
                self.given.retain(|lane, (term, _)| lanes.iter().any(|l| l.lane == *lane && l.term == *term));
                for held in lanes {
                    self.given.entry(held.lane).or_insert((held.term, BTreeSet::new()));
                }
                let mut given = Vec::new();
                for (id, stored) in &self.rows {
                    let unread = self.given.get(&stored.lane).is_some_and(|(_, given)| !given.contains(id));
                    if unread && stored.ordinary() && stored.deliver_at.is_none_or(|at| at <= now) {
                        if !page.take(self.view(*id, stored, now)) {
                            break;
                        }
                        given.push((stored.lane, *id));
                    }
                }
                for (lane, id) in given {
                    self.given.get_mut(&lane).unwrap().1.insert(id);
                }
            }
            Wanted::Due(window) => {
                let ours = |stored: &Stored| read.lanes.iter().any(|held| held.lane == stored.lane);
                let mut due: Vec<_> = self
                    .rows
                    .iter()
                    .filter(|(id, stored)| ours(stored) && !window.contains(&RowId(**id)))
                    .filter_map(|(id, stored)| stored.scheduled().filter(|at| *at <= now).map(|at| (at, *id)))
                    .collect();
                due.sort_unstable();
                for (_, id) in due {
                    if !page.take(self.view(id, &self.rows[&id], now)) {
                        break;
                    }
                }
            }
            Wanted::Key(lane, key) => {
                for (id, stored) in &self.rows {
                    let mine = stored.lane == *lane && (self.whole || stored.message.key.as_ref() == Some(key));
                    if mine && stored.exceptional() && stored.state != RowState::Dead {
                        let row = Row { closed: Closed::Open, ..self.view(*id, stored, now) };
                        if !page.take(row) {
                            break;
                        }
                    }
                }
            }
            Wanted::Walk(lane, after) => {
                let keys: BTreeSet<Key> = self
                    .rows
                    .values()
                    .filter(|stored| stored.lane == *lane && stored.exceptional() && stored.state != RowState::Dead)
                    .filter_map(|stored| stored.message.key.clone())
                    .filter(|key| after.as_ref().is_none_or(|after| key > after))
                    .collect();
                if self.whole {
                    let any = self.rows.values().any(|stored| stored.exceptional() && stored.state != RowState::Dead);
                    return Err(if any { vec![Key::everything()] } else { Vec::new() });
                }
                return Err(keys.into_iter().take(read.room.rows).collect());
            }
            Wanted::Rows(rows) => {
                for row in rows {
                    let open = |stored: &&Stored| matches!(stored.state, RowState::Pending | RowState::SetAside);
                    if let Some(stored) = self.rows.get(&row.0).filter(open)
                        && !page.take(self.view(row.0, stored, now))
                    {
                        break;
                    }
                }
            }
            Wanted::Sweep(after) => {
                let mut reached = RowId(i64::MAX);
                for (id, stored) in self.rows.range(after.0 + 1..) {
                    let old = self.given.get(&stored.lane).is_some_and(|(_, given)| given.contains(id));
                    if read.held(stored.lane).is_some()
                        && old
                        && stored.ordinary()
                        && stored.deliver_at.is_none()
                        && !page.take(self.view(*id, stored, now))
                    {
                        reached = page.page.rows.last().map_or(*after, |row| row.id);
                        break;
                    }
                }
                page.page.reached = read.lanes.iter().map(|held| (held.lane, reached)).collect();
            }
        }
        Ok(page.page)
    }

    pub fn settle(&mut self, now: u64, leases: &[HeldLane], batch: &[Settlement]) -> Settled {
        let held = |lane: &HeldLane| self.terms.get(&lane.lane) == Some(&lane.term);
        let wanted: BTreeSet<Lane> = batch.iter().map(|settlement| settlement.lane).collect();
        let lanes: Vec<Lane> =
            leases.iter().filter(|l| wanted.contains(&l.lane) && held(l)).map(|held| held.lane).collect();
        let mut settled = Settled { rows: Vec::new(), lanes };
        for settlement in batch {
            let id = settlement.row.0;
            let open = |stored: &&Stored| matches!(stored.state, RowState::Pending | RowState::SetAside);
            let Some(stored) = self.rows.get(&id).filter(open).filter(|_| settled.lanes.contains(&settlement.lane))
            else {
                continue;
            };
            let mut stored = stored.clone();
            settled.rows.push(settlement.row);
            stored.suspicion = settlement.suspicion;
            match &settlement.outcome {
                Outcome::Delivered | Outcome::Dropped => {
                    self.rows.remove(&id);
                    continue;
                }
                Outcome::Retry { after, attempts, waiting_for, progress, .. } => {
                    stored.state = RowState::Pending;
                    stored.attempts = *attempts;
                    stored.waiting_for.clone_from(waiting_for);
                    stored.progress.clone_from(progress);
                    stored.next_attempt_at = Some(now + u64::try_from(after.as_micros()).unwrap());
                }
                Outcome::Forward { reason, after, attempts, waiting_for, progress, .. } => {
                    stored.state = RowState::Pending;
                    stored.attempts = *attempts;
                    stored.waiting_for.clone_from(waiting_for);
                    stored.progress.clone_from(progress);
                    stored.next_attempt_at = Some(now + u64::try_from(after.as_micros()).unwrap());
                    stored.given_up = Some(*reason);
                }
                Outcome::SetAside { waiting_for } => {
                    stored.state = RowState::SetAside;
                    stored.waiting_for.clone_from(waiting_for);
                    stored.next_attempt_at = None;
                }
                Outcome::Suspected { suspicion } => stored.suspicion = *suspicion,
                Outcome::Dead { attempts, waiting_for, reason, .. }
                | Outcome::Holding { attempts, waiting_for, reason, .. } => {
                    self.reasons.insert(id, *reason);
                    let holds = matches!(settlement.outcome, Outcome::Holding { .. });
                    stored.state = if holds { RowState::Holding } else { RowState::Dead };
                    stored.attempts = *attempts;
                    stored.waiting_for.clone_from(waiting_for);
                    stored.next_attempt_at = None;
                }
            }
            self.put(id, stored);
        }
        settled
    }

    fn view(&self, id: i64, stored: &Stored, now: u64) -> Row {
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
            waiting_for: stored.waiting_for.clone(),
            progress: stored.progress.clone(),
            closed: self.closed(id, stored),
            given_up: stored.given_up.map(|reason| GivenUp {
                reason,
                attempts: stored.attempts,
                error: "scripted".to_owned(),
            }),
        }
    }

    fn closed(&self, id: i64, stored: &Stored) -> Closed {
        let key = stored.message.key.as_ref();
        if key.is_none() && !self.whole {
            return Closed::Open;
        }
        let mut owed = BTreeSet::new();
        for before in self.rows.range(..id).map(|(_, row)| row) {
            let same = self.whole || before.message.key.as_ref() == key;
            if !same || !before.exceptional() || before.state == RowState::Dead {
                continue;
            }
            match &before.waiting_for {
                Some(names) => owed.extend(names.iter().cloned()),
                None => return Closed::ForAll,
            }
        }
        if owed.is_empty() { Closed::Open } else { Closed::For(owed.into_iter().collect()) }
    }
}

struct Filling {
    page: Page,
    rows: usize,
    bytes: usize,
}

impl Filling {
    fn new(room: Room) -> Self {
        Self { page: Page::EMPTY, rows: room.rows, bytes: room.bytes }
    }

    fn take(&mut self, row: Row) -> bool {
        if self.rows == 0 || (!self.page.rows.is_empty() && row.weight > self.bytes) {
            self.page.more = true;
            return false;
        }
        self.rows -= 1;
        self.bytes = self.bytes.saturating_sub(row.weight);
        self.page.rows.push(row);
        true
    }
}
