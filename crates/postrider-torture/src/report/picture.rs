//! One picture: faults, backlog and latency over time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::lags;
use crate::judge::{Case, percentile};
use crate::moment::Moment;

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 20.0;
const ROW: f64 = 14.0;
const PLOT: f64 = 130.0;
const GAP: f64 = 34.0;

const STYLE: &str = "text{font:11px sans-serif;fill:#333}.q{fill:#eef6ee}.f{fill:#c0392b}.l{fill:none;stroke:#1f5fa8;\
    stroke-width:1.2}.m{fill:none;stroke:#d08a1d;stroke-width:1.2}.a{stroke:#bbb;stroke-width:1}";

/// Draws it, as SVG.
pub fn draw(case: &Case<'_>) -> String {
    let mut rows: BTreeMap<&str, Vec<(Moment, Moment)>> = BTreeMap::new();
    for fault in &case.record.faults {
        rows.entry(fault.kind.name()).or_default().push((fault.from, fault.until.min(case.ended)));
    }
    #[expect(clippy::cast_precision_loss, reason = "a few dozen rows")]
    let bars = rows.len() as f64 * ROW;
    let height = bars + 3.0 * GAP + 2.0 * PLOT;
    let scale = Scale { end: case.ended };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\"><style>{STYLE}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{height:.0}\" fill=\"#fff\"/>\n"
    );
    for (from, until) in case.quiet {
        let (x, end) = (scale.x(*from), scale.x(*until));
        let _ =
            writeln!(svg, "<rect class=\"q\" x=\"{x:.1}\" y=\"0\" width=\"{:.1}\" height=\"{height:.0}\"/>", end - x);
    }
    let mut y = 16.0;
    for (name, spans) in &rows {
        let _ = writeln!(svg, "<text x=\"6\" y=\"{:.1}\">{name}</text>", y + 9.0);
        for (from, until) in spans {
            let (x, end) = (scale.x(*from), scale.x(*until));
            let width = (end - x).max(2.0);
            let _ = writeln!(svg, "<rect class=\"f\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"9\"/>");
        }
        y += ROW;
    }
    y += GAP;
    #[expect(clippy::cast_precision_loss, reason = "a picture")]
    let backlog: Vec<(Moment, f64)> =
        case.record.samples.iter().map(|sample| (sample.at, sample.backlog as f64)).collect();
    plot(&mut svg, &scale, y, "backlog, messages", &[("l", backlog)]);
    y += PLOT + GAP;
    let (half, most) = latency(case);
    plot(&mut svg, &scale, y, "commit to broker, ms: p50 and p99 of each second", &[("l", half), ("m", most)]);
    for minute in 0..=(case.ended.0 / 60_000_000) {
        let x = scale.x(Moment(minute * 60_000_000));
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\">{minute} min</text>", height - 4.0);
    }
    svg.push_str("</svg>\n");
    svg
}

struct Scale {
    end: Moment,
}

impl Scale {
    fn x(&self, at: Moment) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (at.seconds() / self.end.seconds().max(1.0)).min(1.0)
    }
}

type Line = Vec<(Moment, f64)>;

/// Lines on a scale that shows small and large together.
fn plot(svg: &mut String, scale: &Scale, top: f64, title: &str, lines: &[(&str, Line)]) {
    let most = lines.iter().flat_map(|(_, line)| line.iter().map(|(_, value)| *value)).fold(1.0, f64::max);
    let height = |value: f64| top + PLOT - PLOT * (value + 1.0).ln() / (most + 1.0).ln();
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{:.1}\">{title} (logarithmic, highest {most:.0})</text>", top - 6.0);
    let mut mark = 1.0;
    while mark <= most {
        let y = height(mark);
        let right = WIDTH - RIGHT;
        let _ = writeln!(svg, "<line class=\"a\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>");
        let _ =
            writeln!(svg, "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{mark:.0}</text>", LEFT - 6.0, y + 4.0);
        mark *= 10.0;
    }
    for (class, line) in lines {
        let points: Vec<String> =
            line.iter().map(|(at, value)| format!("{:.1},{:.1}", scale.x(*at), height(*value))).collect();
        let _ = writeln!(svg, "<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }
}

fn latency(case: &Case<'_>) -> (Line, Line) {
    let mut seconds: BTreeMap<u64, Vec<Duration>> = BTreeMap::new();
    for (at, lag) in lags(case) {
        seconds.entry(at.0 / 1_000_000).or_default().push(lag);
    }
    let (mut half, mut most) = (Vec::new(), Vec::new());
    for (second, mut times) in seconds {
        let at = Moment(second * 1_000_000);
        half.push((at, percentile(&mut times, 50).as_secs_f64() * 1000.0));
        most.push((at, percentile(&mut times, 99).as_secs_f64() * 1000.0));
    }
    (half, most)
}
