//! One delivery at a time, step by step. What comes between two deliveries is the model's.

use std::collections::BTreeMap;

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Words;

impl Kinds for Words {
    type Id = &'static str;
    type State = u32;
    type Outputs = &'static str;
    type Version = u32;
    type Token = &'static str;
    type Attempt = u32;
}

/// The stores, in memory, and what was done to them, in words.
#[derive(Debug, Default)]
struct World {
    document: Option<(Document<Words>, u32)>,
    known: Vec<&'static str>,
    gone: Vec<&'static str>,
    staged: BTreeMap<u32, &'static str>,
    done: Vec<String>,
    /// The step before which the delivery ends.
    dies_at: Option<&'static str>,
}

const DIED: Disposition = Disposition::Retry(Lapse::Away);

impl World {
    fn deliver(&mut self, protocol: Protocol, id: &'static str) -> Disposition {
        self.done.clear();
        let mut effect = Processing::<Words>::begin(protocol, id, Some("its token"));
        loop {
            let (word, next) = match effect {
                Effect::End(disposition) => return disposition,
                other => self.carry_out(other),
            };
            if self.dies_at.is_some_and(|step| word.starts_with(step)) {
                return DIED;
            }
            self.done.push(word);
            effect = next;
        }
    }

    fn carry_out(&mut self, effect: Effect<Words>) -> (String, Effect<Words>) {
        let dies = |step: &str, dies_at: Option<&'static str>| dies_at.is_some_and(|at| step.starts_with(at));
        match effect {
            Effect::Load(load) => match self.document.clone() {
                Some((document, version)) => ("load".to_owned(), load.found(document, version)),
                None => ("load".to_owned(), load.absent()),
            },
            Effect::Check(check) => {
                let is_known = self.known.contains(check.id()) || self.gone.contains(check.token().unwrap());
                let known = if is_known { Known::Handled } else { Known::New };
                ("check".to_owned(), check.answered(known))
            }
            Effect::Handle(handle) => {
                let state = handle.state().copied().unwrap_or_default() + 1;
                let next = if *handle.id() == "quiet" {
                    handle.handled_without_outputs(7, state, "nothing")
                } else {
                    handle.handled(7, state, "a receipt")
                };
                ("handle".to_owned(), next)
            }
            Effect::CreateTokens(create) => ("create tokens".to_owned(), create.created(vec!["a new token"])),
            Effect::Write(write) => {
                let word = format!("write at {:?}: {:?}", write.over(), write.step().unwrap());
                if !dies(&word, self.dies_at) {
                    let version = write.over().map_or(1, |over| over + 1);
                    self.document = Some((write.document().clone(), version));
                }
                let version = write.over().map_or(1, |over| over + 1);
                (word, write.written(version))
            }
            Effect::Publish(publish) => {
                let entry = publish.entry().unwrap();
                let outputs = match &entry.outputs {
                    Outputs::ToSend(outputs) => outputs,
                    Outputs::Staged => self.staged.get(&entry.attempt).unwrap_or(&"nothing"),
                    Outputs::Sent => panic!("sent before"),
                };
                let word = format!("publish {outputs} of {} with {:?}", publish.id(), entry.tokens);
                (word, publish.sent())
            }
            Effect::Mark(mark) => {
                let word = format!("{:?}", mark.mark());
                match mark.mark() {
                    Mark::Remember(id) if !dies(&word, self.dies_at) => self.known.push(id),
                    Mark::Consume(token) if !dies(&word, self.dies_at) => self.gone.push(token),
                    Mark::Stage { attempt, outputs } => drop(self.staged.insert(*attempt, outputs)),
                    Mark::Unstage(attempt) => drop(self.staged.remove(attempt)),
                    _ => {}
                }
                (word, mark.done())
            }
            Effect::End(_) => unreachable!("told before"),
        }
    }
}

#[test]
fn ids_in_the_document_take_two_writes() {
    let mut world = World::default();
    assert_eq!(world.deliver(Protocol::IN_DOCUMENT, "m"), Disposition::Applied);
    let steps = [
        "load",
        "handle",
        "write at None: Commit",
        "publish a receipt of m with None",
        "write at Some(1): Blank",
        "Acknowledge",
    ];
    assert_eq!(world.done, steps);
    assert_eq!(world.deliver(Protocol::IN_DOCUMENT, "m"), Disposition::Repeat);
    assert_eq!(world.done, ["load", "Acknowledge"]);
    let (document, _) = world.document.unwrap();
    assert_eq!((document.state, document.entries.len()), (Some(1), 1), "the id stays");
}

#[test]
fn a_message_without_outputs_is_over_with_its_commit_where_its_id_stays_and_nowhere_else() {
    let mut world = World::default();
    assert_eq!(world.deliver(Protocol::IN_DOCUMENT, "quiet"), Disposition::Applied);
    assert_eq!(world.done, ["load", "handle", "write at None: Commit", "Acknowledge"]);
    assert_eq!(world.deliver(Protocol::IN_DOCUMENT, "quiet"), Disposition::Repeat);
    for protocol in [Protocol::KNOWN_IDS, Protocol::TOKENS] {
        let mut world = World { dies_at: Some("publish"), ..World::default() };
        assert_eq!(world.deliver(protocol, "quiet"), DIED);
        world.dies_at = None;
        assert_eq!(
            world.deliver(protocol, "quiet"),
            Disposition::Resumed,
            "its id is to be remembered, its token to go"
        );
        assert!(world.document.unwrap().0.entries.is_empty());
    }
}

#[test]
fn known_ids_leave_nothing_in_the_document() {
    let mut world = World::default();
    assert_eq!(world.deliver(Protocol::KNOWN_IDS, "m"), Disposition::Applied);
    let steps = [
        "load",
        "check",
        "handle",
        "write at None: Commit",
        "publish a receipt of m with None",
        "Remember(\"m\")",
        "write at Some(1): Remove",
        "Acknowledge",
    ];
    assert_eq!(world.done, steps);
    assert_eq!(world.deliver(Protocol::KNOWN_IDS, "m"), Disposition::Repeat);
    assert_eq!(world.done, ["load", "check", "load", "Acknowledge"]);
    assert_eq!(world.document, Some((Document { state: Some(1), entries: vec![] }, 2)));
}

#[test]
fn outputs_beside_the_document_are_stored_under_the_attempt_and_deleted_in_the_end() {
    let mut world = World::default();
    assert_eq!(world.deliver(Protocol::STAGED, "m"), Disposition::Applied);
    let steps = [
        "load",
        "check",
        "handle",
        "Stage { attempt: 7, outputs: \"a receipt\" }",
        "write at None: Commit",
        "publish a receipt of m with None",
        "Remember(\"m\")",
        "Unstage(7)",
        "write at Some(1): Remove",
        "Acknowledge",
    ];
    assert_eq!(world.done, steps);
    assert_eq!(world.staged, BTreeMap::new());
}

#[test]
fn outputs_that_are_not_beside_the_document_any_more_were_sent() {
    let mut world = World { dies_at: Some("write at Some(1): Remove"), ..World::default() };
    assert_eq!(world.deliver(Protocol::STAGED, "m"), DIED);
    world.dies_at = None;
    assert_eq!(world.deliver(Protocol::STAGED, "m"), Disposition::Resumed);
    assert_eq!(world.done[1], "publish nothing of m with None");
    assert_eq!(world.document, Some((Document { state: Some(1), entries: vec![] }, 2)));
}

#[test]
fn tokens_of_outputs_are_in_the_document_before_they_are_valid() {
    let mut world = World::default();
    assert_eq!(world.deliver(Protocol::TOKENS, "m"), Disposition::Applied);
    let steps = [
        "load",
        "check",
        "handle",
        "create tokens",
        "write at None: Commit",
        "Activate([\"a new token\"])",
        "publish a receipt of m with Some([\"a new token\"])",
        "Consume(\"its token\")",
        "write at Some(1): Remove",
        "Acknowledge",
    ];
    assert_eq!(world.done, steps);
    assert_eq!(world.deliver(Protocol::TOKENS, "m"), Disposition::Repeat);
}

#[test]
fn a_delivery_that_died_anywhere_is_gone_on_with() {
    let places = ["handle", "write at None: Commit", "publish", "Remember", "write at Some(1): Remove", "Acknowledge"];
    for (place, step) in places.into_iter().enumerate() {
        let mut world = World { dies_at: Some(step), ..World::default() };
        assert_eq!(world.deliver(Protocol::KNOWN_IDS, "m"), DIED, "{step}");
        world.dies_at = None;
        let ends = match place {
            0 | 1 => Disposition::Applied,
            5 => Disposition::Repeat,
            _ => Disposition::Resumed,
        };
        assert_eq!(world.deliver(Protocol::KNOWN_IDS, "m"), ends, "{step}");
        let (document, _) = world.document.unwrap();
        assert_eq!((document.state, document.entries), (Some(1), vec![]), "{step}");
    }
}

#[test]
fn tokens_that_were_committed_are_not_made_again() {
    let mut world = World { dies_at: Some("publish"), ..World::default() };
    assert_eq!(world.deliver(Protocol::TOKENS, "m"), DIED);
    world.dies_at = None;
    assert_eq!(world.deliver(Protocol::TOKENS, "m"), Disposition::Resumed);
    let steps = [
        "load",
        "Activate([\"a new token\"])",
        "publish a receipt of m with Some([\"a new token\"])",
        "Consume(\"its token\")",
        "write at Some(1): Remove",
        "Acknowledge",
    ];
    assert_eq!(world.done, steps);
}

#[test]
fn what_another_message_left_is_finished_first_and_then_this_one_is_handled() {
    let mut world = World { dies_at: Some("publish"), ..World::default() };
    assert_eq!(world.deliver(Protocol::KNOWN_IDS, "first"), DIED);
    world.dies_at = None;
    assert_eq!(world.deliver(Protocol::KNOWN_IDS, "second"), Disposition::Applied);
    let published: Vec<_> = world.done.iter().filter(|word| word.starts_with("publish")).collect();
    assert_eq!(published, ["publish a receipt of first with None", "publish a receipt of second with None"]);
    assert_eq!(world.document, Some((Document { state: Some(2), entries: vec![] }, 4)));
    assert_eq!(world.known, ["first", "second"]);
}

#[test]
fn a_repeat_that_was_known_in_between_finishes_what_was_left() {
    let mut world = World { dies_at: Some("write at Some(1): Remove"), ..World::default() };
    let Effect::Load(late) = Processing::<Words>::begin(Protocol::KNOWN_IDS, "m", None) else { panic!("no load") };
    let Effect::Check(check) = late.absent() else { panic!("no check") };
    assert_eq!(world.deliver(Protocol::KNOWN_IDS, "m"), DIED);
    let Effect::Load(again) = check.answered(Known::Handled) else { panic!("no second look") };
    let (document, version) = world.document.clone().unwrap();
    let Effect::Publish(_) = again.found(document, version) else { panic!("nothing was finished") };
}

#[test]
fn every_lapse_asks_for_another_delivery_but_a_lost_acknowledgement() {
    for lapse in [Lapse::Conflict, Lapse::Away, Lapse::Unknown] {
        let retry = Effect::End(Disposition::Retry(lapse));
        let Effect::Load(load) = Processing::<Words>::begin(Protocol::TOKENS, "m", Some("t")) else { panic!() };
        assert_eq!(load.clone().lapsed(lapse), retry);
        let Effect::Check(check) = load.absent() else { panic!() };
        assert_eq!(check.clone().lapsed(lapse), retry);
        assert_eq!(check.clone().answered(Known::Pending), Effect::End(Disposition::Retry(Lapse::TokenPending)));
        let Effect::Handle(handle) = check.answered(Known::New) else { panic!() };
        assert_eq!(handle.clone().failed(), Effect::End(Disposition::Failed));
        let Effect::CreateTokens(create) = handle.handled(1, 1, "out") else { panic!() };
        assert_eq!((create.id(), &create.entry().unwrap().outputs), (&"m", &Outputs::ToSend("out")));
        assert_eq!(create.clone().lapsed(lapse), retry);
        let Effect::Write(write) = create.created(vec!["n"]) else { panic!() };
        assert_eq!(write.clone().lapsed(lapse), retry);
        assert_eq!(write.clone().too_large(9, 10), Effect::End(Disposition::TooLarge { limit: 9, actual: 10 }));
        assert_eq!((write.id(), write.over()), (&"m", None));
        let Effect::Mark(activate) = write.written(1) else { panic!() };
        assert_eq!((activate.id(), activate.clone().lapsed(lapse)), (&"m", retry.clone()));
        let Effect::Publish(publish) = activate.done() else { panic!() };
        assert_eq!(publish.clone().lapsed(lapse), retry);
        let Effect::Mark(consume) = publish.sent() else { panic!() };
        let Effect::Write(remove) = consume.done() else { panic!() };
        let Effect::Mark(acknowledge) = remove.written(3) else { panic!() };
        assert_eq!(acknowledge.lapsed(lapse), Effect::End(Disposition::Applied));
    }
}

#[test]
fn a_sweep_deletes_what_no_document_names_and_keeps_out_who_loaded_it_before() {
    let token = Leftover::<Words>::Token("left");
    let begin = || match Sweep::begin(token.clone()) {
        SweepEffect::Look(look) => look,
        other => panic!("{other:?}"),
    };
    let document = Document { state: Some(1), entries: vec![] };
    let SweepEffect::Fence(fence) = begin().found(document.clone(), 4) else { panic!() };
    assert_eq!((fence.document(), fence.over()), (&document, Some(&4)));
    assert_eq!(fence.clone().lapsed(Lapse::Conflict), SweepEffect::End(Swept::Retry(Lapse::Conflict)));
    let SweepEffect::Delete(delete) = fence.written() else { panic!() };
    assert_eq!(delete.leftover(), &token);
    assert_eq!(delete.clone().lapsed(Lapse::Unknown), SweepEffect::End(Swept::Retry(Lapse::Unknown)));
    assert_eq!(delete.done(), SweepEffect::End(Swept::Deleted));
    let SweepEffect::Fence(first) = begin().absent() else { panic!() };
    assert_eq!((first.document(), first.over()), (&Document::new(), None));
    assert_eq!(begin().lapsed(Lapse::Away), SweepEffect::End(Swept::Retry(Lapse::Away)));
}

#[test]
fn a_sweep_leaves_what_a_document_names() {
    let entry = Entry { id: "m", attempt: 7, token: None, outputs: Outputs::Staged, tokens: Some(vec!["kept"]) };
    let document = Document::<Words>::new().with(entry);
    for (leftover, is_named) in [
        (Leftover::Token("kept"), true),
        (Leftover::Token("left"), false),
        (Leftover::Staged(7), true),
        (Leftover::Staged(8), false),
    ] {
        let SweepEffect::Look(look) = Sweep::begin(leftover) else { panic!() };
        let ends = look.found(document.clone(), 1);
        assert_eq!(ends == SweepEffect::End(Swept::Needed), is_named, "{ends:?}");
    }
}
