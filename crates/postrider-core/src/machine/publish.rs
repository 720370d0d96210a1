//! Rows go out: who is next at each destination.

use std::sync::Arc;

use super::Machine;
use super::destinations::{DestinationIndex, Destinations};
use super::events::{Action, Flight, Note};
use super::keys::KeySlot;
use super::ordering::Ordering;
use super::outlet::{Outlet, Sent, Turn};
use super::queue::Queue;
use super::window::Entry;
use crate::error::Error;
use crate::message::Topic;
use crate::row::RowId;
use crate::seams::{Attempt, BrokerProfile, Isolation, OrderInBatch, Outgoing};
use crate::tick::Tick;

/// The most messages of one key in one call, where the broker keeps the order of a batch.
const KEY_SHARE: usize = 64;
/// A full window holds rows of at least so many keys while everything pauses.
const KEYS_AT_LEAST: usize = 32;
/// The most payload bytes of one call; a heavier message travels alone.
const MAX_CALL_BYTES: usize = 4 << 20;

/// The messages of one call while it is put together.
struct Call {
    rows: Vec<RowId>,
    bytes: usize,
    most: usize,
    alone: bool,
}

impl Call {
    fn takes(&self, weight: usize) -> bool {
        self.rows.is_empty() || (self.rows.len() < self.most && self.bytes + weight <= MAX_CALL_BYTES)
    }
}

impl Machine {
    pub(super) fn publish_next(&mut self, now: Tick, actions: &mut Vec<Action>) {
        if self.settling.store_is_away() {
            return;
        }
        for place in 0..self.outlets.len() {
            let destination = DestinationIndex::new(place);
            if self.outlets[place].pause.is_some() {
                self.probe(now, destination, actions);
            } else {
                while self.publish_one(now, destination, actions) {}
            }
        }
        self.shed(now);
    }

    /// Starts one more call, if there is something to send and a free place for it.
    fn publish_one(&mut self, now: Tick, destination: DestinationIndex, actions: &mut Vec<Action>) -> bool {
        let profile = self.profile(destination);
        let Some(outlet) = self.outlets.get_mut(destination.get()) else { return false };
        if outlet.flights.len() >= profile.max_concurrent.max(1) || outlet.flights.values().any(|sent| sent.alone) {
            return false;
        }
        if outlet.alone_is_next && !outlet.alone.is_empty() {
            if !outlet.flights.is_empty() {
                return false;
            }
            return self.send_alone(now, destination, actions);
        }
        let call = self.collect(destination, &profile);
        if call.rows.is_empty() {
            let outlet = &mut self.outlets[destination.get()];
            outlet.alone_is_next = !outlet.alone.is_empty();
            return outlet.alone_is_next;
        }
        let outlet = &mut self.outlets[destination.get()];
        outlet.alone_is_next = !outlet.alone.is_empty();
        self.send(now, destination, call, false, actions);
        true
    }

    fn send_alone(&mut self, now: Tick, destination: DestinationIndex, actions: &mut Vec<Action>) -> bool {
        let outlet = &mut self.outlets[destination.get()];
        outlet.alone_is_next = false;
        let Some(row) = outlet.alone.pop_front() else { return true };
        if self.is_next(row, destination) {
            if !self.has_no_place(row, destination) {
                self.mark_flying(row, destination);
                let call = Call { rows: vec![row], bytes: 0, most: 1, alone: true };
                self.send(now, destination, call, false, actions);
            }
        } else if let Some(key) = self.window.get(row).and_then(|entry| entry.key) {
            self.line_up(key, destination);
        }
        true
    }

    /// Whether the row waits there and nothing of its key must go before it.
    fn is_next(&self, row: RowId, destination: DestinationIndex) -> bool {
        self.is_waiting(row, destination) && self.is_in_front(row, destination)
    }

    /// Whether nothing of the row's key must go there before it.
    pub(super) fn is_in_front(&self, row: RowId, destination: DestinationIndex) -> bool {
        let Some(entry) = self.window.get(row) else { return false };
        let Some(record) = entry.key.and_then(|key| self.keys.get(key)) else { return true };
        let queue = record.queues.get(destination.get());
        record.burying == 0 && queue.is_none_or(|queue| queue.flying == 0 && queue.waiting.front() == Some(row))
    }

    /// Takes what may go from the head of the line, in order, as much as one call carries.
    fn collect(&mut self, destination: DestinationIndex, profile: &BrokerProfile) -> Call {
        let most = profile.max_batch.max(1);
        let mut call = Call { rows: Vec::new(), bytes: 0, most, alone: false };
        while call.rows.len() < most {
            let Some(turn) = self.outlets[destination.get()].line.pop_front() else { break };
            let taken = match &turn {
                Turn::Row(row) => self.take_row(*row, destination, profile, &mut call),
                Turn::Key(key) => self.take_key(*key, destination, profile, &mut call),
            };
            if !taken {
                self.outlets[destination.get()].line.push_front(turn);
                break;
            }
        }
        call
    }

    /// Whether the turn is used up: false puts it back at the head of the line.
    fn take_row(
        &mut self,
        row: RowId,
        destination: DestinationIndex,
        profile: &BrokerProfile,
        call: &mut Call,
    ) -> bool {
        if !self.is_waiting(row, destination) {
            return true;
        }
        if self.must_go_alone(row, destination, profile) {
            self.outlets[destination.get()].alone.push_back(row);
            return true;
        }
        let weight = self.window.get(row).map_or(0, |entry| entry.weight);
        if !call.takes(weight) {
            return false;
        }
        if self.has_no_place(row, destination) {
            return true;
        }
        call.bytes += weight;
        call.rows.push(row);
        self.mark_flying(row, destination);
        true
    }

    fn take_key(
        &mut self,
        key: KeySlot,
        destination: DestinationIndex,
        profile: &BrokerProfile,
        call: &mut Call,
    ) -> bool {
        let closed = self.keys.get(key).is_some_and(|record| record.burying > 0 || self.hand_back.has(record.lane));
        let flying = self.keys.queue(key, destination).is_some_and(|queue| queue.flying > 0);
        if closed || flying {
            queue_leaves_line(self.keys.queue(key, destination));
            return true;
        }
        let share = match profile.order {
            OrderInBatch::Kept => KEY_SHARE.min(call.most - call.rows.len()),
            OrderInBatch::NotKept => 1,
        };
        let mut taken = 0;
        while taken < share {
            let Some(queue) = self.keys.queue(key, destination) else { return true };
            let Some(row) = queue.waiting.front() else { break };
            if !self.is_waiting(row, destination) || !self.may_follow(row, call.rows.last().filter(|_| taken > 0)) {
                break;
            }
            if let Some(why) = self.misplaced(row, destination) {
                queue_leaves_line(self.keys.queue(key, destination));
                if taken == 0 {
                    self.charge_misplaced(row, destination, &why);
                }
                // Otherwise it is the first of its key when those before it are answered.
                return true;
            }
            if self.must_go_alone(row, destination, profile) {
                if taken == 0 {
                    queue_leaves_line(self.keys.queue(key, destination));
                    self.outlets[destination.get()].alone.push_back(row);
                    return true;
                }
                break;
            }
            let weight = self.window.get(row).map_or(0, |entry| entry.weight);
            if !call.takes(weight) {
                if taken == 0 {
                    return false;
                }
                break;
            }
            call.bytes += weight;
            call.rows.push(row);
            self.mark_flying(row, destination);
            taken += 1;
        }
        queue_leaves_line(self.keys.queue(key, destination));
        true
    }

    /// Whether a row may go behind another one of its group in one call: a broker stops at a failure for the messages
    /// of the same key only.
    fn may_follow(&self, row: RowId, last: Option<&RowId>) -> bool {
        let key = |row: RowId| self.window.get(row)?.message.as_ref()?.key.clone();
        self.settings.ordering != Ordering::Everything
            || last.is_none_or(|last| key(*last).is_some_and(|last| Some(last) == key(row)))
    }

    fn must_go_alone(&self, row: RowId, destination: DestinationIndex, profile: &BrokerProfile) -> bool {
        profile.isolation == Isolation::SharedConnection
            && self.outlets.get(destination.get()).is_some_and(|outlet| outlet.must_go_alone(row))
    }

    fn is_waiting(&self, row: RowId, destination: DestinationIndex) -> bool {
        let waits =
            |entry: &Entry| entry.waiting.contains(destination) && entry.is_loaded() && !self.hand_back.has(entry.lane);
        self.window.get(row).is_some_and(waits)
    }

    pub(super) fn mark_flying(&mut self, row: RowId, destination: DestinationIndex) {
        let Some(attempt) = self.window.get(row).map(|entry| self.next_attempt(row, entry, destination)) else {
            return;
        };
        let Some(entry) = self.window.get_mut(row) else { return };
        let one = Destinations::one(destination);
        entry.waiting = entry.waiting.without(one);
        entry.flying = entry.flying.with(one);
        entry.attempt = entry.attempt.max(attempt);
        if let Some(queue) =
            entry.key.and_then(|key| self.keys.get_mut(key).and_then(|record| record.queues.get_mut(destination.get())))
        {
            queue.waiting.remove(row);
            queue.flying += 1;
        }
    }

    fn send(&mut self, now: Tick, destination: DestinationIndex, call: Call, probe: bool, actions: &mut Vec<Action>) {
        let moment = self.next_moment();
        self.next_flight += 1;
        let flight = Flight(self.next_flight);
        let mut batch = Vec::with_capacity(call.rows.len());
        let mut rows = Vec::with_capacity(call.rows.len());
        for row in call.rows {
            let entry = self.window.get(row);
            batch.extend(entry.and_then(|entry| self.outgoing(row, entry, destination)));
            rows.push((row, entry.map_or(0, |entry| entry.stay)));
        }
        let sent = Sent { rows, moment, probe, alone: call.alone };
        self.outlets[destination.get()].sent(now, flight, sent);
        actions.push(Action::Publish(destination, flight, batch));
    }

    fn outgoing(&self, row: RowId, entry: &Entry, destination: DestinationIndex) -> Option<Outgoing> {
        let message = entry.message.as_ref()?;
        let settings = self.settings.destinations.get(destination.get())?;
        Some(Outgoing {
            message: Arc::clone(message),
            // One without a place is not sent.
            destination: settings.template.render(message).ok()?,
            attempt: self.next_attempt(row, entry, destination),
            lane: entry.lane,
            term: entry.term,
            given_up: entry.given_up.clone(),
        })
    }

    /// Which attempt there the next one is: after those that were charged, which the table counts, and those that failed
    /// at this relay and were charged to nobody.
    fn next_attempt(&self, row: RowId, entry: &Entry, destination: DestinationIndex) -> Attempt {
        let charged = match self.outlets.len() == 1 && entry.given_up.is_none() {
            // With one destination the table may know the attempts without telling which destination they were at.
            true => entry.attempts,
            false => {
                let settings = self.settings.destinations.get(destination.get());
                settings.and_then(|settings| entry.troubles.progress.get(&settings.name)).copied().unwrap_or(0)
            }
        };
        let uncharged = self.outlets.get(destination.get()).map_or(0, |outlet| outlet.uncharged_failures(row));
        Attempt(charged.saturating_add(uncharged).saturating_add(1))
    }

    /// One message at a time tries a paused destination, a different key each time; with none, a mere look does.
    fn probe(&mut self, now: Tick, destination: DestinationIndex, actions: &mut Vec<Action>) {
        if self.next_probe_at(destination).is_none_or(|at| now < at) {
            return;
        }
        let outlet = &mut self.outlets[destination.get()];
        if let Some(pause) = &mut outlet.pause {
            pause.probing = true;
        }
        let alone = std::mem::take(&mut outlet.alone);
        alone.into_iter().for_each(|row| self.back_in_line(row, destination));
        self.untried_first(destination);
        let row = loop {
            let Some(turn) = self.outlets[destination.get()].line.pop_front() else { break None };
            if let Turn::Key(key) = turn {
                queue_leaves_line(self.keys.queue(key, destination));
            }
            let head = self.head(&turn, destination).filter(|row| self.is_next(*row, destination));
            if let Some(row) = head.filter(|row| !self.has_no_place(*row, destination)) {
                break Some(row);
            }
        };
        match row {
            Some(row) => {
                self.mark_flying(row, destination);
                let call = Call { rows: vec![row], bytes: 0, most: 1, alone: true };
                self.send(now, destination, call, true, actions);
            }
            None => actions.push(Action::Check(destination)),
        }
    }

    /// When a destination that pauses is tried next; not while something is on its way there, or to be fetched for it.
    pub(super) fn next_probe_at(&self, destination: DestinationIndex) -> Option<Tick> {
        let outlet = self.outlets.get(destination.get()).filter(|outlet| outlet.flights.is_empty())?;
        let pause = outlet.pause.as_ref().filter(|pause| !pause.probing && !self.probe_comes(destination))?;
        Some(pause.next_probe)
    }

    /// Whether there are messages that could be probes there, and none of them is untried.
    pub(super) fn all_were_tried(&self, destination: DestinationIndex) -> bool {
        let mut tried = self.were_tried(destination).peekable();
        tried.peek().is_some() && tried.all(|was_tried| was_tried)
    }

    /// Of each message that could be a probe there, whether it failed there before.
    fn were_tried(&self, destination: DestinationIndex) -> impl Iterator<Item = bool> {
        self.outlets.get(destination.get()).into_iter().flat_map(move |outlet| {
            let in_line = outlet.line.iter().filter_map(move |turn| self.head(turn, destination));
            let rows = in_line.chain(outlet.alone.iter().copied()).filter(move |row| self.is_next(*row, destination));
            rows.map(|row| outlet.failures(row) > 0)
        })
    }

    /// What goes first when it is this one's turn.
    fn head(&self, turn: &Turn, destination: DestinationIndex) -> Option<RowId> {
        match turn {
            Turn::Row(row) => Some(*row),
            Turn::Key(key) => self.keys.get(*key)?.queues.get(destination.get())?.waiting.front(),
        }
    }

    /// Where a pause may be for a few messages alone, one that did not fail there goes before those that did.
    fn untried_first(&mut self, destination: DestinationIndex) {
        let outlet = self.outlets.get(destination.get()).filter(|outlet| outlet.longest_for_untried().is_some());
        let Some(outlet) = outlet else { return };
        let is_untried = |row: RowId| outlet.failures(row) == 0 && self.is_next(row, destination);
        let place = outlet.line.iter().position(|turn| self.head(turn, destination).is_some_and(is_untried));
        if let Some(place) = place {
            self.outlets[destination.get()].line.rotate_left(place);
        }
    }

    /// A message came into line last. Where a pause says nothing of it, it is tried soon.
    pub(super) fn hurry(&mut self, row: RowId, destination: DestinationIndex, topic: &Topic) {
        let Some(outlet) = self.outlets.get_mut(destination.get()).filter(|outlet| outlet.pause.is_some()) else {
            return;
        };
        outlet.hurry(self.latest, topic);
        let is_untried = outlet.failures(row) == 0;
        if is_untried && self.is_next(row, destination) {
            self.outlets[destination.get()].hurry_untried(self.latest);
        }
    }

    fn back_in_line(&mut self, row: RowId, destination: DestinationIndex) {
        let Some(entry) = self.window.get(row).filter(|entry| entry.waiting.contains(destination)) else { return };
        match entry.key {
            Some(key) => self.line_up(key, destination),
            None => self.outlets[destination.get()].line.push_back(Turn::Row(row)),
        }
    }

    pub(super) fn checked(&mut self, now: Tick, destination: DestinationIndex, answer: Result<(), Error>) {
        match answer {
            Ok(()) => self.resume(destination),
            Err(error) => self.pause(now, destination, &error),
        }
    }

    pub(super) fn resume(&mut self, destination: DestinationIndex) {
        let Some(outlet) = self.outlets.get_mut(destination.get()) else { return };
        if outlet.goes_on() {
            let name = self.settings.destinations[destination.get()].name.clone();
            self.notes.push(Note::Resumed(name));
            self.look_for_what_waited();
        }
    }

    /// A destination was answered there again after a silence: where it does not pause now, what waits in the table may go.
    pub(super) fn end_silence(&mut self, destination: DestinationIndex) {
        if self.outlets.get(destination.get()).is_some_and(|outlet| outlet.pause.is_none()) {
            self.look_for_what_waited();
        }
    }

    fn look_for_what_waited(&mut self) {
        self.schedule.walk_missed();
        let (mark, paused) = (self.reads.mark(), self.paused());
        self.keys.goes_on(mark, self.reads.any_before(mark), paused);
    }

    /// Whether a destination that answers nothing keeps a row in memory whose place is the table.
    fn keeps_from_the_table(&self, now: Tick) -> bool {
        let outlets = self.outlets.iter().enumerate();
        let silent = outlets.filter(|(_, outlet)| !outlet.is_silent && outlet.answers_nothing(now));
        let silent: Destinations = silent.map(|(place, _)| DestinationIndex::new(place)).collect();
        !silent.is_empty() && self.any_for_the_table(silent)
    }

    /// A broker that takes calls and does not answer is as far away as one that refuses them, and says so much later: while
    /// it fills the window, or keeps rows from the table, and another destination owes no answer for so long, it counts as
    /// paused.
    fn notice_silence(&mut self, now: Tick) {
        let answers = |place: &DestinationIndex| {
            let outlet = &self.outlets[place.get()];
            outlet.pause.is_none() && !outlet.answers_nothing(now)
        };
        if !self.settings.destinations_of_routes().iter().any(|place| answers(&place)) {
            return;
        }
        let mut begins = false;
        for outlet in self.outlets.iter_mut().filter(|outlet| !outlet.is_silent) {
            outlet.is_silent = outlet.pause.is_none() && outlet.answers_nothing(now);
            begins |= outlet.is_silent;
        }
        if begins {
            self.leave_for_the_table();
        }
    }

    pub(super) fn pause(&mut self, now: Tick, destination: DestinationIndex, error: &Error) {
        let for_untried = self.outlets.get(destination.get()).and_then(Outlet::longest_for_untried);
        let for_untried = for_untried.filter(|_| self.were_tried(destination).any(|was_tried| !was_tried));
        let longest = for_untried.map_or(self.settings.max_pause, |longest| longest.min(self.settings.max_pause));
        let Some(outlet) = self.outlets.get_mut(destination.get()) else { return };
        let text = error.story_and_advice();
        if outlet.pause(now, error.kind(), &text, error.delay(), longest, &mut self.jitter) {
            let name = self.settings.destinations[destination.get()].name.clone();
            self.notes.push(Note::Paused(name, error.kind(), text));
            self.leave_for_the_table();
        }
    }

    /// When the window is full of rows that wait for a paused destination while another one goes on, these leave
    /// memory, so that the other one gets rows to send.
    fn shed(&mut self, now: Tick) {
        let is_full = self.window.room(self.settings.page_rows).is_none();
        if is_full || self.keeps_from_the_table(now) {
            self.notice_silence(now);
        }
        if !is_full {
            return;
        }
        let paused: Destinations = self.paused();
        if paused.is_empty() {
            return;
        }
        // Where dead letters go is no reason to look for more of what cannot go.
        if self.settings.destinations_of_routes().without(paused).is_empty() {
            if self.settings.ordering != Ordering::Everything {
                self.shed_hot_keys(paused);
                self.shed_topics(paused);
            }
            return;
        }
        let crowded = |place: DestinationIndex| {
            let outlet = &self.outlets[place.get()];
            let queue = |key: KeySlot| self.keys.get(key)?.queues.get(place.get());
            let is_behind = |key: KeySlot| queue(key).is_some_and(|queue| queue.flying > 0);
            let is_behind_a_call =
                || !outlet.flights.is_empty() && self.window.keys_that_wait_for(place).any(is_behind);
            !outlet.line.is_empty() || !outlet.alone.is_empty() || is_behind_a_call()
        };
        if !paused.iter().any(crowded) && self.careful.is_over() {
            return;
        }
        for destination in paused.iter() {
            let outlet = &mut self.outlets[destination.get()];
            outlet.line.clear();
            outlet.alone.clear();
            self.keys.leave_line(destination);
        }
        for row in self.window.ids() {
            for destination in paused.iter() {
                self.park(row, destination);
            }
            self.resolve(row);
        }
    }

    /// When the window is full and everything pauses, what a key has beyond its share leaves memory: its head may be
    /// the reason of the pause, and a probe of another key must be able to end it.
    fn shed_hot_keys(&mut self, paused: Destinations) {
        let share = (self.settings.window_rows / KEYS_AT_LEAST).max(1);
        for destination in paused.iter() {
            for row in self.keys.beyond_share(destination, share) {
                self.park(row, destination);
                self.resolve(row);
            }
        }
    }

    /// The same of topics that met a wrong setting, beyond half of the window: a message of another one must be able to come,
    /// and end the pause.
    fn shed_topics(&mut self, paused: Destinations) {
        for destination in paused.iter() {
            let outlet = &mut self.outlets[destination.get()];
            if !outlet.topics.are_known() {
                continue;
            }
            let is_of_one = |entry: &Entry| {
                let message = entry.message.as_ref().filter(|_| entry.waiting.contains(destination));
                message.is_some_and(|message| outlet.topics.met(&message.topic))
            };
            let mut rows: Vec<RowId> =
                self.window.iter().filter(|(_, entry)| is_of_one(entry)).map(|(row, _)| row).collect();
            rows.sort_unstable();
            let left = rows.split_off(rows.len().min(self.settings.window_rows / 2));
            let Some(first) = left.first() else { continue };
            let stays = |row: &RowId| row < first || left.binary_search(row).is_err();
            outlet.line.retain(|turn| !matches!(turn, Turn::Row(row) if !stays(row)));
            outlet.alone.retain(stays);
            for row in left {
                self.park(row, destination);
                self.resolve(row);
            }
        }
    }

    /// Where nothing goes now.
    pub(super) fn paused(&self) -> Destinations {
        let rests = |outlet: &Outlet| outlet.pause.is_some() || outlet.is_silent;
        let places = self.outlets.iter().enumerate().filter(|(_, outlet)| rests(outlet));
        places.map(|(place, _)| DestinationIndex::new(place)).collect()
    }

    /// A row stops waiting for a destination in memory; it will wait in the table.
    pub(super) fn park(&mut self, row: RowId, destination: DestinationIndex) {
        let Some(entry) = self.window.get_mut(row) else { return };
        let one = Destinations::one(destination);
        if !entry.waiting.contains(destination) {
            return;
        }
        entry.waiting = entry.waiting.without(one);
        entry.parked = entry.parked.with(one);
        let Some(key) = entry.key else { return };
        if let Some(record) = self.keys.get_mut(key) {
            record.hold_back(row, destination);
            if let Some(queue) = record.queues.get_mut(destination.get()) {
                queue.waiting.remove(row);
            }
        }
    }

    fn profile(&self, destination: DestinationIndex) -> BrokerProfile {
        self.settings.destinations[destination.get()].profile.clone()
    }
}

fn queue_leaves_line(queue: Option<&mut Queue>) {
    if let Some(queue) = queue {
        queue.in_line = false;
    }
}
