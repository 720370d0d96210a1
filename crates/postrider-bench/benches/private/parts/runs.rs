//! Runs of ours and of the limit, taken in turns so that what the machine does meanwhile falls on both.

use postrider_bench::drain::Drained;
use postrider_bench::figure::Figure;

/// The unit of their rates.
pub const RATE: &str = "messages/s";

/// Backlogs that were drained.
#[derive(Default)]
pub struct Runs {
    pub ours: Vec<Drained>,
    pub limit: Vec<Drained>,
}

impl Runs {
    /// Our rates with their verdict, beside those of the limit where it was measured.
    pub fn figure(&self, part: &str, what: &str, beside: &str) -> Figure {
        let verdicts: Vec<_> = self.ours.iter().map(|run| run.verdict).collect();
        let figure = Figure::new(part, what, RATE, rates(&self.ours)).verdict(&verdicts);
        if self.limit.is_empty() { figure } else { figure.beside(beside, rates(&self.limit)) }
    }
}

/// The rate of each.
pub fn rates(runs: &[Drained]) -> Vec<f64> {
    runs.iter().map(Drained::rate).collect()
}
