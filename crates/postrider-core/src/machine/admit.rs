//! Rows come in.

use std::collections::BTreeSet;
use std::slice;
use std::time::Duration;

use super::careful::Care;
use super::closed::closed_at;
use super::destinations::{DestinationIndex, Destinations};
use super::events::{Answer, Note, Read, Ticket, Wanted};
use super::keys::KeySlot;
use super::ordering::Ordering;
use super::outlet::Turn;
use super::schedule::WALK_PAGE;
use super::troubles::Troubles;
use super::window::Entry;
use super::{Machine, settle};
use crate::address::DestinationName;
use crate::error::{Error, ErrorKind};
use crate::lane::{HeldLane, Lane};
use crate::message::{Key, MessageId};
use crate::row::{Closed, Content, Due, Retrying, Row, RowId, RowState};
use crate::seams::{Attempt, DeadReason, FailedAttempt, Page, Room};
use crate::tick::Tick;

/// How long a row waits that no route leads anywhere for: until somebody mends the configuration.
const NOWHERE_RETRY: Duration = Duration::from_secs(60);

/// The most rows and bytes of one look that found nothing but rows that cannot go; what lies behind them waits. They do not
/// stay in memory.
const LONGEST_LOOK: Room = Room { rows: 8_192, bytes: 64 << 20 };

/// The window holds so many pages of light rows at least, so that one more can be asked for ahead.
const LIGHT_PAGES: usize = 4;

/// How a row was found, which says what to believe of its `closed` mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Reading,
    Due,
    Look,
}

impl Machine {
    pub(super) fn answered(&mut self, now: Tick, read: Read, answer: Answer) {
        let goes_on = read.goes_on(&answer);
        let Read { ticket, wanted, mut lanes, room, .. } = read;
        self.schedule.read_ended();
        if matches!(wanted, Wanted::New | Wanted::Sweep(_)) {
            lanes.retain(|held| self.schedule.is_told(held.lane));
        }
        match answer {
            Answer::NotMade => self.is_still_wanted(&wanted),
            Answer::Failed(error) => self.read_failed(now, ticket, &wanted, &error),
            Answer::Keys(keys) => self.walked(&wanted, &keys),
            Answer::Page(page) => {
                // A step of a sweep that looked at nothing may not have asked the store anything.
                if !matches!(wanted, Wanted::Sweep(_)) || !page.reached.is_empty() {
                    self.store_is_back();
                }
                if wanted == Wanted::New {
                    let is_light = page.weight() <= self.settings.window_bytes / LIGHT_PAGES;
                    self.schedule.set_backlog(goes_on && is_light);
                }
                self.page(now, ticket, room, wanted, &lanes, page);
            }
        }
        self.reads.close(ticket);
        let reads = &self.reads;
        self.keys.expire(|mark| reads.any_before(mark));
    }

    fn page(&mut self, now: Tick, ticket: Ticket, room: Room, wanted: Wanted, lanes: &[HeldLane], page: Page) {
        let count = page.rows.len();
        let more = page.more;
        // Of rows that are read in passing, nearly all of which are news, those alone are asked that are not.
        if !matches!(wanted, Wanted::New | Wanted::Sweep(_)) {
            self.stand_down_where_numbers_came_again(&page.rows);
        }
        match wanted {
            Wanted::New => {
                self.read_carefully(lanes, &page);
                self.caught_up(lanes, &page);
                self.delayed.reading(ticket);
                if !more {
                    self.delayed.has_read_everything();
                }
                self.admit_all(ticket, lanes, page.rows, Found::Reading);
                let more = more || self.schedule.is_catching_up();
                self.schedule.new_answered(now, count, more, self.settings.max_poll_interval);
                if self.delayed.may_go() {
                    self.schedule.look_for_due(now);
                }
            }
            Wanted::Due(left_out) => {
                let rows: Vec<(Lane, RowId)> = page.rows.iter().map(|row| (row.lane, row.id)).collect();
                let waited = self.delayed.len();
                let admitted = self.admit_all(ticket, lanes, page.rows, Found::Due);
                if !more {
                    self.delayed.keep(&left_out, &rows);
                }
                self.read_due_carefully(lanes, &rows, more);
                let begins_to_wait = self.delayed.len() > waited;
                // What waits for a look would only come again.
                let more = more && (admitted > 0 || begins_to_wait);
                self.schedule.due_answered(now, count, more, self.settings.due_interval);
                if begins_to_wait {
                    self.schedule.look_for_new(now);
                }
            }
            Wanted::Key(lane, key) => self.looked(ticket, room, lanes, lane, &key, page),
            Wanted::Walk(..) => {}
            Wanted::Rows(rows) => self.loaded(lanes, &rows, page),
            Wanted::Sweep(after) => {
                let reached = page.reached.values().copied().min();
                self.schedule.swept(now, after, reached, self.settings.sweep_round);
                let found = self.admit_all(ticket, lanes, page.rows, Found::Reading);
                if found > 0 {
                    self.notes.push(Note::SweepFound(found));
                }
            }
        }
    }

    fn read_failed(&mut self, now: Tick, ticket: Ticket, wanted: &Wanted, error: &Error) {
        self.is_still_wanted(wanted);
        self.schedule.set_backlog(false);
        if *wanted == Wanted::New {
            self.delayed.reading(ticket);
        }
        self.read_carefully_again();
        let pause = self.store_is_away(error);
        self.schedule.rest(now + pause);
    }

    /// A read brought nothing: what it was for is asked for again.
    fn is_still_wanted(&mut self, wanted: &Wanted) {
        match wanted {
            Wanted::New | Wanted::Due(_) | Wanted::Rows(_) | Wanted::Sweep(_) => {}
            Wanted::Key(_, key) => {
                let Some(key) = self.keys.find(key) else { return };
                if let Some(record) = self.keys.get_mut(key) {
                    record.looking = false;
                }
                self.review(key);
            }
            Wanted::Walk(lane, _) if !self.held.contains_key(lane) => {}
            Wanted::Walk(lane, Some(after)) => self.schedule.walk_on(*lane, after.clone()),
            Wanted::Walk(lane, None) => self.schedule.walk(*lane),
        }
    }

    fn walked(&mut self, wanted: &Wanted, keys: &[Key]) {
        self.store_is_back();
        let Wanted::Walk(lane, _) = wanted else { return };
        if !self.held.contains_key(lane) {
            return;
        }
        // One record of all messages is kept while anything may wait: where nothing does any more, only a look says so.
        let all = Key::everything();
        let record = self.keys.find(&all).and_then(|all| self.keys.get(all));
        let remembered = record.is_some_and(|record| !record.aside.is_empty()) && !keys.contains(&all);
        for key in keys.iter().chain(remembered.then_some(&all)) {
            let (everywhere, paused) = (self.everywhere(), self.paused());
            let key = self.keys.place(key.clone(), *lane);
            let Some(record) = self.keys.get_mut(key) else { continue };
            record.walked(everywhere, paused);
            self.review(key);
        }
        if let Some(last) = keys.last().filter(|_| keys.len() >= WALK_PAGE) {
            self.schedule.walk_on(*lane, last.clone());
        }
    }

    /// Notes how far lanes gained not long ago are read.
    fn caught_up(&mut self, lanes: &[HeldLane], page: &Page) {
        if !self.schedule.is_catching_up() {
            return;
        }
        let mut last = page.reached.clone();
        for row in &page.rows {
            let last = last.entry(row.lane).or_insert(row.id);
            *last = row.id.max(*last);
        }
        for (lane, row) in last {
            if self.is_ours(lanes, lane) {
                self.schedule.has_read(lane, row);
            }
        }
        for held in lanes.iter().filter(|_| !page.more) {
            if self.is_ours(lanes, held.lane) {
                self.schedule.has_read_all(held.lane);
            }
        }
        for (lane, row) in self.schedule.take_read_to() {
            self.keys.reached(lane, row);
        }
    }

    pub(super) fn everywhere(&self) -> Destinations {
        (0..self.settings.destinations.len()).map(DestinationIndex::new).collect()
    }

    fn admit_all(&mut self, ticket: Ticket, lanes: &[HeldLane], rows: Vec<Row>, found: Found) -> u64 {
        let mut admitted = 0;
        let mut is_ours = vec![false; lanes.last().map_or(0, |held| usize::from(held.lane.0) + 1)];
        for held in lanes {
            is_ours[usize::from(held.lane.0)] = self.is_ours(lanes, held.lane);
        }
        for row in rows {
            let is_early = found == Found::Reading && row.due != Due::Now;
            let is_wanted = is_ours.get(usize::from(row.lane.0)).copied().unwrap_or(false) && !is_early;
            if !is_wanted {
                continue;
            }
            if found == Found::Due {
                admitted += u64::from(self.admit_due(row, ticket));
                continue;
            }
            if !self.is_news(ticket, &row) {
                for lane in self.stand_down_where_numbers_came_again(slice::from_ref(&row)) {
                    is_ours.get_mut(usize::from(lane.0)).into_iter().for_each(|is_ours| *is_ours = false);
                }
                continue;
            }
            self.admit(row, found, Destinations::NONE);
            admitted += 1;
        }
        if admitted > 0 {
            self.notes.push(Note::Read(admitted));
        }
        admitted
    }

    /// A number that is in memory with another message was drawn again: the table was emptied or restored, or its server lost
    /// its last numbers. What is remembered of that lane is of rows that are no more; under its next term it is read anew. The
    /// lanes that were given up.
    fn stand_down_where_numbers_came_again(&mut self, rows: &[Row]) -> BTreeSet<Lane> {
        let came_again = |row: &Row| {
            let entry = self.window.get(row.id)?;
            row.has_another_message_than(entry.id).then_some(entry.lane)
        };
        let lanes: BTreeSet<Lane> = rows.iter().filter_map(came_again).collect();
        for &lane in &lanes {
            let Some(held) = self.owned(lane) else { continue };
            self.notes.push(Note::NumbersCameAgain(self.as_left(held)));
            self.lose(lane);
        }
        lanes
    }

    /// Whether a row of a lane that is still ours is neither in the window nor settled since the read was sent.
    pub(super) fn is_news(&self, ticket: Ticket, row: &Row) -> bool {
        !self.window.contains(row.id)
            && !self.reads.settled_since(ticket, row)
            && matches!(row.state, RowState::Pending | RowState::SetAside)
            && !self.stopping
    }

    /// Whether a lane is held under the term under which a read was sent.
    pub(super) fn is_ours(&self, lanes: &[HeldLane], lane: Lane) -> bool {
        let place = lanes.binary_search_by_key(&lane, |held| held.lane).ok();
        let asked = place.and_then(|place| lanes.get(place)).map(|held| held.term);
        let ours = self.held.get(&lane).map(|held| held.term);
        ours.is_some() && ours == asked
    }

    pub(super) fn admit(&mut self, row: Row, found: Found, blocked: Destinations) {
        let Some(held) = self.held.get(&row.lane).copied() else { return };
        let id = row.id;
        self.delayed.admitted(id);
        let key = self.group(&row, found).map(|key| self.keys.place(key, row.lane));
        let owed = self.owed(&row);
        let ends_at = self.ends_at(&row);
        let parked = match key {
            Some(key) => self.join_key(key, &row, found, owed, blocked),
            None => Destinations::NONE,
        };
        let stay = self.next_moment();
        let waiting = owed.without(parked);
        let message = match &row.content {
            Content::Message(message) => Some(std::sync::Arc::clone(message)),
            Content::Malformed { .. } | Content::Head(_) => None,
        };
        let care = match &row.content {
            Content::Message(_) | Content::Malformed { .. } => Care::None,
            Content::Head(head) => Care::Head(head.suspicion),
        };
        let head = match &row.content {
            Content::Head(head) => Some(Box::new(head.clone())),
            Content::Message(_) | Content::Malformed { .. } => None,
        };
        // Whether a head is delayed is not known.
        let delayed = care != Care::None || message.as_ref().is_some_and(|message| message.deliver_at.is_some());
        let scheduled = row.retrying == Retrying::Yes || (delayed && row.state == RowState::Pending);
        self.window.insert(
            id,
            Entry {
                stay,
                lane: row.lane,
                term: held.term,
                id: row.message_id(),
                message,
                key,
                weight: row.weight,
                owes_every_route: row.waiting_for.is_none(),
                scheduled,
                attempts: row.attempts,
                troubles: Troubles::of(self.unknown(&row), row.progress),
                attempt: Attempt(0),
                waiting,
                flying: Destinations::NONE,
                answered: Destinations::NONE,
                accepted: Destinations::NONE,
                parked,
                failed: Destinations::NONE,
                exhausted: Destinations::NONE,
                settling: false,
                care,
                head,
                ends_at,
                is_over: false,
                lapsed: Destinations::NONE,
                holds_key: false,
                given_up: row.given_up.map(std::sync::Arc::new),
            },
        );
        self.came_back(row.lane, id);
        match row.content {
            Content::Malformed { id: message, reason, .. } => self.bury_malformed(id, message, reason),
            Content::Message(_) | Content::Head(_) if ends_at.is_some_and(|end| end <= self.latest) => self.end(id),
            Content::Message(_) | Content::Head(_) if owed.is_empty() => self.lead_nowhere(id),
            content => {
                for destination in waiting.iter() {
                    self.queue(id, key, destination);
                    if let Content::Message(message) = &content {
                        self.hurry(id, destination, &message.topic);
                    }
                }
                match content {
                    Content::Head(head) => self.admit_head(id, head.suspicion),
                    Content::Message(_) | Content::Malformed { .. } => self.resolve(id),
                }
            }
        }
    }

    /// The names that are not configured: they stay owed until they are. What is given up is owed where dead letters go now.
    fn unknown(&self, row: &Row) -> Vec<DestinationName> {
        let names = row.waiting_for.as_deref().filter(|_| row.given_up.is_none()).unwrap_or_default();
        let configured = |name: &DestinationName| self.settings.destinations.iter().any(|known| known.name == *name);
        names.iter().filter(|name| !configured(name)).cloned().collect()
    }

    pub(super) fn owed(&self, row: &Row) -> Destinations {
        match (&row.waiting_for, &row.content) {
            (_, Content::Malformed { .. }) => Destinations::NONE,
            // A statement that was given up for lost may have put back where it waited before it was given up.
            _ if row.given_up.is_some() => self.dead_letters(),
            (Some(names), _) => self.settings.named(names),
            (None, Content::Message(message)) => self.settings.routed(&message.topic),
            (None, Content::Head(head)) => self.settings.routed(&head.topic),
        }
    }

    /// Counts the row among its key's, and says where it must wait for the key's head.
    fn join_key(
        &mut self,
        key: KeySlot,
        row: &Row,
        found: Found,
        owed: Destinations,
        blocked: Destinations,
    ) -> Destinations {
        let knows = self.keys.get(key).is_some_and(|record| record.knows);
        let closed = match &row.closed {
            _ if found == Found::Look => blocked.both(owed),
            Closed::Open => Destinations::NONE,
            Closed::For(names) => self.settings.named(names).both(owed),
            // Of those that the read did not look at, the record knows where they wait.
            Closed::ForMany(names) if knows && found == Found::Reading => self.settings.named(names).both(owed),
            Closed::ForMany(_) | Closed::ForAll => owed,
        };
        let is_head = found == Found::Look || (found == Found::Due && row.retrying == Retrying::Yes);
        let Some(record) = self.keys.get_mut(key) else { return closed };
        record.members += 1;
        let parked = if is_head { closed } else { record.aside.both(owed).with(closed) };
        let parked = parked.with(record.failing.with(blocked).both(owed));
        if is_head {
            record.aside = record.aside.with(owed);
            record.scheduled = record.scheduled.without(owed);
        } else if !closed.is_empty() {
            record.look_again = true;
        }
        parked.iter().for_each(|destination| record.hold_back(row.id, destination));
        parked
    }

    /// The exceptional rows of a key, by ascending row: those that can go are admitted.
    fn looked(&mut self, ticket: Ticket, room: Room, lanes: &[HeldLane], lane: Lane, key: &Key, page: Page) {
        if !self.is_ours(lanes, lane) {
            return;
        }
        let (paused, everywhere) = (self.paused(), self.everywhere());
        let Some(key) = self.keys.find(key) else { return };
        let Some(record) = self.keys.get_mut(key) else { return };
        record.peek = false;
        let stale_from = record.held_back_from;
        let stale = record.look_again || stale_from.is_some();
        record.looking = false;
        // Where rows of the key are in memory, what waits in the table is looked at after them.
        let busy = record.busy();
        // Rows on their way back to the table, and rows that came back there since the look was sent, block as well.
        let (mut blocked, mut seen, mut left) = (Destinations::NONE, Destinations::NONE, Destinations::NONE);
        let mut unsure = record.held_back().with(record.unseen());
        let closed_from = record.closed_from();
        let mut came_back = Destinations::NONE;
        let (mut scheduled, mut head) = (Destinations::NONE, None);
        let (mut admitted, mut complete, mut holds) = (false, !page.more, false);
        let more_room = more_room(room, page.rows.len());
        let mut unread = None;
        for row in page.rows {
            let owed = match (row.state, &row.content) {
                // A row that is no message could have gone anywhere.
                (RowState::Holding, Content::Malformed { .. }) => everywhere,
                _ => self.owed(&row),
            };
            if stale_from.is_some_and(|stale| stale < row.id) {
                complete = false;
                break;
            }
            if self.settings.ordering == Ordering::None && row.state == RowState::Pending {
                // The due query brings it, and nothing waits for it.
                continue;
            }
            if !self.is_news(ticket, &row) && row.state != RowState::Holding {
                (seen, left) = (seen.with(owed), left.with(owed));
                if !self.window.contains(row.id) {
                    (unsure, came_back) = (unsure.with(owed), came_back.with(owed));
                }
                continue;
            }
            holds |= row.state == RowState::Holding;
            // What was set aside was due once: a clock that was set back since then does not make it wait, because the
            // due query would not bring it.
            let waits = row.state == RowState::Holding || (row.state == RowState::Pending && row.due != Due::Now);
            let closed = blocked.with(came_back).with(closed_at(&closed_from, row.id));
            let over = !waits && self.is_over(&row);
            if waits || !over && (!owed.is_empty() && owed.without(closed.with(paused)).is_empty()) {
                (blocked, left) = (blocked.with(owed), left.with(owed));
                head = head.or(Some(row.id).filter(|_| waits));
                scheduled = scheduled.with(if waits { owed } else { Destinations::NONE });
            } else if !self.schedule.is_read_to(lane, row.id) {
                unread = Some(row.id);
                complete = false;
                break;
            } else if self.window.admits() {
                self.admit(row, Found::Look, closed);
                admitted = true;
            } else {
                complete = false;
                break;
            }
            seen = seen.with(owed);
        }
        let Some(record) = self.keys.get_mut(key) else { return };
        record.held = holds;
        record.head = head;
        // What is on its way to the table for a destination that pauses, or behind others there, stands before nothing that
        // could go now.
        let stale = stale || !unsure.without(paused.with(busy)).is_empty() || unread.is_some();
        let left = left.with(unsure);
        let may_hide = !everywhere.without(blocked.with(paused).with(busy)).is_empty();
        let more_room = more_room.filter(|_| page.more && !admitted && !stale && may_hide);
        let hidden = more_room.is_some();
        record.look = more_room.unwrap_or(Room::NONE);
        record.resting = !hidden && !admitted && !stale && record.members > 0;
        // What was not taken in because others are on their way there comes before the head, and is looked at after them.
        let scheduled = scheduled.without(busy);
        record.scheduled = if !stale && (complete || !admitted && !hidden) { scheduled } else { Destinations::NONE };
        if complete && !stale {
            // Of a key that waits elsewhere what came into memory stands in its place there, before whatever comes after it:
            // with every new row that waited for the next look, there would be no end of looks at all that waits.
            record.saw(if left.is_empty() { seen } else { left });
        } else {
            record.aside = record.aside.with(seen);
        }
        if page.more && !admitted && !stale && !hidden {
            record.scheduled = record.aside.without(busy);
        }
        if let Some(row) = unread {
            record.looking = true;
            return self.keys.wait_for(lane, row, key);
        }
        self.leave_for_what_is_scheduled(key);
        self.review(key);
    }

    pub(super) fn review(&mut self, key: KeySlot) {
        let mark = self.reads.mark();
        let read_before = self.reads.any_before(mark);
        if let Some(missed) = self.keys.review(key, mark, read_before, self.paused()) {
            self.schedule.missed(missed);
        }
    }

    pub(super) fn queue(&mut self, row: RowId, key: Option<KeySlot>, destination: DestinationIndex) {
        let Some(outlet) = self.outlets.get_mut(destination.get()) else { return };
        let Some(key) = key else {
            if self.window.get(row).is_some_and(Entry::is_loaded) {
                outlet.line.push_back(Turn::Row(row));
            }
            return;
        };
        let burying = self.keys.get(key).is_some_and(|record| record.burying > 0);
        let Some(queue) = self.keys.queue(key, destination) else { return };
        queue.waiting.insert(row);
        if !queue.in_line && queue.flying == 0 && !burying {
            queue.in_line = true;
            outlet.line.push_back(Turn::Key(key));
        }
    }

    pub(super) fn bury_malformed(&mut self, row: RowId, id: Option<MessageId>, reason: String) {
        self.bury_unsent(row, id, DeadReason::Malformed, ErrorKind::Rejected, &reason);
    }

    /// A row is given up for what it is, not for what became of it anywhere.
    pub(super) fn bury_unsent(
        &mut self,
        row: RowId,
        id: Option<MessageId>,
        reason: DeadReason,
        kind: ErrorKind,
        text: &str,
    ) {
        self.note_dead(row, id, reason, text.to_owned());
        let text = settle::shortened(text);
        let failure = FailedAttempt { destination: DestinationName::new(""), kind, text, moment: 0 };
        self.bury(row, reason, vec![failure]);
    }

    /// No configured destination is owed this row: it waits for a better configuration, uncharged and visible.
    pub(super) fn lead_nowhere(&mut self, row: RowId) {
        if let Some(given_up) = self.window.get(row).and_then(|entry| entry.given_up.clone()) {
            // The destination of dead letters is no longer configured.
            return self.bury(row, given_up.reason, Vec::new());
        }
        let Some(entry) = self.window.get_mut(row) else { return };
        let text = nowhere(&entry.troubles.unknown);
        entry.troubles.retry_after = NOWHERE_RETRY;
        let failure = FailedAttempt { destination: DestinationName::new(""), kind: ErrorKind::Config, text, moment: 0 };
        if let Some(id) = entry.message.as_ref().map(|message| message.id) {
            self.notes.push(Note::Nowhere { id, text: failure.text.clone() });
        }
        entry.troubles.failures.push(failure);
        self.retry_in_table(row);
    }
}

/// What a look is to ask for that sees beyond so many rows, which filled one with this room by their number or their bytes.
fn more_room(room: Room, brought: usize) -> Option<Room> {
    let is_heavy = brought < room.rows;
    if is_heavy {
        let bytes = room.bytes.saturating_mul(2).min(LONGEST_LOOK.bytes);
        (room.bytes < LONGEST_LOOK.bytes).then_some(Room { bytes, ..room })
    } else {
        (brought < LONGEST_LOOK.rows).then(|| Room { rows: brought.saturating_mul(2), ..room })
    }
}

/// What to do about a message that leads nowhere: its topic has no route, or it is owed to destinations that are gone.
fn nowhere(gone: &[DestinationName]) -> String {
    let names: Vec<String> = gone.iter().map(|name| format!("{:?}", name.as_str())).collect();
    match names.first() {
        None => "no route leads this topic to a configured destination; add a [[route]] for it and restart the relay"
            .to_owned(),
        Some(first) => settle::shortened(&format!(
            "it is still owed to {}, and no route of this relay has that name; give a [[route]] this name again (name = \
             {first}) and restart the relay",
            names.join(", ")
        )),
    }
}
