//! Messages that are given up: what the seed says becomes of them, what an operator does about those that hold their keys,
//! and what must hold until then.

use std::collections::BTreeMap;

use postrider_core::machine::{DestinationIndex, DestinationSettings, Ordering, Settings};
use postrider_core::{
    DeadReason, DestinationName, DestinationTemplate, ErrorKind, HeldLane, Lane, OnDead, Outcome, Outgoing, RowState,
    Settlement, Start, TopicPattern,
};

use super::broker::{Poison, SimBroker, row_of};
use super::coverage::Sight;
use super::judge::{FATAL, PLACES};
use super::plan::{Draft, Plan, name};
use super::rng::Rng;
use super::store::Stored;
use super::world::World;

/// Draws what becomes of messages that are given up, one topic's and all others'; where some are forwarded, `letters` is
/// one more destination, to which no route leads.
pub(super) fn draw(rng: &mut Rng, settings: &mut Settings, brokers: &mut Vec<SimBroker>, letters: SimBroker) {
    let kinds: &[OnDead] = match settings.ordering {
        Ordering::Key => &[OnDead::Skip, OnDead::Hold, OnDead::Forward],
        Ordering::None | Ordering::Everything => &[OnDead::Skip, OnDead::Forward],
    };
    let every = rng.pick(kinds);
    let brief = if rng.chance(300) { rng.pick(kinds) } else { every };
    let topic = TopicPattern::parse("only-a").expect("a plain word is a pattern");
    settings.on_dead = vec![(topic, brief), (TopicPattern::every(), every)];
    if brief == OnDead::Forward || every == OnDead::Forward {
        let place = brokers.len();
        let profile = letters.profile.clone();
        settings.destinations.push(DestinationSettings {
            name: name(place),
            profile,
            template: DestinationTemplate::topic(),
        });
        settings.forward = Some(DestinationIndex::new(place));
        brokers.push(letters);
    }
}

/// The rows that hold their keys, each with the destinations at which its key waits: until the row was accepted there,
/// after a replay, or is no more.
#[derive(Debug, Default)]
pub(super) struct Holds(BTreeMap<i64, [bool; PLACES]>);

impl Holds {
    pub(super) fn accepted(&mut self, row: i64, place: usize) {
        if let Some(places) = self.0.get_mut(&row) {
            places[place] = false;
        }
    }

    pub(super) fn open(&mut self, row: i64) {
        self.0.remove(&row);
    }
}

impl Plan {
    /// The destination of dead letters.
    pub(super) fn letters(&self) -> Option<usize> {
        self.settings.forward.map(DestinationIndex::get)
    }

    /// How many destinations routes lead to: the first ones.
    pub(super) fn routed(&self) -> usize {
        self.letters().unwrap_or(self.brokers.len())
    }

    /// What becomes of a row when it is given up. One that is no message has no topic.
    fn on_dead(&self, row: &Stored) -> OnDead {
        let every = TopicPattern::every();
        let applies = |pattern: &TopicPattern| match row.malformed {
            true => *pattern == every,
            false => pattern.matches(row.message.topic.as_str()),
        };
        self.settings.on_dead.iter().find(|(pattern, _)| applies(pattern)).map(|(_, it)| *it).unwrap_or_default()
    }
}

impl Draft {
    /// What is wrong with the message at a destination. What is wrong with it as a dead letter is another matter.
    pub(super) fn poison_at(&self, place: usize, letters: Option<usize>) -> Option<Poison> {
        if letters == Some(place) {
            self.unforwardable.then_some(Poison::Fails(ErrorKind::Rejected))
        } else {
            self.poison.filter(|(at, _)| *at == place).map(|(_, poison)| poison)
        }
    }
}

impl World {
    /// What is given up ends as its topic says: skipped, holding its key, or forwarded. An outcome whose answer was lost is
    /// recorded again, also after an operator has replayed what it ended.
    pub(super) fn ends_as_told(&mut self, place: usize, settlement: &Settlement) {
        let row = settlement.row.0;
        if self.ledger.was_replayed(row) {
            return;
        }
        let stored = self.store.row(row);
        let owned = self.relays[place].me.map(|me| self.store.lanes.owned(me)).unwrap_or_default();
        let Some(held) = owned.iter().find(|held| held.lane == settlement.lane) else {
            // It does not know yet that the lane is gone, and the table refuses what it says.
            return;
        };
        let heads = held.start == Start::Careful;
        let on_dead = self.plan.on_dead(stored);
        let as_told = match (&settlement.outcome, on_dead) {
            (Outcome::Dead { .. }, OnDead::Skip) => true,
            // Its time ended it, and nobody's fault.
            (Outcome::Dead { reason, .. }, OnDead::Hold) => stored.key.is_none() || *reason == DeadReason::Expired,
            // What is no message, or is not fetched, cannot be forwarded.
            (Outcome::Dead { reason, .. }, OnDead::Forward) => {
                heads || *reason == DeadReason::RelayDied || stored.malformed || stored.given_up.is_some()
            }
            (Outcome::Holding { reason, .. }, OnDead::Hold) => stored.key.is_some() && *reason != DeadReason::Expired,
            (Outcome::Forward { reason, .. }, OnDead::Forward) => {
                !stored.malformed && stored.given_up.is_none_or(|before| before == *reason)
            }
            (Outcome::Holding { .. } | Outcome::Forward { .. }, _) => false,
            _ => true,
        };
        if !as_told {
            let promise = if on_dead == OnDead::Hold { "P3" } else { "P1" };
            let text = format!("relay {place} ends #{row} as {:?}, where it says {on_dead:?}", settlement.outcome);
            self.violated(promise, text, vec![row]);
        }
    }

    /// A row holds its key now, at these destinations; none for all.
    fn hold(&mut self, row: i64, waiting_for: Option<&[DestinationName]>) {
        let routed = self.plan.routed();
        // What is no message could have gone anywhere.
        let owed = if self.store.row(row).malformed { [true; PLACES] } else { self.owed(row) };
        let places = std::array::from_fn(|place| {
            place < routed && waiting_for.map_or(owed[place], |names| names.contains(&name(place)))
        });
        self.holds.0.insert(row, places);
        self.see(Sight::Held);
    }

    /// A row was given up.
    pub(super) fn given_up_as(&mut self, row: i64, outcome: &Outcome) {
        match outcome {
            Outcome::Holding { waiting_for, .. } => self.hold(row, waiting_for.as_deref()),
            Outcome::Forward { .. } => {
                self.holds.open(row);
                if self.ledger.forwarded(row) {
                    self.see(Sight::ForwardedAgain);
                }
            }
            _ => {
                self.holds.open(row);
                if self.ledger.is_forwarded(row) {
                    self.is_forwarded(row);
                }
            }
        }
    }

    /// What must hold of a forwarded message that is given up for good.
    fn is_forwarded(&mut self, row: i64) {
        let Some(place) = self.plan.letters() else { return };
        let fate = self.ledger.fate(row);
        let draft = &self.plan.drafts[fate.draft];
        // A refusal is charged, every one.
        let refused = fate.failures[place] >= FATAL - u32::from(draft.unforwardable);
        let kills = draft.poison.is_some_and(|(_, poison)| poison.kills());
        if refused {
            self.see(Sight::ForwardRefused);
        } else if fate.accepted[place] == 0 && !kills {
            let text = format!("#{row} is a dead letter now, and was never delivered where those are forwarded");
            self.violated("P1", text, vec![row]);
        }
    }

    /// What holds its key is not overtaken at a destination that it is owed to; a dead letter goes where those are
    /// forwarded, with its reason, and nowhere else. A relay whose lane is another's by now cannot know.
    pub(super) fn as_given_up(&mut self, place: usize, destination: DestinationIndex, batch: &[Outgoing]) {
        let Some(me) = self.relays[place].me else { return };
        let is_for_letters = self.plan.letters() == Some(destination.get());
        for (at, outgoing) in batch.iter().enumerate() {
            if !self.store.lanes.is_owner(outgoing.lane, me, outgoing.term) {
                continue;
            }
            let row = row_of(outgoing);
            let stored = self.store.row(row);
            // What was replayed may go in front of it in the same call.
            let goes_ahead = |held: i64| {
                self.store.row(held).state != RowState::Holding && batch[..at].iter().any(|one| row_of(one) == held)
            };
            // What is no message is given up as it is read: when it comes late, what was sent before goes on.
            let was_under_way = self.ledger.fate(row).sent[destination.get()];
            let came_late = |held: i64| was_under_way && self.store.row(held).malformed;
            let is_passed = |(held, places): &(i64, [bool; PLACES])| {
                places[destination.get()] && !goes_ahead(*held) && !came_late(*held)
            };
            let held = self.held_before(row).find(is_passed).map(|(held, _)| held);
            let reason = outgoing.given_up.as_ref().map(|given_up| given_up.reason);
            if let Some(held) = held {
                let text = format!("relay {place} sends #{row}, and #{held} holds its key");
                self.violated("P3", text, vec![row, held]);
            } else if reason != stored.given_up || reason.is_some() != is_for_letters {
                let text = format!(
                    "relay {place} sends #{row} to destination {} as given up for {reason:?}; it is {:?}",
                    destination.get(),
                    stored.given_up
                );
                self.violated("P1", text, vec![row]);
            }
            self.ledger.sent(row, destination.get());
        }
    }

    /// The rows before this one that hold its key, and where.
    fn held_before(&self, row: i64) -> impl Iterator<Item = (i64, [bool; PLACES])> {
        let key = self.store.row(row).key;
        let same = move |held: i64| key.is_some() && self.store.row(held).key == key;
        self.holds.0.range(..row).map(|(held, places)| (*held, *places)).filter(move |(held, _)| same(*held))
    }

    /// A row is set aside.
    pub(super) fn waits_behind(&mut self, row: i64) {
        if self.held_before(row).next().is_some() {
            self.see(Sight::WaitedBehindHeld);
        }
    }

    /// Lanes have come to a relay.
    pub(super) fn takes_over_holds(&mut self, lanes: &[HeldLane]) {
        let lanes: Vec<Lane> = lanes.iter().map(|held| held.lane).collect();
        if self.given_up(|row| row.state == RowState::Holding && lanes.contains(&row.lane)).next().is_some() {
            self.see(Sight::HeldTakeOver);
        }
    }

    /// An operator replays every message that was given up.
    pub(super) fn replay_all(&mut self) {
        let rows: Vec<i64> = self.given_up(|row| !row.malformed).collect();
        rows.into_iter().for_each(|row| self.replay(row));
    }

    /// An operator replays or discards each row that holds its key. In the end nothing is replayed twice.
    pub(super) fn open_keys(&mut self) {
        let rows: Vec<i64> = self.given_up(|row| row.state == RowState::Holding).collect();
        for row in rows {
            let never_mind = self.condition.healed && self.ledger.was_replayed(row);
            if self.store.row(row).malformed || never_mind || self.rng.chance(500) {
                self.discard(row);
            } else {
                self.replay(row);
            }
        }
    }

    /// An operator discards the first message that was given up.
    pub(super) fn discard_first(&mut self) {
        let first = self.given_up(|row| !row.malformed).next();
        first.into_iter().for_each(|row| self.discard(row));
    }

    /// Retention removes every message that was given up.
    pub(super) fn prune(&mut self) {
        let rows: Vec<i64> = self.given_up(|row| !row.malformed).collect();
        for row in rows {
            self.see(Sight::Pruned);
            self.take_away(row);
        }
    }

    fn given_up(&self, which: impl Fn(&Stored) -> bool) -> impl Iterator<Item = i64> {
        let is_given_up = |row: &Stored| !row.gone && matches!(row.state, RowState::Dead | RowState::Holding);
        self.store.rows().filter(move |(_, row)| is_given_up(row) && which(row)).map(|(id, _)| id)
    }

    fn replay(&mut self, row: i64) {
        let held = self.store.row(row).state == RowState::Holding;
        self.see(if held { Sight::HeldReplayed } else { Sight::Replayed });
        self.history.tell(self.now, || format!("** an operator replays #{row}"));
        self.store.replay(row);
        self.ledger.replayed(row);
    }

    fn discard(&mut self, row: i64) {
        let held = self.store.row(row).state == RowState::Holding;
        self.see(if held { Sight::HeldDiscarded } else { Sight::Discarded });
        self.take_away(row);
    }

    fn take_away(&mut self, row: i64) {
        self.history.tell(self.now, || format!("** #{row} is taken away"));
        self.store.discard(row);
        self.ledger.discarded(row);
        self.holds.open(row);
    }
}
