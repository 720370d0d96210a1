//! `cargo xtask reliability`: the summary in `docs/reliability.md`, made from the kept reports and never typed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::process::ExitCode;

use serde_json::Value;

use crate::Result;
use crate::tree::Tree;

const PAGE: &str = "docs/reliability.md";
/// What stands between two lines of this name is written by this program.
const REPORTS: &str = "made from docs/reports";
const BUGS: &str = "made from the seeded bugs";

/// Runs the verb.
pub fn main(tree: &Tree, arguments: &[String]) -> Result<ExitCode> {
    if !arguments.is_empty() {
        eprintln!("reliability takes no arguments");
        return Ok(ExitCode::from(2));
    }
    renew(tree)?;
    println!("{PAGE} is up to date");
    Ok(ExitCode::SUCCESS)
}

/// Writes the summary anew.
pub fn renew(tree: &Tree) -> Result<()> {
    let file = tree.root.join(PAGE);
    let text = fs::read_to_string(&file)?;
    fs::write(&file, renewed(tree, &text)?)?;
    Ok(())
}

fn renewed(tree: &Tree, text: &str) -> Result<String> {
    let text = with_part(text, REPORTS, &summary(&reports(tree)?))?;
    with_part(&text, BUGS, &crate::bugs::listed(tree)?)
}

/// What the kept reports come to.
#[derive(Debug)]
pub struct Kept {
    /// Reports.
    pub runs: usize,
    /// Those with the verdict pass.
    pub passed: usize,
    /// Minutes of load.
    pub minutes: f64,
    /// Different seeds.
    pub seeds: usize,
}

/// Counts the kept reports.
pub fn kept(tree: &Tree) -> Result<Kept> {
    let reports = reports(tree)?;
    let seeds: BTreeSet<u64> = reports.values().map(|report| number(report, "seed")).collect();
    Ok(Kept {
        runs: reports.len(),
        passed: reports.values().filter(|report| report["verdict"] == "pass").count(),
        minutes: reports.values().filter_map(|report| report["minutes"].as_f64()).sum(),
        seeds: seeds.len(),
    })
}

/// The summary as text.
pub fn text(tree: &Tree) -> Result<String> {
    Ok(summary(&reports(tree)?))
}

fn with_part(text: &str, name: &str, part: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->"));
    let (before, rest) = text.split_once(&begin).ok_or_else(|| format!("{PAGE} has no line {begin:?}"))?;
    let (_, after) = rest.split_once(&end).ok_or_else(|| format!("{PAGE} has no line {end:?}"))?;
    Ok(format!("{before}{begin}\n{part}\n{end}{after}"))
}

/// The kept reports, with their names, in order.
fn reports(tree: &Tree) -> Result<BTreeMap<String, Value>> {
    let mut reports = BTreeMap::new();
    for entry in fs::read_dir(tree.root.join("docs/reports"))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("torture-") && path.extension().is_some_and(|end| end == "json") {
            let text = fs::read_to_string(&path)?;
            let report = serde_json::from_str(&text).map_err(|error| format!("{name}.json: {error}"))?;
            reports.insert(name, report);
        }
    }
    Ok(reports)
}

fn number(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or(0)
}

fn broken(report: &Value, id: &str) -> u64 {
    let findings = report["findings"].as_array().into_iter().flatten();
    findings.filter(|finding| finding["id"] == id).map(|finding| number(finding, "broken")).sum()
}

fn summary(reports: &BTreeMap<String, Value>) -> String {
    if reports.is_empty() {
        return "No report is kept.\n".to_owned();
    }
    let sum = |name: &str| reports.values().map(|report| number(report, name)).sum::<u64>();
    let most = |name: &str| reports.values().map(|report| number(report, name)).max().unwrap_or(0);
    let breaks = |id: &str| reports.values().map(|report| broken(report, id)).sum::<u64>();
    let minutes: f64 = reports.values().filter_map(|report| report["minutes"].as_f64()).sum();
    let seeds: BTreeSet<u64> = reports.values().map(|report| number(report, "seed")).collect();
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} runs of {minutes:.0} minutes in all over {} seeds: **{} messages, {} faults, lost {}, ghosts {}, order \
         violations {}, unexplained repeats {}.**\n",
        reports.len(),
        seeds.len(),
        sum("messages"),
        sum("faults"),
        breaks("I1"),
        breaks("I2"),
        breaks("I3") + breaks("I3b"),
        breaks("I4"),
    );
    let _ = writeln!(text, "| figure | value |\n|---|---|");
    let counted = reports.values().filter(|report| report["settles_refused"].is_u64()).count();
    for (what, value) in [
        ("repeats / of them explained by no fault", format!("{} / {}", sum("repeats"), breaks("I4"))),
        ("transactions rolled back / with unknown end", format!("{} / {}", sum("rolled_back"), sum("unknown"))),
        ("lanes changed hands", format!("{} times", sum("lanes_changed_hands"))),
        (
            "settles refused to a relay that had lost the lane / leases found lost otherwise",
            format!(
                "{} / {}, in the {counted} runs that counted them",
                sum("settles_refused"),
                sum("leases_found_lost")
            ),
        ),
        (
            "longest takeover after a kill",
            format!("{} ms, of {} with no other fault in the way", most("takeover_max_ms"), sum("takeovers")),
        ),
        ("status and metrics wrong (I13)", breaks("I13").to_string()),
        ("application disturbed (I14)", breaks("I14").to_string()),
        ("highest memory of a relay", format!("{} MB", most("highest_memory_mb"))),
        ("largest backlog", most("highest_backlog").to_string()),
    ] {
        let _ = writeln!(text, "| {what} | {value} |");
    }
    let faults = sum("faults");
    if faults > 0 && breaks("I1") == 0 {
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let bound = 300.0 / faults as f64;
        let _ = writeln!(
            text,
            "\nNo loss in {faults} faults bounds the rate of losses per fault below {bound:.2} % (95 % confidence)."
        );
    }
    let _ = writeln!(text, "\n| fault | happened | with messages in flight |\n|---|---|---|");
    let mut kinds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for report in reports.values() {
        for (kind, count) in report["faults_by_kind"].as_object().into_iter().flatten() {
            let known = kinds.entry(kind).or_default();
            known.0 += number(count, "happened");
            known.1 += number(count, "in_flight");
        }
    }
    for (kind, (happened, in_flight)) in kinds {
        let _ = writeln!(text, "| {kind} | {happened} | {in_flight} |");
    }
    let _ = writeln!(text, "\n| run | commit | verdict | messages | faults | repeats | longest takeover | picture |");
    let _ = writeln!(text, "|---|---|---|---|---|---|---|---|");
    for (name, report) in reports {
        let words = |field: &str| report[field].as_str().unwrap_or_default().to_owned();
        let title = format!(
            "{}, seed {}, {} min, {} relays{}",
            words("versions"),
            number(report, "seed"),
            report["minutes"].as_f64().unwrap_or(0.0),
            number(report, "relays"),
            report["beside"].as_str().map(|commit| format!(", every other one of {commit}")).unwrap_or_default()
        );
        let _ = writeln!(
            text,
            "| [{title}](reports/{name}.json) | {} | {} | {} | {} | {} | {} ms | [svg](reports/{name}.svg) |",
            words("commit"),
            words("verdict"),
            number(report, "messages"),
            number(report, "faults"),
            number(report, "repeats"),
            number(report, "takeover_max_ms"),
        );
    }
    let mut not_run: BTreeSet<&str> = BTreeSet::new();
    for report in reports.values() {
        not_run.extend(report["not_run"].as_array().into_iter().flatten().filter_map(Value::as_str));
    }
    for what in not_run {
        let _ = writeln!(text, "\nNot run: {what}.");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_kept_reports_and_the_seeded_bugs_come_to() {
        let tree = Tree::find().unwrap();
        let text = fs::read_to_string(tree.root.join(PAGE)).unwrap();
        let now = renewed(&tree, &text).unwrap();
        assert!(text == now, "{PAGE} is out of date: run `cargo xtask reliability`");
    }

    #[test]
    fn sums_and_maxima_come_from_every_report() {
        let report = |faults: u64, broken: u64| {
            serde_json::json!({"seed": faults, "minutes": 10.0, "messages": 5, "faults": faults, "takeover_max_ms": faults,
                "findings": [{"id": "I1", "broken": broken}], "faults_by_kind": {"relay-kill": {"happened": 2, "in_flight": 1}}})
        };
        let text = summary(&BTreeMap::from([("a".to_owned(), report(7, 0)), ("b".to_owned(), report(9, 1))]));
        for part in ["20 minutes", "2 seeds", "10 messages, 16 faults, lost 1", "9 ms", "| relay-kill | 4 | 2 |"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
