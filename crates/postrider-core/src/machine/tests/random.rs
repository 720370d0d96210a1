//! Many worlds at random: whatever happens, in the end everything is delivered or dead, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::broker::{Broker, Mode, Poison};
use super::rng::Rng;
use super::world::{Happening, Seen, World};
use crate::machine::{DEATHS, DestinationIndex, Note, Ordering};
use crate::*;

/// What a world is troubled with.
#[derive(Debug, Clone, Copy, Default)]
struct Trouble {
    outages: bool,
    /// Each destination is down once at most, with one kind of failure, and nothing else happens to it.
    gently: bool,
    poison: bool,
    breaks: bool,
    leases: bool,
    crashes: bool,
    store: bool,
    replays: bool,
    stops: bool,
    kills: bool,
    hand_backs: bool,
    expiry: bool,
    holds: bool,
    /// The second destination is that of dead letters.
    forwards: bool,
}

struct Scenario {
    world: World,
    trouble: Trouble,
    rows: Vec<(i64, Option<String>, bool)>,
    unordered: BTreeSet<i64>,
    poisonous: BTreeSet<i64>,
    deleted: BTreeSet<i64>,
    mortal: BTreeSet<i64>,
}

fn trouble(rng: &mut Rng) -> Trouble {
    if rng.chance(120) {
        return Trouble { hand_backs: rng.chance(500), ..Trouble::default() };
    }
    if rng.chance(100) {
        return Trouble { outages: true, gently: true, store: rng.chance(300), ..Trouble::default() };
    }
    Trouble {
        outages: rng.chance(500),
        gently: false,
        poison: rng.chance(400),
        breaks: rng.chance(400),
        leases: rng.chance(350),
        crashes: rng.chance(250),
        store: rng.chance(300),
        replays: rng.chance(200),
        stops: rng.chance(200),
        kills: rng.chance(150),
        hand_backs: rng.chance(300),
        expiry: false,
        holds: false,
        forwards: false,
    }
}

fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng(seed.wrapping_mul(0x1234_5678_9ABC_DEF1));
    let mut trouble = trouble(&mut rng);
    let mut ends = Rng(seed.wrapping_mul(0x9FB2_1C65_1E98_DF25));
    // A connection that breaks again and again may hit one message often enough to look like its fault.
    trouble.expiry = !trouble.breaks && ends.chance(500);
    // Where keys are held there are too few others to tell an innocent by.
    let mut holding = Rng(seed.wrapping_mul(0x6C62_272E_07BB_0142) | 1);
    trouble.holds = !trouble.breaks && !trouble.gently && holding.chance(400);
    let brokers = (0..=rng.below(2))
        .map(|_| {
            let order = if rng.chance(500) { OrderInBatch::Kept } else { OrderInBatch::NotKept };
            let isolation = if rng.chance(500) { Isolation::SharedConnection } else { Isolation::PerMessage };
            let mut broker = Broker::new(order, isolation);
            broker.latency = 200 + rng.below(20_000);
            broker.profile.max_concurrent = 1 + rng.below(4) as usize;
            broker.profile.max_batch = 1 + rng.below(16) as usize;
            if trouble.breaks {
                broker.breaks = rng.below(300);
                broker.short = rng.below(60);
            }
            broker
        })
        .collect();
    let mut world = World::new(seed, brokers, 1 + rng.below(3) as u16);
    world.store_latency = (rng.below(4_000), rng.below(4_000));
    if rng.chance(400) {
        world.settings.window_rows = 8 + rng.below(40) as usize;
        world.settings.page_rows = 4 + rng.below(16) as usize;
        world.settings.window_bytes = 200 + rng.below(3_000) as usize;
        world.settings.settle_rows = 1 + rng.below(3) as usize;
    }
    if holding.chance(500) {
        world.settings.settle_pause = Duration::from_micros(holding.below(40_000));
    }
    if trouble.holds {
        world.settings.on_dead = vec![(TopicPattern::every(), OnDead::Hold)];
    }
    trouble.forwards = !trouble.holds && world.brokers.len() > 1 && holding.chance(500);
    if trouble.forwards {
        world.settings.routes.truncate(1);
        world.settings.forward = Some(DestinationIndex::new(1));
        world.settings.on_dead = vec![(TopicPattern::every(), OnDead::Forward)];
    }
    world.settings.max_pause = Duration::from_secs(2);
    world.settings.ordering = match rng.below(10) {
        // Only the order of a key can be held.
        _ if trouble.holds => Ordering::Key,
        0 => Ordering::None,
        1 if world.table.lanes == 1 => Ordering::Everything,
        _ => Ordering::Key,
    };
    world.table.whole = world.settings.ordering == Ordering::Everything;
    if rng.chance(200) {
        world.settings.sweep_round = Duration::from_millis(300);
    }
    let mut scenario = Scenario {
        world,
        trouble,
        rows: Vec::new(),
        unordered: BTreeSet::new(),
        poisonous: BTreeSet::new(),
        deleted: BTreeSet::new(),
        mortal: BTreeSet::new(),
    };
    if trouble.expiry {
        let policy = scenario.world.settings.retry[0].1;
        let on_expire = if ends.chance(500) { OnExpire::Drop } else { OnExpire::Dead };
        let max_age = Some(Duration::from_micros(50_000 + ends.below(SPAN)));
        let short = (TopicPattern::parse("only-a").unwrap(), RetryPolicy { max_age, ..policy });
        scenario.world.settings.retry = vec![short, (TopicPattern::every(), policy)];
        scenario.world.settings.retry.iter_mut().for_each(|(_, policy)| policy.on_expire = on_expire);
    }
    scenario.write(&mut rng, &mut ends);
    scenario.afflict(&mut rng);
    scenario.world.start();
    scenario
}

/// The messages are written, and the trouble happens, within this time.
const SPAN: u64 = 1_500_000;

impl Scenario {
    fn write(&mut self, rng: &mut Rng, ends: &mut Rng) {
        let keys = 1 + rng.below(8);
        let count = 60 + rng.below(120);
        let mut times: Vec<u64> = (0..count).map(|_| if rng.chance(300) { 0 } else { rng.below(SPAN) }).collect();
        times.sort_unstable();
        for at in times {
            let key = rng.chance(850).then(|| format!("k{}", rng.below(keys)));
            let everywhere = rng.chance(800);
            let mut message = Message::new(if everywhere { "all" } else { "only-a" }, vec![0; rng.below(60) as usize]);
            if let Some(key) = &key {
                message = message.key(key);
            }
            let delayed = rng.chance(60);
            if delayed {
                message = message.deliver_at(Timestamp((at + rng.below(SPAN)) as i64));
            }
            let expires = self.trouble.expiry && ends.chance(200);
            if expires {
                message = message.expires_at(Timestamp((at + ends.below(SPAN)) as i64));
            }
            let late = rng.chance(30);
            let commit = if late { at + rng.below(50_000) } else { at };
            let malformed = rng.chance(20);
            let heavy = rng.chance(10);
            let row = self.world.write(message, commit, |stored| {
                stored.malformed = malformed;
                if heavy {
                    stored.weight += 5_000;
                }
            });
            if delayed || late || malformed {
                self.unordered.insert(row);
            }
            if expires || (self.trouble.expiry && !everywhere) {
                self.mortal.insert(row);
            }
            if malformed {
                self.poisonous.insert(row);
            } else if self.trouble.poison && rng.chance(40) {
                let kinds = [ErrorKind::Rejected, ErrorKind::Unavailable, ErrorKind::Config, ErrorKind::Throttled];
                let poison = match rng.below(7) {
                    // Where nothing may overtake it, only a refusal tells a bad message from an outage.
                    _ if self.world.settings.ordering == Ordering::Everything => Poison::Fails(ErrorKind::Rejected),
                    kind @ 0..4 => Poison::Fails(kinds[kind as usize]),
                    4 | 5 => Poison::Fails(ErrorKind::Rejected),
                    _ => Poison::Breaks,
                };
                let place = rng.below(self.world.brokers.len() as u64) as usize;
                // Where only dead letters go nothing tells a bad one from an outage.
                let place = if self.trouble.forwards { 0 } else { place };
                let id = self.world.id(row);
                self.world.brokers[place].poison.insert(id, poison);
                self.poisonous.insert(row);
            } else if self.trouble.replays && !self.trouble.holds && rng.chance(20) {
                self.deleted.insert(row);
                self.world.happens(at + rng.below(100_000), Happening::Delete(row));
            }
            self.rows.push((row, key, everywhere));
        }
        if self.trouble.kills {
            let row = self.rows[rng.below(self.rows.len() as u64) as usize].0;
            let id = self.world.id(row);
            self.world.brokers[0].poison.insert(id, Poison::Kills);
            self.poisonous.insert(row);
        }
    }

    fn afflict(&mut self, rng: &mut Rng) {
        let brokers = self.world.brokers.len() as u64;
        let count = |on: bool, rng: &mut Rng, most: u64| if on { 1 + rng.below(most) } else { 0 };
        if self.trouble.outages {
            let most = if self.trouble.gently { 1 } else { 4 };
            for _ in 0..count(true, rng, most) {
                let place = rng.below(brokers) as usize;
                let kinds = [
                    Mode::Down(ErrorKind::Unavailable),
                    Mode::Down(ErrorKind::Config),
                    Mode::Down(ErrorKind::Throttled),
                    Mode::Down(ErrorKind::Unknown),
                    Mode::Mute,
                ];
                let mode = kinds[rng.below(5) as usize];
                let at = rng.below(SPAN);
                self.world.happens(at, Happening::Broker(place, mode));
                self.world.happens(at + rng.below(800_000), Happening::Broker(place, Mode::Up));
            }
        }
        for _ in 0..count(self.trouble.leases, rng, 5) {
            let lanes: Vec<_> = (0..self.world.table.lanes).map(Lane).filter(|_| rng.chance(600)).collect();
            let at = rng.below(SPAN);
            self.world.happens(at, Happening::Lose(lanes.clone()));
            self.world.happens(at + 20_100 + rng.below(60_000), Happening::Gain(lanes));
        }
        for _ in 0..count(self.trouble.crashes, rng, 3) {
            self.world.happens(rng.below(SPAN), Happening::Crash);
        }
        for _ in 0..count(self.trouble.stops, rng, 2) {
            self.world.happens(rng.below(SPAN), Happening::Stop);
        }
        for _ in 0..count(self.trouble.hand_backs, rng, 8) {
            let lanes: Vec<_> = (0..self.world.table.lanes).map(Lane).filter(|_| rng.chance(600)).collect();
            self.world.happens(rng.below(SPAN), Happening::HandBack(lanes));
        }
        for _ in 0..count(self.trouble.store, rng, 3) {
            let kinds = [ErrorKind::Unavailable, ErrorKind::Unknown];
            let at = rng.below(SPAN);
            self.world.happens(at, Happening::Store(Some(kinds[rng.below(2) as usize])));
            self.world.happens(at + rng.below(300_000), Happening::Store(None));
        }
        for _ in 0..count(self.trouble.replays, rng, 3) {
            self.world.happens(rng.below(SPAN * 2), Happening::Replay);
        }
        for _ in 0..count(self.trouble.holds, rng, 6) {
            self.world.happens(rng.below(SPAN * 2), Happening::Open);
        }
        self.world.happens(rng.below(SPAN), Happening::Hint);
    }

    fn heal(&mut self) {
        for broker in &mut self.world.brokers {
            (broker.mode, broker.breaks, broker.short) = (Mode::Up, 0, 0);
        }
        let lanes = (0..self.world.table.lanes).map(Lane).collect();
        self.world.happens(0, Happening::Store(None));
        self.world.happens(4_000, Happening::Gain(lanes));
    }

    fn play(&mut self) {
        self.world.run(SPAN / 1_000 * 2);
        self.heal();
        // A message that fails wherever it goes needs others around it to be told from an outage.
        let quarter = |world: &mut World| {
            world.unkeyed();
            world.run(250);
            world.happens(0, Happening::Open);
            world.left().is_empty()
        };
        let _ = (0..800).any(|_| quarter(&mut self.world));
        let done = self.world.until(20, World::is_done);
        let stuck: Vec<_> = self.world.left().iter().map(|id| (*id, self.world.table.rows[id].clone())).collect();
        assert!(done, "not done: {stuck:#?} idle {} {:?}", self.world.machine.is_idle(), self.world.settings.ordering);
    }

    fn judge(&self) {
        let world = &self.world;
        let dead: BTreeSet<i64> = world.dead().into_iter().collect();
        let ended: BTreeSet<i64> = dead.iter().chain(&world.discarded).copied().collect();
        // What relays die of is told by deaths alone, and a lane that is taken from a living relay looks like one: who gives
        // a message up for them began carefully, and so did the three before it.
        let struck = |row: &i64| {
            let starts = world.careful_starts.get(&world.table.rows[row].lane).copied().unwrap_or(0);
            world.table.reasons.get(row) == Some(&DeadReason::RelayDied) && starts > DEATHS
        };
        let guilty = |row: &i64| self.poisonous.contains(row) || self.mortal.contains(row);
        let innocent: Vec<_> = ended.iter().filter(|row| !guilty(row) && !struck(row)).collect();
        assert!(innocent.is_empty(), "dead without fault: {innocent:?}");
        assert!(world.seen.dropped.is_subset(&self.mortal), "dropped without fault: {:?}", world.seen.dropped);
        self.judge_forwarded(&dead);
        let routed = world.settings.routes.len();
        for (place, broker) in world.brokers.iter().enumerate().take(routed) {
            let delivered: BTreeSet<i64> = broker.rows().into_iter().collect();
            let mut last: BTreeMap<&str, i64> = BTreeMap::new();
            let mut seen = BTreeSet::new();
            for row in broker.rows() {
                let Some((_, key, _)) = self.rows.iter().find(|(id, ..)| *id == row) else { continue };
                if !seen.insert(row) || self.unordered.contains(&row) || self.poisonous.contains(&row) {
                    continue;
                }
                let group = match world.settings.ordering {
                    Ordering::Key => key.as_deref(),
                    Ordering::Everything => Some("everything"),
                    Ordering::None => None,
                };
                let Some(key) = group.filter(|_| !world.replayed.contains(&row)) else { continue };
                let before = last.insert(key, row);
                assert!(before < Some(row), "{row} after {before:?} of key {key} at destination {place}");
            }
            for (row, _, everywhere) in &self.rows {
                let owed = *everywhere || place == 0;
                let excused = dead.contains(row) || self.deleted.contains(row) || world.replayed.contains(row);
                let excused = excused || world.seen.dropped.contains(row) || world.discarded.contains(row);
                assert!(!owed || excused || delivered.contains(row), "{row} is lost at destination {place}");
            }
        }
        self.judge_quiet();
        if world.settings.ordering == Ordering::None {
            assert_eq!(world.seen.set_aside, 0, "something waits for another message");
        }
        assert_eq!(world.seen.swept, 0, "the sweep found what everything else missed");
    }

    /// What was given up after its attempts was published as a dead letter, and nothing else was.
    fn judge_forwarded(&self, dead: &BTreeSet<i64>) {
        if !self.trouble.forwards {
            return;
        }
        let forwarded: BTreeSet<i64> = self.world.brokers[1].rows().into_iter().collect();
        let given_up = |row: &&i64| self.world.table.reasons.get(row) == Some(&DeadReason::Attempts);
        let missing: Vec<_> = dead.iter().filter(given_up).filter(|row| !forwarded.contains(row)).collect();
        assert!(missing.is_empty(), "not forwarded: {missing:?}");
        let innocent = |row: &&i64| !self.poisonous.contains(row) && !self.mortal.contains(row);
        let innocent: Vec<_> = forwarded.iter().filter(innocent).collect();
        assert!(innocent.is_empty(), "forwarded without fault: {innocent:?}");
    }

    /// What must hold where little or nothing went wrong.
    fn judge_quiet(&self) {
        let Trouble {
            outages,
            gently,
            poison,
            breaks,
            leases,
            crashes,
            store,
            replays,
            stops,
            kills,
            hand_backs,
            expiry: _,
            holds,
            forwards: _,
        } = self.trouble;
        if holds && !leases && !crashes && !kills {
            assert_eq!(self.world.seen.overtook, 0, "a held key went on");
        }
        if (!outages || gently) && !poison && !breaks {
            assert_eq!(self.world.seen.charged, 0, "an attempt was counted for an outage");
        }
        if !outages && !breaks && !leases && !crashes && !store && !poison && !replays && !kills {
            for broker in &self.world.brokers {
                let rows = broker.rows();
                let distinct: BTreeSet<_> = rows.iter().collect();
                assert_eq!(
                    rows.len(),
                    distinct.len(),
                    "a repeat without a fault (stops: {stops}, hand-backs: {hand_backs})"
                );
            }
        }
    }
}

fn play(seed: u64) -> Seen {
    let mut scenario = scenario(seed);
    scenario.play();
    scenario.judge();
    let mut seen = scenario.world.seen.clone();
    seen.died = scenario.world.table.reasons.values().filter(|reason| **reason == DeadReason::RelayDied).count() as u64;
    seen.paused = scenario.world.notes.iter().filter(|note| matches!(note, Note::Paused(..))).count() as u64;
    seen
}

#[test]
fn whatever_happens_everything_is_delivered_or_dead_and_in_order() {
    let seeds: Vec<u64> = match std::env::var("POSTRIDER_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => {
            let usual = if std::env::var_os("POSTRIDER_FULL").is_some() { 1_000 } else { 200 };
            (0..std::env::var("POSTRIDER_SEEDS").map_or(usual, |n| n.parse().unwrap())).collect()
        }
    };
    let mut counts = [0_usize; 21];
    let mut failed = Vec::new();
    for seed in &seeds {
        match catch_unwind(AssertUnwindSafe(|| play(*seed))) {
            Ok(seen) => {
                let times = [
                    seen.set_aside,
                    seen.looks,
                    seen.stale,
                    seen.probes,
                    seen.alone,
                    seen.burials,
                    seen.lost_in_flight,
                    seen.fenced,
                    seen.paused,
                    seen.suspected,
                    seen.died,
                    seen.handed_back,
                    seen.handed_back_in_flight,
                    seen.expired,
                    seen.dropped.len() as u64,
                    seen.holds,
                    seen.forwards,
                    seen.reads_ahead,
                    seen.not_made,
                    seen.settled_ahead,
                    seen.not_settled,
                ];
                counts.iter_mut().zip(times).for_each(|(count, times)| *count += usize::from(times > 0));
            }
            Err(_) => failed.push(*seed),
        }
    }
    assert!(failed.is_empty(), "{} of {} seeds: POSTRIDER_SEED={:?}", failed.len(), seeds.len(), failed);
    let names = [
        "set aside",
        "look",
        "stale",
        "probe",
        "alone",
        "burial",
        "lost in flight",
        "fenced",
        "paused",
        "suspected",
        "relay died",
        "handed back",
        "handed back in flight",
        "expired",
        "dropped",
        "hold",
        "forward",
        "read ahead",
        "not read ahead",
        "settled ahead",
        "not settled ahead",
    ];
    for (name, count) in names.iter().zip(counts) {
        println!("{name}: {count} of {} seeds", seeds.len());
        assert!(seeds.len() == 1 || count * 100 >= seeds.len(), "{name} happened in {count} seeds only");
    }
}
