//! Finding rows.

use std::collections::BTreeMap;
use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::Result;
use crate::lane::{HeldLane, Lane};
use crate::message::Key;
use crate::row::{Row, RowId};

/// How much a read may bring: what is free in the window, or what is archived at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Rows.
    pub rows: usize,
    /// Bytes, as [rows](crate::Row::weight) and [what is past its retention](crate::PastRow::weight) weigh. The first row of
    /// a page comes whatever it weighs, so that a large one travels alone.
    pub bytes: usize,
}

impl Room {
    /// No room.
    pub const NONE: Self = Self { rows: 0, bytes: 0 };
}

/// The answer to a read.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The rows, in the order that the call promises.
    pub rows: Vec<Row>,
    /// Whether there is more to read at once.
    pub more: bool,
    /// Whether the database is not the one it was (restarted after a crash, failed over): the relay must drop all
    /// trust in its leases, join again and read every lane anew.
    pub discontinued: bool,
    /// How far lanes are [swept](Source::sweep), or read, where there is more and more is known than the rows tell: of the
    /// rows that were there when the reading of the lane began, none with this id or a lower one is still to come; the
    /// highest id where all came. Without it, what waits in the table of a lane with few new rows waits until the whole backlog of the others is read.
    pub reached: BTreeMap<Lane, RowId>,
}

impl Page {
    /// Nothing, and nothing more.
    pub const EMPTY: Self = Self { rows: Vec::new(), more: false, discontinued: false, reached: BTreeMap::new() };

    /// What the rows weigh together.
    pub fn weight(&self) -> usize {
        self.rows.iter().map(|row| row.weight).sum()
    }
}

/// The reader of an outbox: where each lane has been read up to lives in it, in memory only.
///
/// Where the outbox has one lane, all its messages have one order, with a key and without: each row then stands behind
/// every earlier exceptional row, the walk gives [`Key::everything`] where there is any, and [`key`](Self::key) finds
/// the exceptional rows of all keys and of none by it, and by another key nothing.
///
/// Rows of a lane whose [`start`](HeldLane::start) is careful come as [heads](crate::Content::Head), whichever call finds
/// them: nothing of them is fetched or decoded but what a decision needs, and they weigh what they would weigh whole.
///
/// A read may bring a row again (after a reconnect, a sweep, a takeover); the core filters by what is in its window
/// or was settled since the read was sent. A read never skips a committed row for good.
#[async_trait]
pub trait Source: Send + Debug {
    /// New rows of the lanes held, of each by ascending id. A lane that was not in the previous call is read from
    /// its beginning, by ascending id over all pages but for rows committed meanwhile; one that is missing is forgotten;
    /// one with another term is new.
    ///
    /// Brings pending rows whose retry is not scheduled. Delayed ones may come, marked by their `due`.
    ///
    /// A reading of several pages ends: what is committed after its first page may be left to the next one. When it has
    /// ended (`more` is false), everything has come that had been committed when its first page was asked for.
    async fn read(&mut self, lanes: &[HeldLane], room: Room) -> Result<Page>;

    /// Pending rows whose scheduled attempt or delay has come, except those in `window`, by due time and id.
    async fn due(&mut self, lanes: &[HeldLane], room: Room, window: &[RowId]) -> Result<Page>;

    /// The exceptional rows of one key (set aside, holding, or with a scheduled attempt) by ascending id.
    async fn key(&mut self, lane: HeldLane, key: &Key, room: Room) -> Result<Page>;

    /// The lowest exceptional row of each key of a lane, for keys after `after`, by key; at most `limit` keys.
    /// Rows come without payload weight limits because few of them are kept: only their key and state are used.
    async fn exceptional_keys(&mut self, lane: Lane, after: Option<&Key>, limit: usize) -> Result<Vec<Key>>;

    /// A step of a sweep: ordinary pending rows of these lanes that were visible long ago, by ascending id from `after` on.
    /// It must find nothing but rows that are in the window.
    ///
    /// A step is short, however many rows lie there that are no finds: [`reached`](Page::reached) says how far it came, the
    /// same row beyond `after` for every lane that was swept, and `RowId(i64::MAX)` at the end of the table. Only lanes that
    /// are read up to date are swept: the others are not among them, and where none is, nothing was looked at.
    async fn sweep(&mut self, lanes: &[HeldLane], after: RowId, room: Room) -> Result<Page>;

    /// The rows of these ids whole, whatever the start of their lanes, by ascending id; those that are neither pending
    /// nor set aside any more are missing. Where they do not all fit, the rest is asked for again.
    async fn load(&mut self, rows: &[RowId], room: Room) -> Result<Page>;
}
