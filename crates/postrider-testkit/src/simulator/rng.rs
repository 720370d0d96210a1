//! Randomness from a seed.

use std::ops::Range;

/// A seeded generator (SplitMix64): the same seed, the same numbers.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The numbers of a seed.
    pub fn seeded(seed: u64) -> Self {
        let mut rng = Self(seed.wrapping_mul(0x1234_5678_9ABC_DEF1) ^ 0x5851_F42D_4C95_7F2D);
        rng.next();
        rng
    }

    /// Another generator, which draws nothing from this one later on.
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// Any number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// At least 0, less than `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// At least the range's start, less than its end.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end.saturating_sub(range.start))
    }

    /// As [`below`](Self::below), for places in lists.
    pub fn place(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).unwrap_or(0)
    }

    /// True in so many of a thousand cases.
    pub fn chance(&mut self, of_a_thousand: u64) -> bool {
        self.below(1_000) < of_a_thousand
    }

    /// One of these, of which there must be any.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.place(from.len())]
    }
}
