//! docs/metrics.md says what the code says. `WRITE_DOCS=1 cargo test -p postrider-relay --test documented_metrics` writes
//! it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fmt::Write;
use std::path::Path;

use postrider_relay::telemetry::METRICS;

const BEGIN: &str = "<!-- made from the code: begin -->\n";
const END: &str = "<!-- made from the code: end -->\n";

fn table() -> String {
    let mut table = "| metric | kind | labels | what it says |\n|---|---|---|---|\n".to_owned();
    for metric in METRICS {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        writeln!(table, "| `{}` | {} | {} | {} |", metric.name, metric.kind, labels.join(", "), metric.help).unwrap();
    }
    table
}

#[test]
fn the_documented_metrics_are_those_of_the_code() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let expected = table();
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(&file, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(found, expected, "docs/metrics.md is behind the code: run this test with WRITE_DOCS=1");
    assert!(!METRICS.is_empty());
}

/// An alert on a metric that does not exist never fires.
#[test]
fn every_metric_that_the_documentation_names_exists() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let known = |word: &str| {
        METRICS.iter().any(|metric| {
            let part = |end: &str| metric.kind == "histogram" && word == format!("{}{end}", metric.name);
            word == metric.name || part("_bucket") || part("_sum") || part("_count")
        })
    };
    for name in ["metrics.md", "operating.md"] {
        let text = std::fs::read_to_string(docs.join(name)).unwrap();
        let unit =
            |word: &&str| ["_total", "_seconds", "_bucket", "_sum", "_count"].iter().any(|end| word.ends_with(end));
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|word| word.starts_with("postrider_")).filter(unit) {
            assert!(known(word), "{name} names {word}, which is no metric");
        }
    }
}
