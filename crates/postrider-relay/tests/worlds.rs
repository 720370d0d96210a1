//! The relay itself, its tasks and all, in worlds drawn from a seed: several relays over one store whose calls fail, hang,
//! come late or lose their answers, brokers that refuse and lose answers, relays that are killed, stopped and started,
//! messages that are given up and skipped, held or forwarded.
//!
//! Time is tokio's own, paused, and the store's clock runs with it. The seed fixes the plan and the messages' ids; relays
//! draw ids and the jitter of their retries themselves, and their loops take what is ready in any order, so that a seed is
//! not the same world word for word, as it is in the simulator, which plays the core alone.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod running;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_brokers::memory::{Answer, MemoryBroker};
use postrider_core::{
    Attempts, Broker, DeadFilter, DestinationName, DestinationTemplate, ErrorKind, LaneCount, Message, MessageId,
    OnDead, Outgoing, Position, RetryPolicy, RowId, Store, TopicPattern,
};
use postrider_relay::Relay;
use postrider_stores::History;
use postrider_stores::memory::MemoryStore;
use postrider_testkit::simulator::Rng;
use postrider_testkit::troubled::{Trouble, TroubledStore};
use running::Running;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// The worlds of every test run; `POSTRIDER_SEEDS` says how many others, and `POSTRIDER_SEED` which one.
const SEEDS: u64 = 60;
/// With `POSTRIDER_FULL=1`.
const MANY_SEEDS: u64 = 2_000;
const LEASE: Duration = Duration::from_millis(600);
/// How long there is trouble.
const SPAN: Duration = Duration::from_secs(8);
/// Everything is over so long after the trouble: a read that hangs is given up after a minute.
const PATIENCE: Duration = Duration::from_secs(200);
/// How exactly the store's clock runs.
const TICK: Duration = Duration::from_millis(5);
/// A message of this payload is refused while there is trouble.
const POISON: &str = "poison";

/// What happened often enough to be worth a test.
#[derive(Debug, Default)]
struct Seen {
    repeats: usize,
    dead: usize,
    killed: usize,
    stopped: usize,
    troubles: usize,
    forwarded: usize,
}

impl Seen {
    fn count(&self, counts: &mut BTreeMap<&'static str, usize>) {
        for (what, times) in [
            ("repeats", self.repeats),
            ("dead letters", self.dead),
            ("forwarded", self.forwarded),
            ("kills", self.killed),
            ("stops", self.stopped),
            ("troubles of the store", self.troubles),
        ] {
            *counts.entry(what).or_insert(0) += usize::from(times > 0);
        }
    }
}

struct World {
    rng: Arc<Mutex<Rng>>,
    /// In so many of a thousand calls; nothing once it is over.
    trouble: Arc<Mutex<u64>>,
    troubles: Arc<Mutex<usize>>,
    store: MemoryStore,
    broker: Arc<MemoryBroker>,
    letters: Arc<MemoryBroker>,
    on_dead: OnDead,
    lanes: u16,
    /// The last message's id: of the seed, as everything that is drawn here.
    last: u128,
    /// Of each key, what was committed, in order.
    written: BTreeMap<String, Vec<MessageId>>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::seeded(seed);
        let on_dead = [OnDead::Skip, OnDead::Hold, OnDead::Forward][rng.place(3)];
        // In an outbox of one lane all messages have one order, and no key can be held.
        let lanes = u16::from(on_dead == OnDead::Hold) + 1 + u16::try_from(rng.below(4)).unwrap();
        let trouble = Arc::new(Mutex::new(20 + rng.below(120)));
        let refuses = rng.below(60);
        let rng = Arc::new(Mutex::new(rng));
        let broker = |poison: bool| {
            let (rng, trouble) = (Arc::clone(&rng), Arc::clone(&trouble));
            let script = move |outgoing: &Outgoing, _| {
                let (mut rng, trouble) = (rng.lock().unwrap(), *trouble.lock().unwrap());
                if trouble == 0 {
                    return Answer::Accept;
                }
                match () {
                    () if poison && outgoing.message.payload == POISON => Answer::Fail(ErrorKind::Rejected),
                    () if rng.chance(refuses) => Answer::Fail(ErrorKind::Unavailable),
                    () if rng.chance(refuses / 2) => Answer::LoseReply,
                    () => Answer::Accept,
                }
            };
            Arc::new(MemoryBroker::recording().with_delay(Duration::from_millis(1)).with_script(script))
        };
        let (out, letters) = (broker(true), broker(false));
        Self {
            store: MemoryStore::new(LaneCount::new(lanes).unwrap(), History::Off),
            broker: out,
            letters,
            troubles: Arc::default(),
            last: 0,
            written: BTreeMap::new(),
            rng,
            trouble,
            on_dead,
            lanes,
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.rng.lock().unwrap().below(bound)
    }

    /// The store as one relay sees it: each has troubles of its own.
    fn store(&self) -> Arc<dyn Store> {
        let (rng, trouble, troubles) = (Arc::clone(&self.rng), Arc::clone(&self.trouble), Arc::clone(&self.troubles));
        TroubledStore::wrap(Arc::new(self.store.clone()), move |_| {
            let mut rng = rng.lock().unwrap();
            if !rng.chance(*trouble.lock().unwrap()) {
                return Trouble::None;
            }
            *troubles.lock().unwrap() += 1;
            match rng.below(5) {
                0 => Trouble::Fail(ErrorKind::Unavailable),
                1 => Trouble::Fail(ErrorKind::Unknown),
                2 => Trouble::LoseAnswer,
                3 => Trouble::Hang,
                _ => Trouble::Late(Duration::from_millis(rng.below(1_200))),
            }
        })
    }

    fn start(&self) -> Running {
        let policy = RetryPolicy {
            initial: Duration::from_millis(50),
            maximum: Duration::from_millis(400),
            attempts: Attempts::AtMost(4),
            ..RetryPolicy::default()
        };
        let (out, letters) =
            (Arc::clone(&self.broker) as Arc<dyn Broker>, Arc::clone(&self.letters) as Arc<dyn Broker>);
        let topic = DestinationTemplate::topic;
        let builder = Relay::builder(self.store())
            .destination(DestinationName::new("out"), out, topic())
            .retry(TopicPattern::every(), policy)
            .on_dead(TopicPattern::every(), self.on_dead)
            .lease(LEASE)
            .max_pause(Duration::from_millis(500))
            .stop_deadline(Duration::from_secs(2));
        Running::start(match self.on_dead {
            OnDead::Forward => builder.forward_to(DestinationName::new("letters"), letters, topic()),
            OnDead::Skip | OnDead::Hold => builder,
        })
    }

    fn write(&mut self) {
        let count = 1 + self.below(if self.below(10) == 0 { 300 } else { 5 });
        let mut messages = Vec::new();
        for _ in 0..count {
            let key = format!("k{}", self.below(6));
            let payload = if self.below(60) == 0 { POISON } else { "x" };
            self.last += 1;
            let message = Message::new("t", payload.to_owned()).key(key.clone()).id(Uuid::from_u128(self.last));
            self.written.entry(key).or_default().push(message.id);
            messages.push(message);
        }
        self.store.enqueue_committed(&messages);
    }

    async fn dead(&self) -> BTreeSet<MessageId> {
        let mut operator = self.store.operator().await.unwrap();
        let dead = operator.dead(&DeadFilter::default(), Position { after: RowId(0), limit: 100_000 }).await.unwrap();
        dead.into_iter().map(|row| row.message.id).collect()
    }

    /// Relays until nothing is left; what holds its key is replayed.
    async fn drain(&self, relays: &[Running]) {
        let begun = Instant::now();
        loop {
            let mut operator = self.store.operator().await.unwrap();
            let status = operator.status(100_000).await.unwrap();
            if status.pending.value() == 0 && status.holding.value() == 0 {
                return;
            }
            if self.on_dead == OnDead::Hold {
                operator.replay(&DeadFilter::default(), 1_000).await.unwrap();
            }
            let snapshots = || relays.iter().map(|relay| relay.handle.snapshot()).collect::<Vec<_>>();
            assert!(begun.elapsed() < PATIENCE, "not done: {status:?}, {:#?}", snapshots());
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// What each key's messages were first delivered as, repeats left out.
    fn first_deliveries(&self) -> BTreeMap<String, Vec<MessageId>> {
        let mut seen = BTreeSet::new();
        let mut of_keys: BTreeMap<String, Vec<MessageId>> = BTreeMap::new();
        for outgoing in self.broker.messages() {
            if seen.insert(outgoing.message.id) {
                let key = outgoing.message.key.as_ref().unwrap().as_str().to_owned();
                of_keys.entry(key).or_default().push(outgoing.message.id);
            }
        }
        of_keys
    }
}

async fn play(seed: u64) -> Seen {
    let mut world = World::new(seed);
    let ticking = {
        let store = world.store.clone();
        tokio::spawn(async move {
            loop {
                sleep(TICK).await;
                store.advance(TICK);
            }
        })
    };
    let mut seen = Seen::default();
    let mut relays = vec![world.start(), world.start()];
    let begun = Instant::now();
    while begun.elapsed() < SPAN {
        sleep(Duration::from_millis(1 + world.below(120))).await;
        match world.below(40) {
            0 if !relays.is_empty() => {
                let place = usize::try_from(world.below(relays.len() as u64)).unwrap();
                relays.swap_remove(place).task.abort();
                seen.killed += 1;
            }
            1 if !relays.is_empty() => {
                let place = usize::try_from(world.below(relays.len() as u64)).unwrap();
                relays.swap_remove(place).stop().await;
                seen.stopped += 1;
            }
            2..=4 if relays.len() < 3 => relays.push(world.start()),
            _ => world.write(),
        }
    }
    *world.trouble.lock().unwrap() = 0;
    relays.push(world.start());
    world.drain(&relays).await;
    for relay in relays {
        relay.stop().await;
    }
    ticking.abort();
    judge(seed, &world, &mut seen).await;
    seen
}

async fn judge(seed: u64, world: &World, seen: &mut Seen) {
    let (dead, delivered) = (world.dead().await, world.first_deliveries());
    let forwarded: BTreeSet<MessageId> = world.letters.messages().iter().map(|letter| letter.message.id).collect();
    for (key, written) in &world.written {
        let (known, none) = (written.iter().copied().collect::<BTreeSet<_>>(), Vec::new());
        let delivered = delivered.get(key).unwrap_or(&none);
        let got: BTreeSet<MessageId> = delivered.iter().copied().collect();
        assert!(got.is_subset(&known), "seed {seed}: ghosts of {key}");
        let lost: Vec<_> = known.iter().filter(|id| !got.contains(id) && !dead.contains(id)).collect();
        assert!(lost.is_empty(), "seed {seed}: lost of {key}: {lost:?}");
        // What died was delivered before by a call whose answer was lost, if at all.
        let alive: Vec<_> = written.iter().filter(|id| got.contains(id) && !dead.contains(id)).collect();
        let came: Vec<_> = delivered.iter().filter(|id| !dead.contains(id)).collect();
        assert_eq!(came, alive, "seed {seed}, {:?}, {} lanes: order of {key}", world.on_dead, world.lanes);
    }
    if world.on_dead == OnDead::Forward {
        assert!(dead.is_subset(&forwarded), "seed {seed}: dead, and not forwarded");
    }
    if world.on_dead == OnDead::Hold {
        assert!(dead.is_empty(), "seed {seed}: replayed, and dead");
    }
    let all: usize = world.written.values().map(Vec::len).sum();
    seen.repeats = world.broker.messages().len() - delivered.values().map(Vec::len).sum::<usize>();
    (seen.dead, seen.forwarded, seen.troubles) = (dead.len(), forwarded.len(), *world.troubles.lock().unwrap());
    assert!(all > 0, "seed {seed}: nothing was written");
}

fn in_a_runtime(seed: u64) -> Seen {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(play(seed))
}

#[test]
fn every_promise_holds_whatever_store_brokers_and_relays_go_through() {
    let seeds: Vec<u64> = match std::env::var("POSTRIDER_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => {
            let usual = if std::env::var_os("POSTRIDER_FULL").is_some() { MANY_SEEDS } else { SEEDS };
            (0..std::env::var("POSTRIDER_SEEDS").map_or(usual, |seeds| seeds.parse().unwrap())).collect()
        }
    };
    let begun = std::time::Instant::now();
    let (counts, failed) = (Mutex::new(BTreeMap::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for half in [0, 1] {
            let (seeds, counts, failed) = (&seeds, &counts, &failed);
            scope.spawn(move || {
                for seed in seeds.iter().filter(|seed| *seed % 2 == half) {
                    match catch_unwind(|| in_a_runtime(*seed)) {
                        Ok(seen) => seen.count(&mut counts.lock().unwrap()),
                        Err(_) => failed.lock().unwrap().push(*seed),
                    }
                }
            });
        }
    });
    let (counts, failed) = (counts.into_inner().unwrap(), failed.into_inner().unwrap());
    let speed = seeds.len() as f64 / begun.elapsed().as_secs_f64();
    println!("of {} worlds, {speed:.1} a second: {counts:?}", seeds.len());
    assert!(failed.is_empty(), "{} of {} worlds: POSTRIDER_SEED={failed:?}", failed.len(), seeds.len());
    if seeds.len() > 1 {
        let rare: Vec<_> = counts.iter().filter(|(_, count)| **count * 10 < seeds.len()).collect();
        assert!(rare.is_empty(), "in less than a tenth of the worlds: {rare:?}");
    }
}
