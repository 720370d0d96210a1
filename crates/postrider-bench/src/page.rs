//! A measurement: kept as JSON, shown as a table for a terminal or for a page.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::figure::{Figure, number};
use crate::spread::Spread;

/// A measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The build, the machine, the servers and the sizes, a line each.
    pub circumstances: Vec<String>,
    /// The figures, in the order in which they were measured.
    pub figures: Vec<Figure>,
}

const HEAD: [&str; 8] = ["what", "unit", "median", "least to most", "beside", "ratio", "demanded", "verdict"];

impl Measurement {
    /// Whether every figure is as demanded.
    pub fn is_well(&self) -> bool {
        self.figures.iter().all(Figure::is_well)
    }

    /// The parts, in the order of their first figure.
    pub fn parts(&self) -> Vec<&str> {
        let mut parts: Vec<&str> = Vec::new();
        for figure in &self.figures {
            if !parts.contains(&figure.part.as_str()) {
                parts.push(&figure.part);
            }
        }
        parts
    }

    /// The figures of a part.
    pub fn of<'m>(&'m self, part: &'m str) -> impl Iterator<Item = &'m Figure> {
        self.figures.iter().filter(move |figure| figure.part == part)
    }

    /// The figures as a table for a terminal.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for part in self.parts() {
            let mut rows: Vec<Vec<String>> = vec![HEAD.iter().map(|&word| word.to_owned()).collect()];
            rows.extend(self.of(part).map(cells));
            let width =
                |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
            let widths: Vec<usize> = (0..HEAD.len()).map(|column| width(column).unwrap_or(0)).collect();
            text.push_str(part);
            text.push('\n');
            for row in &rows {
                let mut line = String::new();
                for (cell, width) in row.iter().zip(&widths) {
                    let _ = write!(line, "  {cell:<width$}");
                }
                text.push_str(line.trim_end());
                text.push('\n');
            }
            text.push('\n');
        }
        text
    }

    /// The figures as a table in Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("| {} |\n|{}\n", HEAD.join(" | "), "---|".repeat(HEAD.len()));
        for figure in &self.figures {
            let _ = writeln!(text, "| {} |", cells(figure).join(" | "));
        }
        text
    }
}

fn cells(figure: &Figure) -> Vec<String> {
    let spread = &figure.ours;
    let times = |spread: &Spread| match spread.runs.len() {
        1 => "1 run".to_owned(),
        many => format!("{many} runs"),
    };
    let runs = if spread.runs.len() > 1 {
        format!("{} to {} ({})", number(spread.least), number(spread.most), times(spread))
    } else {
        times(spread)
    };
    let beside = figure.beside.as_ref().map(|beside| {
        let other = if beside.runs.runs.len() == spread.runs.len() {
            String::new()
        } else {
            format!(" ({})", times(&beside.runs))
        };
        format!("{}: {}{other}", beside.what, number(beside.runs.median))
    });
    let demanded = match (figure.demanded(), figure.is_well()) {
        (text, _) if text.is_empty() => text,
        (text, true) => format!("{text}: kept"),
        (text, false) => format!("{text}: NOT KEPT"),
    };
    vec![
        figure.what.clone(),
        figure.unit.clone(),
        number(spread.median),
        runs,
        beside.unwrap_or_default(),
        figure.ratio().map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        demanded,
        figure.verdict.map(|verdict| verdict.to_string()).unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Demand;

    fn measurement() -> Measurement {
        let rate = |what: &str, part: &str| Figure::new(part, what, "messages/s", vec![1000.0, 3000.0, 2000.0]);
        Measurement {
            circumstances: vec!["a machine".into()],
            figures: vec![
                rate("to memory", "drain").beside("limit", vec![4000.0]).demand(Demand::RatioAtLeast(0.5)),
                rate("at 100/s", "latency"),
                rate("to NATS", "drain").demand(Demand::AtLeast(1e9)),
            ],
        }
    }

    #[test]
    fn the_table_has_every_figure_under_its_part() {
        let text = measurement().table();
        let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} in {text}"));
        assert!(place("to memory") < place("to NATS") && place("to NATS") < place("at 100/s"), "{text}");
        assert!(text.contains("limit: 4,000") && text.contains("0.50") && text.contains("NOT KEPT"), "{text}");
        assert!(!measurement().is_well());
    }

    #[test]
    fn each_figure_says_of_how_many_runs_it_is() {
        let text = measurement().table();
        assert!(text.contains("(3 runs)") && text.contains("limit: 4,000 (1 run)"), "{text}");
        let once = Figure::new("drain", "x", "messages/s", vec![1.0]).beside("limit", vec![2.0]);
        let text = Measurement { circumstances: Vec::new(), figures: vec![once] }.table();
        assert!(text.contains("1 run ") && text.contains("limit: 2  "), "{text}");
    }

    #[test]
    fn json_and_back_is_the_same() {
        let text = serde_json::to_string(&measurement()).unwrap();
        assert_eq!(serde_json::from_str::<Measurement>(&text).unwrap(), measurement());
    }
}
