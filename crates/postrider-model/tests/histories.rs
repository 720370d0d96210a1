//! Every history within the model's bounds keeps the promises, and every broken rule breaks one.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod page;

use std::fmt::Write as _;

use postrider_model::{Bounds, Checked, LANES, Mutation, Outbox, RELAYS};

fn checked(name: &str, bounds: Bounds) -> Checked {
    let checked = Outbox { bounds, mutation: None }.check();
    println!("{name}: {checked}");
    assert!(checked.fallen.is_empty(), "{checked}");
    assert!(checked.unseen.is_empty(), "what never happens is not checked: {:?}", checked.unseen);
    checked
}

#[test]
fn every_history_keeps_every_promise_and_the_page_says_how_many() {
    let counted: Vec<_> = Bounds::USUAL.iter().map(|(name, bounds)| (*name, *bounds, checked(name, *bounds))).collect();
    page::holds("reliability.md", &section(&counted));
}

#[test]
fn every_broken_rule_makes_its_promise_fall() {
    for mutation in Mutation::ALL {
        let checked = Outbox { bounds: mutation.bounds(), mutation: Some(mutation) }.check();
        println!("{mutation:?}: {checked}");
        let fallen: Vec<_> = checked.fallen.iter().map(|(name, _)| *name).collect();
        assert!(fallen.contains(&mutation.promise()), "{mutation:?} was to break {:?}: {checked}", mutation.promise());
    }
    println!("{0} of {0} broken rules make their promise fall", Mutation::ALL.len());
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
