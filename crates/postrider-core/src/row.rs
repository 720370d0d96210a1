//! A message as it stands in the outbox table.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::address::DestinationName;
use crate::lane::Lane;
use crate::message::{Key, Message, MessageId, Timestamp, Topic};
use crate::seams::DeadReason;

/// The number of a row in its table, in the order in which the ids were drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub i64);

/// Hashes row numbers, which the database draws in order: so many neighbours have neighbouring places in a map, and are
/// looked for one after another. With each at a place of its own, finding it was most of what a settled row cost.
///
/// The places of such neighbourhoods are spread by one multiplication; in each of them the rows differ where a map
/// compares first.
const NEIGHBOURS: u32 = 6;

/// See [`NEIGHBOURS`].
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct RowHasher(u64);

impl Hasher for RowHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_i64(i64::from(*byte));
        }
    }

    fn write_i64(&mut self, number: i64) {
        let number = self.0 ^ number.cast_unsigned();
        let neighbour = number & ((1 << NEIGHBOURS) - 1);
        let neighbourhood = (number >> NEIGHBOURS).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
        self.0 = (neighbourhood << NEIGHBOURS | neighbour) ^ neighbour << (u64::BITS - 1 - NEIGHBOURS);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A map by row number.
pub(crate) type RowMap<V> = HashMap<RowId, V, BuildHasherDefault<RowHasher>>;
/// A set of row numbers.
pub(crate) type RowSet = HashSet<RowId, BuildHasherDefault<RowHasher>>;

/// The `state` column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowState {
    /// 0: to be delivered.
    Pending,
    /// 1: given up; its key goes on.
    Dead,
    /// 2: waits behind its key's head.
    SetAside,
    /// 3: given up, and its key waits for an operator.
    Holding,
}

impl RowState {
    /// The number in the table.
    pub const fn code(self) -> i16 {
        match self {
            Self::Pending => 0,
            Self::Dead => 1,
            Self::SetAside => 2,
            Self::Holding => 3,
        }
    }

    /// The state of a number; none for a number that a foreign hand wrote.
    pub const fn from_code(code: i16) -> Option<Self> {
        match code {
            0 => Some(Self::Pending),
            1 => Some(Self::Dead),
            2 => Some(Self::SetAside),
            3 => Some(Self::Holding),
            _ => None,
        }
    }
}

/// When a row may go, by the database's clock at the moment it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Now.
    Now,
    /// Not before this long from now.
    In(Duration),
}

/// When a message is over by its own `expires_at`, by the database's clock at the moment it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expires {
    /// It says nothing: the policy of its topic decides.
    #[default]
    ByPolicy,
    /// This long from now; zero when its time has passed.
    In(Duration),
    /// Never, whatever the policy says: its `expires_at` is [`Timestamp::NEVER`].
    Never,
}

/// How old a message is and when it is over, by the database's clock at the moment it was read: the relay's own clock
/// only measures on from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lifetime {
    /// How long ago it was written; zero where that is not known or lies ahead.
    pub age: Duration,
    /// When it is over by itself.
    pub expires: Expires,
}

impl Lifetime {
    /// The lifetime at this moment of a message with these columns.
    pub fn at(now: Timestamp, created_at: Option<Timestamp>, expires_at: Option<Timestamp>) -> Self {
        Self {
            age: created_at.map_or(Duration::ZERO, |at| now.since(at)),
            expires: match expires_at {
                None => Expires::ByPolicy,
                Some(Timestamp::NEVER) => Expires::Never,
                Some(at) => Expires::In(at.since(now)),
            },
        }
    }
}

/// Whether a row stands behind an earlier exceptional row of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// Nothing stands before it, as far as the table tells.
    Open,
    /// It waits for these destinations and may go to the others.
    For(Vec<DestinationName>),
    /// It waits for these destinations, and more rows stand before it than were looked at: it may have to wait for others.
    ForMany(Vec<DestinationName>),
    /// It waits for every destination.
    ForAll,
}

/// What a row carries.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A message that can be sent.
    Message(Arc<Message>),
    /// Something a foreign hand wrote that is no message: it becomes a dead letter.
    Malformed {
        /// Its message id, where that could be read.
        id: Option<MessageId>,
        /// Its key, where that could be read.
        key: Option<Key>,
        /// What is wrong, in words.
        reason: String,
    },
    /// A message whose payload was not fetched, because a relay died while it owned the row's lane:
    /// [`Source::load`](crate::Source::load) brings it.
    Head(Head),
}

/// What is read of a message before its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Its id, where that could be read.
    pub id: Option<MessageId>,
    /// Its topic.
    pub topic: Topic,
    /// Its key.
    pub key: Option<Key>,
    /// How many relays died while they had it in their hands, as far as is recorded.
    pub suspicion: u16,
    /// Whether the message changes its topic's retry policy, in a way that only the message tells.
    pub has_retry: bool,
}

/// One row of the outbox as a source read it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its number.
    pub id: RowId,
    /// Its lane.
    pub lane: Lane,
    /// What it carries.
    pub content: Content,
    /// What it weighs in the window, in bytes.
    pub weight: usize,
    /// Its state.
    pub state: RowState,
    /// When it may go.
    pub due: Due,
    /// When it is over.
    pub lifetime: Lifetime,
    /// Whether it has been tried before and its next attempt is scheduled (`next_attempt_at` is not null).
    pub retrying: Retrying,
    /// Charged attempts so far, over all destinations.
    pub attempts: u32,
    /// The destinations still owed; none means every matching one.
    pub waiting_for: Option<Vec<DestinationName>>,
    /// Charged attempts per destination.
    pub progress: BTreeMap<DestinationName, u32>,
    /// Whether it stands behind its key's head.
    pub closed: Closed,
    /// Why it was given up, when it is still to be forwarded.
    pub given_up: Option<GivenUp>,
}

/// Why a message was given up that is forwarded: what the wire headers tell of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// Why.
    pub reason: DeadReason,
    /// Charged attempts at the destinations that did not accept it.
    pub attempts: u32,
    /// The last failure: where, and what was said.
    pub error: String,
}

/// Whether a row carries a scheduled next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retrying {
    /// It was never tried, or an operator has not touched it.
    No,
    /// Its `next_attempt_at` is set.
    Yes,
}

impl Row {
    /// The id of the row's message, where it could be read.
    pub fn message_id(&self) -> Option<MessageId> {
        match &self.content {
            Content::Message(message) => Some(message.id),
            Content::Malformed { id, .. } | Content::Head(Head { id, .. }) => *id,
        }
    }

    /// Whether its message is another than this one; where one of the two could not be read, nobody can tell.
    pub(crate) fn has_another_message_than(&self, known: Option<MessageId>) -> bool {
        matches!((known, self.message_id()), (Some(known), Some(id)) if known != id)
    }

    /// The key of the row's message, if it has one.
    pub fn key(&self) -> Option<&Key> {
        match &self.content {
            Content::Message(message) => message.key.as_ref(),
            Content::Malformed { key, .. } => key.as_ref(),
            Content::Head(head) => head.key.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashed(number: i64) -> u64 {
        let mut hasher = RowHasher::default();
        hasher.write_i64(number);
        hasher.finish()
    }

    #[test]
    fn neighbours_have_neighbouring_places_and_differ_where_a_map_compares_first() {
        let low = |number: i64| hashed(number) & 63;
        let top = |number: i64| hashed(number) >> 57;
        assert_eq!((640..704).map(low).collect::<Vec<_>>(), (0..64).collect::<Vec<_>>());
        assert_eq!((640..704).map(top).collect::<HashSet<_>>().len(), 64);
        let places: HashSet<u64> = (0..640_000).step_by(64).map(|number| hashed(number) >> 6 & 0xFFFF_FFFF).collect();
        assert_eq!(places.len(), 10_000, "each neighbourhood has a place of its own");
    }

    #[test]
    fn a_number_is_hashed_by_one_multiplication() {
        let numbers = [0, 1, 63, 64, 1_000_000, -1];
        let hashes = [
            0,
            0x0200_0000_0000_0001,
            0x7e00_0000_0000_003f,
            0xd29f_0567_8dde_6e40,
            0x4bd7_6f71_fd1e_b680,
            0x5360_faed_7221_91bf,
        ];
        assert_eq!(numbers.map(hashed), hashes);
        let mut hasher = RowHasher::default();
        hasher.write(&[1, 200]);
        assert_eq!(hasher.finish(), 0x65dd_0fee_d39b_4b09, "one byte after the other");
        let mut hasher = RowHasher::default();
        hasher.write(&[1, 201]);
        assert_eq!(hasher.finish(), 0x67dd_0fee_d39b_4b08, "what both have in common goes out");
    }

    #[test]
    fn a_state_is_known_by_its_number_in_the_table() {
        let states = [RowState::Pending, RowState::Dead, RowState::SetAside, RowState::Holding];
        assert_eq!(states.map(RowState::code), [0, 1, 2, 3]);
        assert_eq!([0, 1, 2, 3].map(RowState::from_code), states.map(Some));
        assert_eq!([-1, 4].map(RowState::from_code), [None, None]);
    }

    #[test]
    fn a_lifetime_is_measured_from_the_database_s_present() {
        let (now, second) = (Timestamp(10_000_000), Duration::from_secs(1));
        let at = |created, expires| Lifetime::at(now, created, expires);
        assert_eq!(at(None, None), Lifetime { age: Duration::ZERO, expires: Expires::ByPolicy });
        let both = at(Some(Timestamp(8_000_000)), Some(Timestamp(13_000_000)));
        assert_eq!(both, Lifetime { age: 2 * second, expires: Expires::In(3 * second) });
        assert_eq!(at(None, Some(Timestamp(9_000_000))).expires, Expires::In(Duration::ZERO));
        assert_eq!(at(None, Some(Timestamp::NEVER)).expires, Expires::Never);
    }
}
