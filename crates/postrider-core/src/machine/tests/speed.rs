//! How many rows a second the machine decides about, with instant answers. Run it with
//! `cargo test --release -p postrider-core speed -- --ignored --nocapture`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::broker::Broker;
use super::world::World;
use crate::machine::*;
use crate::*;

fn row(id: i64, key: &str) -> Row {
    Row {
        id: RowId(id),
        lane: Lane(0),
        content: Content::Message(Arc::new(Message::new("all", "x").key(key))),
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

fn drain(name: &str, rows: i64, key: impl Fn(i64) -> String) {
    let mut broker = Broker::new(OrderInBatch::Kept, Isolation::SharedConnection);
    (broker.profile.max_batch, broker.profile.max_concurrent) = (512, 8);
    let settings = World::new(1, vec![broker], 1).settings;
    let mut all: VecDeque<Row> = (1..=rows).map(|id| row(id, &key(id))).collect();
    let mut machine = Machine::new(settings);
    let now = |started: Instant| Tick::after_start(started.elapsed());
    let started = Instant::now();
    machine.on(now(started), Event::Trusted(Tick::after_start(Duration::from_secs(10_000))));
    let lane = HeldLane { lane: Lane(0), term: Term(1), start: Start::Clean };
    machine.on(now(started), Event::Gained(vec![lane]));
    let mut settled = 0;
    while settled < rows {
        for action in machine.actions(now(started)) {
            let event = match action {
                Action::Read(read) => {
                    let answer = match read.wanted {
                        Wanted::New => {
                            let page = all.drain(..read.room.rows.min(all.len())).collect();
                            Answer::Page(Page { rows: page, more: !all.is_empty(), ..Page::EMPTY })
                        }
                        Wanted::Walk(..) => Answer::Keys(Vec::new()),
                        _ => Answer::Page(Page::EMPTY),
                    };
                    Event::Answered(read, answer)
                }
                Action::Publish(_, flight, batch) => {
                    Event::Published(flight, batch.iter().map(|_| Published::Accepted(Accepted::FRESH)).collect())
                }
                Action::Settle(leases, batch) => {
                    settled += i64::try_from(batch.len()).unwrap();
                    let lanes = leases.iter().map(|held| held.lane).collect();
                    let rows = batch.iter().map(|settlement| settlement.row).collect();
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
    assert!(seconds < 60.0);
}

#[test]
#[ignore = "a measurement"]
fn a_million_rows() {
    drain("unique keys", 1_000_000, |id| id.to_string());
    drain("a thousand keys", 1_000_000, |id| (id % 1_000).to_string());
    drain("one hot key", 1_000_000, |_| "hot".to_owned());
}
