//! Figures as they are kept: each with its spread, its limit, and a verdict beside it.

use serde::{Deserialize, Serialize};

use crate::spread::Spread;
use crate::verdict::Verdict;

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The part of the measurement that it belongs to, such as `drain`.
    pub part: String,
    /// What was measured, in a few words.
    pub what: String,
    /// Its unit, such as `messages/s`.
    pub unit: String,
    /// The runs.
    pub ours: Spread,
    /// What it is compared with; none where there is nothing to compare it with.
    pub beside: Option<Beside>,
    /// What is demanded of it, if anything is.
    pub demand: Option<Demand>,
    /// What arrived meanwhile, summed over the runs; none where nothing is delivered.
    pub verdict: Option<Verdict>,
}

/// What a figure is compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// What that is, in a few words.
    pub what: String,
    /// Its runs.
    pub runs: Spread,
}

/// What a figure must keep to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Demand {
    /// The median itself, at least.
    AtLeast(f64),
    /// The median itself, at most.
    AtMost(f64),
    /// The ratio to what it is compared with, at least.
    RatioAtLeast(f64),
    /// The ratio to what it is compared with, at most.
    RatioAtMost(f64),
}

impl Figure {
    /// A figure of some runs.
    pub fn new(part: &str, what: impl Into<String>, unit: &str, runs: Vec<f64>) -> Self {
        Self {
            part: part.to_owned(),
            what: what.into(),
            unit: unit.to_owned(),
            ours: Spread::of(runs),
            beside: None,
            demand: None,
            verdict: None,
        }
    }

    /// The same figure, compared with something.
    #[must_use]
    pub fn beside(mut self, what: impl Into<String>, runs: Vec<f64>) -> Self {
        self.beside = Some(Beside { what: what.into(), runs: Spread::of(runs) });
        self
    }

    /// The same figure with a demand.
    #[must_use]
    pub fn demand(mut self, demand: Demand) -> Self {
        self.demand = Some(demand);
        self
    }

    /// The same figure with what arrived in each run.
    #[must_use]
    pub fn verdict(mut self, verdicts: &[Verdict]) -> Self {
        self.verdict = verdicts.iter().copied().reduce(|sum, verdict| sum.with(&verdict));
        self
    }

    /// The ratio of the medians.
    pub fn ratio(&self) -> Option<f64> {
        self.beside.as_ref().map(|beside| self.ours.over(&beside.runs))
    }

    /// Whether it keeps to its demand and its verdict holds; a figure without either keeps to everything.
    pub fn is_well(&self) -> bool {
        let ratio = self.ratio().unwrap_or(f64::NAN);
        let kept = match self.demand {
            None => true,
            Some(Demand::AtLeast(least)) => self.ours.median >= least,
            Some(Demand::AtMost(most)) => self.ours.median <= most,
            Some(Demand::RatioAtLeast(least)) => ratio >= least,
            Some(Demand::RatioAtMost(most)) => ratio <= most,
        };
        kept && self.verdict.is_none_or(|verdict| verdict.holds())
    }

    /// The demand in words; empty without one.
    pub fn demanded(&self) -> String {
        match self.demand {
            None => String::new(),
            Some(Demand::AtLeast(least)) => format!("at least {}", number(least)),
            Some(Demand::AtMost(most)) => format!("at most {}", number(most)),
            Some(Demand::RatioAtLeast(least)) => format!("ratio at least {}", number(least)),
            Some(Demand::RatioAtMost(most)) => format!("ratio at most {}", number(most)),
        }
    }
}

/// A number with three significant digits, thousands parted by commas.
pub fn number(value: f64) -> String {
    if value.abs() < 100.0 {
        let digits = if value.abs() < 10.0 { 2 } else { 1 };
        let text = format!("{value:.digits$}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let whole = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown =
            [(0.0, "0"), (1.0, "1"), (1.256, "1.26"), (42.06, "42.1"), (999.6, "1,000"), (1_234_567.8, "1,234,568")];
        for (value, text) in shown {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_demand_is_judged_by_the_median_or_the_ratio() {
        let figure = || Figure::new("drain", "x", "messages/s", vec![50.0, 60.0, 90.0]).beside("limit", vec![100.0]);
        assert!(figure().demand(Demand::RatioAtLeast(0.6)).is_well());
        assert!(!figure().demand(Demand::RatioAtLeast(0.61)).is_well());
        assert!(figure().demand(Demand::AtMost(60.0)).is_well());
        assert!(!figure().demand(Demand::AtLeast(61.0)).is_well());
        let lost = Verdict { written: 1, lost: 1, ..Verdict::default() };
        assert!(!figure().verdict(&[lost]).is_well(), "a rate that loses messages is no rate");
    }

    #[test]
    fn a_ratio_that_is_demanded_and_not_there_is_not_well() {
        assert!(!Figure::new("drain", "x", "messages/s", vec![1.0]).demand(Demand::RatioAtLeast(0.1)).is_well());
    }
}
