//! What the relay tells of itself, note by note and moment by moment.

use std::sync::Mutex;

use postrider_brokers::memory::MemoryBroker;
use postrider_core::machine::{DestinationSettings, Event, Ordering, Settings};
use postrider_core::{
    Broker, DeadReason, DestinationName, DestinationTemplate, HeldLane, Key, Lane, MessageId, RowId, Start, Term, Topic,
};

use super::*;
use crate::observed::logged;

const PATIENCE: Duration = Duration::from_secs(3);

fn at(millis: u64) -> Tick {
    Tick::after_start(Duration::from_millis(millis))
}

fn report() -> Report {
    Report::new(true, PATIENCE, None)
}

/// A machine with two destinations, `a` and `b`, which holds so many lanes.
fn machine(lanes: u16) -> Machine {
    let destination = |name| DestinationSettings {
        name: DestinationName::new(name),
        profile: MemoryBroker::counting().profile(),
        template: DestinationTemplate::topic(),
    };
    let mut machine = Machine::new(Settings::new(["a", "b"].map(destination).to_vec(), Vec::new()));
    let held = |lane| HeldLane { lane: Lane(lane), term: Term(1), start: Start::Clean };
    machine.on(Tick::ZERO, Event::Gained((0..lanes).map(held).collect()));
    machine.on(Tick::ZERO, Event::Trusted(at(60_000)));
    machine
}

fn away(kind: ErrorKind) -> Error {
    Error::new(kind, "no answer")
}

fn failed(id: MessageId, destination: &str) -> Note {
    let (topic, destination) = (Topic::unchecked("t"), DestinationName::new(destination));
    Note::Failed { id, topic, destination, kind: ErrorKind::Throttled, text: "slow".to_owned() }
}

fn retry() -> Note {
    Note::Retry { id: MessageId::fresh(), attempts: 1, after: Duration::ZERO }
}

fn dead() -> Note {
    let (row, reason, text) = (RowId(7), DeadReason::Expired, "too late".to_owned());
    let (topic, key) = (Some(Topic::unchecked("t")), Some(Key::unchecked("k")));
    Note::Dead { id: None, row, topic, key, reason, text }
}

fn dropped() -> Note {
    Note::Dropped { id: None, topic: Topic::unchecked("t") }
}

#[test]
fn what_becomes_of_messages_is_counted() {
    let mut report = report();
    for note in [Note::Delivered(2), retry(), retry(), retry(), dead(), dropped(), Note::Delivered(3), dropped()] {
        report.note(&note);
    }
    let summary = report.summary(&machine(0));
    let counts = [summary.delivered, summary.retried, summary.dead, summary.dropped];
    assert_eq!(counts, [5, 3, 1, 2]);
    let last = report.last();
    assert_eq!([last.delivered, last.retried, last.dead, last.dropped], counts);
}

#[test]
fn each_destination_has_its_own_account_which_outlives_every_snapshot() {
    let (mut report, machine) = (report(), machine(1));
    report.show(at(0), &machine);
    let (first, second) = (MessageId::fresh(), MessageId::fresh());
    let accepted = |name, count| Note::Accepted(DestinationName::new(name), count);
    for note in [accepted("b", 4), accepted("a", 2), failed(first, "b"), failed(second, "b"), accepted("b", 1)] {
        report.note(&note);
    }
    for shown in [at(100), at(200)] {
        let destinations = report.show(shown, &machine).unwrap().destinations;
        let accounts: Vec<_> =
            destinations.iter().map(|found| (found.name.as_str(), found.accepted, found.failed)).collect();
        assert_eq!(accounts, [("a", 2, 0), ("b", 5, 2)]);
        let last: Vec<_> = destinations.into_iter().map(|found| found.last_failed).collect();
        assert_eq!(last, [None, Some((second, Topic::unchecked("t")))]);
    }
}

#[test]
fn progress_is_what_was_recorded_and_not_what_was_read_or_accepted() {
    let progresses = |note: &Note| {
        let mut report = report();
        report.note(note);
        report.last().last_progress.is_some()
    };
    let recorded = [Note::Delivered(1), retry(), dead(), dropped(), Note::SetAside(1)];
    assert!(recorded.iter().all(progresses));
    let accepted = Note::Accepted(DestinationName::new("a"), 1);
    let others = [Note::Read(1), accepted, failed(MessageId::fresh(), "a"), Note::StoreBack];
    assert!(!others.iter().any(progresses));
}

#[derive(Debug, Default)]
struct Watch(Mutex<Vec<GaveUp>>);

impl DeadWatch for Watch {
    fn gave_up(&self, dead: GaveUp) {
        self.0.lock().unwrap().push(dead);
    }
}

#[test]
fn who_watches_is_told_of_each_message_that_is_given_up() {
    let watch = Arc::new(Watch::default());
    let mut report = Report::new(false, PATIENCE, Some(Arc::<Watch>::clone(&watch)));
    [dropped(), dead(), retry()].iter().for_each(|note| report.note(note));
    let (topic, key) = (Some(Topic::unchecked("t")), Some(Key::unchecked("k")));
    let error = "too late".to_owned();
    let told = GaveUp { id: None, row: RowId(7), topic, key, reason: DeadReason::Expired, error };
    assert_eq!(*watch.0.lock().unwrap(), [told]);
}

#[test]
fn a_store_that_can_never_work_as_it_is_ends_the_relay_before_it_was_answered_once() {
    let mut report = report();
    report.store_away(away(ErrorKind::Unavailable)).unwrap();
    assert_eq!(report.store_away(away(ErrorKind::Config)).unwrap_err().kind(), ErrorKind::Config);
    report.store_answers();
    report.store_away(away(ErrorKind::Config)).unwrap();
    report.store_away(away(ErrorKind::Unavailable)).unwrap();
}

/// Once for all that were left without an answer, as it is said of a destination that goes on.
#[test]
fn it_is_logged_when_the_store_does_not_answer_and_when_it_answers_again() {
    let mut report = report();
    let left_alone = || Note::StoreAway(ErrorKind::Unavailable, "no answer".to_owned(), None);
    let away = "WARN message=the store did not answer; trying again kind=unavailable error=no answer";
    let back = "INFO message=the store answers again";
    let before = logged(|| {
        report.store_away(self::away(ErrorKind::Unavailable)).unwrap();
        report.store_answers();
        report.store_answers();
    });
    assert_eq!(before, [away, back], "before the first round was answered");
    let later = logged(|| {
        report.note(&left_alone());
        report.store_away(self::away(ErrorKind::Unavailable)).unwrap();
        report.store_answers();
        report.note(&left_alone());
        report.note(&Note::StoreBack);
    });
    assert_eq!(later, [away, back], "both were away");
}

#[test]
fn what_to_do_about_a_store_that_is_away_is_shown_until_it_is_back() {
    let mut report = report();
    let told = |report: &Report| (report.snapshot.store_error.clone(), report.snapshot.store_advice.clone());
    let full = Error::new(ErrorKind::Unavailable, "the disk is full").advise("free some space");
    report.store_away(full).unwrap();
    let (error, advice) = ("the disk is full; free some space".to_owned(), "free some space".to_owned());
    assert_eq!(told(&report), (Some(error.clone()), Some(advice.clone())));
    report.store_answers();
    assert_eq!(told(&report), (None, None));
    report.note(&Note::StoreAway(ErrorKind::Unavailable, error.clone(), Some(advice.clone())));
    assert_eq!(told(&report), (Some(error), Some(advice)));
    report.note(&Note::StoreBack);
    assert_eq!(told(&report), (None, None));
}

#[test]
fn a_snapshot_is_renewed_every_tenth_of_a_second() {
    let (mut report, machine) = (report(), machine(0));
    let shown = [0, 50, 99, 100, 150, 199, 201, 300, 301].map(|millis| report.show(at(millis), &machine).is_some());
    assert_eq!(shown, [true, false, false, true, false, false, true, false, true]);
}

#[test]
fn a_relay_that_stops_is_shown_as_it_is_at_every_moment() {
    let (mut report, machine) = (report(), machine(1));
    report.store_answers();
    report.show(at(0), &machine);
    report.stopping();
    for millis in [1, 2] {
        assert_eq!(report.show(at(millis), &machine).unwrap().state, RelayState::Stopping);
    }
}

/// Whoever asks whether it is ready is told no until it has ended.
#[test]
fn a_relay_that_stops_is_shown_as_stopping_while_its_store_is_away_and_when_it_is_back() {
    let (mut report, machine) = (report(), machine(1));
    report.store_answers();
    report.stopping();
    for note in [Note::StoreAway(ErrorKind::Unavailable, "no answer".to_owned(), None), Note::StoreBack] {
        report.note(&note);
        assert_eq!(report.show(at(100), &machine).unwrap().state, RelayState::Stopping, "{note:?}");
        assert!(!report.wants_count(at(100), &machine), "{note:?}");
    }
}

#[test]
fn the_state_says_what_the_relay_is_doing() {
    let (with, without) = (machine(2), machine(0));
    let mut report = report();
    let show = |report: &mut Report, second: u64, machine: &Machine| {
        let shown = report.show(at(second * 1_000), machine).unwrap();
        (shown.state, shown.store_error, shown.lanes.len())
    };
    let text = || Some("no answer".to_owned());
    assert_eq!(show(&mut report, 0, &without), (RelayState::Starting, None, 0));
    report.store_away(away(ErrorKind::Unavailable)).unwrap();
    assert_eq!(show(&mut report, 1, &without), (RelayState::StoreAway, text(), 0));
    report.store_answers();
    assert_eq!(show(&mut report, 2, &without), (RelayState::Standby, None, 0));
    assert_eq!(show(&mut report, 3, &with), (RelayState::Relaying, None, 2));
    report.note(&Note::StoreAway(ErrorKind::Unknown, "no answer".to_owned(), None));
    assert_eq!(show(&mut report, 4, &with), (RelayState::StoreAway, text(), 2));
    report.note(&Note::StoreBack);
    assert_eq!(show(&mut report, 5, &with), (RelayState::Relaying, None, 2));
    assert_eq!(show(&mut report, 60, &with), (RelayState::Standby, None, 0), "another relay may have them");
}

#[test]
fn a_snapshot_tells_what_is_in_the_machine() {
    let (mut report, machine) = (report(), machine(2));
    let shown = report.show(at(0), &machine).unwrap();
    assert_eq!((shown.lanes, shown.ordering), (vec![Lane(0), Lane(1)], Ordering::Key));
    assert_eq!((shown.window_rows, shown.window_bytes, shown.destinations.len()), (0, 0, 2));
}

#[test]
fn the_last_snapshot_says_that_it_is_over() {
    let (mut report, machine) = (report(), machine(2));
    report.store_answers();
    report.note(&Note::Delivered(3));
    assert_eq!(report.show(at(0), &machine).unwrap().state, RelayState::Relaying);
    let last = report.last();
    assert_eq!((last.state, last.lanes, last.delivered), (RelayState::Stopped, Vec::new(), 3));
}

/// A member without lanes, which runs until the outbox is empty.
fn standing_by() -> Report {
    let mut report = report();
    report.store_answers();
    report
}

#[test]
fn a_member_without_lanes_asks_whether_the_outbox_is_empty_and_waits_for_the_answer() {
    let (mut report, machine) = (standing_by(), machine(0));
    assert!(report.wants_count(at(0), &machine));
    assert!(!report.wants_count(at(1_000), &machine), "it has not been answered");
    report.counted(at(1_000), None);
    assert!(report.wants_count(at(1_000), &machine));
}

#[test]
fn a_tenth_of_a_second_lies_between_two_questions() {
    let (mut report, machine) = (standing_by(), machine(0));
    let asks = [0, 50, 99, 100, 150, 199, 201].map(|millis| {
        let asks = report.wants_count(at(millis), &machine);
        report.counted(at(millis), Some((Rest::More, Left::default())));
        asks
    });
    assert_eq!(asks, [true, false, false, true, false, false, true]);
}

#[test]
fn a_relay_that_does_not_run_until_empty_or_stops_already_asks_nothing() {
    let machine = machine(0);
    let mut lasting = Report::new(false, PATIENCE, None);
    lasting.store_answers();
    assert!(!lasting.wants_count(at(0), &machine));
    let mut stopping = standing_by();
    stopping.stopping();
    assert!(!stopping.wants_count(at(0), &machine));
}

#[test]
fn a_relay_that_still_has_to_read_or_is_no_member_asks_nothing() {
    assert!(!standing_by().wants_count(at(0), &machine(1)), "its lane was never read");
    assert!(!report().wants_count(at(0), &machine(0)), "it may get lanes yet");
}

/// Else it waits without a word for what another one does.
#[test]
fn a_run_until_empty_beside_relays_that_have_every_lane_says_so_once_after_its_patience() {
    let mut report = standing_by();
    let mut lines = |millis, lanes| {
        logged(|| {
            report.wants_count(at(millis), &machine(lanes));
        })
    };
    let patience = u64::try_from(PATIENCE.as_millis()).unwrap();
    assert!(lines(0, 0).is_empty() && lines(patience - 1, 0).is_empty());
    let told = lines(patience, 0);
    assert!(told.len() == 1 && told[0].contains("other relays have every lane"), "{told:?}");
    assert!(lines(patience * 3, 0).is_empty(), "it was told");
    assert!(lines(patience * 4, 1).is_empty() && lines(patience * 5, 0).is_empty());
    assert_eq!(lines(patience * 6, 0), told, "they have them again");
}

/// So long as its destination pauses, nothing is quiet; and it may pause for ever.
#[test]
fn a_destination_that_pauses_longer_than_the_patience_ends_a_run_until_empty() {
    let machine = machine(1);
    let paused = |long: Option<Duration>| DestinationSnapshot {
        name: DestinationName::new("a"),
        paused: long.map(|long| (ErrorKind::Unavailable, "down".to_owned(), long)),
        silent: None,
        accepted: 0,
        failed: 0,
        last_failed: None,
    };
    let ends = |pauses: [Option<Duration>; 2]| {
        let mut report = standing_by();
        report.snapshot.destinations = pauses.map(paused).to_vec();
        assert!(!report.wants_count(at(0), &machine));
        report.has_ended()
    };
    let shorter = PATIENCE - Duration::from_millis(1);
    assert!(!ends([None, None]) && !ends([Some(shorter), None]));
    assert!(ends([Some(shorter), Some(PATIENCE)]) && ends([Some(PATIENCE * 2), None]));
}

/// Each destination gets what is its own before the run ends.
#[test]
fn a_paused_destination_does_not_end_a_run_until_empty_while_another_one_accepts() {
    let machine = machine(1);
    let mut report = standing_by();
    report.snapshot.destinations = vec![DestinationSnapshot {
        name: DestinationName::new("a"),
        paused: Some((ErrorKind::Unavailable, "down".to_owned(), PATIENCE * 2)),
        silent: None,
        accepted: 0,
        failed: 0,
        last_failed: None,
    }];
    for millis in [0, 2_000, 4_000] {
        report.note(&Note::Accepted(DestinationName::new("b"), 1));
        assert!(!report.wants_count(at(millis), &machine) && !report.has_ended(), "{millis}");
    }
    report.wants_count(at(6_999), &machine);
    assert!(!report.has_ended());
    report.wants_count(at(7_000), &machine);
    assert!(report.has_ended());
}

#[test]
fn an_empty_outbox_ends_a_run_until_empty_and_what_is_left_is_told() {
    let left = Left { delayed: 1, dead: 2, holding: 3, held_back: 4 };
    let after = |rest: Option<Rest>| {
        let mut report = standing_by();
        report.counted(at(0), rest.map(|rest| (rest, left)));
        (report.has_ended(), report.summary(&machine(0)).left)
    };
    assert_eq!(after(Some(Rest::Nothing)), (true, Some(left)));
    for rest in [Some(Rest::More), Some(Rest::Retrying(1)), None] {
        assert_eq!(after(rest), (false, None), "{rest:?}");
    }
}

#[test]
fn messages_that_no_route_leads_anywhere_end_a_run_until_empty_after_its_patience() {
    let mut report = standing_by();
    report.note(&Note::Nowhere { id: MessageId::fresh(), text: "add a route".to_owned() });
    let rest = || Some((Rest::Retrying(1), Left::default()));
    report.counted(at(0), rest());
    report.counted(at(2_999), rest());
    assert!(!report.has_ended());
    report.counted(at(3_000), rest());
    assert!(report.has_ended());
    assert_eq!(report.summary(&machine(0)).unroutable, Some((1, "add a route".to_owned())));
}

#[test]
fn the_loop_turns_in_time_for_the_next_snapshot() {
    let (mut report, machine) = (report(), machine(0));
    assert_eq!(report.wake(at(9_000)), at(9_000));
    report.show(at(500), &machine);
    assert_eq!((report.wake(at(9_000)), report.wake(at(550))), (at(600), at(550)));
}
