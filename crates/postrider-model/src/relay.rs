//! The relay's side: what it knows, what it may do, and what it makes of an answer.

use postrider_core::machine::{DEATHS, is_convicted};
use postrider_core::{ErrorKind, Evidence, HeldLane, Judgement, Recorded, Settled, Start, judge, trusted_until};

use super::bounds::{LANES, POISON, Poison, TTL, before, lane_of, moment, policy, ticks};
use super::database::recorded;
use super::mutation::Mutation;
use super::state::{Ending, Flight, Life, Place, Relay, Set, Settle, State, Step, bit, members};

/// What a broker does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// It accepts everything.
    Accepted,
    /// It refuses this message; the later ones of its key are not sent, the others accepted.
    Refused(usize),
    /// It receives so many, and the connection breaks before any answer.
    Lost(usize),
}

impl State {
    /// The relay's own clock.
    pub(super) fn local(&self, relay: &Relay) -> u8 {
        self.now - relay.behind
    }

    /// Whether the relay trusts its lease.
    pub(super) fn is_trusted(&self, relay: &Relay) -> bool {
        moment(self.local(relay)) < relay.trusted_until
    }

    /// Whether the relay runs, is a member as far as it knows, and trusts its lease.
    pub(super) fn is_at_work(&self, relay: &Relay) -> bool {
        relay.is_up() && relay.joined && self.is_trusted(relay)
    }

    /// A renewal that is sent, carried out and answered at once.
    pub(super) fn renew(&mut self, place: usize) {
        if self.expires[place].is_some() {
            self.prolong(place);
            let sent = self.local(&self.relays[place]);
            self.relays[place].trusted_until = trusted_until(moment(sent), ticks(TTL));
        } else {
            self.stand_down(place);
        }
    }

    /// The answer to a renewal that was sent some time ago.
    pub(super) fn hear(&mut self, place: usize, mutation: Option<Mutation>) {
        let now = self.local(&self.relays[place]);
        let Some(sent) = self.relays[place].late.take() else { return };
        let from = if mutation == Some(Mutation::TrustFromReceipt) { now } else { sent };
        self.relays[place].trusted_until = trusted_until(moment(from), ticks(TTL));
        self.forget_old_trust();
    }

    /// Trust that has run out looks the same, however long ago that was.
    pub(super) fn forget_old_trust(&mut self) {
        for place in 0..self.relays.len() {
            if !self.is_trusted(&self.relays[place]) {
                self.relays[place].trusted_until = moment(0);
            }
        }
    }

    /// The membership is lost, and every lane with it.
    fn stand_down(&mut self, place: usize) {
        (0..LANES).for_each(|lane| self.lose(place, lane));
        self.relays[place].joined = false;
        self.relays[place].trusted_until = moment(0);
    }

    /// The relay forgets what it read of a lane.
    pub(super) fn lose(&mut self, place: usize, lane: usize) {
        let relay = &mut self.relays[place];
        relay.held[lane] = None;
        let rest: Set = (0..relay.window.len()).filter(|message| lane_of(*message) != lane).map(bit).sum();
        for (message, step) in relay.window.iter_mut().enumerate() {
            if rest & bit(message) == 0 {
                *step = Step::Unread;
            }
        }
        relay.flight.iter_mut().for_each(|flight| flight.stays &= rest);
        relay.settle.iter_mut().for_each(|settle| settle.stays &= rest);
    }

    /// The relay takes a free lane.
    pub(super) fn acquire(&mut self, place: usize, lane: usize, mutation: Option<Mutation>) {
        let me = self.relays[place].id(place);
        let number = super::bounds::lane(lane);
        let held = self.lanes[lane].acquire(number, me);
        let calm = !self.rows.iter().enumerate().any(|(message, row)| lane_of(message) == lane && row.is_pending());
        self.relays[place].held[lane] = held.map(|mut held| {
            if calm || mutation == Some(Mutation::CarefulStartSkipped) {
                held.start = Start::Clean;
            }
            held
        });
    }

    /// What a read of a lane would bring into the window.
    fn readable(&self, place: usize, lane: usize, mutation: Option<Mutation>) -> Set {
        let relay = &self.relays[place];
        let found = |message: &usize| {
            let row = &self.rows[*message];
            let visible = row.is_pending() || (row.place == Place::Open && mutation == Some(Mutation::OpenRowsAreRead));
            let head_fails = || {
                let fails = |step: Step| matches!(step, Step::Ended(Ending::Retry(_) | Ending::Dead(_)));
                let overtakes = mutation == Some(Mutation::RetryBehindSuccessor);
                before(*message).any(|earlier| fails(relay.window[earlier]) && !overtakes)
            };
            lane_of(*message) == lane && visible && relay.window[*message] == Step::Unread && !head_fails()
        };
        (0..self.rows.len()).filter(found).map(bit).sum()
    }

    /// The next rows of the lanes whose last owner died: suspected in the table first, and fetched then. Together those
    /// that are not suspect and stand behind no suspect one; only when there is none of them, one that is suspect by
    /// itself, the least suspected first.
    pub(super) fn suspect(&mut self, place: usize, poison: Poison) {
        let me = self.relays[place].id(place);
        let mut heads: Set = 0;
        for lane in 0..LANES {
            let Some(held) = self.relays[place].held[lane].filter(|held| held.start == Start::Careful) else {
                continue;
            };
            let found = self.readable(place, lane, None);
            if found == 0 {
                self.relays[place].held[lane] = Some(HeldLane { start: Start::Clean, ..held });
            } else if self.lanes[lane].admits(me, held.term) {
                heads |= found;
            } else {
                self.lose(place, lane);
            }
        }
        let deaths = |message: usize| u16::from(self.rows[message].suspicion);
        let suspects = members(heads).filter(|one| deaths(*one) + 1 >= DEATHS).count();
        let suspicion: Vec<u16> = (0..self.rows.len()).map(deaths).collect();
        let taken = loop {
            let is_head = |message: usize| heads & bit(message) != 0;
            let waits = |message: usize| before(message).any(|earlier| is_head(earlier) && suspicion[earlier] > 0);
            let unsuspected: Set = members(heads).filter(|one| suspicion[*one] == 0 && !waits(*one)).map(bit).sum();
            let least = || members(heads).filter(|one| !waits(*one)).min_by_key(|one| suspicion[*one]);
            match least() {
                Some(message) if unsuspected == 0 => {
                    if !is_convicted(suspicion[message], suspects.saturating_sub(1)) {
                        break bit(message);
                    }
                    self.rows[message].place = Place::RelayDied;
                    heads &= !bit(message);
                }
                _ => break unsuspected,
            }
        };
        members(taken).for_each(|message| self.rows[message].suspicion += 1);
        self.fetch(place, taken, poison);
    }

    /// What was taken of a careful lane and not sent was not what kills: it is as suspect as it was before.
    pub(super) fn put_suspicion_back(&mut self, place: usize, lane: usize) {
        let relay = &self.relays[place];
        if relay.held[lane].is_none_or(|held| held.start == Start::Clean) {
            return;
        }
        for (message, row) in self.rows.iter_mut().enumerate() {
            if lane_of(message) == lane && relay.window[message] == Step::Waiting && row.is_pending() {
                row.suspicion = row.suspicion.saturating_sub(1);
            }
        }
    }

    /// Messages come into the window, or kill the relay.
    fn fetch(&mut self, place: usize, messages: Set, poison: Poison) {
        if poison == Poison::First && messages & bit(POISON) != 0 {
            self.kills = self.kills.saturating_add(1);
            self.crash(place);
        } else {
            members(messages).for_each(|message| self.relays[place].window[message] = Step::Waiting);
        }
    }

    /// What the relay would read now, in all its lanes but those that it looks at carefully.
    fn unread(&self, place: usize, mutation: Option<Mutation>) -> Set {
        let clean = |lane: &usize| self.relays[place].held[*lane].is_some_and(|held| held.start == Start::Clean);
        (0..LANES).filter(clean).map(|lane| self.readable(place, lane, mutation)).sum()
    }

    /// What the relay would send now: per key in order, nothing past a message that is not through.
    pub(super) fn sendable(&self, place: usize, mutation: Option<Mutation>) -> Set {
        let window = &self.relays[place].window;
        let unread = self.unread(place, mutation);
        let mut sent: Set = 0;
        for message in 0..window.len() {
            let open = |earlier: usize| match window[earlier] {
                Step::Waiting => sent & bit(earlier) != 0,
                Step::Unread => unread & bit(earlier) == 0 || sent & bit(earlier) != 0,
                Step::Ended(Ending::Delivered) => true,
                Step::Ended(Ending::Retry(_)) => mutation == Some(Mutation::RetryBehindSuccessor),
                Step::Flying | Step::Ended(Ending::Dead(_)) => false,
            };
            let waits = window[message] == Step::Waiting || unread & bit(message) != 0;
            if waits && before(message).all(open) {
                sent |= bit(message);
            }
        }
        sent
    }

    /// Reads, and sends what may go.
    pub(super) fn publish(&mut self, place: usize, mutation: Option<Mutation>, poison: Poison) {
        let sent = self.sendable(place, mutation);
        self.fetch(place, sent & self.unread(place, mutation), poison);
        let relay = &mut self.relays[place];
        if relay.life == Life::Down {
            return;
        }
        relay.flight = Some(Flight { sent, stays: sent });
        members(sent).for_each(|message| relay.window[message] = Step::Flying);
        let (me, behind, held) = (relay.id(place), relay.behind, relay.held);
        for message in members(sent) {
            let lane = lane_of(message);
            let mine = held[lane].is_some_and(|held| self.lanes[lane].admits(me, held.term));
            self.wrong.distrusted |= !mine && behind == 0;
            if mutation == Some(Mutation::SettleBeforePublish) && mine && self.rows[message].is_pending() {
                self.rows[message].place = Place::History;
            }
        }
    }

    /// A call reaches the broker, and the relay gets to know what it can.
    pub(super) fn arrive(&mut self, place: usize, reply: Reply, mutation: Option<Mutation>) {
        let Some(flight) = self.relays[place].flight.take() else { return };
        let behind = |message: usize, head: usize| before(message).any(|earlier| earlier == head);
        for (count, message) in members(flight.sent).enumerate() {
            let stays = flight.stays & bit(message) != 0;
            let (reached, step) = match reply {
                Reply::Accepted => (true, Step::Ended(Ending::Delivered)),
                Reply::Refused(head) if head == message => {
                    self.refused[message] = self.refused[message].saturating_add(1);
                    (false, self.failed(message, ErrorKind::Rejected))
                }
                Reply::Refused(head) if behind(message, head) => (false, Step::Waiting),
                Reply::Refused(_) => (true, Step::Ended(Ending::Delivered)),
                Reply::Lost(reached) => (count < reached, self.failed(message, ErrorKind::Unknown)),
            };
            if reached {
                self.receive(message);
            }
            let step = match (reply, mutation) {
                (Reply::Refused(_), Some(Mutation::WholeBatchSettled))
                | (Reply::Lost(_), Some(Mutation::UnknownIsAccepted)) => Step::Ended(Ending::Delivered),
                (Reply::Lost(_), Some(Mutation::OutageIsCharged)) => self.failed(message, ErrorKind::Rejected),
                _ => step,
            };
            if stays {
                self.relays[place].window[message] = step;
            }
        }
        if mutation != Some(Mutation::RetryBehindSuccessor) {
            self.set_aside(place);
        }
    }

    fn receive(&mut self, message: usize) {
        if self.received[message] == 0 {
            let passed = |earlier: usize| {
                let row = &self.rows[earlier];
                row.is_committed() && self.received[earlier] == 0 && !row.is_dead()
            };
            self.wrong.overtaken |= before(message).any(passed);
        }
        self.received[message] = (self.received[message] + 1).min(2);
    }

    /// What follows from a failure of this kind, by the core's judge and the message's policy.
    fn failed(&self, message: usize, kind: ErrorKind) -> Step {
        match judge(kind, Evidence::NothingAccepted) {
            Judgement::Charged => {
                let attempts = self.rows[message].attempts + 1;
                let dead = policy(message).exhausted(u32::from(attempts));
                Step::Ended(if dead { Ending::Dead(attempts) } else { Ending::Retry(attempts) })
            }
            Judgement::Excused | Judgement::Pause => Step::Waiting,
            Judgement::StandDown => Step::Unread,
        }
    }

    /// Messages behind one that failed leave memory: they wait in the table.
    fn set_aside(&mut self, place: usize) {
        let window = &mut self.relays[place].window;
        for message in 0..window.len() {
            let failed = |earlier: usize| matches!(window[earlier], Step::Ended(Ending::Retry(_) | Ending::Dead(_)));
            if window[message] == Step::Waiting && before(message).any(failed) {
                window[message] = Step::Unread;
            }
        }
    }

    /// Asks the database to record what ended.
    pub(super) fn ask_to_settle(&mut self, place: usize) {
        let relay = &self.relays[place];
        let mut settle =
            Settle { me: relay.id(place), leases: [None; LANES], endings: [None; super::bounds::MESSAGES], stays: 0 };
        for (message, step) in relay.window.iter().enumerate() {
            if let Step::Ended(ending) = step {
                settle.endings[message] = Some(*ending);
                settle.leases[lane_of(message)] = relay.held[lane_of(message)];
                settle.stays |= bit(message);
            }
        }
        self.relays[place].settle = Some(settle);
    }

    /// The answer to a settle: each row by itself.
    pub(super) fn settled(&mut self, place: usize, settle: &Settle, answer: &Settled) {
        for message in members(settle.stays) {
            match recorded(answer, settle, message) {
                Some(Recorded::Changed | Recorded::Gone) => self.relays[place].window[message] = Step::Unread,
                Some(Recorded::Fenced) => self.lose(place, lane_of(message)),
                None => {}
            }
        }
    }

    /// Whether everything of the lane that was sent is answered and recorded.
    pub(super) fn is_drained(&self, place: usize, lane: usize) -> bool {
        let relay = &self.relays[place];
        let under_way =
            |message: usize| lane_of(message) == lane && matches!(relay.window[message], Step::Flying | Step::Ended(_));
        let settling = relay.settle.is_some_and(|settle| settle.leases[lane].is_some());
        !settling && !(0..relay.window.len()).any(under_way)
    }

    /// The relay dies. What it asked of the database last may still be carried out.
    pub(super) fn crash(&mut self, place: usize) {
        let relay = self.relays[place];
        if let Some(settle) = relay.settle.filter(|_| self.stray.is_none()) {
            self.stray = Some(Settle { stays: 0, ..settle });
        }
        self.relays[place] = Relay { life: Life::Down, joined: false, generation: relay.generation, ..Relay::NEW };
    }
}
