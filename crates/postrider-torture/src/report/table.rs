//! The table.

use std::fmt::Write as _;

use super::Report;

/// Draws it.
pub fn draw(report: &Report<'_>) -> String {
    let mut text = String::new();
    let circumstances = report.circumstances;
    let _ = writeln!(
        text,
        "\ncommit {}{} ({}), {}, seed {}, {} min, {} relays; {}\n",
        circumstances.commit,
        circumstances.beside.as_ref().map(|commit| format!(" beside {commit}")).unwrap_or_default(),
        circumstances.build,
        circumstances.versions,
        circumstances.seed,
        circumstances.minutes,
        circumstances.relays,
        circumstances.machine
    );
    let _ = writeln!(
        text,
        "messages {}, transactions {} committed, {} rolled back, {} unknown; delivered {}, repeats {}, dead {}",
        report.messages,
        report.transactions,
        report.rolled_back,
        report.unknown,
        report.delivered,
        report.repeats,
        report.dead
    );
    let _ = writeln!(
        text,
        "lanes changed hands {} times; takeover after a kill p50 {} ms, max {} ms ({}); lag in quiet p50 {} ms, p99 {} \
         ms; longest lag {} ms\n",
        report.lanes_changed_hands,
        report.takeover_p50_ms,
        report.takeover_max_ms,
        report.takeovers,
        report.lag_quiet_p50_ms,
        report.lag_quiet_p99_ms,
        report.lag_max_ms
    );
    let _ = writeln!(text, "{:<20} {:>8} {:>10}", "fault", "happened", "in flight");
    for (name, count) in &report.faults_by_kind {
        let _ = writeln!(text, "{name:<20} {:>8} {:>10}", count.happened, count.in_flight);
    }
    let _ = writeln!(text, "{:<20} {:>8}\n", "all", report.faults);
    let _ = writeln!(text, "{:<4} {:>7}  {:<76} measured", "id", "broken", "what must hold");
    for finding in report.findings {
        let _ = writeln!(text, "{:<4} {:>7}  {:<76} {}", finding.id, finding.broken, finding.says, finding.measured);
    }
    for what in &circumstances.not_run {
        let _ = writeln!(text, "not run: {what}");
    }
    for why in report.proves_little_because {
        let _ = writeln!(text, "inconclusive: {why}");
    }
    text
}
