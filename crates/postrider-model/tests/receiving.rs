//! Every history of the receiving side's protocols within the model's bounds keeps the promises; every broken rule breaks
//! one, and every harmless change none.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod page;

use std::fmt::{Debug, Write as _};

use postrider_core::receiving::Protocol;
use postrider_model::Checked;
use postrider_model::receiving::documents::{Bounds, Change, Receiver};
use postrider_model::receiving::inbox::{BrokenInbox, Inbox};
use postrider_model::receiving::keys::{BrokenKeys, Keys};

const INBOX: Inbox = Inbox { consumers: 3, deliveries: 5, losses: 2, broken: None };
const KEYS: Keys = Keys { servers: 3, requests: 5, losses: 2, broken: None };

/// Each protocol, within what, and in whose words.
const PROTOCOLS: [(&str, Protocol, Bounds); 7] = [
    ("ids in the document", Protocol::IN_DOCUMENT, Bounds::FULL),
    ("known ids", Protocol::KNOWN_IDS, Bounds::FULL),
    ("known ids, outputs beside the document", Protocol::STAGED, Bounds::SWEPT),
    ("known ids, outputs beside the document", Protocol::STAGED, Bounds::SWEPT_BY_MANY),
    ("known ids, outputs beside the document", Protocol::STAGED, Bounds::SWEPT_TWICE),
    ("tokens, through two receivers", Protocol::TOKENS, Bounds::TWO_CHAINS),
    ("tokens, through two receivers", Protocol::TOKENS, Bounds::LONG_CHAIN),
];

/// That nothing fell, and that what is to be seen was.
fn kept<A: Debug>(name: &str, found: &Checked<A>) -> String {
    println!("{name}: {found}");
    assert!(found.fallen.is_empty(), "{name}: {found}");
    assert!(found.unseen.is_empty(), "{name}: what never happens is not checked: {found}");
    format!("{} | {} |\n", found.states, found.steps)
}

#[test]
fn every_protocol_keeps_every_promise_and_the_page_says_how_many() {
    let mut text = "\n| protocol | at the same time | messages | deliveries | deaths and lost answers | sweeps | states | steps |\n".to_owned();
    text += "|---|---|---|---|---|---|---|---|\n";
    let inbox = kept("inbox", &INBOX.check(None));
    write!(
        text,
        "| inbox in the transaction | {} | 1 | {} | {} | | {inbox}",
        INBOX.consumers, INBOX.deliveries, INBOX.losses
    )
    .unwrap();
    for (name, protocol, bounds) in PROTOCOLS {
        let Bounds { workers, messages, deliveries, losses, sweeps, .. } = bounds;
        let found = kept(name, &Receiver { protocol, bounds, broken: None }.check(None));
        write!(text, "| {name} | {workers} | {messages} | {deliveries} | {losses} | {sweeps} | {found}").unwrap();
    }
    let keys = kept("idempotency keys", &KEYS.check(None));
    write!(text, "| idempotency keys | {} | 1 | {} | {} | | {keys}", KEYS.servers, KEYS.requests, KEYS.losses).unwrap();
    text += "\n| a rule broken on purpose | the promise that falls |\n|---|---|\n";
    let documents = Change::all().into_iter().map(|change| (change.says, change.breaks));
    let inbox = BrokenInbox::ALL.into_iter().map(|(broken, promise)| (broken.says(), Some(promise)));
    let keys = BrokenKeys::ALL.into_iter().map(|(broken, promise)| (broken.says(), promise));
    for (says, breaks) in inbox.chain(documents).chain(keys) {
        writeln!(text, "| {says} | {} |", breaks.unwrap_or("none: it is harmless")).unwrap();
    }
    page::holds("exactly-once.md", &(text + "\n"));
}

#[test]
fn every_broken_rule_breaks_a_promise_and_no_harmless_change_does() {
    let mut broken = 0;
    for change in Change::all() {
        let found = change.receiver.check(change.breaks);
        println!("{}: {found}", change.says);
        holds(change.says, change.breaks, &found);
        broken += usize::from(change.breaks.is_some());
    }
    println!(
        "{broken} of {broken} broken rules make a promise fall, {} harmless changes none",
        Change::all().len() - broken
    );
}

/// That what is to fall did, or nothing where nothing is to.
fn holds<A: Debug>(name: &str, breaks: Option<&str>, found: &Checked<A>) {
    match breaks {
        Some(promise) => {
            assert!(
                found.fallen.iter().any(|(fallen, _)| *fallen == promise),
                "{name} was to break {promise:?}: {found}"
            );
        }
        None => assert!(found.fallen.is_empty(), "{name} was to break nothing: {found}"),
    }
}

#[test]
fn every_broken_rule_of_the_inbox_breaks_a_promise() {
    for (broken, promise) in BrokenInbox::ALL {
        let found = Inbox { broken: Some(broken), ..INBOX }.check(Some(promise));
        println!("{}: {found}", broken.says());
        holds(broken.says(), Some(promise), &found);
    }
}

#[test]
fn every_broken_rule_of_idempotency_keys_breaks_a_promise_and_no_harmless_change_does() {
    for (broken, promise) in BrokenKeys::ALL {
        let found = Keys { broken: Some(broken), ..KEYS }.check(promise);
        println!("{}: {found}", broken.says());
        holds(broken.says(), promise, &found);
    }
}

/// The published listings return early on a repeat, and make tokens that are valid before anybody committed to them: with
/// each something stays for ever. The same histories of ours leave nothing.
#[test]
#[ignore = "what it checks, two other tests check too; this one puts both beside each other, for `cargo xtask show receiving.5`"]
fn the_two_leaks_of_the_published_algorithms_are_found_and_ours_have_none() {
    for (name, ours) in [
        ("known ids: a repeat returns without a second look", Protocol::KNOWN_IDS),
        ("tokens: a repeat returns without a second look", Protocol::TOKENS),
        ("tokens: valid as soon as they are made", Protocol::TOKENS),
    ] {
        let change = Change::all().into_iter().find(|change| change.says == name).unwrap();
        let promise = change.breaks.unwrap();
        assert_eq!(promise, "nothing is left behind", "{name}");
        let published = change.receiver.check(Some(promise));
        println!("{name}: {published}");
        holds(name, Some(promise), &published);
        let found = Receiver { protocol: ours, broken: None, ..change.receiver }.check(None);
        println!("without that: {found}");
        assert!(found.fallen.is_empty(), "{name}: {found}");
    }
}
