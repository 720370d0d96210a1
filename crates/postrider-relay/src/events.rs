//! What happens, told one by one to the process that the relay runs in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use postrider_core::machine::{Deliveries, Machine, Note};
use postrider_core::{DestinationName, ErrorKind, HeldLane, Key, Lane, MessageId, Term, Tick, Topic};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::broadcast::{self, Receiver, Sender};

use crate::dead_watch::GaveUp;

/// The most events that wait for a listener; older ones are given up, and counted.
const KEPT: usize = 8_192;

/// Something that happened.
///
/// It is information, and the table is the truth: what stands here was decided by this relay, and a crash, or a listener
/// that is too slow, may lose an event or bring one again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayEvent {
    /// A message was accepted wherever it goes, and that is recorded.
    Delivered {
        /// Its id.
        id: MessageId,
        /// Its topic.
        topic: Topic,
        /// Its key, if it has one.
        key: Option<Key>,
    },
    /// An attempt at a message failed; what becomes of it follows from that and from its policy.
    Failed {
        /// Its id.
        id: MessageId,
        /// Its topic.
        topic: Topic,
        /// Where it failed.
        destination: DestinationName,
        /// How.
        kind: ErrorKind,
        /// What was said.
        error: String,
    },
    /// A message was given up.
    Dead(GaveUp),
    /// A message whose time had passed was removed without being delivered, as its policy says.
    Dropped {
        /// Its id, where that could be read.
        id: Option<MessageId>,
        /// Its topic.
        topic: Topic,
    },
    /// This relay has a lane now, under this term. When a listener has come, every lane that is held then is told anew, to
    /// all: who listens already hears it again.
    LaneGained(Lane, Term),
    /// It has it no longer: lost, handed back, or the relay ended. What it did for the lane is told before, unless it has
    /// gained the lane anew meanwhile.
    LaneLost(Lane, Term),
    /// This listener was too slow: so many events are missing here.
    Missed(u64),
}

/// The events of a relay, from the moment on at which they were asked for, and the lanes that it holds at that moment. Who
/// comes while something is going on may hear what was done for a lane, or that it is lost, before that it was gained.
///
/// At most 8,192 events wait for a listener. The relay never waits for one: who is slower than that is told by
/// [`RelayEvent::Missed`] how many it missed, and goes on with the oldest that are left.
#[derive(Debug)]
pub struct RelayEvents(Receiver<RelayEvent>);

impl RelayEvents {
    /// The next event, when there is one; none when the relay has ended and everything is told. Dropping the future loses
    /// no event.
    pub async fn next(&mut self) -> Option<RelayEvent> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(missed)) => Some(RelayEvent::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }

    /// The next event, if there is one now.
    pub fn try_next(&mut self) -> Option<RelayEvent> {
        match self.0.try_recv() {
            Ok(event) => Some(event),
            Err(TryRecvError::Lagged(missed)) => Some(RelayEvent::Missed(missed)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}

/// Where listeners come in. There is no channel, and nothing is told, before the first of them.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Mutex<Channel>);

#[derive(Debug, Default)]
enum Channel {
    #[default]
    Unused,
    Open {
        sender: Sender<RelayEvent>,
        /// How many listeners ever came.
        came: u64,
    },
    Closed,
}

impl Listeners {
    pub(crate) fn listen(&self) -> RelayEvents {
        let mut channel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        RelayEvents(match &mut *channel {
            Channel::Open { sender, came } => {
                *came += 1;
                sender.subscribe()
            }
            Channel::Unused => {
                let (sender, receiver) = broadcast::channel(KEPT);
                *channel = Channel::Open { sender, came: 1 };
                receiver
            }
            // Its sender is gone: it ends at once.
            Channel::Closed => broadcast::channel(1).1,
        })
    }

    /// The relay has ended: listeners come to their end when they have heard everything.
    pub(crate) fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Channel::Closed;
    }

    /// The channel, if somebody listens, and how many listeners ever came.
    fn heard(&self) -> Option<(Sender<RelayEvent>, u64)> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Channel::Open { sender, came } if sender.receiver_count() > 0 => Some((sender.clone(), *came)),
            _ => None,
        }
    }
}

/// Tells what happens in the relay's loop, turn by turn.
#[derive(Debug)]
pub(crate) struct Teller {
    listeners: Arc<Listeners>,
    sender: Option<Sender<RelayEvent>>,
    /// How many listeners had come when the lanes were told to all of them.
    came: u64,
    /// The lanes that were told as gained, with their terms.
    told: BTreeMap<Lane, Term>,
    /// The lanes at the last look, so that a look at the same ones is short.
    seen: Vec<HeldLane>,
}

impl Teller {
    pub(crate) fn new(listeners: Arc<Listeners>) -> Self {
        Self { listeners, sender: None, came: 0, told: BTreeMap::new(), seen: Vec::new() }
    }

    /// A turn begins: who listens now, and which lanes were gained.
    pub(crate) fn begin(&mut self, now: Tick, machine: &mut Machine) {
        let heard = self.listeners.heard();
        machine.note_deliveries(if heard.is_some() { Deliveries::Named } else { Deliveries::Counted });
        let Some((sender, came)) = heard else {
            self.sender = None;
            self.told.clear();
            self.seen.clear();
            return;
        };
        self.sender = Some(sender);
        if !machine.is_trusted(now) {
            return;
        }
        let is_anew = came != std::mem::replace(&mut self.came, came);
        let held = machine.held();
        if held == self.seen && !is_anew {
            return;
        }
        for HeldLane { lane, term, .. } in &held {
            match self.told.insert(*lane, *term) {
                Some(before) if before == *term && !is_anew => continue,
                Some(before) if before != *term => self.tell(RelayEvent::LaneLost(*lane, before)),
                _ => {}
            }
            self.tell(RelayEvent::LaneGained(*lane, *term));
        }
        self.seen = held;
    }

    pub(crate) fn hear(&self, note: &Note) {
        if self.sender.is_some()
            && let Some(event) = event(note)
        {
            self.tell(event);
        }
    }

    /// A turn ends: which lanes are gone. One whose lease may have run out is not held: another relay may have it.
    pub(crate) fn end(&mut self, now: Tick, machine: &Machine) {
        if self.told.is_empty() {
            return;
        }
        let held = if machine.is_trusted(now) { machine.held() } else { Vec::new() };
        if held == self.seen && held.len() == self.told.len() {
            return;
        }
        let lanes: BTreeSet<Lane> = held.iter().map(|held| held.lane).collect();
        let (kept, gone) = std::mem::take(&mut self.told).into_iter().partition(|(lane, _)| lanes.contains(lane));
        (self.told, self.seen) = (kept, held);
        self.tell_lost(gone);
    }

    /// The relay ends, and has released its lanes.
    pub(crate) fn finish(&mut self) {
        let gone = std::mem::take(&mut self.told);
        self.tell_lost(gone);
    }

    fn tell_lost(&self, lanes: BTreeMap<Lane, Term>) {
        lanes.into_iter().for_each(|(lane, term)| self.tell(RelayEvent::LaneLost(lane, term)));
    }

    fn tell(&self, event: RelayEvent) {
        if let Some(sender) = &self.sender {
            // Nobody listens any more: then nobody is told.
            drop(sender.send(event));
        }
    }
}

/// What listeners are told of a note.
fn event(note: &Note) -> Option<RelayEvent> {
    Some(match note {
        Note::DeliveredMessage(message) => {
            RelayEvent::Delivered { id: message.id, topic: message.topic.clone(), key: message.key.clone() }
        }
        Note::Failed { id, topic, destination, kind, text } => RelayEvent::Failed {
            id: *id,
            topic: topic.clone(),
            destination: destination.clone(),
            kind: *kind,
            error: text.clone(),
        },
        Note::Dead { id, row, topic, key, reason, text } => RelayEvent::Dead(GaveUp {
            id: *id,
            row: *row,
            topic: topic.clone(),
            key: key.clone(),
            reason: *reason,
            error: text.clone(),
        }),
        Note::Dropped { id, topic } => RelayEvent::Dropped { id: *id, topic: topic.clone() },
        Note::Read(_)
        | Note::Accepted(..)
        | Note::Delivered(_)
        | Note::SetAside(_)
        | Note::Nowhere { .. }
        | Note::Retry { .. }
        | Note::Paused(..)
        | Note::Resumed(_)
        | Note::StoreAway(..)
        | Note::StoreBack
        | Note::Fenced(_)
        | Note::NumbersCameAgain(_)
        | Note::SweepFound(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use postrider_core::Start;
    use postrider_core::machine::{Event, Settings};

    use super::*;

    struct Scene {
        listeners: Arc<Listeners>,
        teller: Teller,
        machine: Machine,
        now: Tick,
    }

    impl Scene {
        fn new() -> Self {
            let listeners = Arc::new(Listeners::default());
            let mut machine = Machine::new(Settings::new(Vec::new(), Vec::new()));
            machine.on(Tick::ZERO, Event::Trusted(Tick::ZERO + Duration::from_secs(60)));
            Self { teller: Teller::new(Arc::clone(&listeners)), listeners, machine, now: Tick::ZERO }
        }

        fn turn(&mut self, event: Option<Event>, notes: &[Note]) {
            event.into_iter().for_each(|event| self.machine.on(self.now, event));
            self.teller.begin(self.now, &mut self.machine);
            notes.iter().for_each(|note| self.teller.hear(note));
            self.teller.end(self.now, &self.machine);
        }
    }

    fn lane(lane: u16, term: i64) -> HeldLane {
        HeldLane { lane: Lane(lane), term: Term(term), start: Start::Clean }
    }

    fn dropped() -> Note {
        Note::Dropped { id: None, topic: Topic::unchecked("t") }
    }

    fn told(events: &mut RelayEvents) -> Vec<RelayEvent> {
        std::iter::from_fn(|| events.try_next()).collect()
    }

    #[test]
    fn lanes_are_gained_before_and_lost_after_what_is_done_for_them() {
        let mut scene = Scene::new();
        let mut events = scene.listeners.listen();
        scene.turn(Some(Event::Gained(vec![lane(0, 3), lane(1, 1)])), &[dropped()]);
        let gained = |lane, term| RelayEvent::LaneGained(Lane(lane), Term(term));
        let lost = |lane, term| RelayEvent::LaneLost(Lane(lane), Term(term));
        let done = || RelayEvent::Dropped { id: None, topic: Topic::unchecked("t") };
        assert_eq!(told(&mut events), [gained(0, 3), gained(1, 1), done()]);
        scene.turn(Some(Event::Lost(vec![Lane(0)])), &[dropped()]);
        assert_eq!(told(&mut events), [done(), lost(0, 3)]);
        // Lost and gained again under another term.
        scene.turn(Some(Event::Gained(vec![lane(1, 2)])), &[]);
        assert_eq!(told(&mut events), [lost(1, 1), gained(1, 2)]);
        scene.now = Tick::ZERO + Duration::from_secs(60);
        scene.turn(None, &[]);
        assert_eq!(told(&mut events), [lost(1, 2)], "its lease may have run out");
    }

    #[test]
    fn a_listener_that_comes_late_hears_of_the_lanes_and_of_what_follows() {
        let mut scene = Scene::new();
        scene.turn(Some(Event::Gained(vec![lane(0, 3)])), &[dropped()]);
        let mut events = scene.listeners.listen();
        assert_eq!(told(&mut events), []);
        scene.turn(None, &[]);
        assert_eq!(told(&mut events), [RelayEvent::LaneGained(Lane(0), Term(3))]);
        scene.teller.finish();
        assert_eq!(told(&mut events), [RelayEvent::LaneLost(Lane(0), Term(3))]);
    }

    #[test]
    fn every_new_listener_hears_of_the_lanes_that_are_held_and_the_earlier_ones_hear_of_them_again() {
        let gained = |lane, term| RelayEvent::LaneGained(Lane(lane), Term(term));
        let lost = |lane, term| RelayEvent::LaneLost(Lane(lane), Term(term));
        let mut scene = Scene::new();
        let mut first = scene.listeners.listen();
        scene.turn(Some(Event::Gained(vec![lane(0, 3), lane(1, 1), lane(2, 1)])), &[]);
        assert_eq!(told(&mut first).len(), 3);
        let mut second = scene.listeners.listen();
        scene.turn(None, &[]);
        let lanes = [gained(0, 3), gained(1, 1), gained(2, 1)];
        assert_eq!((told(&mut first), told(&mut second)), (lanes.to_vec(), lanes.to_vec()));
        scene.turn(None, &[]);
        assert_eq!((told(&mut first), told(&mut second)), (Vec::new(), Vec::new()), "once");
        // What is lost when the next one comes is told to those that knew of it.
        let mut third = scene.listeners.listen();
        scene.machine.on(scene.now, Event::Lost(vec![Lane(0)]));
        scene.turn(Some(Event::Gained(vec![lane(1, 2)])), &[]);
        let news = [lost(1, 1), gained(1, 2), gained(2, 1), lost(0, 3)];
        assert_eq!((told(&mut first), told(&mut third)), (news.to_vec(), news.to_vec()));
    }

    #[test]
    fn who_comes_while_no_lease_can_be_relied_on_hears_of_the_lanes_when_one_can() {
        let mut scene = Scene::new();
        let _first = scene.listeners.listen();
        scene.turn(Some(Event::Gained(vec![lane(0, 3)])), &[]);
        let minute = Duration::from_secs(60);
        scene.now = Tick::ZERO + minute;
        let mut second = scene.listeners.listen();
        scene.turn(None, &[]);
        assert_eq!(told(&mut second), [RelayEvent::LaneLost(Lane(0), Term(3))]);
        scene.turn(Some(Event::Trusted(Tick::ZERO + 2 * minute)), &[]);
        assert_eq!(told(&mut second), [RelayEvent::LaneGained(Lane(0), Term(3))]);
    }

    #[test]
    fn what_was_told_to_those_who_are_gone_is_forgotten() {
        let mut scene = Scene::new();
        let first = scene.listeners.listen();
        scene.turn(Some(Event::Gained(vec![lane(0, 3), lane(1, 1)])), &[]);
        drop(first);
        scene.turn(Some(Event::Lost(vec![Lane(0)])), &[]);
        assert!(scene.teller.told.is_empty() && scene.teller.seen.is_empty());
        let mut second = scene.listeners.listen();
        scene.turn(None, &[]);
        assert_eq!(told(&mut second), [RelayEvent::LaneGained(Lane(1), Term(1))]);
    }

    #[tokio::test]
    async fn a_listener_that_is_too_slow_is_told_how_many_it_missed_and_goes_on_with_the_rest() {
        let mut scene = Scene::new();
        let (mut slow, mut quick) = (scene.listeners.listen(), scene.listeners.listen());
        let (most, more) = (KEPT as u64, 100);
        let mut heard = 0;
        for _ in 0..most + more {
            scene.turn(None, &[dropped()]);
            heard += told(&mut quick).len();
        }
        assert_eq!(heard as u64, most + more);
        assert_eq!(slow.next().await, Some(RelayEvent::Missed(more)));
        assert_eq!(told(&mut slow).len(), KEPT);
        scene.listeners.close();
        drop(scene.teller);
        assert_eq!((slow.next().await, quick.next().await), (None, None));
        assert_eq!(scene.listeners.listen().next().await, None, "it has ended already");
    }

    #[test]
    fn deliveries_are_named_while_somebody_listens_and_there_is_no_channel_before() {
        let mut scene = Scene::new();
        scene.turn(None, &[dropped()]);
        assert!(matches!(*scene.listeners.0.lock().unwrap(), Channel::Unused));
        let events = scene.listeners.listen();
        assert!(scene.listeners.heard().is_some());
        drop(events);
        assert!(scene.listeners.heard().is_none());
    }
}
