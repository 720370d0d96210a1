//! What happens to the machine, and what it wants done.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::destinations::DestinationIndex;
use crate::address::DestinationName;
use crate::error::{Error, ErrorKind};
use crate::lane::{HeldLane, Lane};
use crate::message::{Key, Message, MessageId, Topic};
use crate::row::RowId;
use crate::seams::{DeadReason, Outgoing, Page, Published, Room, Settled, Settlement};
use crate::tick::Tick;

/// The number of a read: reads are judged against what was settled since they were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) u64);

/// The number of a publish call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flight(pub(super) u64);

/// What is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// New rows of the lanes held.
    New,
    /// Rows whose scheduled attempt or delay has come, but not these, which are in the window or wait in the machine; in
    /// order.
    Due(Vec<RowId>),
    /// The exceptional rows of a key.
    Key(Lane, Key),
    /// Which keys of a lane have exceptional rows, after a key.
    Walk(Lane, Option<Key>),
    /// What everything else missed, after a row: a step of a sweep of the lanes of the read.
    Sweep(RowId),
    /// These rows whole, of which only the heads were read.
    Rows(Vec<RowId>),
}

/// One read to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Its number, to be handed back with the answer.
    pub ticket: Ticket,
    /// What is wanted.
    pub wanted: Wanted,
    /// The lanes held, with their terms, as of now. Where the start is careful, this read is to bring heads.
    pub lanes: Vec<HeldLane>,
    /// How much may come.
    pub room: Room,
    /// Whether it was asked for before the read before it was answered. It is made only where that one [goes
    /// on](Self::goes_on), and otherwise answered as [`Answer::NotMade`].
    pub ahead: bool,
}

impl Read {
    /// The lane of this number among those of the read.
    pub fn held(&self, lane: Lane) -> Option<HeldLane> {
        self.lanes.iter().find(|held| held.lane == lane).copied()
    }

    /// Whether the reading goes on where this answer ends: with rows it is full, and its room was enough for them. A walk
    /// takes no room, and says nothing of the rows that are to be read.
    pub fn goes_on(&self, answer: &Answer) -> bool {
        match answer {
            Answer::Page(page) => page.more && page.rows.len() >= self.room.rows && page.weight() <= self.room.bytes,
            Answer::Keys(_) => true,
            Answer::Failed(_) | Answer::NotMade => false,
        }
    }
}

/// The answer to a read.
#[derive(Debug)]
pub enum Answer {
    /// Rows.
    Page(Page),
    /// The keys of a walk, at most as many as were asked for.
    Keys(Vec<Key>),
    /// The read failed.
    Failed(Error),
    /// The read was asked for ahead, and the one before it did not go on.
    NotMade,
}

/// One settle to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Settle {
    /// The lanes held, with their terms, as of now.
    pub leases: Vec<HeldLane>,
    /// What became of rows, in the order in which it is to be recorded.
    pub rows: Vec<Settlement>,
    /// Whether it was asked for before the settle before it was answered. It is made only where that one was recorded,
    /// and otherwise answered as [`Event::NotSettled`]: what became of a key's rows is recorded in their order.
    pub ahead: bool,
}

impl Settle {
    /// The leases of the lanes in which it has rows.
    pub fn touched(&self) -> Vec<HeldLane> {
        let lanes: BTreeSet<Lane> = self.rows.iter().map(|settlement| settlement.lane).collect();
        self.leases.iter().filter(|held| lanes.contains(&held.lane)).copied().collect()
    }
}

/// Something happened.
#[derive(Debug)]
pub enum Event {
    /// Lanes were acquired.
    Gained(Vec<HeldLane>),
    /// Lanes were lost, or all trust in them is.
    Lost(Vec<Lane>),
    /// These leases are wanted elsewhere: finish what is on its way, then release them. The other lanes go on.
    HandBack(Vec<HeldLane>),
    /// The leases are good until this moment of the local clock.
    Trusted(Tick),
    /// A read was answered.
    Answered(Read, Answer),
    /// A publish call ended: one result per message, in order.
    Published(Flight, Vec<Published>),
    /// A settle was answered.
    Settled(Result<Settled, Error>),
    /// A settle was not made: it was asked for ahead, and the one before it failed.
    NotSettled,
    /// A destination was looked at without a message.
    Checked(DestinationIndex, Result<(), Error>),
    /// Somebody says that there are new rows.
    Hint,
    /// Stop reading and publishing; finish what is in flight.
    Stop,
}

/// Something is to be done; its end comes back as an [`Event`].
#[derive(Debug)]
pub enum Action {
    /// Read; ends as [`Event::Answered`].
    Read(Read),
    /// Publish; ends as [`Event::Published`].
    Publish(DestinationIndex, Flight, Vec<Outgoing>),
    /// Settle; ends as [`Event::Settled`] or [`Event::NotSettled`], in the order in which it was asked for.
    Settle(Settle),
    /// Release these leases: nothing of their lanes is on its way any more. Their start says how the next owner is to
    /// begin. No event ends it.
    Release(Vec<HeldLane>),
    /// Look at a destination; ends as [`Event::Checked`].
    Check(DestinationIndex),
}

/// How much is noted of what was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deliveries {
    /// Their number.
    #[default]
    Counted,
    /// Their number, and each message, which then stays in memory until its delivery is recorded.
    Named,
}

/// Something that people want to know: for logs and metrics, never for decisions.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// Rows came into the window.
    Read(u64),
    /// A destination accepted messages.
    Accepted(DestinationName, u64),
    /// Messages are delivered and settled.
    Delivered(u64),
    /// One of them, where they are to be [named](Deliveries::Named).
    DeliveredMessage(Arc<Message>),
    /// Messages were set aside behind their key's head.
    SetAside(u64),
    /// A publish failed.
    Failed {
        /// The message.
        id: MessageId,
        /// Its topic.
        topic: Topic,
        /// Where.
        destination: DestinationName,
        /// How.
        kind: ErrorKind,
        /// What was said.
        text: String,
    },
    /// No route leads a message anywhere. Its retry is noted after this.
    Nowhere {
        /// The message.
        id: MessageId,
        /// What to do about it.
        text: String,
    },
    /// A message will be tried again.
    Retry {
        /// The message.
        id: MessageId,
        /// Charged attempts so far.
        attempts: u32,
        /// When.
        after: Duration,
    },
    /// A message was given up.
    Dead {
        /// The message; none for a row whose id could not be read.
        id: Option<MessageId>,
        /// Its row.
        row: RowId,
        /// Its topic; none for a row that is no message.
        topic: Option<Topic>,
        /// Its key, if it has one.
        key: Option<Key>,
        /// Why.
        reason: DeadReason,
        /// What was said last.
        text: String,
    },
    /// A message whose time had passed was removed without being delivered, as its policy says.
    Dropped {
        /// The message, where its id could be read.
        id: Option<MessageId>,
        /// Its topic.
        topic: Topic,
    },
    /// A destination paused.
    Paused(DestinationName, ErrorKind, String),
    /// A destination goes on.
    Resumed(DestinationName),
    /// The store could not be read or written: the whole story, and the next step at its end, where it is known.
    StoreAway(ErrorKind, String, Option<String>),
    /// The store is back.
    StoreBack,
    /// A settle found that a lane belongs to another relay now; with the term under which it was held.
    Fenced(HeldLane),
    /// A number of a row came with another message than before; the lane is given back under this term, to be read anew.
    NumbersCameAgain(HeldLane),
    /// The sweep found rows that everything else had missed.
    SweepFound(u64),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::{Start, Term};
    use crate::seams::{Attempt, Outcome};

    fn held(lane: u16) -> HeldLane {
        HeldLane { lane: Lane(lane), term: Term(i64::from(lane) + 10), start: Start::Clean }
    }

    #[test]
    fn a_read_knows_the_lease_of_each_of_its_lanes_and_of_no_other() {
        let lanes = vec![held(1), held(3)];
        let read = Read { ticket: Ticket(1), wanted: Wanted::New, lanes, room: Room::NONE, ahead: false };
        assert_eq!((read.held(Lane(1)), read.held(Lane(3))), (Some(held(1)), Some(held(3))));
        assert_eq!(read.held(Lane(2)), None);
    }

    #[test]
    fn a_settle_touches_the_lanes_of_its_rows_once_each_and_no_other() {
        let delivered = |row, lane| Settlement {
            row: RowId(row),
            message: None,
            lane: Lane(lane),
            outcome: Outcome::Delivered,
            attempt: Attempt(1),
            suspicion: 0,
        };
        let rows = vec![delivered(1, 3), delivered(2, 1), delivered(3, 3)];
        let settle = Settle { leases: vec![held(1), held(2), held(3)], rows, ahead: false };
        assert_eq!(settle.touched(), [held(1), held(3)]);
    }
}
