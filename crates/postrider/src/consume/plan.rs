//! Who may begin, when, and how often: decided without I/O, and without a clock.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{DeadReason, GivenUp, Jitter, Tick};

use super::rules::{Arrival, Graveyard, InLine, Line, Rules};

/// One message in hand, in the order in which they were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Number(u64);

/// What is to be done now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Hand it to the receiver.
    Handle(Number),
    /// Put it where messages go that are given up.
    Bury(Number, Arc<GivenUp>),
    /// It can't be handled, and there is no place to put it: say so. Nothing is to be done with it.
    Keep(Number),
    /// Say that it is still worked on.
    Extend(Number),
    /// Give it back.
    Release(Number),
}

/// How a step ended.
#[derive(Debug)]
pub(super) enum End {
    /// It is in hand no more: handled, buried, given back, or another consumer's.
    Gone,
    /// The broker was told that it is still worked on.
    Extended,
    /// Its handling failed, and that is counted.
    Failed(String),
    /// Its handling could not come to an end, through no fault of its own.
    Again,
    /// Its handling said that it is never to be tried again.
    GiveUp(DeadReason, String),
    /// It could not be put where it belongs.
    NotBuried,
}

/// What follows from the end of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Nothing.
    Nothing,
    /// It is tried again after this time.
    Retry { charged: u32, after: Duration },
    /// It will be buried.
    GivenUp { charged: u32 },
    /// It would be buried if there were a place; it is tried again after this time.
    Stuck { charged: u32, after: Duration },
    /// It is given back, because the consumer stops.
    Release,
}

/// Where a message stands in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Behind another one.
    Behind,
    /// First, and its time has come.
    Ready,
    /// First, and it waits until then.
    Until(Tick),
}

/// What is being done with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Busy {
    No,
    /// The receiver has it, or it is being buried.
    Working,
    /// The broker is being told something.
    Telling,
}

/// Whether it may be the message on which this program died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Suspicion {
    None,
    /// It was delivered so often that it is handled alone, once.
    Alone,
}

#[derive(Debug)]
struct Held {
    line: Line,
    standing: Standing,
    busy: Busy,
    suspicion: Suspicion,
    /// Attempts that failed by its own fault.
    charged: u32,
    /// Attempts that came to no end, by whatever fault: the pauses go by them.
    setbacks: u32,
    /// Set when it is given up.
    given_up: Option<Arc<GivenUp>>,
    extend_at: Tick,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Stopping,
}

/// The shortest time between an answer and the next word.
const MOMENT: Duration = Duration::from_millis(1);

/// The messages in hand, and what becomes of them next.
///
/// Each is in one line, and only the first of a line may begin. While something is being done with a message, nothing else is.
#[derive(Debug)]
pub(super) struct Plan {
    rules: Rules,
    jitter: Jitter,
    phase: Phase,
    held: HashMap<Number, Held>,
    lines: HashMap<Line, VecDeque<Number>>,
    /// First in their lines, their time has come, and nothing is being done with them.
    ready: BTreeSet<Number>,
    /// Of these, the ones that are handled alone.
    suspects: BTreeSet<Number>,
    /// Those that wait for their time.
    waiting: BTreeSet<(Tick, Number)>,
    /// Those with which nothing is being done, by when the broker is to hear of them.
    extensions: BTreeSet<(Tick, Number)>,
    working: usize,
    /// The one beside which nothing else may begin.
    alone: Option<Number>,
    next: u64,
}

impl Plan {
    pub(super) fn new(rules: Rules, jitter: Jitter) -> Self {
        Self {
            rules,
            jitter,
            phase: Phase::Running,
            held: HashMap::new(),
            lines: HashMap::new(),
            ready: BTreeSet::new(),
            suspects: BTreeSet::new(),
            waiting: BTreeSet::new(),
            extensions: BTreeSet::new(),
            working: 0,
            alone: None,
            next: 0,
        }
    }

    /// How many messages may be taken.
    pub(super) fn room(&self) -> usize {
        match self.phase {
            Phase::Running => self.rules.window.saturating_sub(self.held.len()),
            Phase::Stopping => 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Why a message is given up, if it is.
    pub(super) fn given_up(&self, number: Number) -> Option<&GivenUp> {
        self.held.get(&number)?.given_up.as_deref()
    }

    /// Takes a message in, behind those of its line.
    pub(super) fn take_in(&mut self, now: Tick, arrival: Arrival) -> Number {
        let number = Number(self.next);
        self.next += 1;
        let line = self.lines.entry(arrival.line.clone()).or_default();
        let (standing, place) = match line.is_empty() {
            true => (Standing::Ready, InLine::First),
            false => (Standing::Behind, InLine::Behind),
        };
        line.push_back(number);
        let given_up = self.rules.sentence(&arrival, place).map(Arc::new);
        let is_suspect = given_up.is_none() && self.rules.is_suspect(arrival.deliveries);
        let held = Held {
            line: arrival.line,
            standing,
            busy: Busy::No,
            suspicion: if is_suspect { Suspicion::Alone } else { Suspicion::None },
            charged: 0,
            setbacks: 0,
            given_up,
            extend_at: self.rules.next_extension(now),
        };
        self.held.insert(number, held);
        self.admit(number);
        number
    }

    /// What is to be done now; nothing when there is nothing, or when what is under way must end first.
    pub(super) fn next(&mut self, now: Tick) -> Option<Step> {
        while let Some((_, number)) = self.waiting.first().copied().filter(|(at, _)| *at <= now) {
            self.stand(number, Standing::Ready);
        }
        if self.phase == Phase::Stopping
            && let Some(number) = self.ready.first().copied()
        {
            self.begin(number, Busy::Telling);
            return Some(Step::Release(number));
        }
        if let Some((_, number)) = self.extensions.first().copied().filter(|(at, _)| *at <= now) {
            self.begin(number, Busy::Telling);
            self.told(now, number);
            return Some(Step::Extend(number));
        }
        let number = self.who_begins()?;
        let Some(given_up) = self.held.get(&number).and_then(|held| held.given_up.clone()) else {
            self.begin(number, Busy::Working);
            return Some(Step::Handle(number));
        };
        if self.rules.graveyard == Graveyard::Nowhere {
            self.stand(number, Standing::Until(now + self.rules.retry.maximum));
            return Some(Step::Keep(number));
        }
        self.begin(number, Busy::Working);
        Some(Step::Bury(number, given_up))
    }

    /// When [`next`](Self::next) may have something new, if nothing ends before.
    pub(super) fn wake_at(&self) -> Tick {
        let first = |set: &BTreeSet<(Tick, Number)>| set.first().map_or(Tick::FAR, |(at, _)| *at);
        first(&self.waiting).min(first(&self.extensions))
    }

    /// Takes in how a step ended.
    pub(super) fn ended(&mut self, now: Tick, number: Number, end: End) -> After {
        let Some(held) = self.held.get_mut(&number) else { return After::Nothing };
        if held.busy == Busy::Working {
            self.working = self.working.saturating_sub(1);
            held.suspicion = Suspicion::None;
            self.alone = self.alone.filter(|alone| *alone != number);
            held.extend_at = self.rules.next_extension(now);
        }
        // A word that was answered late is not followed by the next one before what may begin has begun.
        held.extend_at = held.extend_at.max(now + MOMENT);
        held.busy = Busy::No;
        match end {
            End::Gone => {
                self.remove(number);
                After::Nothing
            }
            End::Extended => {
                self.admit(number);
                After::Nothing
            }
            setback => self.set_back(now, number, setback),
        }
    }

    /// Begins nothing any more: what is not being worked on is given back, each line from its first on.
    pub(super) fn stop(&mut self) {
        self.phase = Phase::Stopping;
        let waiting: Vec<Number> = self.waiting.iter().map(|(_, number)| *number).collect();
        waiting.into_iter().for_each(|number| self.stand(number, Standing::Ready));
        let suspects = std::mem::take(&mut self.suspects);
        self.ready.extend(suspects);
        for held in self.held.values_mut() {
            if let Standing::Until(_) = held.standing {
                held.standing = Standing::Ready;
            }
        }
    }

    /// A handling that came to no end, or a burial.
    fn set_back(&mut self, now: Tick, number: Number, end: End) -> After {
        let Some(held) = self.held.get_mut(&number) else { return After::Nothing };
        held.setbacks = held.setbacks.saturating_add(1);
        let (reason, error) = match end {
            End::Failed(error) => (Some(DeadReason::Attempts), error),
            End::GiveUp(reason, error) => (Some(reason), error),
            End::Gone | End::Extended | End::Again | End::NotBuried => (None, String::new()),
        };
        held.charged = held.charged.saturating_add(u32::from(reason.is_some()));
        let (charged, setbacks) = (held.charged, held.setbacks);
        let reason = reason.filter(|reason| *reason != DeadReason::Attempts || self.rules.retry.exhausted(charged));
        let after = match reason {
            _ if self.phase == Phase::Stopping => After::Release,
            Some(reason) if self.rules.graveyard == Graveyard::Given => {
                // The pauses between tries to bury it begin anew.
                held.setbacks = 0;
                held.given_up = Some(Arc::new(GivenUp { reason, attempts: charged, error }));
                After::GivenUp { charged }
            }
            Some(_) => After::Stuck { charged, after: self.rules.retry.maximum },
            None => After::Retry { charged, after: self.rules.retry.delay(setbacks, &mut self.jitter) },
        };
        let standing = match after {
            After::Retry { after, .. } | After::Stuck { after, .. } => Standing::Until(now + after),
            After::Nothing | After::GivenUp { .. } | After::Release => Standing::Ready,
        };
        self.stand(number, standing);
        after
    }

    /// Who may begin. One on which this program may have died begins when nothing else is under way, and nothing else
    /// begins beside it: then it alone is delivered once more if it is the one. Of several any may be first, so that the
    /// others get their turn before it, sooner or later.
    fn who_begins(&mut self) -> Option<Number> {
        if self.alone.is_some() || self.working >= self.rules.concurrency {
            return None;
        }
        if self.suspects.is_empty() {
            return self.ready.first().copied();
        }
        if self.working > 0 {
            return None;
        }
        let place = self.jitter.fraction() * self.suspects.len() as f64;
        let chosen = self.suspects.iter().nth(place as usize).copied();
        self.alone = chosen;
        chosen
    }

    fn begin(&mut self, number: Number, busy: Busy) {
        self.withdraw(number);
        let Some(held) = self.held.get_mut(&number) else { return };
        held.busy = busy;
        self.working += usize::from(busy == Busy::Working);
    }

    /// The broker is told now: the next word counts from here, and not from its answer.
    fn told(&mut self, now: Tick, number: Number) {
        if let Some(held) = self.held.get_mut(&number) {
            held.extend_at = self.rules.next_extension(now);
        }
    }

    fn stand(&mut self, number: Number, standing: Standing) {
        self.withdraw(number);
        if let Some(held) = self.held.get_mut(&number) {
            held.standing = standing;
        }
        self.admit(number);
    }

    fn remove(&mut self, number: Number) {
        self.withdraw(number);
        let Some(held) = self.held.remove(&number) else { return };
        let Some(line) = self.lines.get_mut(&held.line) else { return };
        line.retain(|other| *other != number);
        let first = line.front().copied();
        if let Some(first) = first {
            if self.held.get(&first).is_some_and(|held| held.standing == Standing::Behind) {
                self.stand(first, Standing::Ready);
            }
        } else {
            self.lines.remove(&held.line);
        }
    }

    /// Puts a message where it is found, if nothing is being done with it.
    fn admit(&mut self, number: Number) {
        let Some(held) = self.held.get(&number).filter(|held| held.busy == Busy::No) else { return };
        match (held.standing, held.suspicion) {
            (Standing::Behind, _) => {}
            (Standing::Ready, Suspicion::Alone) if self.phase == Phase::Running => {
                self.suspects.insert(number);
            }
            (Standing::Ready, _) => {
                self.ready.insert(number);
            }
            (Standing::Until(at), _) => {
                self.waiting.insert((at, number));
            }
        }
        if held.extend_at < Tick::FAR {
            self.extensions.insert((held.extend_at, number));
        }
    }

    fn withdraw(&mut self, number: Number) {
        let Some(held) = self.held.get(&number) else { return };
        self.ready.remove(&number);
        self.suspects.remove(&number);
        if let Standing::Until(at) = held.standing {
            self.waiting.remove(&(at, number));
        }
        self.extensions.remove(&(held.extend_at, number));
    }
}

#[cfg(test)]
mod tests;
