//! The figures as one picture: a bar for each median, its spread, and what it is compared with behind it.

use std::fmt::Write as _;

use crate::figure::{Figure, number};
use crate::page::Measurement;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 380.0;
const ROW: f64 = 26.0;
/// The longest bar.
const SPAN: f64 = WIDTH - LEFT - 130.0;

/// An SVG of a measurement. Bars are to scale among the figures of one part that have one unit.
pub fn svg(measurement: &Measurement) -> String {
    let mut body = String::new();
    let mut y = 20.0;
    for part in measurement.parts() {
        y += 14.0;
        let _ = writeln!(body, r#"<text x="12" y="{y:.0}" class="part">{}</text>"#, escaped(part));
        y += 12.0;
        for figure in measurement.of(part) {
            let scale = measurement.of(part).filter(|other| other.unit == figure.unit).map(longest).fold(0.0, f64::max);
            bar(&mut body, figure, if scale > 0.0 { SPAN / scale } else { 0.0 }, y);
            y += ROW;
        }
    }
    let height = y + 16.0;
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0} {height:.0}" font-family="sans-serif" font-size="12">
<style>.part{{font-weight:bold;font-size:14px}}.beside{{fill:#d9dee5}}.ours{{fill:#2f6f9f}}.bad{{fill:#b3402a}}.spread{{stroke:#111;stroke-width:1.5}}</style>
<rect width="100%" height="100%" fill="#fff"/>
{body}</svg>
"##
    )
}

fn longest(figure: &Figure) -> f64 {
    figure.ours.most.max(figure.beside.as_ref().map_or(0.0, |beside| beside.runs.median))
}

fn bar(body: &mut String, figure: &Figure, scale: f64, y: f64) {
    let (ours, middle) = (&figure.ours, y + 9.0);
    let _ = writeln!(body, r#"<text x="24" y="{:.0}">{}</text>"#, y + 13.0, escaped(&figure.what));
    if let Some(beside) = &figure.beside {
        let width = beside.runs.median * scale;
        let _ = writeln!(body, r#"<rect class="beside" x="{LEFT}" y="{y:.0}" width="{width:.1}" height="18"/>"#);
    }
    let class = if figure.is_well() { "ours" } else { "bad" };
    let width = ours.median * scale;
    let _ = writeln!(body, r#"<rect class="{class}" x="{LEFT}" y="{:.0}" width="{width:.1}" height="10"/>"#, y + 4.0);
    let (from, to) = (LEFT + ours.least * scale, LEFT + ours.most * scale);
    let _ = writeln!(body, r#"<line class="spread" x1="{from:.1}" x2="{to:.1}" y1="{middle:.0}" y2="{middle:.0}"/>"#);
    let ratio = figure.ratio().map(|ratio| format!(" ({ratio:.2})")).unwrap_or_default();
    let end = LEFT + longest(figure) * scale + 6.0;
    let text = format!("{} {}{ratio}", number(ours.median), figure.unit);
    let _ = writeln!(body, r#"<text x="{end:.0}" y="{:.0}">{}</text>"#, y + 13.0, escaped(&text));
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_bar_for_each_figure_and_names_are_escaped() {
        let figure = Figure::new("drain", "a < b", "messages/s", vec![1.0, 2.0]).beside("limit", vec![4.0]);
        let text = svg(&Measurement { circumstances: Vec::new(), figures: vec![figure.clone(), figure] });
        assert_eq!(text.matches(r#"class="ours""#).count(), 2, "{text}");
        assert!(text.contains("a &lt; b") && text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn nothing_measured_is_an_empty_picture() {
        assert!(svg(&Measurement { circumstances: Vec::new(), figures: Vec::new() }).contains("</svg>"));
    }
}
