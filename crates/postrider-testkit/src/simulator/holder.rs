//! The keeper of one relay's membership, as a state machine: one call at a time on one connection, in the order in which
//! the relay's own leaseholder makes them, deciding by the same rules of the core.

use std::collections::VecDeque;
use std::time::Duration;

use postrider_core::{Difference, HeldLane, Holdings, Lane, LaneCount, RelayId, Renewal, try_again_after};

/// How often a member looks at who else is living, and for free lanes while it has less than its share.
const LOOK_AROUND: u64 = 250_000;

/// A statement of the lease tables.
#[derive(Debug, Clone)]
pub(super) enum LeaseCall {
    Join(RelayId),
    Renew(RelayId),
    Evict,
    Owned(RelayId),
    Release(RelayId, Vec<HeldLane>),
    Members,
    Acquire(RelayId, u16),
    Leave(RelayId),
}

/// Its answer.
#[derive(Debug, Clone)]
pub(super) enum LeaseAnswer {
    Done,
    Renewed(Renewal),
    Lanes(Vec<HeldLane>),
    Living(Vec<RelayId>),
}

/// What the keeper found out.
#[derive(Debug, Clone)]
pub(super) enum News {
    Joined(RelayId),
    /// Until this moment of the local clock.
    Trusted(u64),
    Gained(Vec<HeldLane>),
    /// Lanes belong to somebody else now.
    Lost(Vec<Lane>),
    /// Other members are owed these lanes.
    Surplus(Vec<HeldLane>),
    Evicted,
    /// By comparing what it knew with the tables it learned something about its lanes.
    Compared,
    /// It left to join again: everything that it said before was of the membership that was given up.
    Parted,
    /// It left for good.
    Left,
}

/// What the keeper is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// Nothing of these lanes is on its way any more, or they are somebody else's.
    Release(Vec<HeldLane>),
    Rejoin,
    /// Release every lane, these as they are here, and leave.
    Leave(Vec<HeldLane>),
    /// The same once more, because an answer was lost.
    LeaveAgain,
}

/// Why it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Rejoin,
    ForGood,
    Again,
}

/// What the call under way is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    LeaveLimbo,
    Join,
    Renew,
    Evict,
    LookUp,
    Give,
    LookAround,
    EvictFirst,
    Take,
    ReleaseAll(Ending),
    Leave(Ending),
}

/// News, and the next call.
pub(super) type Turn = (Vec<News>, Option<LeaseCall>);

/// The keeper; every moment is one of the relay's clock, in microseconds.
#[derive(Debug)]
pub(super) struct Holder {
    ttl: u64,
    /// How long a round may take on a new connection, or while there is no lane to lose.
    fresh: u64,
    lanes: LaneCount,
    /// The lanes of this membership; none while it is no member.
    holdings: Option<Holdings>,
    /// An id whose joining was not answered.
    limbo: Option<RelayId>,
    /// A statement was not answered: lanes may be ours, or not ours any more, without our knowing.
    uncertain: bool,
    connected: bool,
    step: Option<Step>,
    /// The lanes of the release under way.
    giving: Vec<HeldLane>,
    /// How many lanes are to be taken in this round.
    taking: u16,
    begun: u64,
    renew: bool,
    renew_at: u64,
    wake_at: u64,
    deadline: u64,
    orders: VecDeque<Order>,
}

impl Holder {
    pub(super) fn new(ttl: u64, fresh: u64, lanes: LaneCount) -> Self {
        Self {
            ttl,
            fresh,
            lanes,
            holdings: None,
            limbo: None,
            uncertain: false,
            connected: false,
            step: None,
            giving: Vec::new(),
            taking: 0,
            begun: 0,
            renew: true,
            renew_at: 0,
            wake_at: 0,
            deadline: 0,
            orders: VecDeque::new(),
        }
    }

    pub(super) fn order(&mut self, order: Order) {
        self.orders.push_back(order);
    }

    /// When it is to be polled again, at the latest.
    pub(super) fn wake_at(&self) -> u64 {
        if self.step.is_some() {
            self.deadline
        } else if self.orders.is_empty() {
            self.wake_at
        } else {
            0
        }
    }

    /// Whether a call is under way whose deadline has passed: it is given up with its connection.
    pub(super) fn is_late(&self, now: u64) -> bool {
        self.step.is_some() && now >= self.deadline
    }

    /// Whether an acquisition is under way.
    pub(super) fn acquires(&self) -> bool {
        self.step == Some(Step::Take)
    }

    /// Whether a release is under way.
    pub(super) fn gives(&self) -> bool {
        self.step == Some(Step::Give)
    }

    /// The next call, if none is under way and it is time for one. `id` is one that was never used.
    pub(super) fn poll(&mut self, now: u64, id: RelayId) -> Turn {
        if self.step.is_some() {
            return (Vec::new(), None);
        }
        match self.orders.pop_front() {
            Some(Order::Release(lanes)) => self.done(&lanes),
            Some(Order::Rejoin) => return self.leave(now, Ending::Rejoin, self.ttl),
            Some(Order::Leave(lanes)) => {
                self.done(&lanes);
                return self.leave(now, Ending::ForGood, self.ttl / 2);
            }
            Some(Order::LeaveAgain) => return self.leave(now, Ending::Again, self.ttl / 2),
            None if now < self.wake_at => return (Vec::new(), None),
            None => {}
        }
        self.begin(now, id)
    }

    /// One round: join or renew when it is time, then come to the fair share.
    fn begin(&mut self, now: u64, id: RelayId) -> Turn {
        let holds_nothing = self.holdings.as_ref().is_none_or(Holdings::is_empty);
        self.begun = now;
        self.renew = now >= self.renew_at;
        self.deadline = now + if self.connected && !holds_nothing { self.ttl / 3 } else { self.fresh };
        match self.me() {
            None => match self.limbo {
                Some(limbo) => self.call(Step::LeaveLimbo, LeaseCall::Leave(limbo)),
                None => self.join(id),
            },
            Some(me) if self.renew => self.call(Step::Renew, LeaseCall::Renew(me)),
            Some(_) => self.stayed(now),
        }
    }

    fn me(&self) -> Option<RelayId> {
        self.holdings.as_ref().map(Holdings::me)
    }

    fn call(&mut self, step: Step, call: LeaseCall) -> Turn {
        self.step = Some(step);
        (Vec::new(), Some(call))
    }

    fn join(&mut self, id: RelayId) -> Turn {
        self.limbo = Some(id);
        self.call(Step::Join, LeaseCall::Join(id))
    }

    /// It is a member.
    fn stayed(&mut self, now: u64) -> Turn {
        if self.renew { self.call(Step::Evict, LeaseCall::Evict) } else { self.evicted(now) }
    }

    fn evicted(&mut self, now: u64) -> Turn {
        match self.me().filter(|_| self.renew || self.uncertain) {
            Some(me) => self.call(Step::LookUp, LeaseCall::Owned(me)),
            None => self.give(now),
        }
    }

    fn give(&mut self, now: u64) -> Turn {
        let Some(holdings) = &self.holdings else { return self.end(now) };
        let (me, done) = (holdings.me(), holdings.releasable());
        if done.is_empty() {
            return self.call(Step::LookAround, LeaseCall::Members);
        }
        self.giving.clone_from(&done);
        self.call(Step::Give, LeaseCall::Release(me, done))
    }

    /// The round is over.
    fn end(&mut self, now: u64) -> Turn {
        self.connected = true;
        if self.renew {
            self.renew_at = self.begun + self.ttl / 3;
        }
        self.wake_at = self.renew_at.min(now + LOOK_AROUND).max(now);
        (Vec::new(), None)
    }

    fn done(&mut self, lanes: &[HeldLane]) {
        if let Some(holdings) = &mut self.holdings {
            lanes.iter().for_each(|held| holdings.done(*held));
        }
    }

    fn leave(&mut self, now: u64, ending: Ending, within: u64) -> Turn {
        self.deadline = now + within;
        match &self.holdings {
            Some(holdings) => {
                let call = LeaseCall::Release(holdings.me(), holdings.all());
                self.call(Step::ReleaseAll(ending), call)
            }
            None => (self.left(now, ending), None),
        }
    }

    fn left(&mut self, now: u64, ending: Ending) -> Vec<News> {
        self.holdings = None;
        (self.renew_at, self.wake_at) = (now, now);
        match ending {
            Ending::Rejoin => vec![News::Parted],
            Ending::ForGood | Ending::Again => vec![News::Left],
        }
    }

    /// The call was not answered, or with an error: its outcome is not known.
    pub(super) fn failed(&mut self, now: u64) -> Vec<News> {
        self.connected = false;
        match self.step.take() {
            Some(Step::ReleaseAll(Ending::ForGood) | Step::Leave(Ending::ForGood)) => {
                self.orders.push_front(Order::LeaveAgain);
                Vec::new()
            }
            Some(Step::ReleaseAll(ending) | Step::Leave(ending)) => self.left(now, ending),
            _ => {
                self.uncertain = true;
                let wait = try_again_after(Duration::from_micros(self.ttl)).as_micros();
                self.wake_at = now + u64::try_from(wait).unwrap_or(LOOK_AROUND);
                Vec::new()
            }
        }
    }

    /// The call was answered: what is new, and the next call.
    pub(super) fn answered(&mut self, now: u64, answer: LeaseAnswer, id: RelayId) -> Turn {
        let mut news = Vec::new();
        let Some(step) = self.step.take() else { return (news, None) };
        let trusted = News::Trusted(self.begun + (self.ttl - self.ttl / 10));
        let (more, call) = match (step, answer) {
            (Step::LeaveLimbo, _) => self.join(id),
            (Step::Join, _) => {
                if let Some(me) = self.limbo.take() {
                    self.holdings = Some(Holdings::new(me));
                    news.extend([News::Joined(me), trusted]);
                }
                self.stayed(now)
            }
            (Step::Renew, LeaseAnswer::Renewed(Renewal::Evicted)) => {
                self.holdings = None;
                news.push(News::Evicted);
                self.end(now)
            }
            (Step::Renew, _) => {
                news.push(trusted);
                self.stayed(now)
            }
            (Step::Evict, _) => self.evicted(now),
            (Step::LookUp, LeaseAnswer::Lanes(owned)) => {
                self.uncertain = false;
                let difference = self.holdings.as_mut().map(|holdings| holdings.reconcile(&owned)).unwrap_or_default();
                if difference != Difference::default() {
                    news.push(News::Compared);
                }
                if !difference.lost.is_empty() {
                    news.push(News::Lost(difference.lost));
                }
                if !difference.gained.is_empty() {
                    news.push(News::Gained(difference.gained));
                }
                self.give(now)
            }
            (Step::Give, _) => {
                let given = std::mem::take(&mut self.giving);
                if let Some(holdings) = &mut self.holdings {
                    holdings.released(&given);
                }
                self.call(Step::LookAround, LeaseCall::Members)
            }
            (Step::LookAround, LeaseAnswer::Living(living)) => {
                let lanes = self.lanes;
                let balance = self.holdings.as_mut().map(|holdings| holdings.balance(&living, lanes));
                let balance = balance.unwrap_or_default();
                if !balance.hand_back.is_empty() {
                    news.push(News::Surplus(balance.hand_back));
                }
                self.taking = balance.take;
                if balance.take == 0 { self.end(now) } else { self.call(Step::EvictFirst, LeaseCall::Evict) }
            }
            (Step::EvictFirst, _) => match self.me() {
                Some(me) => self.call(Step::Take, LeaseCall::Acquire(me, self.taking)),
                None => self.end(now),
            },
            (Step::Take, LeaseAnswer::Lanes(gained)) => {
                if let Some(holdings) = self.holdings.as_mut().filter(|_| !gained.is_empty()) {
                    holdings.gain(&gained);
                    news.push(News::Gained(gained));
                }
                self.end(now)
            }
            (Step::LookUp | Step::LookAround | Step::Take, _) => self.end(now),
            (Step::ReleaseAll(ending), _) => match self.me() {
                Some(me) => self.call(Step::Leave(ending), LeaseCall::Leave(me)),
                None => (self.left(now, ending), None),
            },
            (Step::Leave(ending), _) => (self.left(now, ending), None),
        };
        news.extend(more);
        (news, call)
    }
}
