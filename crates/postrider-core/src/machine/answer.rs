//! Answers of brokers: what became of each message, and who is to blame.

use super::Machine;
use super::destinations::{DestinationIndex, Destinations};
use super::events::{Flight, Note};
use super::keys::KeySlot;
use super::ordering::Ordering;
use super::outlet::{Sent, Turn};
use super::row_queue::RowQueue;
use super::window::Entry;
use crate::error::{Error, ErrorKind};
use crate::judge::{Evidence, Judgement, judge};
use crate::on_dead::OnDead;
use crate::row::RowId;
use crate::seams::{FailedAttempt, Isolation, Published};
use crate::tick::Tick;

/// A message that failed so often as a probe makes room in a full window: the next one may end the pause.
const PROBES_IN_A_FULL_WINDOW: u32 = 8;

/// For how many failures a message waits of which it is not remembered how often it failed.
const FAILURES_AMONG_MANY: u32 = 6;

impl Machine {
    pub(super) fn published(&mut self, now: Tick, flight: Flight, results: Vec<Published>) {
        let found = self.outlets.iter_mut().enumerate().find_map(|(place, outlet)| {
            outlet.flights.remove(&flight).map(|sent| (DestinationIndex::new(place), sent))
        });
        let Some((destination, sent)) = found else { return };
        let was_silent = self.outlets[destination.get()].heard(now);
        let results = whole(results, sent.rows.len());
        let mut accepted = 0;
        let mut excused: Vec<(RowId, Error)> = Vec::new();
        let mut ended_pause = false;
        for ((row, stay), result) in sent.rows.iter().zip(results) {
            let stays = self.window.stays(*row, *stay);
            match result {
                Published::Accepted(_) => {
                    accepted += 1;
                    ended_pause |= sent.probe;
                    self.outlets[destination.get()].accepted(*row, sent.moment);
                    if stays {
                        self.land(*row, destination, Landing::Accepted);
                    }
                }
                // The lane was lost meanwhile: the row is somebody else's, or in the window anew.
                Published::Failed(_) | Published::NotSent if !stays => {}
                Published::Failed(error) => self.judge_one(now, destination, &sent, *row, error, &mut excused),
                Published::NotSent => self.land(*row, destination, Landing::Again),
            }
        }
        if accepted > 0 {
            let name = self.settings.destinations[destination.get()].name.clone();
            self.notes.push(Note::Accepted(name, accepted));
        }
        if ended_pause {
            self.resume(destination);
        }
        self.excuse(now, destination, &sent, excused);
        let landed: Vec<RowId> = sent.rows.iter().map(|(row, _)| *row).collect();
        for row in &landed {
            if self.is_leaving(*row) {
                self.leave_nothing_waiting(*row);
            }
            self.resolve(*row);
        }
        self.line_up_again(&landed, destination);
        self.look_behind(&landed, destination);
        if was_silent {
            self.end_silence(destination);
        }
    }

    fn judge_one(
        &mut self,
        now: Tick,
        destination: DestinationIndex,
        sent: &Sent,
        row: RowId,
        error: Error,
        excused: &mut Vec<(RowId, Error)>,
    ) {
        let evidence = self.evidence(destination, sent, row, &error);
        self.note_failure(row, destination, &error);
        match judge(error.kind(), evidence) {
            Judgement::Charged => self.charge(row, destination, &error),
            Judgement::Excused => excused.push((row, error)),
            Judgement::Pause => {
                self.outlets[destination.get()].met(row, &error);
                self.pause_after(now, destination, sent, &error);
                self.land(row, destination, Landing::Again);
            }
            Judgement::StandDown => {
                if let Some(lane) = self.window.get(row).map(|entry| entry.lane) {
                    self.fenced(lane);
                }
            }
        }
    }

    /// What is known about a failure. One of an attempt that was sent is remembered against the message.
    fn evidence(&mut self, destination: DestinationIndex, sent: &Sent, row: RowId, error: &Error) -> Evidence {
        if error.is_unsent() {
            return Evidence::NeverSent;
        }
        let moment = self.next_moment();
        let shared = self.shares_connection(destination) && breaks_connections(error.kind());
        // On a shared connection only a message that travelled alone can be told apart from its neighbours.
        match self.outlets[destination.get()].failed(row, error.kind(), moment) {
            Evidence::OthersAccepted if shared && !sent.alone => Evidence::NothingAccepted,
            evidence => evidence,
        }
    }

    /// Failures that are nobody's or the destination's: it pauses and the messages stay, or they are tried again by
    /// themselves where the destination plainly works for others.
    fn excuse(&mut self, now: Tick, destination: DestinationIndex, sent: &Sent, excused: Vec<(RowId, Error)>) {
        let Some((_, first)) = excused.first() else {
            self.probe_ended(now, destination, sent);
            return;
        };
        let outlet = &self.outlets[destination.get()];
        let destination_is_down = outlet.nothing_accepted_since(sent.moment)
            || first.kind() == ErrorKind::Throttled
            || (self.shares_connection(destination) && breaks_connections(first.kind()));
        if destination_is_down {
            for (row, error) in &excused {
                self.outlets[destination.get()].met(*row, error);
            }
            self.pause_after(now, destination, sent, first);
            // Where everything has one order, or no message can be sent, no other message may end the pause.
            let may_end_it = self.settings.ordering != Ordering::Everything && !first.is_unsent();
            let is_full = sent.probe && may_end_it && self.window.room(self.settings.page_rows).is_none();
            for (row, error) in excused {
                let failures = self.outlets[destination.get()].failures(row);
                if is_full && failures >= PROBES_IN_A_FULL_WINDOW {
                    self.fail(row, destination, &error, 1, Destinations::NONE);
                } else {
                    self.land(row, destination, Landing::Again);
                }
            }
            return;
        }
        for (row, error) in excused {
            let failures = match self.outlets[destination.get()].failures(row) {
                // Among so many that fail it is not remembered how often this one did.
                0 if !error.is_unsent() => FAILURES_AMONG_MANY,
                failures => failures,
            };
            self.fail(row, destination, &error, failures, Destinations::NONE);
        }
        self.probe_ended(now, destination, sent);
    }

    /// A probe that said nothing about the destination (its message was at fault) makes room for the next one.
    fn probe_ended(&mut self, now: Tick, destination: DestinationIndex, sent: &Sent) {
        if let Some(pause) = self.outlets[destination.get()].pause.as_mut().filter(|_| sent.probe) {
            pause.probing = false;
            pause.next_probe = pause.next_probe.max(now);
        }
    }

    pub(super) fn charge(&mut self, row: RowId, destination: DestinationIndex, error: &Error) {
        let name = self.settings.destinations[destination.get()].name.clone();
        self.outlets[destination.get()].charged(row);
        let Some(entry) = self.window.get_mut(row) else { return };
        if entry.given_up.is_none() {
            entry.attempts = entry.attempts.saturating_add(1);
        }
        let charged = entry.troubles.progress.entry(name).or_insert(0);
        *charged = charged.saturating_add(1);
        let charged = *charged;
        let Some(message) = entry.message.clone() else { return };
        // With one destination the table may know the attempts without telling which destination they were at.
        let charged = if self.outlets.len() == 1 && entry.given_up.is_none() { entry.attempts } else { charged };
        let exhausted = self.settings.policy(&message).exhausted(charged);
        let exhausted = if exhausted { Destinations::one(destination) } else { Destinations::NONE };
        self.fail(row, destination, error, charged, exhausted);
    }

    /// The message is to be tried again later there, or is given up there: its successors must not overtake it.
    fn fail(
        &mut self,
        row: RowId,
        destination: DestinationIndex,
        error: &Error,
        failures: u32,
        exhausted: Destinations,
    ) {
        let name = self.settings.destinations[destination.get()].name.clone();
        let Some(message) = self.window.get(row).and_then(|entry| entry.message.clone()) else { return };
        let wait = self.settings.policy(&message).delay(failures, &mut self.jitter);
        let wait = error.delay().map_or(wait, |asked| wait.max(asked));
        let one = Destinations::one(destination);
        let holds = self.on_dead(row) == OnDead::Hold;
        let moment = self.next_moment();
        let Some(entry) = self.window.get_mut(row) else { return };
        let first_failure = entry.failed.is_empty();
        entry.failed = entry.failed.with(one);
        entry.exhausted = entry.exhausted.with(exhausted);
        entry.troubles.retry_after = entry.troubles.retry_after.max(wait);
        let text = super::settle::shortened(&error.story_and_advice());
        entry.troubles.failures.push(FailedAttempt { destination: name, kind: error.kind(), text, moment });
        let key = entry.key;
        // A row that is given up and does not hold its key lets it go on once that is settled. One that is still owed
        // elsewhere goes on being owed here too.
        let is_used_up = !holds
            && entry.failed == entry.exhausted
            && entry.flying == one
            && entry.waiting.is_empty()
            && entry.parked.is_empty()
            && entry.troubles.unknown.is_empty();
        let ends = entry.is_over || is_used_up;
        self.leave_flight(row, destination);
        let Some(record) = key.and_then(|key| self.keys.get_mut(key)) else { return };
        record.hold_back(row, destination);
        record.failures += usize::from(first_failure);
        if let Some(key) = key.filter(|_| !ends) {
            self.close_key(key, destination);
        }
    }

    /// Rows of the key that wait in memory for this destination will wait in the table, behind the failed one.
    pub(super) fn close_key(&mut self, key: KeySlot, destination: DestinationIndex) {
        let Some(record) = self.keys.get_mut(key) else { return };
        record.failing = record.failing.with(Destinations::one(destination));
        self.park_waiting(key, destination);
    }

    fn park_waiting(&mut self, key: KeySlot, destination: DestinationIndex) {
        let Some(record) = self.keys.get_mut(key) else { return };
        let waiting = record.queues.get_mut(destination.get()).map(|queue| std::mem::take(&mut queue.waiting));
        for row in waiting.iter().flat_map(RowQueue::iter) {
            self.park(row, destination);
            self.resolve(row);
        }
    }

    pub(super) fn note_failure(&mut self, row: RowId, destination: DestinationIndex, error: &Error) {
        let Some(message) = self.window.get(row).and_then(|entry| entry.message.as_ref()) else { return };
        self.notes.push(Note::Failed {
            id: message.id,
            topic: message.topic.clone(),
            destination: self.settings.destinations[destination.get()].name.clone(),
            kind: error.kind(),
            text: error.story_and_advice(),
        });
    }

    fn land(&mut self, row: RowId, destination: DestinationIndex, landing: Landing) {
        let Some(entry) = self.leave_flight(row, destination) else { return };
        let one = Destinations::one(destination);
        match landing {
            Landing::Again if entry.is_over => entry.lapsed = entry.lapsed.with(one),
            Landing::Accepted => entry.accepted = entry.accepted.with(one),
            Landing::Again => self.wait_again(row, destination),
        }
    }

    fn wait_again(&mut self, row: RowId, destination: DestinationIndex) {
        let one = Destinations::one(destination);
        let Some(entry) = self.window.get_mut(row) else { return };
        let key = entry.key;
        let record = key.and_then(|key| self.keys.get(key));
        let closed = record.is_some_and(|record| record.is_closed(destination));
        let Some(entry) = self.window.get_mut(row) else { return };
        entry.waiting = entry.waiting.with(one);
        match key {
            Some(key) if closed => {
                self.park(row, destination);
                self.park_waiting(key, destination);
            }
            key => self.queue(row, key, destination),
        }
    }

    /// The row, if it was in flight there; it is no more.
    fn leave_flight(&mut self, row: RowId, destination: DestinationIndex) -> Option<&mut Entry> {
        let entry = self.window.get_mut(row).filter(|entry| entry.flying.contains(destination))?;
        entry.flying = entry.flying.without(Destinations::one(destination));
        entry.answered = entry.answered.with(Destinations::one(destination));
        if let Some(key) = entry.key
            && let Some(queue) = self.keys.queue(key, destination)
        {
            queue.flying = queue.flying.saturating_sub(1);
        }
        Some(entry)
    }

    /// A pause begins, or its probe failed. Calls that were under way when it began do not prolong it.
    fn pause_after(&mut self, now: Tick, destination: DestinationIndex, sent: &Sent, error: &Error) {
        if sent.probe || self.outlets[destination.get()].pause.is_none() {
            let topic = match sent.rows.as_slice() {
                // Of several it is not known which one met it.
                [(row, _)] => self.window.get(*row).and_then(|entry| Some(entry.message.as_ref()?.topic.clone())),
                _ => None,
            };
            if let Some(topic) = topic.filter(|_| error.kind() == ErrorKind::Config && error.delay().is_none()) {
                self.outlets[destination.get()].met_a_setting(topic);
            }
            self.pause(now, destination, error);
        }
    }

    /// Keys whose rows have all landed stand in line again.
    fn line_up_again(&mut self, rows: &[RowId], destination: DestinationIndex) {
        let mut keys: Vec<KeySlot> = Vec::new();
        for row in rows {
            if let Some(key) = self.window.get(*row).and_then(|entry| entry.key)
                && keys.last() != Some(&key)
            {
                keys.push(key);
            }
        }
        for key in keys {
            self.line_up(key, destination);
        }
    }

    /// A row that was accepted here and waits in memory for another destination is not settled, which would make its key be
    /// looked at: what waits in the table may go here nevertheless.
    fn look_behind(&mut self, rows: &[RowId], destination: DestinationIndex) {
        if self.outlets.len() < 2 {
            return;
        }
        let mut last = None;
        for row in rows {
            let stays = |entry: &&Entry| !entry.settling && entry.accepted.contains(destination);
            let key = self.window.get(*row).filter(stays).and_then(|entry| entry.key);
            if let Some(key) = key.filter(|key| last.replace(*key) != Some(*key)) {
                self.review(key);
            }
        }
    }

    /// A key with rows to send and none on their way stands in line.
    pub(super) fn line_up(&mut self, key: KeySlot, destination: DestinationIndex) {
        let burying = self.keys.get(key).is_some_and(|record| record.burying > 0);
        if let Some(queue) = self.keys.queue(key, destination)
            && queue.flying == 0
            && !queue.in_line
            && !burying
            && !queue.waiting.is_empty()
        {
            queue.in_line = true;
            self.outlets[destination.get()].line.push_back(Turn::Key(key));
        }
    }

    fn shares_connection(&self, destination: DestinationIndex) -> bool {
        self.settings.destinations[destination.get()].profile.isolation == Isolation::SharedConnection
    }
}

enum Landing {
    Accepted,
    Again,
}

/// Whether a failure of this kind may have taken its neighbours on the connection with it.
const fn breaks_connections(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unavailable | ErrorKind::Unknown)
}

/// A short or long answer is an error for all of it, never zipped.
fn whole(results: Vec<Published>, expected: usize) -> Vec<Published> {
    if results.len() == expected {
        return results;
    }
    let text =
        format!("the broker answered {} results for {expected} messages; this is a bug of its adapter", results.len());
    (0..expected).map(|_| Published::Failed(Error::new(ErrorKind::Unknown, text.clone()))).collect()
}
