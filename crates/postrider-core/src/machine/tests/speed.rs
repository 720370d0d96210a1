//! How many rows a second the machine decides about, with instant answers. Run it with
//! `cargo test --release -p postrider-core speed -- --ignored --nocapture`.
//!
//! What a row costs is told best by instructions, which no other load on the machine changes:
//! `valgrind --tool=callgrind --cache-sim=yes --toggle-collect='*machine::Machine::on*'
//! --toggle-collect='*machine::Machine::actions*' <test binary> ten_thousand_keys --ignored`, divided by its rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::broker::Broker;
use super::world::World;
use crate::machine::*;
use crate::*;

fn message(key: &str) -> Arc<Message> {
    Arc::new(Message::new("all", "x").key(key))
}

fn row(id: i64, (lane, message): (Lane, Arc<Message>)) -> Row {
    Row {
        id: RowId(id),
        lane,
        content: Content::Message(message),
        weight: 200,
        state: RowState::Pending,
        due: Due::Now,
        lifetime: Lifetime::default(),
        retrying: Retrying::No,
        attempts: 0,
        waiting_for: None,
        progress: std::collections::BTreeMap::new(),
        closed: Closed::Open,
        given_up: None,
    }
}

fn drain(name: &str, rows: i64, lanes: u16, message: impl Fn(i64) -> (Lane, Arc<Message>)) {
    let mut broker = Broker::new(OrderInBatch::Kept, Isolation::SharedConnection);
    (broker.profile.max_batch, broker.profile.max_concurrent) = (512, 8);
    let settings = World::new(1, vec![broker], 1).settings;
    let mut next = 1;
    let mut machine = Machine::new(settings);
    let now = |started: Instant| Tick::after_start(started.elapsed());
    let started = Instant::now();
    machine.on(now(started), Event::Trusted(Tick::after_start(Duration::from_secs(10_000))));
    let held = (0..lanes).map(|lane| HeldLane { lane: Lane(lane), term: Term(1), start: Start::Clean });
    machine.on(now(started), Event::Gained(held.collect()));
    let mut settled = 0;
    while settled < rows {
        for action in machine.actions(now(started)) {
            let event = match action {
                Action::Read(read) => {
                    let answer = match read.wanted {
                        Wanted::New => {
                            let first = next;
                            next = rows.min(first - 1 + i64::try_from(read.room.rows).unwrap()) + 1;
                            let page = (first..next).map(|id| row(id, message(id))).collect();
                            Answer::Page(Page { rows: page, more: next <= rows, ..Page::EMPTY })
                        }
                        Wanted::Walk(..) => Answer::Keys(Vec::new()),
                        _ => Answer::Page(Page::EMPTY),
                    };
                    Event::Answered(read, answer)
                }
                Action::Publish(_, flight, batch) => {
                    Event::Published(flight, batch.iter().map(|_| Published::Accepted(Accepted::FRESH)).collect())
                }
                Action::Settle(settle) => {
                    settled += i64::try_from(settle.rows.len()).unwrap();
                    let lanes = settle.leases.iter().map(|held| held.lane).collect();
                    let rows = settle.rows.iter().map(|settlement| settlement.row).collect();
                    Event::Settled(Ok(Settled { rows, lanes }))
                }
                Action::Check(destination) => Event::Checked(destination, Ok(())),
                Action::Release(_) => unreachable!("no lane goes back"),
            };
            machine.on(now(started), event);
        }
        machine.take_notes();
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{name}: {rows} rows in {seconds:.2} s, {:.0} rows/s", rows as f64 / seconds);
}

#[test]
#[ignore = "a measurement"]
fn a_million_rows() {
    drain("unique keys", 1_000_000, 1, |id| (Lane(0), message(&id.to_string())));
    drain("a thousand keys", 1_000_000, 1, |id| (Lane(0), message(&(id % 1_000).to_string())));
    drain("one hot key", 1_000_000, 1, |_| (Lane(0), message("hot")));
}

/// A backlog as it is met most often.
#[test]
#[ignore = "a measurement"]
fn ten_thousand_keys() {
    const LANES: u16 = 16;
    let lane = |key: usize| Lane(u16::try_from(key).unwrap() % LANES);
    let messages: Vec<_> = (0..10_000).map(|key| (lane(key), message(&key.to_string()))).collect();
    let spread =
        |id: i64| usize::try_from(id.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed()) >> 40 & 0xFF_FFFF).unwrap();
    drain("ten thousand keys", 200_000, LANES, |id| messages[spread(id) % messages.len()].clone());
}
