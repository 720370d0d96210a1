//! The section of docs/reliability.md about the model, made from the bounds and what was counted within them.

use std::fmt::Write as _;
use std::path::Path;

use postrider_model::{Bounds, Checked, LANES, Mutation, RELAYS};

const BEGIN: &str = "<!-- model: begin -->\n";
const END: &str = "<!-- model: end -->\n";

/// Compares the page with what was counted; with `WRITE_DOCS=1` it is written instead.
pub(super) fn holds(counted: &[(&str, Bounds, Checked)]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reliability.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let expected = section(counted);
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(&file, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(found, expected, "docs/reliability.md is behind the model: run this test with WRITE_DOCS=1");
}

fn section(counted: &[(&str, Bounds, Checked)]) -> String {
    let mut text = format!("\n{RELAYS} relays and {LANES} lanes each time; a lease lasts 2 ticks.\n\n");
    text += "| in one history | messages | ticks | crashes | pauses | losses | refusals | lanes handed back | states | steps |\n";
    text += "|---|---|---|---|---|---|---|---|---|---|\n";
    for (name, bounds, checked) in counted {
        let one = &bounds.troubles;
        writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            bounds.messages,
            bounds.ticks,
            one.crashes,
            one.pauses,
            one.losses,
            one.refusals,
            one.handbacks,
            checked.states,
            checked.steps
        )
        .unwrap();
    }
    text += "\nSeen on the way, in at least one of them:\n\n";
    let mut seen: Vec<_> = counted.iter().flat_map(|(_, _, checked)| checked.seen.iter()).collect();
    seen.sort_unstable();
    seen.dedup();
    seen.iter().for_each(|name| writeln!(text, "* {name}").unwrap());
    text += "\n| a rule broken on purpose | the promise that falls |\n|---|---|\n";
    for mutation in Mutation::ALL {
        writeln!(text, "| {} | {} |", mutation.says(), mutation.promise()).unwrap();
    }
    text + "\n"
}
