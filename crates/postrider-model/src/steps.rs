//! What can happen next.

use postrider_core::{HeldLane, Start, trusted_until};

use super::Outbox;
use super::bounds::{LANES, OPEN, Poison, TTL, lane_of, moment, ticks};
use super::mutation::Mutation;
use super::relay::Reply;
use super::state::{Life, Place, Settle, State, Step, members};

/// What becomes of a settle on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// It is carried out and answered.
    Answered,
    /// It is carried out, and the answer is lost.
    Unanswered,
    /// The connection is gone before the database has it.
    Unheard,
    /// The connection is gone, and the database may still carry it out, any time.
    Stray,
}

/// One step of somebody. Relays and lanes by their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The open transaction commits.
    Commit,
    /// The open transaction is rolled back.
    RollBack,
    /// A relay looks at the next rows of lanes whose last owner died.
    Suspect(usize),
    /// A relay reads its lanes and sends what may go.
    Publish(usize),
    /// What a relay sent reaches the broker.
    Arrive(usize, Reply),
    /// A relay asks for outcomes to be recorded.
    Settle(usize),
    /// What it asked for reaches the database.
    Record(usize, Recording),
    /// So does what was left of a connection that is gone.
    Stray,
    /// A relay that was away renews its lease, or learns that it lost it.
    Renew(usize),
    /// A relay's renewal is carried out, and not answered yet.
    Delay(usize),
    /// The late answer comes.
    Hear(usize),
    /// A relay joins under a new id.
    Join(usize),
    /// A relay takes a free lane.
    Acquire(usize, usize),
    /// A relay hands a lane back.
    HandBack(usize, usize),
    /// Expired members are removed and their lanes freed.
    Evict,
    /// A process is stopped; its clock goes on.
    Stop(usize),
    /// A machine is suspended; its clock stands still.
    Suspend(usize),
    /// It goes on.
    Wake(usize),
    /// A relay dies.
    Crash(usize),
    /// A relay that died is started again, once its old membership is gone.
    Restart(usize),
    /// A tick of every clock that goes. Relays that can do so renew in time, and retention removes what it may.
    Tick,
}

impl Action {
    /// Whether it is neither a fault nor a matter of taste: what happens when nothing goes wrong.
    pub(super) fn is_quiet(self) -> bool {
        match self {
            Self::Arrive(_, reply) => reply == Reply::Accepted,
            Self::Record(_, recording) => recording == Recording::Answered,
            Self::RollBack
            | Self::Delay(_)
            | Self::HandBack(..)
            | Self::Stop(_)
            | Self::Suspend(_)
            | Self::Crash(_) => false,
            _ => true,
        }
    }
}

impl Outbox {
    /// Everything that can happen, but for the clock.
    pub(super) fn steps(&self, state: &State, actions: &mut Vec<Action>) {
        if state.rows[OPEN].place == Place::Open {
            actions.extend([Action::Commit, Action::RollBack]);
        }
        if state.stray.is_some() {
            actions.push(Action::Stray);
        }
        if state.has_expired(self.mutation) {
            actions.push(Action::Evict);
        }
        for place in (0..state.relays.len()).filter(|place| !state.has_twin(*place)) {
            self.network(state, place, actions);
            if state.relays[place].is_up() {
                self.work(state, place, actions);
            }
            self.faults(state, place, actions);
        }
    }

    /// What was sent arrives, whether or not its sender is awake.
    fn network(&self, state: &State, place: usize, actions: &mut Vec<Action>) {
        let relay = &state.relays[place];
        if let Some(flight) = relay.flight {
            actions.push(Action::Arrive(place, Reply::Accepted));
            if state.left.refusals > 0 {
                actions.extend(members(flight.sent).map(|message| Action::Arrive(place, Reply::Refused(message))));
            }
            if state.left.losses > 0 {
                let most = usize::try_from(flight.sent.count_ones()).unwrap_or(0);
                actions.extend((0..=most).map(|reached| Action::Arrive(place, Reply::Lost(reached))));
            }
        }
        if relay.settle.is_some() {
            actions.push(Action::Record(place, Recording::Answered));
            if state.left.losses > 0 {
                actions.push(Action::Record(place, Recording::Unanswered));
                actions.push(Action::Record(place, Recording::Unheard));
                if state.stray.is_none() {
                    actions.push(Action::Record(place, Recording::Stray));
                }
            }
        }
        if relay.late.is_some() {
            actions.push(Action::Hear(place));
        }
    }

    fn work(&self, state: &State, place: usize, actions: &mut Vec<Action>) {
        let relay = &state.relays[place];
        if !relay.joined {
            actions.push(Action::Join(place));
            return;
        }
        if relay.late.is_none() && !state.is_fresh(place) {
            actions.push(Action::Renew(place));
        }
        if !state.is_at_work(relay) {
            return;
        }
        if state.is_suspicious(place) {
            actions.push(Action::Suspect(place));
        }
        for lane in 0..LANES {
            if relay.held[lane].is_some() {
                let drained = state.is_drained(place, lane) || self.mutation == Some(Mutation::ReleaseBeforeSettled);
                if state.left.handbacks > 0 && relay.late.is_none() && drained {
                    actions.push(Action::HandBack(place, lane));
                }
            } else if relay.late.is_none() && state.lanes[lane].owner.is_none() && state.is_living(place) {
                actions.push(Action::Acquire(place, lane));
            }
        }
        if relay.flight.is_none() && state.sendable(place, self.mutation) != 0 {
            actions.push(Action::Publish(place));
        }
        if relay.settle.is_none() && relay.window.iter().any(|step| matches!(step, Step::Ended(_))) {
            actions.push(Action::Settle(place));
        }
    }

    fn faults(&self, state: &State, place: usize, actions: &mut Vec<Action>) {
        let (relay, left) = (&state.relays[place], &state.left);
        // A relay with nothing at stake that dies or pauses is like one that does nothing, which any may do.
        let at_stake = relay.held.iter().any(Option::is_some) || relay.flight.is_some() || relay.settle.is_some();
        match relay.life {
            Life::Up if !at_stake => return,
            Life::Up => {
                if left.pauses > 0 {
                    actions.extend([Action::Stop(place), Action::Suspend(place)]);
                }
                if left.losses > 0 && relay.joined && relay.late.is_none() && state.is_living(place) {
                    actions.push(Action::Delay(place));
                }
            }
            Life::Stopped | Life::Suspended => actions.push(Action::Wake(place)),
            Life::Down => {
                if self.bounds.poison == Poison::First && state.expires[place].is_none() {
                    actions.push(Action::Restart(place));
                }
                return;
            }
        }
        if left.crashes > 0 {
            actions.push(Action::Crash(place));
        }
    }

    /// Takes a step.
    pub(super) fn take(&self, state: &mut State, action: Action) {
        let mutation = self.mutation;
        match action {
            Action::Commit => state.rows[OPEN].place = Place::Pending,
            Action::RollBack => state.rows[OPEN].place = Place::RolledBack,
            Action::Suspect(place) => state.suspect(place, self.bounds.poison),
            Action::Publish(place) => state.publish(place, mutation, self.bounds.poison),
            Action::Arrive(place, reply) => {
                match reply {
                    Reply::Accepted => {}
                    Reply::Refused(_) => state.left.refusals -= 1,
                    Reply::Lost(_) => state.left.losses -= 1,
                }
                state.arrive(place, reply, mutation);
            }
            Action::Settle(place) => state.ask_to_settle(place),
            Action::Record(place, recording) => self.record(state, place, recording),
            Action::Stray => {
                if let Some(settle) = state.stray.take() {
                    state.carry_out(&settle, mutation);
                }
            }
            Action::Renew(place) => state.renew(place),
            Action::Delay(place) => {
                state.left.losses -= 1;
                state.prolong(place);
                state.relays[place].late = Some(state.local(&state.relays[place]));
            }
            Action::Hear(place) => state.hear(place, mutation),
            Action::Join(place) => {
                state.relays[place].generation += 1;
                state.relays[place].joined = true;
                state.prolong(place);
                state.renew(place);
            }
            Action::Acquire(place, lane) => state.acquire(place, lane, mutation),
            Action::HandBack(place, lane) => {
                state.left.handbacks -= 1;
                if mutation != Some(Mutation::SuspicionStays) {
                    state.put_suspicion_back(place, lane);
                }
                let relay = &state.relays[place];
                if let Some(held) = relay.held[lane] {
                    let start = if mutation == Some(Mutation::CareIsNotHandedOn) { Start::Clean } else { held.start };
                    state.lanes[lane].release(relay.id(place), HeldLane { start, ..held });
                }
                state.lose(place, lane);
            }
            Action::Evict => state.evict(mutation),
            Action::Stop(place) => self.pause(state, place, Life::Stopped),
            Action::Suspend(place) => self.pause(state, place, Life::Suspended),
            Action::Wake(place) => state.relays[place].life = Life::Up,
            Action::Crash(place) => {
                state.left.crashes -= 1;
                state.crash(place);
            }
            Action::Restart(place) => state.relays[place].life = Life::Up,
            Action::Tick => self.tick(state),
        }
    }

    fn pause(&self, state: &mut State, place: usize, life: Life) {
        state.left.pauses -= 1;
        state.relays[place].life = life;
    }

    fn record(&self, state: &mut State, place: usize, recording: Recording) {
        let Some(settle) = state.relays[place].settle.take() else { return };
        if recording != Recording::Answered {
            state.left.losses -= 1;
        }
        match recording {
            Recording::Answered => {
                let answer = state.carry_out(&settle, self.mutation);
                state.settled(place, &settle, &answer);
            }
            Recording::Unanswered => {
                state.carry_out(&settle, self.mutation);
            }
            Recording::Unheard => {}
            Recording::Stray => state.stray = Some(Settle { stays: 0, ..settle }),
        }
    }

    fn tick(&self, state: &mut State) {
        state.now += 1;
        state.prune(self.mutation);
        for place in 0..state.relays.len() {
            let relay = &mut state.relays[place];
            if relay.life == Life::Suspended {
                relay.behind += 1;
            } else if relay.is_up() && relay.joined && relay.late.is_none() {
                state.renew(place);
            }
        }
        state.forget_old_trust();
    }
}

impl State {
    /// Whether an earlier relay is in the very same state, and nothing refers to either: then what this one would do is
    /// what the other does, under another name.
    fn has_twin(&self, place: usize) -> bool {
        let known = |place: usize| {
            let id = self.relays[place].id(place);
            self.lanes.iter().any(|lane| lane.owner == Some(id)) || self.stray.is_some_and(|stray| stray.me == id)
        };
        let same = |other: usize| {
            self.relays[other] == self.relays[place] && self.expires[other] == self.expires[place] && !known(other)
        };
        !known(place) && (0..place).any(same)
    }

    /// Whether the relay has renewed at this very moment of its clock.
    fn is_fresh(&self, place: usize) -> bool {
        let relay = &self.relays[place];
        let newest = trusted_until(moment(self.local(relay)), ticks(TTL));
        relay.trusted_until == newest && self.expires[place].is_some_and(|at| at >= self.now + TTL)
    }

    /// Whether the database takes the relay for a living member.
    fn is_living(&self, place: usize) -> bool {
        self.expires[place].is_some_and(|at| at > self.now)
    }

    /// Whether the relay may look at the next rows of lanes whose last owner died: it has none of these in its hands.
    fn is_suspicious(&self, place: usize) -> bool {
        let relay = &self.relays[place];
        let is_careful = |lane: usize| relay.held[lane].is_some_and(|held| held.start == Start::Careful);
        let busy = |message: usize| is_careful(lane_of(message)) && relay.window[message] != Step::Unread;
        (0..LANES).any(is_careful) && !(0..relay.window.len()).any(busy)
    }
}
