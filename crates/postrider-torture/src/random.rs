//! A small generator, the same on every machine: a seed fixes the plan of a run.

use std::time::Duration;

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The generator of one part of a run.
    pub fn new(seed: u64, part: u64) -> Self {
        let mut random = Self(seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.bits();
        random
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below a bound; 0 for the bound 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.bits() % bound }
    }

    /// From 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what a fraction has")]
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether something of this probability happens.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    /// A time between two.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + (most.saturating_sub(least)).mul_f64(self.fraction())
    }

    /// A number below a bound, small ones much more often.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few hundred at most"
    )]
    pub fn skewed(&mut self, bound: u64) -> u64 {
        let part = (bound as f64).powf(self.fraction()) - 1.0;
        (part as u64).min(bound.saturating_sub(1))
    }

    /// Puts a list into another order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).unwrap_or(0);
            list.swap(last, other);
        }
    }
}
