//! What arrived when, and how long after it was written.

use std::collections::HashMap;
use std::fmt;

use postrider_testkit::verdict::{Committed, Verdict, judge};

use crate::application::Written;

/// A message that arrived.
#[derive(Debug, Clone)]
pub struct Arrival {
    pub id: String,
    /// Milliseconds since 1970.
    pub at: u64,
}

/// A stretch of time.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    pub from: u64,
    pub to: u64,
}

impl Span {
    fn has(&self, at: u64) -> bool {
        (self.from..self.to).contains(&at)
    }

    pub fn seconds(&self) -> f64 {
        f64::from(u32::try_from(self.to - self.from).unwrap()) / 1_000.0
    }
}

/// What a service got in a stretch of time.
#[derive(Debug)]
pub struct Pace {
    seconds: f64,
    /// Messages that arrived a second.
    pub rate: f64,
    /// The same in the second with the fewest.
    slowest: usize,
    /// Milliseconds from the commit to the arrival of those that were written in this time: the median, the 99th of a
    /// hundred, and the longest.
    pub lag: [u64; 3],
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, rate, slowest, lag: [median, most, longest] } = self;
        write!(
            f,
            "{rate:.0}/s over {seconds:.0} s, {slowest} in the slowest second; from commit to arrival p50 {median} ms, p99 \
             {most} ms, at most {longest} ms"
        )
    }
}

/// The pace at which messages arrived.
pub fn pace(written: &[Written], arrivals: &[Arrival], span: Span) -> Pace {
    let mut each_second: Vec<usize> = vec![0; usize::try_from((span.to - span.from) / 1_000).unwrap().max(1)];
    let mut count = 0;
    for arrival in arrivals.iter().filter(|arrival| span.has(arrival.at)) {
        count += 1;
        if let Some(second) = each_second.get_mut(usize::try_from((arrival.at - span.from) / 1_000).unwrap()) {
            *second += 1;
        }
    }
    let first: HashMap<&str, u64> = arrivals.iter().rev().map(|arrival| (arrival.id.as_str(), arrival.at)).collect();
    let of_span = written.iter().filter(|one| span.has(one.at));
    let mut lags: Vec<u64> =
        of_span.filter_map(|one| Some(first.get(one.id.as_str())?.saturating_sub(one.at))).collect();
    lags.sort_unstable();
    let part = |percent: usize| lags.get((lags.len() * percent / 100).min(lags.len().saturating_sub(1)));
    let lag = [50, 99, 100].map(|percent| part(percent).copied().unwrap_or(0));
    let rate = f64::from(u32::try_from(count).unwrap()) / span.seconds();
    Pace { seconds: span.seconds(), rate, slowest: each_second.into_iter().min().unwrap_or(0), lag }
}

/// What was written against what arrived.
pub fn verdict(written: &[Written], arrivals: &[Arrival]) -> Verdict {
    let committed: Vec<Committed> =
        written.iter().map(|one| Committed { id: one.id.clone(), key: one.key.clone() }).collect();
    judge(&committed, arrivals.iter().map(|arrival| arrival.id.as_str()))
}

#[test]
fn the_pace_is_that_of_its_time_and_of_no_other() {
    let one = |id: &str, at| (Written { id: id.to_owned(), key: String::new(), at }, at);
    let (written, times): (Vec<_>, Vec<_>) = [one("a", 900), one("b", 1_000), one("c", 2_500)].into_iter().unzip();
    let arrival = |id: &str, at| Arrival { id: id.to_owned(), at };
    let arrivals = [arrival("a", times[0] + 200), arrival("b", 1_004), arrival("b", 1_500), arrival("c", 2_510)];
    let pace = pace(&written, &arrivals, Span { from: 1_000, to: 3_000 });
    assert!((pace.rate - 2.0).abs() < f64::EPSILON, "{pace}");
    assert_eq!((pace.slowest, pace.lag), (1, [10, 10, 10]));
}
