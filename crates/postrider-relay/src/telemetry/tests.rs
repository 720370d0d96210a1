//! What of the relay is counted, shown and logged, and as what.

use postrider_core::{HeldLane, Key, Lane, Measured, MessageId, RelayId, RowId, Term, Tick};

use super::*;
use crate::observed::{logged, measured};

fn shown(metrics: &[(&str, f64)]) -> std::collections::BTreeMap<String, f64> {
    metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

fn out() -> DestinationName {
    DestinationName::new("out")
}

fn held(lane: u16, start: Start) -> HeldLane {
    HeldLane { lane: Lane(lane), term: Term(1), start }
}

fn retry(id: MessageId) -> Note {
    Note::Retry { id, attempts: 2, after: Duration::from_millis(1_500) }
}

fn dead(id: Option<MessageId>, topic: Option<Topic>) -> Note {
    let (row, reason, text) = (RowId(7), DeadReason::Expired, "too late".to_owned());
    Note::Dead { id, row, topic, key: Some(Key::unchecked("k")), reason, text }
}

#[test]
fn what_somebody_is_woken_for_is_counted_from_nought() {
    let expected = [
        ("postrider_dead_total reason=attempts", 0.0),
        ("postrider_dead_total reason=malformed", 0.0),
        ("postrider_dead_total reason=expired", 0.0),
        ("postrider_dead_total reason=relay-died", 0.0),
        ("postrider_dead_total reason=operator", 0.0),
        ("postrider_fenced_total", 0.0),
        ("postrider_sweep_found_total", 0.0),
    ];
    assert_eq!(measured(begin), shown(&expected));
}

#[test]
fn the_time_of_every_call_is_measured() {
    let found = measured(|| {
        read_took(started());
        (0..2).for_each(|_| settle_took(started()));
        (0..3).for_each(|_| publish_took(&out(), started()));
    });
    let expected = [
        ("postrider_read_seconds", 1.0),
        ("postrider_settle_seconds", 2.0),
        ("postrider_publish_seconds destination=out", 3.0),
    ];
    assert_eq!(found, shown(&expected));
}

#[test]
fn every_note_of_the_machine_is_counted() {
    let id = MessageId::fresh();
    let failed = |kind| {
        let (topic, destination) = (Topic::unchecked("t"), out());
        Note::Failed { id, topic, destination, kind, text: "no".to_owned() }
    };
    let notes = [
        (Note::Read(2), "postrider_read_total", 2.0),
        (Note::Accepted(out(), 3), "postrider_accepted_total destination=out", 3.0),
        (Note::Delivered(4), "postrider_delivered_total", 4.0),
        (Note::SetAside(5), "postrider_set_aside_total", 5.0),
        (failed(ErrorKind::Throttled), "postrider_failed_total destination=out kind=throttled", 1.0),
        (retry(id), "postrider_retries_total", 1.0),
        (dead(Some(id), None), "postrider_dead_total reason=expired", 1.0),
        (Note::Dropped { id: Some(id), topic: Topic::unchecked("t") }, "postrider_dropped_total", 1.0),
        (Note::Fenced(held(3, Start::Clean)), "postrider_fenced_total", 1.0),
        (Note::SweepFound(6), "postrider_sweep_found_total", 6.0),
        (Note::StoreAway(ErrorKind::Config, "no".to_owned(), None), "postrider_store_errors_total kind=config", 1.0),
        (
            Note::Paused(out(), ErrorKind::Unavailable, "no".to_owned()),
            "postrider_destination_paused destination=out",
            1.0,
        ),
        (Note::Resumed(out()), "postrider_destination_paused destination=out", 0.0),
    ];
    for (heard, name, value) in notes {
        assert_eq!(measured(|| note(&heard, None)), shown(&[(name, value)]), "{heard:?}");
    }
    for heard in [Note::StoreBack, Note::Nowhere { id, text: String::new() }] {
        assert!(measured(|| note(&heard, None)).is_empty(), "{heard:?}");
    }
}

#[test]
fn a_retry_is_logged_with_its_cause_and_as_a_warning_where_it_does_not_pass_by_itself() {
    let id = MessageId::fresh();
    let line = |at, kind| {
        let cause = Cause { at, kind, text: "no stream".to_owned() };
        logged(|| note(&retry(id), Some(&cause))).concat()
    };
    let told = |level, at, kind| {
        format!(
            "{level} message=message will be tried again id={id}{at} attempts=2 after_ms=1500 kind={kind} error=no stream"
        )
    };
    let at = || Some((Topic::unchecked("orders"), out()));
    assert_eq!(line(at(), ErrorKind::Config), told("WARN", " topic=orders destination=out", "config"));
    assert_eq!(line(at(), ErrorKind::Throttled), told("INFO", " topic=orders destination=out", "throttled"));
    assert_eq!(line(None, ErrorKind::Config), told("WARN", "", "config"), "it leads nowhere");
    let without = format!("INFO message=message will be tried again id={id} attempts=2 after_ms=1500");
    assert_eq!(logged(|| note(&retry(id), None)), [without]);
}

#[test]
fn a_dead_letter_is_logged_as_an_error_that_says_which_and_why() {
    let id = MessageId::fresh();
    let lines = logged(|| note(&dead(Some(id), Some(Topic::unchecked("orders"))), None));
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.starts_with("ERROR "), "{line}");
    for part in [&format!("id=\"{id}\""), "row=7", "topic=\"orders\"", "reason=expired", "error=too late"] {
        assert!(line.contains(part), "{part} in {line}");
    }
}

#[test]
fn of_a_row_that_is_no_message_only_what_is_known_is_logged() {
    let line = logged(|| note(&dead(None, None), None)).concat();
    assert!(line.contains("row=7") && !line.contains("id=") && !line.contains("topic="), "{line}");
    let dropped = Note::Dropped { id: None, topic: Topic::unchecked("t") };
    let line = logged(|| note(&dropped, None)).concat();
    assert!(line.contains("topic=t") && !line.contains("id="), "{line}");
}

#[test]
fn lanes_that_come_and_go_are_logged_and_how_many_of_them_come_after_a_death() {
    let lanes = vec![held(0, Start::Careful), held(1, Start::Clean), held(2, Start::Careful)];
    let me = RelayId(uuid::Uuid::from_u128(1));
    let news = [
        (LeaseNews::Joined(me), Some(format!("DEBUG message=this relay joined the others of its outbox id={me}"))),
        (LeaseNews::Gained(lanes.clone()), Some("INFO message=lanes were taken lanes=3 after_a_death=2".to_owned())),
        (LeaseNews::Lost(vec![Lane(1)]), Some("WARN message=lanes belong to another relay now lanes=1".to_owned())),
        (LeaseNews::Surplus(lanes), Some("INFO message=lanes are handed to another relay lanes=3".to_owned())),
        (
            LeaseNews::Evicted,
            Some("WARN message=the lease ran out and the lanes went to others; joining again".to_owned()),
        ),
        (LeaseNews::Trusted(Tick::FAR), None),
        (LeaseNews::Left, None),
    ];
    for (heard, expected) in news {
        assert_eq!(logged(|| membership(&heard)), expected.into_iter().collect::<Vec<_>>(), "{heard:?}");
    }
}

#[test]
fn a_store_that_does_not_answer_is_a_warning() {
    let away = logged(|| store_away(ErrorKind::Unavailable, "refused"));
    assert_eq!(away, ["WARN message=the store did not answer; trying again kind=unavailable error=refused"]);
    let late = logged(|| unanswered("settle", Duration::from_secs(5)));
    let [line] = &late[..] else { panic!("{late:?}") };
    assert!(line.starts_with("WARN ") && line.contains("what=\"settle\" seconds=5"), "{line}");
}

#[test]
fn what_could_not_be_archived_is_a_warning_with_its_cause() {
    let line = logged(|| not_archived(&Error::new(ErrorKind::Unavailable, "the disk is full"))).concat();
    assert!(line.starts_with("WARN ") && line.contains("the disk is full") && line.contains("stays"), "{line}");
}

#[test]
fn what_a_check_found_is_a_warning_unless_it_is_good() {
    let of = |level| Finding { level, subject: "s".to_owned(), found: "f".to_owned(), advice: "a".into() };
    let lines = logged(|| findings(&out(), &[Level::Good, Level::Warning, Level::Failure].map(of)));
    let levels: Vec<_> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(levels, ["DEBUG", "WARN", "WARN"]);
    assert!(lines.iter().all(|line| line.contains("destination=out")), "{lines:?}");
}

fn of(lanes: &[u16]) -> RelaySnapshot {
    let lanes = lanes.iter().copied().map(Lane).collect();
    RelaySnapshot { lanes, window_rows: 12, window_bytes: 3_456, ..RelaySnapshot::default() }
}

#[test]
fn lanes_are_shown_when_they_come_and_go() {
    let found = measured(|| snapshot(&of(&[1, 2]), &of(&[2, 3, 4])));
    let expected = [
        ("postrider_window_messages", 12.0),
        ("postrider_window_bytes", 3_456.0),
        ("postrider_lanes_held", 3.0),
        ("postrider_lane_held lane=1", 0.0),
        ("postrider_lane_held lane=2", 1.0),
        ("postrider_lane_held lane=3", 1.0),
        ("postrider_lane_held lane=4", 1.0),
    ];
    assert_eq!(found, shown(&expected));
}

/// An outbox may have thousands of lanes, and this is done ten times a second.
#[test]
fn lanes_that_stay_are_not_shown_again() {
    let found = measured(|| snapshot(&of(&[1, 2]), &of(&[1, 2])));
    assert_eq!(found, shown(&[("postrider_window_messages", 12.0), ("postrider_window_bytes", 3_456.0)]));
}

fn status() -> StoreStatus {
    let [pending, retrying, delayed, set_aside, dead] = [10, 2, 3, 4, 5].map(Measured::Exact);
    let (holding, held_back) = (Measured::Exact(6), Measured::Exact(7));
    StoreStatus {
        pending,
        retrying,
        delayed,
        set_aside,
        dead,
        holding,
        held_back,
        held: Vec::new(),
        oldest_age: Some(Duration::from_millis(1_500)),
        recent_errors: Vec::new(),
        unrouted: Vec::new(),
        members: Vec::new(),
        lanes: Vec::new(),
    }
}

#[test]
fn the_outbox_is_shown_in_numbers() {
    let expected = [
        ("postrider_pending_messages", 10.0),
        ("postrider_retrying_messages", 2.0),
        ("postrider_delayed_messages", 3.0),
        ("postrider_set_aside_messages", 4.0),
        ("postrider_dead_letters", 5.0),
        ("postrider_oldest_pending_seconds", 1.5),
    ];
    assert_eq!(measured(|| store(&status())), shown(&expected));
    let empty = measured(|| store(&StoreStatus { oldest_age: None, ..status() }));
    assert_eq!(empty.get("postrider_oldest_pending_seconds"), Some(&0.0));
}

/// Else two relays show the numbers of one outbox, one of them for ever those of long ago.
#[test]
fn who_shows_the_outbox_no_longer_takes_back_every_number_that_it_showed() {
    let shown: Vec<_> = measured(|| store(&status())).into_keys().collect();
    let taken_back = measured(|| {
        store(&status());
        store_is_shown_elsewhere();
    });
    assert_eq!(taken_back, shown.into_iter().map(|name| (name, 0.0)).collect());
}

#[test]
fn what_the_inbox_forgot_is_counted_as_what_it_was() {
    let found = measured(|| {
        forgotten(&Forgotten { records: 3, partitions: 0, more: true });
        forgotten(&Forgotten { records: 2, partitions: 1, more: false });
    });
    let expected = [
        ("postrider_inbox_forgotten_total what=records", 5.0),
        ("postrider_inbox_forgotten_total what=partitions", 1.0),
    ];
    assert_eq!(found, shown(&expected));
}

#[test]
fn an_inbox_that_cannot_forget_is_counted_and_a_warning_that_says_what_to_do() {
    let error = || Error::new(ErrorKind::Config, "the role lacks a right").advise("run as owner: `grant x`");
    let found = measured(|| not_forgotten(&error()));
    assert_eq!(found, shown(&[("postrider_inbox_errors_total kind=config", 1.0)]));
    let log = logged(|| not_forgotten(&error())).concat();
    for word in ["WARN", "the role lacks a right", "grant x", "messages are relayed"] {
        assert!(log.contains(word), "{word:?} is not in {log}");
    }
}
