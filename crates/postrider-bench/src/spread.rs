//! Several runs of one thing: their median and how far they lie apart.

use serde::{Deserialize, Serialize};

/// The figures of several runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one; of an even number, the lower middle.
    pub median: f64,
    /// The lowest.
    pub least: f64,
    /// The highest.
    pub most: f64,
    /// Every one, in the order of the runs.
    pub runs: Vec<f64>,
}

impl Spread {
    /// The spread of some runs; all zero without any.
    pub fn of(runs: Vec<f64>) -> Self {
        let mut sorted = runs.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
        let last = sorted.len().saturating_sub(1);
        Self { median: at(last / 2), least: at(0), most: at(last), runs }
    }

    /// The ratio of the medians.
    pub fn over(&self, other: &Self) -> f64 {
        if other.median > 0.0 { self.median / other.median } else { 0.0 }
    }
}

/// The value below which this share of the values lies; sorts them. Zero without any.
pub fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    // A share is between 0 and 1, so the product is a place.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let place = (share * count as f64).ceil() as usize;
    values.get(place.saturating_sub(1).min(count.saturating_sub(1))).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        let spread = Spread::of(vec![5.0, 1.0, 3.0]);
        assert_eq!((spread.median, spread.least, spread.most), (3.0, 1.0, 5.0));
        assert_eq!(spread.over(&Spread::of(vec![6.0])), 0.5);
        assert_eq!(Spread::of(Vec::new()).median, 0.0);
    }

    #[test]
    fn a_percentile_is_a_value_that_occurred() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut values, 0.5), 50.0);
        assert_eq!(percentile(&mut values, 0.99), 99.0);
        assert_eq!(percentile(&mut values, 1.0), 100.0);
        assert_eq!(percentile(&mut [], 0.5), 0.0);
    }
}
