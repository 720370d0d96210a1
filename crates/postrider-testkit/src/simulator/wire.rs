//! What lies between the relays and the rest: requests that leave, take effect and are answered, or not.

use postrider_core::machine::{Answer, DestinationIndex, Event, Read, Wanted};
use postrider_core::{
    Content, Due, Error, ErrorKind, HeldLane, Outgoing, Page, Published, RelayId, Retrying, RowState, Settled,
    Settlement,
};

use super::broker::{Mode, Poison, failed};
use super::coverage::Sight;
use super::faults::{Moment, StoreMode};
use super::holder::{LeaseAnswer, LeaseCall};
use super::process::{Life, Reading};
use super::source::SimSource;
use super::world::{Op, World};

/// What a relay asks for.
#[derive(Debug)]
pub(super) enum Request {
    Read(Read),
    Settle(RelayId, Vec<HeldLane>, Vec<Settlement>),
    Publish(DestinationIndex, Vec<Outgoing>),
    Check(DestinationIndex),
    Lease(LeaseCall),
}

/// What becomes of the answer to a call that takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Plain,
    /// It never comes.
    Lost,
    /// The connection breaks instead.
    Reset,
    /// It comes this much later.
    Late(u64),
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) relay: usize,
    epoch: u32,
    number: u64,
    request: Request,
    fate: Fate,
    /// The life of the server that it was sent to.
    boot: u64,
    /// The present as of the beginning of a read.
    observed: Option<u64>,
    /// Its caller has given it up.
    given_up: bool,
}

impl Call {
    pub(super) fn new(relay: usize, epoch: u32, number: u64, request: Request) -> Self {
        Self { relay, epoch, number, request, fate: Fate::Plain, boot: 0, observed: None, given_up: false }
    }
}

/// An answer.
#[derive(Debug)]
pub(super) enum Reply {
    Read(Answer),
    Settled(Result<Settled, Error>),
    Published(Vec<Published>),
    Checked(DestinationIndex, Result<(), Error>),
    Lease(Result<LeaseAnswer, ErrorKind>),
}

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) relay: usize,
    epoch: u32,
    number: u64,
    reply: Reply,
}

fn error(kind: ErrorKind) -> Error {
    Error::new(kind, "simulated")
}

fn refused(request: &Request, kind: ErrorKind) -> Reply {
    match request {
        Request::Read(_) => Reply::Read(Answer::Failed(error(kind))),
        Request::Settle(..) => Reply::Settled(Err(error(kind))),
        Request::Publish(_, batch) => Reply::Published(batch.iter().map(|_| failed(kind)).collect()),
        Request::Check(destination) => Reply::Checked(*destination, Err(error(kind))),
        Request::Lease(_) => Reply::Lease(Err(kind)),
    }
}

impl World {
    /// A request leaves its process. One of a process that is no more does not.
    pub(super) fn depart(&mut self, mut call: Box<Call>) {
        if self.relays[call.relay].epoch != call.epoch {
            return;
        }
        call.boot = self.store.boot;
        match call.request {
            Request::Publish(destination, _) => self.depart_to_broker(call, destination.get()),
            Request::Check(_) => self.after(100, Op::Effect(call)),
            Request::Read(_) | Request::Settle(..) | Request::Lease(_) => self.depart_to_store(call),
        }
    }

    fn depart_to_broker(&mut self, mut call: Box<Call>, place: usize) {
        let mut latency = self.plan.brokers[place].latency;
        if self.condition.slow[place] {
            latency *= 20;
        }
        let arrives = latency / 10 + self.rng.below(latency);
        if self.plan.brokers[place].mode == Mode::Silent {
            self.expect_late(&call);
            if self.rng.chance(500) {
                call.fate = Fate::Lost;
                let later = self.rng.below(self.plan.deadlines.publish * 2);
                self.after(later, Op::Effect(call));
            }
            return;
        }
        if self.condition.slow[place] {
            self.expect_late(&call);
        }
        if self.now < self.condition.lossy_until {
            self.lose(call, arrives, self.plan.deadlines.publish);
        } else {
            self.after(arrives, Op::Effect(call));
        }
    }

    fn depart_to_store(&mut self, mut call: Box<Call>) {
        let relay = &mut self.relays[call.relay];
        if relay.cut.is_some_and(|(_, until)| until <= self.now) {
            relay.cut = None;
        }
        let mode = relay.cut.map(|(mode, _)| mode).or(self.condition.store);
        let begins = self.rng.below(self.plan.store_latency.0 + 1);
        let Some(mode) = mode else {
            if self.now < self.condition.lossy_until {
                let deadline = self.patience(&call.request);
                self.lose(call, begins, deadline);
            } else {
                self.after(begins, Op::Effect(call));
            }
            return;
        };
        match mode {
            StoreMode::Refuses => self.answer(&call, 500, refused(&call.request, ErrorKind::Unavailable)),
            StoreMode::Unknown => self.answer(&call, begins, refused(&call.request, ErrorKind::Unknown)),
            StoreMode::Hangs => self.expect_late(&call),
        }
        if mode != StoreMode::Refuses && self.rng.chance(330) {
            let later = if mode == StoreMode::Hangs { self.patience(&call.request) * 5 / 4 } else { 4_000 };
            call.fate = Fate::Lost;
            call.given_up = true;
            let later = self.rng.below(later);
            self.after(later, Op::Effect(call));
        }
    }

    /// How long a relay waits for the answer.
    fn patience(&self, request: &Request) -> u64 {
        let deadlines = &self.plan.deadlines;
        match request {
            Request::Read(_) => deadlines.read,
            Request::Settle(..) => deadlines.settle,
            Request::Publish(..) | Request::Check(_) => deadlines.publish,
            Request::Lease(_) => self.plan.ttl / 3,
        }
    }

    /// The relay will give the call up, unless it is answered by then. A leaseholder watches its own deadlines.
    fn expect_late(&mut self, call: &Call) {
        if !matches!(call.request, Request::Lease(_)) {
            let patience = self.patience(&call.request);
            self.after(patience, Op::Late(call.relay, call.epoch, call.number));
        }
    }

    /// In bad times a call may come through, or not, or late, or without its answer.
    fn lose(&mut self, mut call: Box<Call>, arrives: u64, patience: u64) {
        let drawn = self.rng.below(10);
        if drawn >= 5 {
            self.after(arrives, Op::Effect(call));
            return;
        }
        self.expect_late(&call);
        let mut arrives = arrives;
        match drawn {
            0 => return,
            1 => call.fate = Fate::Lost,
            2 => call.fate = Fate::Reset,
            3 => call.fate = Fate::Late(self.rng.below(patience * 3 / 2)),
            _ => arrives = self.rng.below(patience * 3 / 2),
        }
        self.after(arrives, Op::Effect(call));
    }

    fn answer(&mut self, call: &Call, delay: u64, reply: Reply) {
        let Call { relay, epoch, number, .. } = *call;
        self.after(delay, Op::Reply(Box::new(Answered { relay, epoch, number, reply })));
    }

    /// A request has arrived: it takes effect, whatever has become of who sent it.
    pub(super) fn take_effect(&mut self, mut call: Box<Call>) {
        self.history.mix(call.number);
        let mine = self.relays[call.relay].epoch == call.epoch;
        let to_store = !matches!(call.request, Request::Publish(..) | Request::Check(_));
        if to_store && call.boot != self.store.boot {
            self.answer(&call, 200, refused(&call.request, ErrorKind::Unknown));
            return;
        }
        let latency = match call.request {
            Request::Publish(place, _) if self.condition.slow[place.get()] => {
                self.plan.brokers[place.get()].latency * 20
            }
            Request::Publish(place, _) => self.plan.brokers[place.get()].latency,
            _ => self.plan.store_latency.1,
        };
        let mut delay = self.rng.below(latency + 1);
        let reply = match &call.request {
            // The reader that would take it in is no more.
            Request::Read(_) if !mine || !self.is_read(&call) => return,
            Request::Read(read) if read.wanted == Wanted::New && call.observed.is_none() => {
                // The present is observed by one statement, and the rows are read by the next.
                call.observed = Some(self.store.commits);
                let later = if self.rng.chance(300) { self.rng.below(self.plan.store_latency.0 + 1) } else { 0 };
                if later > 0 {
                    self.after(later, Op::Effect(call));
                    return;
                }
                self.read(&call)
            }
            Request::Read(_) => self.read(&call),
            Request::Settle(me, leases, batch) => {
                let settled = self.store.settle(*me, leases, batch);
                let late = self.relays[call.relay].settling != Some(call.number) || !mine || call.given_up;
                self.settled(batch, &settled, late);
                if late {
                    self.see(Sight::EffectLate);
                }
                if call.fate == Fate::Lost || call.fate == Fate::Reset {
                    self.see(Sight::ReplyLost);
                }
                Reply::Settled(Ok(settled))
            }
            Request::Publish(destination, batch) => {
                let place = destination.get();
                let drafts = (&self.plan.drafts, &self.ledger);
                let letters = self.plan.letters();
                // In the end somebody mends the receiver of dead letters: what refuses everything is waited for.
                let mended = self.condition.healed && letters == Some(place);
                let poison = |row: i64| drafts.0[drafts.1.draft(row)].poison_at(place, letters).filter(|_| !mended);
                let before = self.plan.brokers[place].log.len();
                let (results, became) = self.plan.brokers[place].publish(&mut self.rng, poison, batch);
                self.published(place, before, batch, became);
                if call.fate != Fate::Plain && became.accepted > 0 {
                    self.see(Sight::Untold);
                }
                Reply::Published(results)
            }
            Request::Check(destination) => Reply::Checked(*destination, self.plan.brokers[destination.get()].check()),
            Request::Lease(lease) => Reply::Lease(Ok(self.lease(lease.clone()))),
        };
        self.history.tell(self.now, || match &reply {
            Reply::Read(_) => format!("{} .. read {}", call.relay, call.number),
            reply => format!("{} .. took effect ({:?}): {reply:?}", call.relay, call.fate),
        });
        let reply = match call.fate {
            Fate::Plain => reply,
            Fate::Lost => return,
            Fate::Reset => refused(&call.request, ErrorKind::Unknown),
            Fate::Late(later) => {
                delay += later;
                reply
            }
        };
        self.answer(&call, delay, reply);
        if mine && !self.armed.is_empty() {
            let moment = match &call.request {
                Request::Read(_) => Moment::Read,
                Request::Settle(..) => Moment::Settled,
                Request::Publish(..) => Moment::Published,
                Request::Lease(LeaseCall::Acquire(..)) => Moment::Acquired,
                Request::Lease(LeaseCall::Renew(_)) => Moment::Renewed,
                Request::Lease(LeaseCall::Release(..)) => Moment::Released,
                Request::Lease(_) | Request::Check(_) => return,
            };
            self.moment(call.relay, moment);
        }
    }

    /// Whether the relay still waits for this read.
    fn is_read(&self, call: &Call) -> bool {
        self.relays[call.relay].reading.as_ref().is_some_and(|reading| reading.number == call.number)
    }

    fn read(&mut self, call: &Call) -> Reply {
        let Request::Read(read) = &call.request else { return Reply::Read(Answer::Page(Page::EMPTY)) };
        let relay = &mut self.relays[call.relay];
        let store = &self.store;
        let mut answer = match &read.wanted {
            Wanted::New => {
                let until = call.observed.unwrap_or(store.commits);
                Answer::Page(relay.source.read(store, relay.connection, until, &read.lanes, read.room))
            }
            Wanted::Due(window) => Answer::Page(store.due(&read.lanes, read.room, window)),
            Wanted::Key(lane, key) => Answer::Page(store.key(*lane, key, read.room)),
            Wanted::Walk(lane, after) => Answer::Keys(store.exceptional_keys(*lane, after.as_ref(), read.room.rows)),
            Wanted::Sweep(after) => {
                let lanes = read.lanes.iter().map(|held| held.lane);
                let known = lanes.filter_map(|lane| Some((lane, relay.source.read_up_to(relay.connection, lane)?)));
                Answer::Page(store.sweep(&known.collect(), *after, read.room))
            }
            Wanted::Rows(rows) => return Reply::Read(Answer::Page(store.load(rows, read.room))),
        };
        if let Answer::Page(page) = &mut answer {
            store.behead(page, &read.lanes);
        }
        Reply::Read(answer)
    }

    fn lease(&mut self, call: LeaseCall) -> LeaseAnswer {
        let now = self.store.clock();
        let ttl = self.plan.ttl;
        let lanes = &mut self.store.lanes;
        match call {
            LeaseCall::Join(me) => lanes.join(me, now + ttl),
            LeaseCall::Renew(me) => return LeaseAnswer::Renewed(lanes.renew(me, now + ttl)),
            LeaseCall::Evict => lanes.evict(now),
            LeaseCall::Owned(me) => return LeaseAnswer::Lanes(lanes.owned(me)),
            LeaseCall::Release(me, released) => lanes.release(me, &released),
            LeaseCall::Members => return LeaseAnswer::Living(lanes.living(now)),
            LeaseCall::Acquire(me, want) => {
                return LeaseAnswer::Lanes(lanes.acquire(me, want, now, &mut self.rng));
            }
            LeaseCall::Leave(me) => lanes.leave(me),
        }
        LeaseAnswer::Done
    }

    /// The relay gives a call up.
    pub(super) fn give_up(&mut self, relay: usize, epoch: u32, number: u64) {
        if self.relays[relay].epoch != epoch {
            return;
        }
        let reply = if self.relays[relay].reading.as_ref().is_some_and(|reading| reading.number == number) {
            Reply::Read(Answer::Failed(error(ErrorKind::Unavailable)))
        } else if self.relays[relay].settling == Some(number) {
            Reply::Settled(Err(error(ErrorKind::Unknown)))
        } else if let Some(flying) = self.relays[relay].flights.get(&number) {
            Reply::Published(flying.rows.iter().map(|_| failed(ErrorKind::Unknown)).collect())
        } else {
            return;
        };
        self.reply(Answered { relay, epoch, number, reply });
    }

    /// An answer has come.
    pub(super) fn reply(&mut self, answered: Answered) {
        let Answered { relay: place, epoch, number, reply } = answered;
        self.history.mix(number << 1);
        let relay = &mut self.relays[place];
        if relay.epoch != epoch {
            return;
        }
        match reply {
            Reply::Lease(answer) => self.lease_answered(place, number, answer),
            _ if relay.life != Life::Running => {}
            Reply::Read(answer) => {
                let Some(reading) = relay.reading.take_if(|reading| reading.number == number) else {
                    self.see(Sight::ReplyLate);
                    return;
                };
                if self.kills_reader(&answer) {
                    self.killed(place);
                    return;
                }
                self.read_answered(place, reading, answer);
            }
            Reply::Settled(answer) => {
                if relay.settling != Some(number) {
                    self.see(Sight::ReplyLate);
                    return;
                }
                relay.settling = None;
                let failed = answer.as_ref().is_err_and(|error| error.kind() != ErrorKind::Fenced);
                relay.unsettled = if failed { std::mem::take(&mut relay.settles) } else { Vec::new() };
                if failed {
                    self.see(Sight::StoreAwayUnsettled);
                }
                let was_recorded = answer.is_ok();
                let ahead = self.relays[place].settle_ahead.take();
                if let Some((me, ahead)) = ahead.clone().filter(|_| was_recorded) {
                    self.see(Sight::SettledAhead);
                    self.begin_settle(place, me, ahead);
                }
                self.tell(place, Event::Settled(answer));
                if ahead.is_some() && !was_recorded {
                    self.see(Sight::NotSettledAhead);
                    self.tell(place, Event::NotSettled);
                }
            }
            Reply::Published(results) => {
                let Some(flying) = relay.flights.remove(&number) else {
                    self.see(Sight::ReplyLate);
                    return;
                };
                self.acknowledged(&flying, &results);
                self.tell(place, Event::Published(flying.flight, results));
            }
            Reply::Checked(destination, answer) => self.tell(place, Event::Checked(destination, answer)),
        }
        self.turn(place);
    }

    /// Whether a message came whole of which a relay dies.
    fn kills_reader(&self, answer: &Answer) -> bool {
        let Answer::Page(page) = answer else { return false };
        page.rows.iter().any(|row| {
            let whole = matches!(row.content, Content::Message(_));
            whole && self.poison(row.id.0).is_some_and(|(_, poison)| poison == Poison::KillsReader)
        })
    }

    fn read_answered(&mut self, place: usize, reading: Reading, answer: Answer) {
        let Reading { read, sent, .. } = reading;
        let relay = &mut self.relays[place];
        relay.longest_read = relay.longest_read.max(self.now - sent);
        match &answer {
            Answer::Failed(_) => self.relays[place].source = SimSource::default(),
            Answer::Page(page) if page.discontinued => {
                self.see(Sight::Discontinued);
                self.rejoin(place);
            }
            Answer::Page(page) => {
                if matches!(read.wanted, Wanted::Sweep(_)) && !page.reached.is_empty() {
                    self.seen.see(Sight::Swept);
                }
                for row in &page.rows {
                    let stored = self.store.row(row.id.0);
                    if stored.gone || stored.state != row.state || stored.attempts != row.attempts {
                        self.seen.see(Sight::Stale);
                    }
                    if row.closed != postrider_core::Closed::Open {
                        self.seen.see(Sight::Closed);
                    }
                    if stored.deliver_at.is_some() && matches!(read.wanted, Wanted::Due(_)) {
                        self.seen.see(Sight::Delayed);
                    }
                    if row.due != Due::Now && row.retrying == Retrying::No {
                        self.seen.see(Sight::ReadBeforeDue);
                    }
                    if stored.weight > self.plan.settings.window_bytes {
                        self.seen.see(Sight::Heavy);
                    }
                    if stored.malformed && row.state == RowState::Pending {
                        self.seen.see(Sight::Malformed);
                    }
                }
            }
            Answer::Keys(_) | Answer::NotMade => {}
        }
        let ahead = self.relays[place].ahead.take();
        let goes_on = read.goes_on(&answer);
        if let Some(ahead) = ahead.clone().filter(|_| goes_on) {
            self.see(Sight::ReadAhead);
            self.begin_read(place, ahead);
        }
        self.tell(place, Event::Answered(read, answer));
        if let Some(ahead) = ahead.filter(|_| !goes_on) {
            self.see(Sight::NotReadAhead);
            self.tell(place, Event::Answered(ahead, Answer::NotMade));
        }
    }
}
