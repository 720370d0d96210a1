//! A machine that a test answers by hand, one call at a time, so that two things can cross exactly as it says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::broker::Broker;
use super::world::{World, name};
use crate::machine::*;
use crate::*;

const LANE: Lane = Lane(0);

/// A row of topic `all` as a source would bring it.
pub fn row(id: i64, key: Option<&str>) -> Row {
    let message = Message::new("all", "x").id(uuid::Uuid::from_u128(u128::try_from(id).unwrap()));
    Row {
        id: RowId(id),
        lane: LANE,
        content: Content::Message(Arc::new(match key {
            Some(key) => message.key(key),
            None => message,
        })),
        weight: 10,
        state: RowState::Pending,
        due: Due::Now,
        lifetime: Lifetime::default(),
        retrying: Retrying::No,
        attempts: 0,
        waiting_for: None,
        progress: BTreeMap::new(),
        closed: Closed::Open,
        given_up: None,
    }
}

/// A row that was tried once, and whose next attempt has come.
pub fn retrying(id: i64, key: &str) -> Row {
    Row { attempts: 1, ..freed(id, key) }
}

/// A row that was never tried, and that an operator made due.
pub fn freed(id: i64, key: &str) -> Row {
    Row { retrying: Retrying::Yes, ..row(id, Some(key)) }
}

/// The head of a row as a source would bring it from a lane whose owner died.
pub fn head(id: i64, key: Option<&str>, suspicion: u16) -> Row {
    let row = row(id, key);
    let Content::Message(message) = &row.content else { unreachable!() };
    let (topic, key) = (message.topic.clone(), message.key.clone());
    Row { content: Content::Head(Head { id: Some(message.id), topic, key, suspicion, has_retry: false }), ..row }
}

/// A row that was set aside.
pub fn aside(id: i64, key: &str) -> Row {
    Row { state: RowState::SetAside, ..row(id, Some(key)) }
}

/// A row that is owed to one destination only.
pub fn only(destination: usize, row: Row) -> Row {
    Row { waiting_for: Some(vec![name(destination)]), ..row }
}

/// The rows that a settle is about, in its order.
pub fn rows_of(batch: &[Settlement]) -> Vec<i64> {
    batch.iter().map(|settlement| settlement.row.0).collect()
}

/// Whether a read looks at a key.
pub fn a_look(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Key(..))
}

/// The destination that works, where another one pauses.
pub const WORKS: usize = 0;
/// The one that pauses.
pub const PAUSES: usize = 1;

/// What was asked and not answered yet.
#[derive(Debug)]
pub struct Hand {
    pub machine: Machine,
    pub now: Tick,
    pub read: Option<Read>,
    /// Asked for ahead of the answer to the one before.
    pub ahead: Option<Read>,
    pub flights: Vec<(DestinationIndex, Flight, Vec<i64>)>,
    /// The number of each attempt that was sent.
    pub attempts: Vec<u32>,
    pub settles: Vec<Vec<Settlement>>,
    pub checks: usize,
    pub released: Vec<HeldLane>,
    term: i64,
    /// How often the machine was asked what it wants.
    asked: u32,
}

/// A test that has asked the machine so often waits for what never comes.
const MOST_ASKED: u32 = 100_000;

impl Hand {
    /// One lane, and so many destinations that keep order and fail each message by itself; the walk that follows a
    /// takeover is over.
    pub fn new(destinations: usize) -> Self {
        Self::with_window(destinations, 8_192)
    }

    /// The same with room for so many rows.
    pub fn with_window(destinations: usize, rows: usize) -> Self {
        Self::with(destinations, |settings| settings.window_rows = rows)
    }

    /// The same with other settings.
    pub fn with(destinations: usize, change: impl Fn(&mut Settings)) -> Self {
        let broker = || Broker::new(OrderInBatch::Kept, Isolation::PerMessage);
        let mut settings = World::new(1, (0..destinations).map(|_| broker()).collect(), 1).settings;
        change(&mut settings);
        let mut hand = Self {
            machine: Machine::new(settings),
            now: Tick::ZERO,
            read: None,
            ahead: None,
            flights: Vec::new(),
            attempts: Vec::new(),
            settles: Vec::new(),
            checks: 0,
            released: Vec::new(),
            term: 0,
            asked: 0,
        };
        hand.machine.on(hand.now, Event::Trusted(Tick::FAR));
        hand.gain();
        hand.give_to(|wanted| matches!(wanted, Wanted::Walk(..)), Vec::new());
        hand.give_new(Vec::new());
        hand
    }

    /// The one destination works, the other pauses.
    pub fn beside_a_pause() -> Self {
        let mut hand = Self::new(2);
        hand.pause(PAUSES, 9);
        hand
    }

    /// A destination turns out to be away with this row, which is owed to it alone.
    pub fn pause(&mut self, destination: usize, row_id: i64) {
        self.give_new(vec![only(destination, row(row_id, None))]);
        let flight = self.flight(row_id);
        self.publish(flight, Some(ErrorKind::Unavailable));
        assert!(self.machine.destinations()[destination].paused.is_some());
    }

    pub fn gain(&mut self) {
        self.gain_as(Start::Clean);
    }

    pub fn gain_as(&mut self, start: Start) {
        self.term += 1;
        self.gain_again(start);
    }

    /// The lane comes under the term under which it was lost, as from tables that were put in the place of others.
    pub fn gain_again(&mut self, start: Start) {
        let lane = HeldLane { lane: LANE, term: Term(self.term), start };
        self.machine.on(self.now, Event::Gained(vec![lane]));
    }

    pub fn lose(&mut self) {
        self.machine.on(self.now, Event::Lost(vec![LANE]));
    }

    /// The lane is wanted elsewhere.
    pub fn hand_back(&mut self) {
        let lane = HeldLane { lane: LANE, term: Term(self.term), start: Start::Clean };
        self.machine.on(self.now, Event::HandBack(vec![lane]));
        self.act();
    }

    /// Takes what the machine wants now.
    pub fn act(&mut self) {
        self.asked += 1;
        assert!(self.asked < MOST_ASKED, "what the test waits for never comes");
        for action in self.machine.actions(self.now) {
            match action {
                Action::Read(read) => {
                    let place = if read.ahead { &mut self.ahead } else { &mut self.read };
                    assert!(place.replace(read).is_none(), "two reads at once");
                }
                Action::Publish(destination, flight, batch) => {
                    self.attempts.extend(batch.iter().map(|outgoing| outgoing.attempt.0));
                    let rows = batch.iter().map(|o| i64::try_from(o.message.id.0.as_u128()).unwrap()).collect();
                    self.flights.push((destination, flight, rows));
                }
                Action::Settle(settle) => self.settles.push(settle.rows),
                Action::Check(_) => self.checks += 1,
                Action::Release(lanes) => self.released.extend(lanes),
            }
        }
    }

    /// Time passes until the machine wants to be asked again.
    pub fn wait(&mut self) {
        self.now = self.machine.wake_at(self.now).max(self.now + Duration::from_micros(1));
        self.act();
    }

    /// The read under way finds nothing; where there is none, time passes.
    pub fn until_the_next_read(&mut self) {
        match self.read.take() {
            Some(read) => self.answer(read, Vec::new(), false),
            None => self.wait(),
        }
    }

    pub fn answer(&mut self, read: Read, rows: Vec<Row>, more: bool) {
        let answer = match read.wanted {
            Wanted::Walk(..) => Answer::Keys(rows.iter().filter_map(|row| row.key().cloned()).collect()),
            _ => Answer::Page(Page { rows, more, ..Page::EMPTY }),
        };
        let goes_on = read.goes_on(&answer);
        self.machine.on(self.now, Event::Answered(read, answer));
        match self.ahead.take() {
            Some(ahead) if goes_on => self.read = Some(ahead),
            Some(ahead) => self.machine.on(self.now, Event::Answered(ahead, Answer::NotMade)),
            None => {}
        }
        self.act();
    }

    /// The next read of a kind, not answered yet; every other one before it finds nothing. None when the machine does
    /// not come to it in a hundred steps.
    pub fn read(&mut self, kind: impl Fn(&Wanted) -> bool) -> Option<Read> {
        for _ in 0..100 {
            self.act();
            match self.read.take() {
                Some(read) if kind(&read.wanted) => return Some(read),
                Some(read) => self.answer(read, Vec::new(), false),
                None => self.wait(),
            }
        }
        None
    }

    /// Answers the next read of a kind with these rows.
    pub fn give_to(&mut self, kind: impl Fn(&Wanted) -> bool, rows: Vec<Row>) {
        let read = self.read(kind).expect("no such read");
        self.answer(read, rows, false);
    }

    pub fn give_new(&mut self, rows: Vec<Row>) {
        self.give_to(|wanted| matches!(wanted, Wanted::New), rows);
    }

    pub fn give_due(&mut self, rows: Vec<Row>) {
        self.give_to(|wanted| matches!(wanted, Wanted::Due(_)), rows);
    }

    /// Takes the oldest call with a row in it.
    pub fn flight(&mut self, row: i64) -> (Flight, usize) {
        self.take_flight(|_, rows| rows.contains(&row))
    }

    /// The same, of those to one destination.
    pub fn flight_to(&mut self, destination: usize, row: i64) -> (Flight, usize) {
        self.take_flight(|place, rows| place.get() == destination && rows.contains(&row))
    }

    fn take_flight(&mut self, is_it: impl Fn(DestinationIndex, &[i64]) -> bool) -> (Flight, usize) {
        let place = self.flights.iter().position(|(place, _, rows)| is_it(*place, rows)).expect("it was not sent");
        let (_, flight, rows) = self.flights.remove(place);
        (flight, rows.len())
    }

    /// The broker's answer to a whole call; none of a kind is an acceptance.
    pub fn publish(&mut self, (flight, count): (Flight, usize), failure: Option<ErrorKind>) {
        let result = || match failure {
            Some(kind) => Published::Failed(Error::new(kind, "scripted")),
            None => Published::Accepted(Accepted::FRESH),
        };
        self.machine.on(self.now, Event::Published(flight, (0..count).map(|_| result()).collect()));
        self.act();
    }

    /// The broker accepts whatever is sent to it, the latest call first, until nothing more is.
    pub fn accept_all(&mut self) {
        while let Some((_, flight, rows)) = self.flights.pop() {
            self.publish((flight, rows.len()), None);
        }
    }

    /// The answer to a whole call of which nothing left this process.
    pub fn publish_unsent(&mut self, (flight, count): (Flight, usize)) {
        let result = || Published::Failed(Error::new(ErrorKind::Unavailable, "not connected").unsent());
        self.machine.on(self.now, Event::Published(flight, (0..count).map(|_| result()).collect()));
        self.act();
    }

    /// Takes the settle under way.
    pub fn settle(&mut self) -> Vec<Settlement> {
        assert_eq!(self.settles.len(), 1, "settles under way");
        self.settles.remove(0)
    }

    /// The lane was held, and these rows were changed.
    pub fn settled(&mut self, rows: &[i64]) {
        let rows = rows.iter().copied().map(RowId).collect();
        self.machine.on(self.now, Event::Settled(Ok(Settled { rows, lanes: vec![LANE] })));
        self.act();
    }
}
