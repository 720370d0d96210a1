//! What the relay tells of itself, and whether it has reached its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_core::machine::{Machine, Note};
use postrider_core::{Error, ErrorKind, Result, Tick};

use crate::absence::{Absence, Asker};
use crate::causes::Causes;
use crate::dead_watch::{DeadWatch, GaveUp};
use crate::housekeeper::Rest;
use crate::pauses::Pauses;
use crate::snapshot::{DestinationSnapshot, Left, RelaySnapshot, RelayState, Summary};
use crate::stuck::Stuck;
use crate::telemetry;

/// How often the snapshot is renewed.
const SNAPSHOT_EVERY: Duration = Duration::from_millis(100);
/// The pause between two questions whether the outbox is empty.
const COUNT_EVERY: Duration = Duration::from_millis(100);

/// The relay's own account.
#[derive(Debug)]
pub(crate) struct Report {
    until_empty: bool,
    patience: Duration,
    watch: Option<Arc<dyn DeadWatch>>,
    causes: Causes,
    absence: Absence,
    pauses: Pauses,
    stuck: Stuck,
    unroutable: Option<(usize, String)>,
    snapshot: RelaySnapshot,
    shown_at: Option<Tick>,
    asked_at: Option<Tick>,
    asking: bool,
    /// Something was accepted since the last look at it, and when that look was.
    accepts: bool,
    accepted_at: Option<Tick>,
    ended: bool,
    left: Option<Left>,
    joined: bool,
    /// Other relays have every lane.
    without_lanes: Since,
}

impl Report {
    pub(crate) fn new(until_empty: bool, patience: Duration, watch: Option<Arc<dyn DeadWatch>>) -> Self {
        Self {
            until_empty,
            patience,
            watch,
            causes: Causes::default(),
            absence: Absence::default(),
            pauses: Pauses::default(),
            stuck: Stuck::default(),
            unroutable: None,
            snapshot: RelaySnapshot::default(),
            shown_at: None,
            asked_at: None,
            asking: false,
            accepts: false,
            accepted_at: None,
            ended: false,
            left: None,
            joined: false,
            without_lanes: Since::default(),
        }
    }

    pub(crate) fn note(&mut self, note: &Note) {
        let cause = self.causes.hear(note);
        telemetry::note(note, cause.as_ref());
        if self.until_empty {
            self.stuck.hear(note);
        }
        let snapshot = &mut self.snapshot;
        if is_recorded(note) {
            snapshot.last_progress = Some(Instant::now());
        }
        match note {
            Note::Delivered(count) => snapshot.delivered += count,
            Note::Accepted(name, count) => {
                self.accepts = true;
                if let Some(found) = snapshot.destinations.iter_mut().find(|found| found.name == *name) {
                    found.accepted += count;
                }
            }
            Note::Failed { id, topic, destination, .. } => {
                if let Some(found) = snapshot.destinations.iter_mut().find(|found| found.name == *destination) {
                    found.failed += 1;
                    found.last_failed = Some((*id, topic.clone()));
                }
            }
            Note::Retry { .. } => snapshot.retried += 1,
            Note::Dead { id, row, topic, key, reason, text } => {
                snapshot.dead += 1;
                if let Some(watch) = &self.watch {
                    let (topic, key, error) = (topic.clone(), key.clone(), text.clone());
                    watch.gave_up(GaveUp { id: *id, row: *row, topic, key, reason: *reason, error });
                }
            }
            Note::Dropped { .. } => snapshot.dropped += 1,
            Note::StoreAway(kind, text, advice) => self.unanswered(Asker::Machine, *kind, text, advice.as_deref()),
            Note::StoreBack => self.answered(Asker::Machine),
            Note::Read(_)
            | Note::DeliveredMessage(_)
            | Note::Nowhere { .. }
            | Note::SetAside(_)
            | Note::Paused(..)
            | Note::Resumed(_)
            | Note::Fenced(_)
            | Note::NumbersCameAgain(_)
            | Note::SweepFound(_) => {}
        }
    }

    /// The store did not answer the leaseholder.
    ///
    /// # Errors
    /// Before the first round that was answered whole, a store that can never work as it is ends the relay.
    pub(crate) fn store_away(&mut self, error: Error) -> Result<()> {
        if !self.joined && error.kind() == ErrorKind::Config {
            return Err(error);
        }
        telemetry::store_failed(error.kind());
        self.unanswered(Asker::Leaseholder, error.kind(), &error.story_and_advice(), error.advice());
        Ok(())
    }

    /// The store answered the leaseholder everything that it asks.
    pub(crate) fn store_answers(&mut self) {
        self.joined = true;
        self.answered(Asker::Leaseholder);
    }

    fn unanswered(&mut self, asker: Asker, kind: ErrorKind, text: &str, advice: Option<&str>) {
        if self.absence.says(Instant::now(), asker, text) {
            telemetry::store_away(kind, text);
        }
        self.snapshot.store_error = Some(text.to_owned());
        self.snapshot.store_advice = advice.map(ToOwned::to_owned);
    }

    fn answered(&mut self, asker: Asker) {
        if self.absence.ends(asker) {
            telemetry::store_back();
        }
        self.snapshot.store_error = None;
        self.snapshot.store_advice = None;
    }

    pub(crate) fn stopping(&mut self) {
        self.snapshot.state = RelayState::Stopping;
    }

    /// The snapshot, when it is time for a new one.
    pub(crate) fn show(&mut self, now: Tick, machine: &Machine) -> Option<RelaySnapshot> {
        let fresh = self.shown_at.is_some_and(|shown| now.since(shown) < SNAPSHOT_EVERY);
        if fresh && self.snapshot.state != RelayState::Stopping {
            return None;
        }
        self.shown_at = Some(now);
        let before = self.snapshot.clone();
        let (rows, bytes) = machine.window();
        self.snapshot.ordering = machine.ordering();
        self.snapshot.window_rows = rows;
        self.snapshot.window_bytes = bytes;
        // A lane whose lease may have run out is not shown as held: another relay may have it.
        let held = if machine.is_trusted(now) { machine.held() } else { Vec::new() };
        self.snapshot.lanes = held.into_iter().map(|held| held.lane).collect();
        let shown = machine.destinations().into_iter().map(|view| {
            let known = before.destinations.iter().find(|known| known.name == view.name);
            DestinationSnapshot {
                paused: view.paused.map(|(kind, text, since)| (kind, text, now.since(since))),
                silent: view.silent_since.map(|since| now.since(since)),
                accepted: known.map_or(0, |known| known.accepted),
                failed: known.map_or(0, |known| known.failed),
                last_failed: known.and_then(|known| known.last_failed.clone()),
                name: view.name,
            }
        });
        self.snapshot.destinations = shown.collect();
        for found in &self.snapshot.destinations {
            let pause = found.paused.as_ref().map(|(kind, text, _)| (*kind, text.as_str()));
            if self.pauses.tells(now, &found.name, pause)
                && let Some((kind, text, since)) = &found.paused
            {
                telemetry::still_paused(&found.name, *kind, text, *since);
            }
        }
        if self.snapshot.state != RelayState::Stopping {
            self.snapshot.state = match (self.joined, &self.snapshot.store_error, self.snapshot.lanes.is_empty()) {
                (_, Some(_), _) => RelayState::StoreAway,
                (false, None, _) => RelayState::Starting,
                (true, None, true) => RelayState::Standby,
                (true, None, false) => RelayState::Relaying,
            };
        }
        telemetry::snapshot(&before, &self.snapshot);
        Some(self.snapshot.clone())
    }

    /// Whether to ask the store now if the outbox is empty.
    pub(crate) fn wants_count(&mut self, now: Tick, machine: &Machine) -> bool {
        // Asked at every turn of the loop: what costs something is asked of a run until empty alone.
        let others_have_all = self.until_empty && self.joined && machine.held().is_empty();
        if self.without_lanes.lasts(now, others_have_all, self.patience) {
            telemetry::others_have_the_lanes();
        }
        let rests = self.asked_at.is_some_and(|asked| now.since(asked) < COUNT_EVERY);
        if std::mem::take(&mut self.accepts) {
            self.accepted_at = Some(now);
        }
        if !self.until_empty || self.asking || rests || self.snapshot.state == RelayState::Stopping {
            return false;
        }
        let longest =
            self.snapshot.destinations.iter().filter_map(|found| found.paused.as_ref()).map(|(.., long)| *long);
        // While other destinations accept, they get what is theirs.
        let others_go_on = self.accepted_at.is_some_and(|at| now.since(at) < self.patience);
        if longest.max().is_some_and(|long| long >= self.patience) && !others_go_on {
            self.ended = true;
            return false;
        }
        let quiet = machine.is_idle() || others_have_all;
        self.asking = quiet;
        if quiet {
            self.asked_at = Some(now);
        }
        quiet
    }

    pub(crate) fn counted(&mut self, now: Tick, count: Option<(Rest, Left)>) {
        self.asking = false;
        let Some((rest, left)) = count else { return };
        self.unroutable = self.stuck.counted(now, rest, self.patience);
        if rest == Rest::Nothing || self.unroutable.is_some() {
            self.left = Some(left);
            self.ended = true;
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// When the loop must turn again, at the latest.
    pub(crate) fn wake(&self, wake: Tick) -> Tick {
        match self.shown_at {
            Some(shown) => wake.min(shown + SNAPSHOT_EVERY),
            None => wake,
        }
    }

    pub(crate) fn summary(&self, machine: &Machine) -> Summary {
        let paused = machine.destinations().into_iter();
        Summary {
            delivered: self.snapshot.delivered,
            retried: self.snapshot.retried,
            dead: self.snapshot.dead,
            dropped: self.snapshot.dropped,
            paused: paused.filter_map(|view| view.paused.map(|(_, text, _)| (view.name, text))).collect(),
            left: self.left,
            unroutable: self.unroutable.clone(),
            abandoned: if machine.is_drained() { 0 } else { machine.window().0 },
        }
    }

    pub(crate) fn last(mut self) -> RelaySnapshot {
        self.snapshot.state = RelayState::Stopped;
        self.snapshot.lanes.clear();
        self.snapshot
    }
}

/// Since when something is so.
#[derive(Debug, Default)]
struct Since {
    began: Option<Tick>,
    told: bool,
}

impl Since {
    /// Whether it has just been so for this long; once each time that it is.
    fn lasts(&mut self, now: Tick, is_so: bool, long: Duration) -> bool {
        if !is_so {
            *self = Self::default();
            return false;
        }
        let began = *self.began.get_or_insert(now);
        let lasts = now.since(began) >= long;
        lasts && !std::mem::replace(&mut self.told, lasts)
    }
}

/// Whether something became of messages and stands in the outbox. What is only read, or accepted by a broker and not recorded,
/// is no progress: with the outbox locked it goes on until the window is full.
const fn is_recorded(note: &Note) -> bool {
    matches!(
        note,
        Note::Delivered(_) | Note::Retry { .. } | Note::Dead { .. } | Note::Dropped { .. } | Note::SetAside(_)
    )
}

#[cfg(test)]
mod tests;
