//! Each invariant sees what breaks it, and lets pass what does not.

use super::*;
use crate::fleet::WINDOW_ROWS;
use crate::plan::Kind;
use crate::receivers::{ConsumerKind, counted_for};
use crate::record::{Class, Delivered, Effects, Felt, Key, Outcome, Record, Sample, Settled, Takeover, Written};
use crate::settings::{BrokerKind, StoreKind};
use clap::Parser;
use uuid::Uuid;

const SECOND: u64 = 1_000_000;

/// A small run: messages by number, one key, a second apart.
struct Run {
    record: Record,
    dead: Vec<(Uuid, i16)>,
    settings: Settings,
}

fn id(n: u32) -> Uuid {
    Uuid::from_u128(n.into())
}

impl Run {
    fn of(class: Class, numbers: u32) -> Self {
        let settings = ["torture", "--faults", "none", "--relay-bin", "x", "--out", "x"];
        let mut run = Self { record: Record::default(), dead: Vec::new(), settings: Settings::parse_from(settings) };
        for n in 1..=numbers {
            let at = u64::from(n) * SECOND;
            let written = Written {
                key: Key { class, number: 1 },
                n: if class == Class::Unserialised { 0 } else { n },
                begun: Moment(at),
                acknowledged: Moment(at + SECOND / 10),
                outcome: Outcome::Committed,
                not_before: Moment(0),
                not_after: Moment::NEVER,
                print: u64::from(n),
                token: None,
                in_ledger: true,
                settled: None,
            };
            run.record.written.insert(id(n), written);
        }
        run
    }

    fn delivers(mut self, numbers: &[u32]) -> Self {
        for (place, n) in numbers.iter().enumerate() {
            let at = Moment(100 * SECOND + place as u64 * SECOND / 1000);
            let print = u64::from(*n);
            self.record.delivered.push(Delivered { id: id(*n), at, lane: 3, term: 1, attempt: 1, print });
        }
        self
    }

    fn changes(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn fault(mut self, kind: Kind, from: u64, until: u64) -> Self {
        self.record.faults.push(Fault {
            kind,
            from: Moment(from * SECOND),
            until: Moment(until * SECOND),
            target: "r0-0".to_owned(),
            in_flight: 1,
            takeover: Takeover::Needless,
        });
        self
    }

    /// The invariants that were broken.
    fn broken(&self) -> Vec<&'static str> {
        self.judged().findings.iter().filter(|finding| finding.broken > 0).map(|finding| finding.id).collect()
    }

    fn judged(&self) -> Judgement {
        let case = Case {
            settings: &self.settings,
            record: &self.record,
            quiet: &[],
            healed: Moment(100 * SECOND),
            backlog: 0,
            drained: Some(Moment(101 * SECOND)),
            dead: &self.dead,
            pending: &[],
            ended: Moment(110 * SECOND),
        };
        judge(&case)
    }
}

/// A run in which a long fault excuses every wait.
fn disturbed(class: Class, numbers: u32) -> Run {
    Run::of(class, numbers).fault(Kind::BrokerPause, 0, 99)
}

#[test]
fn what_is_whole_breaks_nothing() {
    assert_eq!(disturbed(Class::Serialised, 4).delivers(&[1, 2, 3, 4]).broken(), [""; 0]);
    assert_eq!(disturbed(Class::Serialised, 4).delivers(&[1, 2, 1, 2, 3, 2, 3, 4]).broken(), [""; 0]);
}

#[test]
fn a_lost_message_is_seen_and_a_dead_letter_is_not_lost() {
    assert!(disturbed(Class::Serialised, 3).delivers(&[1, 2]).broken().contains(&"I1"));
    let given_up = disturbed(Class::Poison, 2).delivers(&[]).changes(|run| run.dead = vec![(id(1), 1), (id(2), 1)]);
    assert_eq!(given_up.broken(), [""; 0]);
    let innocent = disturbed(Class::Serialised, 3).delivers(&[1, 3]).changes(|run| run.dead = vec![(id(2), 1)]);
    assert_eq!(innocent.broken(), ["I11"]);
}

#[test]
fn what_expires_is_accounted_for_and_nothing_else_may() {
    let run =
        |class, reason| disturbed(class, 2).delivers(&[1]).changes(|run| run.dead = vec![(id(2), reason)]).broken();
    assert_eq!(run(Class::Expiring, 3), [""; 0]);
    assert_eq!(run(Class::Expiring, 1), ["I11"]);
    assert_eq!(run(Class::Serialised, 3), ["I11"]);
    assert_eq!(run(Class::Held, 1), ["I11"], "it was not replayed");
}

#[test]
fn what_comes_before_its_time_or_after_its_end_is_seen() {
    let run = |not_before: u64, not_after: Moment| {
        let run = Run::of(Class::Delayed, 1).delivers(&[1]);
        run.changes(|run| {
            let written = run.record.written.get_mut(&id(1)).unwrap();
            (written.not_before, written.not_after) = (Moment(not_before * SECOND), not_after);
        })
        .broken()
    };
    assert_eq!(run(99, Moment::NEVER), [""; 0]);
    assert_eq!(run(101, Moment::NEVER), ["I16"]);
    assert_eq!(run(50, Moment::NEVER), ["I9"], "it was due long ago");
    assert_eq!(run(99, Moment(98 * SECOND)), ["I16"]);
}

#[test]
fn what_is_for_later_and_goes_before_what_was_written_before_it_is_seen() {
    let run = |for_later: u32, order: &[u32]| {
        let run = disturbed(Class::Delayed, 2).delivers(order);
        run.changes(|run| run.record.written.get_mut(&id(for_later)).unwrap().not_before = Moment(99 * SECOND)).broken()
    };
    assert_eq!(run(2, &[1, 2]), [""; 0]);
    assert_eq!(run(2, &[2, 1]), ["I3b"]);
    assert_eq!(run(1, &[2, 1]), [""; 0], "it takes its place when it is due");
}

/// Nobody knows what became of an attempt that was not answered: a broker that stood still may store it after those behind it.
#[test]
fn what_was_given_up_at_its_end_may_arrive_behind_what_came_later_than_that() {
    let run = |reason: i16, end: u64| {
        let run = disturbed(Class::Expiring, 3).delivers(&[2, 1, 3]);
        run.changes(|run| {
            run.record.written.get_mut(&id(1)).unwrap().not_after = Moment(end * SECOND);
            run.dead = vec![(id(1), reason)];
        })
        .broken()
        .contains(&"I3b")
    };
    assert!(!run(super::isolation::EXPIRED, 99));
    assert!(run(super::isolation::EXPIRED, 101), "it was waited for until then");
    assert!(run(super::isolation::EXPIRED + 1, 99), "nobody gives that one up for its end");
}

#[test]
fn successors_of_a_held_message_that_go_before_it_are_seen() {
    assert_eq!(Run::of(Class::Held, 3).delivers(&[1, 2, 3]).broken(), [""; 0], "however long they waited");
    assert_eq!(Run::of(Class::Held, 3).delivers(&[1, 3, 2]).broken(), ["I3", "I3b"]);
}

#[test]
fn ghosts_and_changed_bytes_are_seen() {
    assert!(disturbed(Class::Serialised, 1).delivers(&[1, 9]).broken().contains(&"I2"));
    let rolled_back = disturbed(Class::Serialised, 2).delivers(&[1, 2]).changes(|run| {
        let written = run.record.written.get_mut(&id(2)).unwrap();
        (written.in_ledger, written.outcome) = (false, Outcome::RolledBack);
    });
    assert!(rolled_back.broken().contains(&"I2"));
    let changed = disturbed(Class::Serialised, 1).delivers(&[1]).changes(|run| run.record.delivered[0].print = 9);
    assert_eq!(changed.broken(), ["I7"]);
}

#[test]
fn order_is_judged_by_what_the_transactions_promise() {
    assert_eq!(disturbed(Class::Serialised, 3).delivers(&[1, 3, 2]).broken(), ["I3", "I3b"]);
    assert_eq!(disturbed(Class::Unserialised, 3).delivers(&[1, 3, 2]).broken(), ["I3b"]);
    let beside = disturbed(Class::Unserialised, 3).delivers(&[1, 3, 2]).changes(|run| {
        run.record.written.get_mut(&id(3)).unwrap().begun = Moment(SECOND);
    });
    assert_eq!(beside.broken(), [""; 0], "transactions beside each other have no order");
}

#[test]
fn a_repeat_needs_a_fault_that_excuses_it() {
    let run = |kind, from, until| {
        let run = disturbed(Class::Serialised, 1).delivers(&[1, 1]).fault(kind, from, until);
        run.changes(|run| run.record.faults.retain(|fault| fault.kind == kind)).broken()
    };
    assert!(!run(Kind::RelayKill, 97, 98).contains(&"I4"));
    assert!(run(Kind::RelayTerm, 97, 98).contains(&"I4"), "a graceful stop is no excuse");
    assert!(run(Kind::RelayKill, 70, 71).contains(&"I4"), "it was long ago");
}

/// The relay dies within a call that has accepted messages and is not answered, and its successor has a backlog before it.
#[test]
fn a_repeat_by_the_next_owner_may_have_been_in_a_call_that_nobody_heard_the_end_of() {
    let run = |term, killed_at| {
        let run = Run::of(Class::Serialised, 1).delivers(&[1, 1]).fault(Kind::RelayKill, killed_at, killed_at);
        run.changes(|run| {
            run.record.delivered[1].at = Moment(200 * SECOND);
            run.record.delivered[1].term = term;
        })
        .broken()
        .contains(&"I4")
    };
    assert!(!run(2, 101));
    assert!(run(1, 101), "the same owner knows what was accepted");
    assert!(run(2, 104), "no call lasts as long");
}

/// A relay whose connection is cut has at most its window in its hands.
#[test]
fn more_repeats_than_were_in_flight_are_seen() {
    let run = |kind, numbers: u32| {
        let twice: Vec<u32> = (1..=numbers).chain(1..=numbers).collect();
        let run = disturbed(Class::Serialised, numbers).delivers(&twice).fault(kind, 99, 99);
        run.changes(|run| run.record.faults.retain(|fault| fault.kind == kind)).broken().contains(&"I4")
    };
    let window = u32::try_from(WINDOW_ROWS).unwrap();
    assert!(!run(Kind::BrokerCut, window));
    assert!(run(Kind::BrokerCut, window + 1));
    assert!(!run(Kind::BrokerRestart, window + 1), "every relay has its window");
}

#[test]
fn rows_leave_after_their_delivery_by_the_owner_under_its_term() {
    let run = |broker: BrokerKind, at: u64, term: i64, by_owner: bool| {
        let run = disturbed(Class::Serialised, 1).delivers(&[1]);
        let settled = Settled { at: Moment(at * SECOND), term, by_owner };
        run.changes(|run| {
            run.settings.broker = broker;
            run.record.written.get_mut(&id(1)).unwrap().settled = Some(settled);
        })
        .broken()
    };
    for broker in [BrokerKind::Nats, BrokerKind::Http] {
        assert_eq!(run(broker, 101, 1, true), [""; 0]);
        assert_eq!(run(broker, 99, 1, true), ["I6"]);
        assert_eq!(run(broker, 101, 0, true), ["I8"], "under a term of before");
        assert_eq!(run(broker, 101, 1, false), ["I8"]);
    }
    assert_eq!(run(BrokerKind::Http, 101, 2, true), ["I8"], "under a term under which it was not published");
    assert_eq!(run(BrokerKind::Nats, 101, 2, true), [""; 0], "published again, and kept once");
}

#[test]
fn a_message_that_waits_while_nothing_is_wrong_is_seen() {
    let broken = Run::of(Class::Serialised, 1).delivers(&[1]).broken();
    assert_eq!(broken, ["I9"]);
}

/// Thousands of its key may stand before it.
#[test]
fn a_key_that_is_worked_on_does_not_rest_however_long_its_last_message_waits() {
    let run = |every: u64| {
        let run = Run::of(Class::Bulk, 3).delivers(&[1, 2, 3]);
        run.changes(|run| {
            for (place, delivered) in run.record.delivered.iter_mut().enumerate() {
                delivered.at = Moment((4 + place as u64 * every) * SECOND);
            }
        })
        .broken()
    };
    assert_eq!(run(5), [""; 0], "the last one waited for eleven seconds");
    assert_eq!(run(8), ["I9"]);
}

#[test]
fn what_waited_when_a_fault_ended_has_time_to_drain() {
    let run = |backlog: u64| {
        let run = Run::of(Class::Serialised, 1).delivers(&[1]).fault(Kind::StoreHole, 1, 2);
        run.changes(|run| {
            run.record.delivered.iter_mut().for_each(|delivered| delivered.at = Moment(30 * SECOND));
            run.record.samples = vec![Sample { at: Moment(2 * SECOND), backlog, rss: 0 }];
        })
        .broken()
    };
    assert_eq!(run(0), ["I9"]);
    assert_eq!(run(6_000), [""; 0], "twenty seconds");
}

#[test]
fn a_pause_that_outlasts_the_lease_and_that_no_relay_notices_proves_nothing() {
    let run = |lasts: u64, notes: fn(&mut Record)| {
        let run = disturbed(Class::Serialised, 1).delivers(&[1]).fault(Kind::RelayPause, 50, 50 + lasts);
        let run = run.changes(|run| {
            (run.settings.minutes, run.settings.faults) = (0.5, "relay-pause".to_owned());
            notes(&mut run.record);
        });
        run.judged().vacuous.iter().any(|why| why.contains("outlasted"))
    };
    assert!(run(5, |_| ()));
    assert!(!run(3, |_| ()), "its lease was not over");
    assert!(!run(5, |record| record.fenced = [("r0-0".to_owned(), 1)].into()));
    assert!(!run(5, |record| record.stood_down = 1));
}

#[test]
fn a_takeover_that_takes_too_long_is_seen() {
    let run = |took: u64| {
        let run = disturbed(Class::Serialised, 1).delivers(&[1]).fault(Kind::RelayKill, 104, 104);
        run.changes(|run| run.record.faults[1].takeover = Takeover::After(Duration::from_secs(took))).broken()
    };
    assert_eq!(run(4), [""; 0]);
    assert_eq!(run(40), ["I10"]);
}

#[test]
fn a_takeover_that_never_comes_is_seen_unless_something_else_is_in_the_way() {
    let run = |kill: u64, other: u64| {
        let run = Run::of(Class::Serialised, 1).delivers(&[1]).fault(Kind::RelayKill, kill, kill);
        let run = run.changes(|run| run.record.faults[0].takeover = Takeover::Awaited);
        run.fault(Kind::BrokerCut, other, other).broken().contains(&"I10")
    };
    assert!(run(60, 80));
    assert!(!run(60, 64), "another fault came before the time was over");
    assert!(!run(60, 58), "another fault had just gone");
    assert!(!run(97, 80), "the run ended before the time was over");
}

#[test]
fn a_long_run_without_a_takeover_that_can_be_judged_proves_little() {
    let run = |takeover: Takeover| {
        let run = disturbed(Class::Serialised, 1).delivers(&[1]).fault(Kind::RelayKill, 104, 104);
        let run = run.changes(|run| {
            (run.settings.minutes, run.settings.faults) = (5.0, "relay-kill".to_owned());
            run.record.faults[1].takeover = takeover;
        });
        run.judged().vacuous.iter().any(|why| why.contains("takeover"))
    };
    assert!(run(Takeover::Needless));
    assert!(!run(Takeover::After(Duration::from_secs(3))));
}

#[test]
fn the_application_waits_for_a_frozen_relay_on_sqlite_alone() {
    let run = |store: StoreKind, kind: Kind| {
        let run = disturbed(Class::Serialised, 1).delivers(&[1]).fault(kind, 200, 210).fault(kind, 400, 410);
        let felt = |seconds: u64, millis: u64| {
            let (at, took) = (Moment(seconds * SECOND), Duration::from_millis(millis));
            (0..400).map(move |_| Felt { at, took, well: true })
        };
        let felt = felt(300, 10).chain(felt(205, 1_500)).chain(felt(405, 10));
        let run = run.changes(|run| run.settings.store = store);
        run.changes(|run| run.record.felt = felt.collect()).broken()
    };
    assert_eq!(run(StoreKind::Sqlite, Kind::RelayPause), [""; 0]);
    assert_eq!(run(StoreKind::Postgres, Kind::RelayPause), ["I14"]);
    assert_eq!(run(StoreKind::Sqlite, Kind::BrokerRefuses), ["I14"]);
}

#[test]
fn neighbours_of_poison_that_wait_are_seen() {
    let run = |beside: u64, waited_before: u64| {
        let mut run = Run::of(Class::Serialised, 801);
        let poisoned = Written { key: Key { class: Class::Poison, number: 1 }, ..run.record.written[&id(1)].clone() };
        for place in 0..800_u64 {
            let n = u32::try_from(place).unwrap() + 1;
            let at = if place < 400 { Moment(place) } else { Moment(50 * SECOND + place) };
            let lag = if place < 400 { SECOND / 100 } else { beside };
            if let Some(written) = run.record.written.get_mut(&id(n)) {
                (written.begun, written.acknowledged) = (at, at);
            }
            let at = Moment(at.0 + lag);
            run.record.delivered.push(Delivered { id: id(n), at, lane: 3, term: 1, attempt: 1, print: n.into() });
        }
        // One of another key, which is delivered just after the poison came.
        let (at, behind) = (Moment(50 * SECOND - waited_before), Moment(50 * SECOND + SECOND / 1_000));
        if let Some(written) = run.record.written.get_mut(&id(801)) {
            (written.begun, written.acknowledged) = (at, at);
            (written.key.number, written.n) = (2, 1);
        }
        run.record.delivered.push(Delivered { id: id(801), at: behind, lane: 3, term: 1, attempt: 1, print: 801 });
        run.record.written.insert(id(900), Written { acknowledged: Moment(50 * SECOND), ..poisoned });
        run.changes(|run| run.dead = vec![(id(900), 2)]).broken()
    };
    assert_eq!(run(SECOND / 2, SECOND / 10), [""; 0]);
    assert_eq!(run(SECOND, SECOND / 10), ["I11"]);
    assert_eq!(run(SECOND, SECOND), [""; 0], "they wait for what was there before the poison");
}

#[test]
fn a_table_that_keeps_growing_and_a_log_that_is_kept_are_seen() {
    let run = |change: fn(&mut Record)| {
        disturbed(Class::Serialised, 1).delivers(&[1]).changes(|run| change(&mut run.record)).broken()
    };
    assert_eq!(run(|record| record.highest.table = 200 << 20), [""; 0]);
    assert_eq!(run(|record| record.highest.table = 300 << 20), ["I12"]);
    assert_eq!(
        run(|record| (record.highest.table, record.highest.backlog) = (300 << 20, 20_000)),
        [""; 0],
        "what waits needs its place"
    );
    assert_eq!(run(|record| record.highest.log = 2 << 30), ["I12"]);
}

#[test]
fn a_long_run_in_which_nothing_was_held_and_nothing_expired_proves_little() {
    let run = |replayed: u64, dead: &[(Uuid, i16)]| {
        let run = disturbed(Class::Expiring, 2).delivers(&[1]).changes(|run| {
            (run.settings.minutes, run.settings.faults) = (5.0, "broker-cut".to_owned());
            (run.record.replayed, run.dead) = (replayed, dead.to_vec());
        });
        let vacuous = run.judged().vacuous;
        ["replayed", "end"].map(|word| vacuous.iter().any(|why| why.ends_with(word)))
    };
    assert_eq!(run(0, &[]), [true, true]);
    assert_eq!(run(1, &[(id(2), 3)]), [false, false]);
}

#[test]
fn what_is_outside_of_windows_is_counted() {
    let spans = [(Moment(10), Moment(20)), (Moment(30), Moment(40))];
    assert_eq!(outside(&spans, Moment(0), Moment(50)), Duration::from_micros(30));
    assert_eq!(outside(&spans, Moment(12), Moment(18)), Duration::ZERO);
    assert!(within(&spans, Moment(20)) && within(&spans, Moment(30)) && !within(&spans, Moment(25)));
    assert!(!within(&spans, Moment(5)) && !within(&spans, Moment(45)));
}

#[test]
fn what_readers_and_books_told_breaks_its_invariant() {
    for invariant in ["I1", "I2", "I7", "I13", "I15"] {
        let run = disturbed(Class::Serialised, 2).delivers(&[1, 2]);
        let run = run.changes(|run| run.record.wrong.push((invariant, "told".to_owned())));
        assert_eq!(run.broken(), [invariant]);
    }
}

#[test]
fn a_publish_to_kafka_may_end_later_than_one_to_nats() {
    let run = |broker| {
        let run = Run::of(Class::Serialised, 3).fault(Kind::BrokerPause, 0, 92).delivers(&[1, 2, 2, 3]);
        run.changes(|run| run.settings.broker = broker).broken()
    };
    assert_eq!(run(BrokerKind::Nats), ["I4"]);
    assert_eq!(run(BrokerKind::Kafka3), [""; 0]);
}

#[test]
fn effects_that_are_missing_doubled_or_of_nothing_are_seen() {
    let run = |kind: ConsumerKind, change: fn(&mut Effects)| {
        let run = disturbed(Class::Serialised, 3).delivers(&[1, 2, 2, 3]);
        run.changes(|run| {
            run.settings.consumer = Some(kind);
            let mut effects = Effects { refused: u64::from(kind.refuses()), ..Effects::default() };
            for what in (1..=3).flat_map(|n| counted_for(kind, id(n))) {
                *effects.counts.entry(what).or_default() += 1;
            }
            change(&mut effects);
            run.record.effects = Some(effects);
        })
        .broken()
    };
    for kind in [ConsumerKind::Inbox, ConsumerKind::Processor, ConsumerKind::KnownIds, ConsumerKind::Token] {
        assert_eq!(run(kind, |_| ()), [""; 0]);
        assert_eq!(run(kind, |effects| drop(effects.counts.pop_first())), ["I5"]);
        assert_eq!(run(kind, |effects| *effects.counts.values_mut().next().unwrap() += 1), ["I5"]);
        assert_eq!(run(kind, |effects| effects.counts.extend([("of nothing".to_owned(), 1)])), ["I5"]);
        assert_eq!(run(kind, |effects| effects.tokens = 1), ["I5"]);
    }
    assert_eq!(run(ConsumerKind::Inbox, |effects| effects.refused = 0), ["I5"], "nothing was forgotten");
    assert_eq!(run(ConsumerKind::Token, |effects| effects.refused = 0), [""; 0]);
    assert_eq!(run(ConsumerKind::Cursor, |_| ()), ["I5"], "a relay published the second one twice");
    let twice = |effects: &mut Effects| *effects.counts.get_mut(&id(2).to_string()).unwrap() += 1;
    assert_eq!(run(ConsumerKind::Cursor, twice), [""; 0]);
    assert_eq!(
        run(ConsumerKind::Cursor, |effects| {
            *effects.counts.get_mut(&id(2).to_string()).unwrap() += 1;
            effects.cursors = 19;
        }),
        ["I5"]
    );
}
