//! Small sets of destinations.

use super::MAX_DESTINATIONS;

/// The place of a destination in [`Settings::destinations`](super::Settings::destinations).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationIndex(usize);

impl DestinationIndex {
    /// A place; one past the most destinations is the last.
    pub const fn new(index: usize) -> Self {
        Self(if index < MAX_DESTINATIONS { index } else { MAX_DESTINATIONS - 1 })
    }

    /// The place as a number.
    pub const fn get(self) -> usize {
        self.0
    }
}

/// A set of destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Destinations(u64);

impl Destinations {
    pub(super) const NONE: Self = Self(0);

    pub(super) const fn one(index: DestinationIndex) -> Self {
        Self(1 << index.0)
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) const fn contains(self, index: DestinationIndex) -> bool {
        self.0 & (1 << index.0) != 0
    }

    pub(super) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) const fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = DestinationIndex> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let index = usize::try_from(rest.trailing_zeros()).unwrap_or(MAX_DESTINATIONS);
            rest &= rest.wrapping_sub(1);
            (index < MAX_DESTINATIONS).then_some(DestinationIndex(index))
        })
    }
}

impl FromIterator<DestinationIndex> for Destinations {
    fn from_iter<I: IntoIterator<Item = DestinationIndex>>(indexes: I) -> Self {
        indexes.into_iter().fold(Self::NONE, |set, index| set.with(Self::one(index)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(places: &[usize]) -> Destinations {
        places.iter().copied().map(DestinationIndex::new).collect()
    }

    #[test]
    fn what_two_sets_have_in_common_is_in_both() {
        assert_eq!(set(&[0, 2, 63]).both(set(&[2, 3, 63])), set(&[2, 63]));
        assert_eq!(set(&[1]).both(set(&[4])), Destinations::NONE);
    }

    #[test]
    fn each_of_a_set_comes_once_in_order_and_then_no_more() {
        for places in [&[][..], &[0], &[5, 6], &[0, 2, 63], &(0..MAX_DESTINATIONS).collect::<Vec<_>>()] {
            let found: Vec<usize> = set(places).iter().map(DestinationIndex::get).take(2 * MAX_DESTINATIONS).collect();
            assert_eq!(found, places);
        }
    }
}
