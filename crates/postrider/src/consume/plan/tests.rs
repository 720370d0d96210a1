//! The decisions, step by step.

use postrider_core::{Attempts, Key, Place, RetryPolicy};

use super::super::rules::Order;
use super::*;

const SECOND: Duration = Duration::from_secs(1);
const START: Tick = Tick::ZERO;

fn rules() -> Rules {
    let retry = RetryPolicy { attempts: Attempts::AtMost(3), ..RetryPolicy::default() };
    Rules { order: Order::Key, concurrency: 2, window: 5, retry, graveyard: Graveyard::Given, extend_every: None }
}

fn plan(rules: Rules) -> Plan {
    Plan::new(rules, Jitter::seeded(7))
}

fn key(name: &str) -> Line {
    Line::Key(Key::unchecked(name))
}

fn arrival(line: Line) -> Arrival {
    Arrival { line, deliveries: None, fault: None }
}

fn take(plan: &mut Plan, line: &str) -> Number {
    plan.take_in(START, arrival(key(line)))
}

fn delivered(plan: &mut Plan, line: &str, deliveries: u32) -> Number {
    plan.take_in(START, Arrival { deliveries: Some(deliveries), ..arrival(key(line)) })
}

fn steps(plan: &mut Plan, now: Tick) -> Vec<Step> {
    std::iter::from_fn(|| plan.next(now)).collect()
}

fn failed() -> End {
    End::Failed("no such item".to_owned())
}

fn after(seconds: u64) -> Tick {
    START + SECOND * u32::try_from(seconds).unwrap()
}

#[test]
fn messages_of_one_key_begin_one_after_another_and_others_beside_them() {
    let mut plan = plan(rules());
    let [first, second, other] = [take(&mut plan, "a"), take(&mut plan, "a"), take(&mut plan, "b")];
    assert_eq!(steps(&mut plan, START), [Step::Handle(first), Step::Handle(other)]);
    assert_eq!(plan.ended(START, first, End::Gone), After::Nothing);
    assert_eq!(steps(&mut plan, START), [Step::Handle(second)]);
}

#[test]
fn no_more_begin_than_may_run_at_once_and_the_oldest_is_next() {
    let mut plan = plan(rules());
    let all = ["a", "b", "c", "d"].map(|name| take(&mut plan, name));
    assert_eq!(steps(&mut plan, START), [Step::Handle(all[0]), Step::Handle(all[1])]);
    plan.ended(START, all[1], End::Gone);
    assert_eq!(steps(&mut plan, START), [Step::Handle(all[2])]);
}

#[test]
fn no_more_are_taken_than_the_window_has_room_for() {
    let mut plan = plan(rules());
    assert_eq!(plan.room(), 5);
    let first = take(&mut plan, "a");
    take(&mut plan, "a");
    assert_eq!(plan.room(), 3);
    steps(&mut plan, START);
    plan.ended(START, first, End::Gone);
    assert_eq!(plan.room(), 4);
    plan.stop();
    assert_eq!(plan.room(), 0);
}

#[test]
fn one_that_failed_is_tried_again_in_its_place_while_others_flow() {
    let mut plan = plan(rules());
    let [first, second, other] = [take(&mut plan, "a"), take(&mut plan, "a"), take(&mut plan, "b")];
    steps(&mut plan, START);
    let After::Retry { charged: 1, after } = plan.ended(START, first, failed()) else { panic!("it is not retried") };
    assert!(after >= SECOND / 10 && after <= SECOND, "{after:?}");
    plan.ended(START, other, End::Gone);
    assert_eq!(steps(&mut plan, START), [], "its successor waits");
    assert_eq!(plan.wake_at(), START + after);
    assert_eq!(steps(&mut plan, START + after), [Step::Handle(first)]);
    plan.ended(START, first, End::Gone);
    assert_eq!(steps(&mut plan, START), [Step::Handle(second)]);
}

#[test]
fn what_failed_by_no_fault_of_its_own_is_tried_for_ever_and_the_pauses_grow() {
    let mut plan = plan(rules());
    let number = take(&mut plan, "a");
    let mut longest = Duration::ZERO;
    let mut now = START;
    for _ in 0..100 {
        assert_eq!(steps(&mut plan, now), [Step::Handle(number)]);
        let After::Retry { charged: 0, after } = plan.ended(now, number, End::Again) else { panic!("it is charged") };
        longest = longest.max(after);
        now = now + after;
    }
    assert!(longest > SECOND * 100 && longest <= SECOND * 300, "{longest:?}");
}

#[test]
fn after_its_last_attempt_it_is_buried_and_its_key_goes_on() {
    let mut plan = plan(rules());
    let [first, second] = [take(&mut plan, "a"), take(&mut plan, "a")];
    for charged in 1..3 {
        assert_eq!(steps(&mut plan, after(u64::from(charged) * 10)), [Step::Handle(first)]);
        assert!(
            matches!(plan.ended(after(u64::from(charged) * 10), first, failed()), After::Retry { charged: c, .. } if c == charged)
        );
    }
    assert_eq!(steps(&mut plan, after(40)), [Step::Handle(first)]);
    assert_eq!(plan.ended(after(40), first, failed()), After::GivenUp { charged: 3 });
    let given_up = GivenUp { reason: DeadReason::Attempts, attempts: 3, error: "no such item".to_owned() };
    assert_eq!(steps(&mut plan, after(40)), [Step::Bury(first, Arc::new(given_up.clone()))]);
    // The place is away: tried again, and never handled again.
    assert!(
        matches!(plan.ended(after(40), first, End::NotBuried), After::Retry { charged: 3, after } if after <= SECOND)
    );
    assert_eq!(steps(&mut plan, after(41)), [Step::Bury(first, Arc::new(given_up))]);
    plan.ended(after(41), first, End::Gone);
    assert_eq!(steps(&mut plan, after(41)), [Step::Handle(second)]);
}

#[test]
fn what_says_that_it_is_over_is_buried_at_once() {
    let mut plan = plan(rules());
    let number = take(&mut plan, "a");
    steps(&mut plan, START);
    let end = End::GiveUp(DeadReason::Expired, "too old".to_owned());
    assert_eq!(plan.ended(START, number, end), After::GivenUp { charged: 1 });
    let given_up = GivenUp { reason: DeadReason::Expired, attempts: 1, error: "too old".to_owned() };
    assert_eq!(steps(&mut plan, START), [Step::Bury(number, Arc::new(given_up))]);
}

#[test]
fn without_a_place_for_them_none_is_given_up_and_the_pause_is_the_longest() {
    let mut plan = plan(Rules { graveyard: Graveyard::Nowhere, ..rules() });
    let number = take(&mut plan, "a");
    let mut now = START;
    for charged in 1..10 {
        assert_eq!(steps(&mut plan, now), [Step::Handle(number)]);
        let after = match plan.ended(now, number, failed()) {
            After::Retry { after, .. } if charged < 3 => after,
            After::Stuck { after, .. } if charged >= 3 => after,
            other => panic!("{charged}: {other:?}"),
        };
        assert_eq!(after == SECOND * 300, charged >= 3, "{after:?}");
        now = now + after;
    }
}

#[test]
fn what_is_no_message_is_buried_at_once_and_without_a_place_it_is_kept_while_others_flow() {
    let broken = || Arrival { fault: Some("no UUID".to_owned()), ..arrival(Line::Place(Place::new("ORDERS/17"))) };
    let mut buries = plan(rules());
    let number = buries.take_in(START, broken());
    let given_up = GivenUp { reason: DeadReason::Malformed, attempts: 0, error: "no UUID".to_owned() };
    assert_eq!(steps(&mut buries, START), [Step::Bury(number, Arc::new(given_up))]);
    let mut keeps = plan(Rules { graveyard: Graveyard::Nowhere, concurrency: 1, ..rules() });
    let number = keeps.take_in(START, broken());
    let other = take(&mut keeps, "a");
    assert_eq!(steps(&mut keeps, START), [Step::Keep(number), Step::Handle(other)]);
    assert_eq!(keeps.wake_at(), after(300));
    keeps.ended(START, other, End::Gone);
    assert_eq!(steps(&mut keeps, after(300)), [Step::Keep(number)]);
}

#[test]
fn the_broker_hears_of_every_message_with_which_nothing_is_done() {
    let mut plan = plan(Rules { extend_every: Some(SECOND * 10), concurrency: 1, ..rules() });
    let [runs, waits] = [take(&mut plan, "a"), take(&mut plan, "a")];
    assert_eq!(steps(&mut plan, START), [Step::Handle(runs)]);
    assert_eq!(plan.wake_at(), after(10));
    assert_eq!(steps(&mut plan, after(10)), [Step::Extend(waits)], "what runs says so itself");
    assert_eq!(plan.ended(after(11), waits, End::Extended), After::Nothing);
    assert_eq!(plan.wake_at(), after(20), "it counts from the word, and not from its answer");
    // What became first meanwhile begins when the broker has answered.
    assert_eq!(steps(&mut plan, after(21)), [Step::Extend(waits)]);
    plan.ended(after(21), runs, End::Gone);
    assert_eq!(steps(&mut plan, after(21)), []);
    plan.ended(after(22), waits, End::Extended);
    assert_eq!(steps(&mut plan, after(22)), [Step::Handle(waits)]);
    // So does one whose time has come meanwhile.
    let After::Retry { after: pause, .. } = plan.ended(after(22), waits, failed()) else { panic!("it is not retried") };
    assert_eq!(plan.wake_at(), after(22) + pause);
}

#[test]
fn a_word_that_is_answered_late_keeps_nothing_from_beginning() {
    let mut plan = plan(Rules { extend_every: Some(SECOND), concurrency: 1, ..rules() });
    let [runs, waits] = [take(&mut plan, "a"), take(&mut plan, "a")];
    assert_eq!(steps(&mut plan, START), [Step::Handle(runs)]);
    assert_eq!(steps(&mut plan, after(1)), [Step::Extend(waits)]);
    plan.ended(after(2), runs, End::Gone);
    plan.ended(after(3), waits, End::Extended);
    assert_eq!(steps(&mut plan, after(3)), [Step::Handle(waits)]);
}

#[test]
fn one_that_is_lost_while_it_waits_lets_its_key_go_on() {
    let mut plan = plan(Rules { extend_every: Some(SECOND), ..rules() });
    let [first, second, third] = ["a", "a", "a"].map(|name| take(&mut plan, name));
    steps(&mut plan, START);
    plan.ended(START, first, End::Again);
    assert_eq!(steps(&mut plan, after(1)).len(), 3, "first or its next attempt, and both behind it");
    plan.ended(after(1), second, End::Gone);
    plan.ended(after(1), first, End::Gone);
    plan.ended(after(1), third, End::Extended);
    assert_eq!(steps(&mut plan, after(1)), [Step::Handle(third)]);
}

#[test]
fn on_stop_each_line_is_given_back_from_its_first_on_and_what_runs_may_end() {
    let mut plan = plan(rules());
    let [runs, behind, waits, last] = ["a", "a", "b", "b"].map(|name| take(&mut plan, name));
    steps(&mut plan, START);
    plan.ended(START, waits, failed());
    plan.stop();
    assert_eq!(steps(&mut plan, START), [Step::Release(waits)]);
    plan.ended(START, waits, End::Gone);
    assert_eq!(steps(&mut plan, START), [Step::Release(last)]);
    plan.ended(START, last, End::Gone);
    assert_eq!(plan.ended(START, runs, failed()), After::Release);
    assert_eq!(steps(&mut plan, START), [Step::Release(runs)]);
    plan.ended(START, runs, End::Gone);
    assert_eq!(steps(&mut plan, START), [Step::Release(behind)]);
    assert!(!plan.is_empty());
    plan.ended(START, behind, End::Gone);
    assert!(plan.is_empty());
}

#[test]
fn on_stop_also_what_the_broker_is_hearing_of_is_given_back() {
    let mut plan = plan(Rules { extend_every: Some(SECOND), ..rules() });
    let number = take(&mut plan, "a");
    steps(&mut plan, START);
    plan.ended(START, number, End::GiveUp(DeadReason::Malformed, String::new()));
    steps(&mut plan, START);
    plan.ended(START, number, End::NotBuried);
    let suspect = delivered(&mut plan, "b", 4);
    plan.rules.concurrency = 0;
    assert_eq!(steps(&mut plan, after(1)), [Step::Extend(number), Step::Extend(suspect)]);
    plan.stop();
    assert_eq!(steps(&mut plan, after(1)), []);
    plan.ended(after(1), number, End::Extended);
    plan.ended(after(1), suspect, End::Extended);
    assert_eq!(steps(&mut plan, after(1)), [Step::Release(number), Step::Release(suspect)]);
}

#[test]
fn one_that_was_delivered_too_often_is_handled_alone_once() {
    let mut plan = plan(rules());
    let ordinary = delivered(&mut plan, "a", 3);
    assert_eq!(steps(&mut plan, START), [Step::Handle(ordinary)]);
    let [suspect, later] = [delivered(&mut plan, "b", 4), take(&mut plan, "c")];
    assert_eq!(steps(&mut plan, START), [], "what runs comes to its end first");
    plan.ended(START, ordinary, End::Gone);
    assert_eq!(steps(&mut plan, START), [Step::Handle(suspect)], "and nothing beside it");
    assert!(matches!(plan.ended(START, suspect, failed()), After::Retry { charged: 1, .. }));
    assert_eq!(steps(&mut plan, START), [Step::Handle(later)]);
    assert_eq!(steps(&mut plan, after(1)), [Step::Handle(suspect)], "it killed nobody: it is one like the others");
}

#[test]
fn among_those_that_were_delivered_too_often_any_may_be_the_first() {
    let first_of = |seed| {
        let mut plan = Plan::new(Rules { window: 20, ..rules() }, Jitter::seeded(seed));
        for n in 0..10 {
            let _ = delivered(&mut plan, &n.to_string(), 4);
        }
        plan.next(START)
    };
    let mut firsts: Vec<_> = (0..100).map(|seed| format!("{:?}", first_of(seed))).collect();
    firsts.sort_unstable();
    firsts.dedup();
    assert_eq!(firsts.len(), 10);
}

#[test]
fn one_that_ended_no_delivery_is_given_up_unbegun_and_only_then() {
    // Twice as many deliveries as attempts, and ten more than attempts at least.
    for (attempts, last) in [(1, 11), (3, 13), (10, 20), (30, 60)] {
        let retry = RetryPolicy { attempts: Attempts::AtMost(attempts), ..RetryPolicy::default() };
        let begun = |deliveries, graveyard| {
            let mut plan = plan(Rules { retry, graveyard, ..rules() });
            delivered(&mut plan, "a", deliveries);
            plan.next(START).unwrap()
        };
        assert!(matches!(begun(last, Graveyard::Given), Step::Handle(_)), "{attempts}");
        let Step::Bury(_, given_up) = begun(last + 1, Graveyard::Given) else { panic!("{attempts}: it is begun") };
        assert_eq!((given_up.reason, given_up.attempts), (DeadReason::Attempts, last));
        assert!(matches!(begun(u32::MAX, Graveyard::Nowhere), Step::Handle(_)));
    }
    let retry = RetryPolicy { attempts: Attempts::Unlimited, ..RetryPolicy::default() };
    let mut plan = plan(Rules { retry, ..rules() });
    let number = delivered(&mut plan, "a", u32::MAX);
    assert_eq!(steps(&mut plan, START), [Step::Handle(number)]);
}

/// One message kills its program, and all of its key are delivered as often as it. They have their turn, alone, behind it.
#[test]
fn what_was_delivered_behind_one_that_kills_its_program_is_handled_alone_and_not_given_up_with_it() {
    let retry = RetryPolicy { attempts: Attempts::AtMost(10), ..RetryPolicy::default() };
    let mut plan = plan(Rules { retry, ..rules() });
    let [killer, second, third] = [(); 3].map(|()| delivered(&mut plan, "a", 21));
    let other = take(&mut plan, "b");
    let buried = steps(&mut plan, START);
    assert!(matches!(buried[..], [Step::Bury(number, _), Step::Handle(beside)] if (number, beside) == (killer, other)));
    plan.ended(START, killer, End::Gone);
    assert!(steps(&mut plan, START).is_empty(), "the next one is handled alone");
    plan.ended(START, other, End::Gone);
    for innocent in [second, third] {
        assert_eq!(steps(&mut plan, START), [Step::Handle(innocent)]);
        plan.ended(START, innocent, End::Gone);
    }
    assert!(plan.is_empty());
}

#[test]
fn what_is_not_in_hand_any_more_changes_nothing() {
    let mut plan = plan(rules());
    let number = take(&mut plan, "a");
    steps(&mut plan, START);
    plan.ended(START, number, End::Gone);
    assert_eq!(plan.ended(START, number, failed()), After::Nothing);
    assert!(plan.is_empty() && plan.lines.is_empty() && plan.ready.is_empty());
    assert_eq!(plan.wake_at(), Tick::FAR);
}
