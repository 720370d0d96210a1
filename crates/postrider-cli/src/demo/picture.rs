//! What is shown while the demo runs.

use std::time::Duration;

use postrider::RelayState;

use super::consumer::Seen;
use super::numbers::{grouped, latency, share};
use super::relays::Standing;

/// How wide a bar is, in characters.
const BAR: usize = 36;
/// How many samples of the rate are shown.
const SAMPLES: usize = 36;

/// One moment of the demo.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    /// Since the start.
    pub(super) elapsed: Duration,
    /// How long orders are written.
    pub(super) length: Duration,
    /// About how many orders there will be at the end.
    pub(super) expected: u64,
    /// Orders committed.
    pub(super) committed: u64,
    /// Messages rolled back.
    pub(super) rolled_back: u64,
    /// The longest transaction of the order service.
    pub(super) slowest: Duration,
    /// What the consumer saw.
    pub(super) seen: Seen,
    /// Messages in the outbox that are to be delivered.
    pub(super) backlog: u64,
    /// Of these, those that were tried before.
    pub(super) retrying: u64,
    /// Of these, those that wait behind their customer's first one.
    pub(super) set_aside: u64,
    /// Dead letters.
    pub(super) dead: u64,
    /// Retries so far.
    pub(super) retried: u64,
    /// The relays that run.
    pub(super) relays: Vec<Standing>,
    /// Orders taken in each half second so far.
    pub(super) rates: Vec<u64>,
}

/// Colours, where there are any.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ink(pub(super) bool);

impl Ink {
    fn put(self, code: u8, text: &str) -> String {
        if self.0 { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.put(1, text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.put(2, text)
    }

    pub(super) fn red(self, text: &str) -> String {
        self.put(31, text)
    }

    pub(super) fn green(self, text: &str) -> String {
        self.put(32, text)
    }

    pub(super) fn yellow(self, text: &str) -> String {
        self.put(33, text)
    }

    pub(super) fn blue(self, text: &str) -> String {
        self.put(34, text)
    }
}

impl Moment {
    /// One line, for logs and pipes.
    pub(super) fn line(&self) -> String {
        format!(
            "{} committed {}, delivered {}, backlog {}, retrying {}, set aside {}, retried {}, dead {}, repeats {}; {}",
            clock(self.elapsed),
            grouped(self.committed),
            grouped(self.seen.taken),
            grouped(self.backlog),
            self.retrying,
            self.set_aside,
            grouped(self.retried),
            self.dead,
            self.seen.repeats,
            self.relays(Ink(false)),
        )
    }

    /// The picture.
    pub(super) fn lines(&self, ink: Ink) -> Vec<String> {
        let row = |name: &str, count: u64, rest: String| format!("  {name:<12}{:>9}  {rest}", grouped(count));
        let bar = |count| bar(share(count, self.expected));
        let rate: u64 = self.rates.iter().rev().take(2).sum();
        let backlog =
            if self.backlog > self.expected / 50 { ink.yellow(&bar(self.backlog)) } else { bar(self.backlog) };
        vec![
            String::new(),
            row("committed", self.committed, ink.blue(&bar(self.committed))),
            row("delivered", self.seen.taken, ink.green(&bar(self.seen.taken))),
            row("backlog", self.backlog, backlog),
            row("retrying", self.retrying, format!("{} set aside behind them", self.set_aside)),
            row("retried", self.retried, format!("consumer: {}", self.refusals())),
            row("dead", self.dead, if self.dead > 0 { ink.red(&"■".repeat(cells(self.dead))) } else { String::new() }),
            row("rolled back", self.rolled_back, format!("slowest transaction {}", latency(self.slowest))),
            row(
                "a second",
                rate,
                format!(
                    "{}  from commit {}, p99 {}",
                    sparkline(&self.rates),
                    latency(self.seen.median),
                    latency(self.seen.p99)
                ),
            ),
            format!("  {}", self.relays(ink)),
            format!("  {}", self.progress(ink)),
        ]
    }

    fn progress(&self, ink: Ink) -> String {
        if self.elapsed < self.length {
            let left = self.length - self.elapsed;
            ink.dim(&format!(
                "{} of {} s; writing for {:.0} s more",
                clock(self.elapsed),
                self.length.as_secs(),
                left.as_secs_f64()
            ))
        } else {
            ink.dim(&format!("{} writing has ended; waiting until everything is delivered", clock(self.elapsed)))
        }
    }

    fn refusals(&self) -> String {
        let mut parts: Vec<String> =
            self.seen.refused.iter().map(|(status, count)| format!("{status} ×{}", grouped(*count))).collect();
        parts.push(format!("answers lost {}", self.seen.lost_answers));
        parts.push(format!("repeats {}", self.seen.repeats));
        parts.join(", ")
    }

    fn relays(&self, ink: Ink) -> String {
        if self.relays.is_empty() {
            return ink.red("no relay");
        }
        self.relays.iter().map(|relay| standing(relay, ink)).collect::<Vec<_>>().join("; ")
    }
}

fn standing(relay: &Standing, ink: Ink) -> String {
    let Standing { name, snapshot } = relay;
    let paused = snapshot.destinations.iter().find_map(|destination| destination.paused.as_ref());
    let doing = match (snapshot.state, paused) {
        (RelayState::Relaying, Some((kind, _, since))) => {
            ink.yellow(&format!("consumer {kind}, paused {}", latency(*since)))
        }
        (RelayState::Relaying, None) => {
            ink.green(&format!("relaying {} lanes, {} in memory", snapshot.lanes.len(), snapshot.window_rows))
        }
        (RelayState::Standby, _) => ink.yellow("standby, waits for the lanes"),
        (state, _) => ink.yellow(state.as_str()),
    };
    format!("{} {doing}", ink.bold(name))
}

/// The time since the start, as events and lines begin with it.
pub(super) fn clock(elapsed: Duration) -> String {
    format!("{:>5.1} s", elapsed.as_secs_f64())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a short bar")]
fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share * 8.0 * BAR as f64).ceil() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

fn cells(count: u64) -> usize {
    usize::try_from(count).map_or(BAR, |count| count.min(BAR))
}

/// The latest samples, each relative to the highest of them.
fn sparkline(samples: &[u64]) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &samples[samples.len().saturating_sub(SAMPLES)..];
    let highest = shown.iter().max().copied().unwrap_or(0).max(1);
    let step = |sample: u64| usize::try_from(sample.saturating_mul(7).div_ceil(highest)).unwrap_or(7).min(7);
    shown.iter().map(|sample| STEPS[step(*sample)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_grow_by_eighths_and_something_is_never_nothing() {
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(0.000_1), "▏");
        assert_eq!(bar(1.0), "█".repeat(BAR));
        assert_eq!(bar(0.5).chars().count(), BAR / 2);
    }

    #[test]
    fn a_sparkline_has_its_highest_and_lowest_step() {
        assert_eq!(sparkline(&[0, 50, 100]), "▁▅█");
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&[0; 100]).chars().count(), SAMPLES);
    }
}
