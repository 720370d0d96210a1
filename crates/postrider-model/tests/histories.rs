//! Every history within the model's bounds keeps the promises, and every broken rule breaks one.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod page;

use postrider_model::{Bounds, Checked, Mutation, Outbox};

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
    page::holds(&counted);
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
