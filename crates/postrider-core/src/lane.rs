//! Lanes, leases and terms: the only coordination between relays.

use std::fmt;

use uuid::Uuid;

/// A share of the keys, leased to one relay at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u16);

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of lanes of an outbox, fixed when it is created: 1 to 4,096.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneCount(u16);

impl LaneCount {
    /// One lane: one relay at a time, the others stand by.
    pub const ONE: Self = Self(1);

    /// The largest number of lanes.
    pub const MAX: u16 = 4096;

    /// A number of lanes, if it is within 1 to 4,096.
    pub const fn new(lanes: u16) -> Option<Self> {
        if lanes >= 1 && lanes <= Self::MAX { Some(Self(lanes)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Every lane, in order.
    pub fn all(self) -> impl Iterator<Item = Lane> {
        (0..self.0).map(Lane)
    }
}

/// The fencing number of a lane, issued by the database at every change of owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub i64);

/// One run of one relay: a fresh id per start, never the configured name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayId(pub Uuid);

impl fmt::Display for RelayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a message may be in a lane on which relays die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Start {
    /// The lane was released, or never owned.
    Clean,
    /// An owner did not release the lane, and none since then has looked for the message that may have killed it.
    Careful,
}

/// A lane that this relay owns, with the term under which it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeldLane {
    /// The lane.
    pub lane: Lane,
    /// The term issued at the acquisition.
    pub term: Term,
    /// How the lane was left.
    pub start: Start,
}

/// The lane of a key, or of a message id where there is no key, for databases that do not compute it themselves.
///
/// CRC-32 (IEEE) of the text, modulo the number of lanes: what `crc32()` of MySQL gives as well. PostgreSQL computes
/// its lanes in a generated column with a function of its own, and nobody else computes them.
pub fn lane_of(key_or_id: &str, lanes: LaneCount) -> Lane {
    let remainder = crc32fast::hash(key_or_id.as_bytes()) % u32::from(lanes.get());
    Lane(u16::try_from(remainder).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_numbered_from_nought_and_written_as_numbers() {
        let lanes: Vec<String> = LaneCount::new(3).unwrap().all().map(|lane| lane.to_string()).collect();
        assert_eq!(lanes, ["0", "1", "2"]);
        let counts = [0, 1, LaneCount::MAX, LaneCount::MAX + 1].map(|lanes| LaneCount::new(lanes).map(LaneCount::get));
        assert_eq!(counts, [None, Some(1), Some(LaneCount::MAX), None]);
    }

    #[test]
    fn a_relay_is_written_as_its_id() {
        assert_eq!(RelayId(Uuid::from_u128(7)).to_string(), "00000000-0000-0000-0000-000000000007");
    }

    #[test]
    fn a_key_has_the_lane_that_crc32_of_mysql_gives_it() {
        let lanes = LaneCount::new(64).unwrap();
        // The check value of CRC-32 (IEEE): 0xCBF43926.
        assert_eq!(lane_of("123456789", lanes), Lane(0x26));
        assert_eq!(lane_of("123456789", LaneCount::ONE), Lane(0));
    }
}
