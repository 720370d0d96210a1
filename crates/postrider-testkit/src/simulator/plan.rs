//! What a seed stands for: the relays, the brokers, the messages and the faults of one world.

use std::time::Duration;

use postrider_core::machine::{DestinationIndex, DestinationSettings, Ordering, Route, Settings};
use postrider_core::{
    Attempts, DestinationName, DestinationTemplate, ErrorKind, Isolation, Key, Message, OnExpire, OrderInBatch,
    RetryPolicy, TopicPattern,
};

use super::broker::{Mode, Poison, SimBroker};
use super::faults::{Fault, Moment, StoreMode, Trouble, When};
use super::given_up;
use super::outage::{self, Outage};
use super::rng::Rng;

pub(super) const MILLI: u64 = 1_000;
pub(super) const SECOND: u64 = 1_000 * MILLI;

/// How often everything is swept, where it is swept at all.
const SWEEP_ROUND: Duration = Duration::from_millis(300);

/// One relay: when it starts, and by how many parts in a million its clock is fast.
#[derive(Debug, Clone, Copy)]
pub(super) struct RelayPlan {
    pub(super) starts_at: u64,
    pub(super) ppm: i64,
}

/// How long a relay waits for an answer, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadlines {
    pub(super) read: u64,
    pub(super) settle: u64,
    pub(super) publish: u64,
    pub(super) fresh_lease: u64,
    pub(super) stop: u64,
}

/// A message before it has a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draft {
    pub(super) transaction: usize,
    pub(super) key: Option<usize>,
    pub(super) everywhere: bool,
    pub(super) bytes: usize,
    pub(super) delay: Option<u64>,
    pub(super) end: End,
    pub(super) malformed: bool,
    pub(super) poison: Option<(usize, Poison)>,
    /// It is refused where dead letters are forwarded.
    pub(super) unforwardable: bool,
    /// When its transaction began.
    pub(super) begun: u64,
    /// When its transaction had the lock on the key; none for one that takes none.
    pub(super) locked: Option<u64>,
}

/// When a message is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// When the policy of its topic says so, if it does.
    ByPolicy,
    /// So long after it was written.
    After(u64),
    /// So old, in milliseconds; 0 for never. The message itself changes the policy.
    OlderThan(u64),
    /// Never, whatever the policy says.
    Never,
}

/// What an application does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Insert(usize),
    Commit(usize),
    RollBack(usize),
}

/// The world of one seed.
#[derive(Debug)]
pub(super) struct Plan {
    /// Nothing happens that could be a reason for a repeat or for a charge.
    pub(super) gentle: bool,
    pub(super) settings: Settings,
    pub(super) brokers: Vec<SimBroker>,
    pub(super) keys: Vec<Key>,
    pub(super) lanes: u16,
    pub(super) relays: Vec<RelayPlan>,
    pub(super) ttl: u64,
    pub(super) store_latency: (u64, u64),
    pub(super) deadlines: Deadlines,
    pub(super) drafts: Vec<Draft>,
    pub(super) transactions: usize,
    pub(super) steps: Vec<(u64, Step)>,
    pub(super) troubles: Vec<Trouble>,
    /// The messages are written within this time.
    pub(super) span: u64,
    pub(super) outage: Option<Outage>,
}

impl Plan {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let gentle = rng.chance(150);
        let breaking = !gentle && rng.chance(350);
        let poisonous = !gentle && rng.chance(400);
        let deadly = !gentle && rng.chance(120);
        let mortal = rng.chance(350);
        let span = rng.within(SECOND..3 * SECOND);
        let mut brokers: Vec<SimBroker> = (0..rng.pick(&[1, 1, 1, 2, 2, 3])).map(|_| broker(rng, breaking)).collect();
        let ttl = rng.pick(&[1, 1, 1, 1, 2, 3]) * SECOND;
        let lanes = rng.pick(&[1, 1, 2, 2, 3, 4, 6]);
        let count = rng.pick(&[1, 2, 2, 3, 3, 4]);
        let drift = if rng.chance(500) { 20_000 } else { 100 };
        let relays = (0..count)
            .map(|place: u64| RelayPlan {
                starts_at: if place == 0 { 0 } else { rng.pick(&[0, 0, SECOND]) * rng.below(3) / 2 + rng.below(5_000) },
                ppm: i64::try_from(rng.below(drift * 2)).unwrap_or(0) - i64::try_from(drift).unwrap_or(0),
            })
            .collect();
        let deadline = |rng: &mut Rng| rng.within(ttl / 2..ttl * 3);
        let deadlines = Deadlines {
            read: deadline(rng),
            settle: deadline(rng),
            publish: deadline(rng),
            fresh_lease: rng.within(ttl / 2..ttl * 2),
            stop: if gentle { 30 * SECOND } else { rng.within(20 * MILLI..2 * SECOND) },
        };
        let keys = (0..1 + rng.below(8)).map(|n| Key::unchecked(format!("k{n}"))).collect();
        let mut settings = settings(rng, &brokers);
        settings.ordering = match rng.below(10) {
            0 => Ordering::None,
            1..4 if lanes == 1 => Ordering::Everything,
            _ => Ordering::Key,
        };
        if mortal {
            limit_lives(rng, &mut settings, span);
        }
        let letters = broker(rng, breaking);
        given_up::draw(rng, &mut settings, &mut brokers, letters);
        let mut plan = Self {
            gentle,
            settings,
            brokers,
            keys,
            lanes,
            relays,
            ttl,
            store_latency: (rng.below(3_000), rng.below(3_000)),
            deadlines,
            drafts: Vec::new(),
            transactions: 0,
            steps: Vec::new(),
            troubles: Vec::new(),
            span,
            outage: None,
        };
        plan.write(rng, poisonous, mortal);
        if deadly {
            let place = rng.place(plan.drafts.len());
            let draft = &mut plan.drafts[place];
            draft.malformed = false;
            draft.poison = Some((0, if rng.chance(500) { Poison::KillsReader } else { Poison::KillsPublisher }));
        }
        if gentle {
            plan.trouble_gently(rng);
        } else {
            plan.trouble(rng);
        }
        if plan.troubles.iter().any(|trouble| matches!(trouble.fault, Fault::Delete(_))) {
            // What stands behind a head that somebody deletes is found by the sweep.
            plan.settings.sweep_round = SWEEP_ROUND;
        }
        outage::draw(rng, &mut plan);
        plan
    }

    /// The transactions of the application: some take a lock on their keys, some roll back, some stay open for long.
    fn write(&mut self, rng: &mut Rng, poisonous: bool, mortal: bool) {
        let wanted = 60 + rng.place(100);
        let mut free_at = vec![0_u64; self.keys.len()];
        let mut begins: Vec<u64> =
            (0..wanted).map(|_| if rng.chance(250) { 0 } else { rng.below(self.span) }).collect();
        begins.sort_unstable();
        let bulk = rng.chance(150).then(|| rng.place(wanted / 2));
        for (number, begun) in begins.into_iter().enumerate() {
            if self.drafts.len() >= wanted {
                break;
            }
            let size = match bulk {
                Some(at) if at == number => 30 + rng.place(40),
                _ => rng.pick(&[1, 1, 1, 1, 2, 3]),
            };
            let serialised = rng.chance(600);
            let keys: Vec<Option<usize>> =
                (0..size).map(|_| rng.chance(850).then(|| rng.place(self.keys.len()))).collect();
            let mut at = begun + rng.below(2_000);
            if serialised {
                for key in keys.iter().flatten() {
                    at = at.max(free_at[*key] + 1);
                }
            }
            let locked = serialised.then_some(at);
            let transaction = self.transactions;
            self.transactions += 1;
            for key in &keys {
                at += rng.below(300);
                let draft = self.draft(rng, transaction, *key, (begun, locked), (poisonous, mortal));
                self.steps.push((at, Step::Insert(self.drafts.len())));
                self.drafts.push(draft);
            }
            let lasts = if rng.chance(30) { rng.below(SECOND) } else { rng.below(3_000) };
            at += lasts;
            let ends = if rng.chance(100) { Step::RollBack(transaction) } else { Step::Commit(transaction) };
            self.steps.push((at, ends));
            if serialised {
                keys.iter().flatten().for_each(|key| free_at[*key] = at);
            }
        }
        self.steps.sort_by_key(|(at, _)| *at);
    }

    pub(super) fn draft(
        &self,
        rng: &mut Rng,
        transaction: usize,
        key: Option<usize>,
        (begun, locked): (u64, Option<u64>),
        (poisonous, mortal): (bool, bool),
    ) -> Draft {
        let malformed = rng.chance(15);
        let poison = (poisonous && !malformed && rng.chance(40)).then(|| {
            let place = rng.place(self.routed());
            let poison = match rng.below(7) {
                // Where nothing may overtake it, only a refusal tells a bad message from an outage.
                _ if self.settings.ordering == Ordering::Everything => Poison::Fails(ErrorKind::Rejected),
                0 => Poison::Fails(ErrorKind::Unavailable),
                1 => Poison::Fails(ErrorKind::Config),
                2 => Poison::Fails(ErrorKind::Throttled),
                3..6 => Poison::Fails(ErrorKind::Rejected),
                _ => Poison::Breaks,
            };
            (place, poison)
        });
        let everywhere = rng.chance(800) || poison.is_some_and(|(place, _)| place > 0);
        let bytes = if rng.chance(10) { 5_000 } else { rng.place(60) };
        let delay = rng.chance(50).then(|| rng.below(self.span));
        let end = match rng.below(20) {
            0..3 if mortal => End::After(rng.below(self.span)),
            3 if mortal => End::OlderThan(rng.pick(&[0, 100, 1_000, 5_000])),
            4 if mortal => End::Never,
            _ => End::ByPolicy,
        };
        let unforwardable = rng.chance(200);
        Draft { transaction, key, everywhere, bytes, delay, end, malformed, poison, unforwardable, begun, locked }
    }

    /// Whether all messages are one order.
    pub(super) fn is_one_order(&self) -> bool {
        self.settings.ordering == Ordering::Everything
    }

    /// What becomes of a message that fails or grows too old.
    pub(super) fn policy(&self, message: &Message) -> RetryPolicy {
        let topic = message.topic.as_str();
        let policy = self.settings.retry.iter().find(|(pattern, _)| pattern.matches(topic)).map(|(_, policy)| *policy);
        let policy = policy.unwrap_or_default();
        message.retry.map_or(policy, |change| policy.with(&change))
    }

    /// Faults after which everything must be as if there had been none: graceful stops, destinations that say no for a
    /// while, a store that is away for less than a lease.
    fn trouble_gently(&mut self, rng: &mut Rng) {
        let mut down: Vec<usize> = (0..self.brokers.len()).collect();
        for _ in 0..2 + rng.below(4) {
            let at = rng.below(self.span);
            let relay = rng.place(self.relays.len());
            let fault = match rng.below(4) {
                0 if !down.is_empty() => {
                    let place = down.swap_remove(rng.place(down.len()));
                    let kind = rng.pick(&[ErrorKind::Unavailable, ErrorKind::Config, ErrorKind::Throttled]);
                    Fault::Broker { place, mode: Mode::Down(kind), lasts: rng.below(800 * MILLI) }
                }
                1 => Fault::Store { mode: StoreMode::Refuses, lasts: rng.below(self.ttl / 8) },
                _ => Fault::Stop { relay, down: rng.below(SECOND) },
            };
            self.troubles.push(Trouble { when: When::At(at), fault });
        }
        self.troubles.push(Trouble { when: When::At(rng.below(self.span)), fault: Fault::Hint(0) });
    }

    fn trouble(&mut self, rng: &mut Rng) {
        for number in 0..2 + rng.below(6) {
            let at = rng.below(self.span * 3 / 2);
            let fault = self.fault(rng);
            // The first two strike whatever happens.
            let moment = number >= 2 && fault.has_moments() && rng.chance(700);
            let when = if moment { When::On(at, rng.pick(Moment::ALL)) } else { When::At(at) };
            self.troubles.push(Trouble { when, fault });
        }
        if rng.chance(250) {
            let fault = Fault::Cut { relay: 0, mode: StoreMode::Hangs, lasts: rng.below(self.ttl / 4) };
            let moment = rng.pick(&[Moment::Acquired, Moment::Released]);
            self.troubles.push(Trouble { when: When::On(rng.below(self.span), moment), fault });
        }
        let extras: [(u64, Fault); 5] = [
            (200, Fault::Replay),
            (400, Fault::Open),
            (100, Fault::Discard),
            (100, Fault::Prune),
            (300, Fault::Hint(rng.place(self.relays.len()))),
        ];
        for (odds, fault) in extras {
            for _ in 0..2 {
                if rng.chance(odds) {
                    self.troubles.push(Trouble { when: When::At(rng.below(self.span * 2)), fault });
                }
            }
        }
        for _ in 0..if rng.chance(150) { 3 } else { 0 } {
            let at = rng.below(self.span);
            self.troubles.push(Trouble { when: When::At(at), fault: Fault::Delete(rng.place(self.drafts.len())) });
        }
    }

    fn fault(&self, rng: &mut Rng) -> Fault {
        let relay = rng.place(self.relays.len());
        let place = rng.place(self.brokers.len());
        let store = |rng: &mut Rng| rng.pick(&[StoreMode::Refuses, StoreMode::Unknown, StoreMode::Hangs]);
        match rng.below(19) {
            0..3 => Fault::Crash { relay, down: rng.below(SECOND) },
            3..6 => {
                let tenths = rng.pick(&[1, 3, 9, 12, 15, 15, 30, 100]);
                Fault::Pause { relay, lasts: self.ttl * tenths / 10 + rng.below(self.ttl / 4) }
            }
            6 | 7 => Fault::Stop { relay, down: rng.below(SECOND) },
            8 | 9 => {
                let mode = rng.pick(Mode::AWAY);
                Fault::Broker { place, mode, lasts: rng.below(900 * MILLI) }
            }
            10 => Fault::Store { mode: store(rng), lasts: rng.below(400 * MILLI) },
            11 => Fault::Cut { relay, mode: store(rng), lasts: rng.below(self.ttl * 2) },
            12 => Fault::Restart { down: if rng.chance(500) { rng.below(5 * MILLI) } else { rng.below(300 * MILLI) } },
            13 => {
                let step = i64::try_from(rng.below(self.ttl * 2)).unwrap_or(0);
                Fault::Clock { step: if rng.chance(500) { step } else { -step } }
            }
            14..18 => Fault::Lossy { lasts: rng.below(SECOND) },
            _ => Fault::Slow { place, lasts: rng.below(SECOND) },
        }
    }
}

fn broker(rng: &mut Rng, breaking: bool) -> SimBroker {
    let order = if rng.chance(500) { OrderInBatch::Kept } else { OrderInBatch::NotKept };
    let isolation = if rng.chance(500) { Isolation::SharedConnection } else { Isolation::PerMessage };
    let mut broker = SimBroker::new(order, isolation);
    broker.latency = 200 + rng.below(20_000);
    broker.profile.max_concurrent = 1 + rng.place(4);
    broker.profile.max_batch = 1 + rng.place(16);
    if breaking {
        broker.breaks = rng.below(300);
        broker.short = rng.below(60);
    }
    broker
}

fn settings(rng: &mut Rng, brokers: &[SimBroker]) -> Settings {
    let destinations = brokers
        .iter()
        .enumerate()
        .map(|(place, broker)| DestinationSettings {
            name: name(place),
            profile: broker.profile.clone(),
            template: DestinationTemplate::topic(),
        })
        .collect();
    let everything = TopicPattern::every();
    let all = TopicPattern::parse("all").expect("a plain word is a pattern");
    let routes = (0..brokers.len())
        .map(|place| Route {
            topics: if place == 0 { everything.clone() } else { all.clone() },
            destination: DestinationIndex::new(place),
        })
        .collect();
    let mut settings = Settings::new(destinations, routes);
    let policy = RetryPolicy {
        initial: Duration::from_millis(200),
        maximum: Duration::from_secs(2),
        multiplier: 2.0,
        attempts: Attempts::AtMost(4),
        ..RetryPolicy::default()
    };
    settings.retry = vec![(everything, policy)];
    settings.max_pause = Duration::from_secs(2);
    settings.sweep_round = if rng.chance(200) { SWEEP_ROUND } else { Duration::from_secs(360_000) };
    settings.seed = rng.next();
    settings.settle_pause = Duration::from_micros(settings.seed % (40 * MILLI));
    if rng.chance(400) {
        settings.window_rows = 8 + rng.place(40);
        settings.page_rows = 4 + rng.place(16);
        settings.window_bytes = 200 + rng.place(3_000);
        settings.settle_rows = 1 + rng.place(6);
    }
    settings
}

/// Messages of one topic, or all, grow too old.
fn limit_lives(rng: &mut Rng, settings: &mut Settings, span: u64) {
    let policy = settings.retry.first().map(|(_, policy)| *policy).unwrap_or_default();
    let on_expire = rng.pick(&[OnExpire::Dead, OnExpire::Drop]);
    let max_age = Some(Duration::from_micros(50 * MILLI + rng.below(span)));
    let brief = TopicPattern::parse("only-a").expect("a plain word is a pattern");
    let at_last = rng.chance(300).then(|| Duration::from_micros(span + rng.below(span)));
    settings.retry = vec![
        (brief, RetryPolicy { max_age, on_expire, ..policy }),
        (TopicPattern::every(), RetryPolicy { max_age: at_last, on_expire, ..policy }),
    ];
}

/// The name of a destination.
pub(super) fn name(place: usize) -> DestinationName {
    DestinationName::new(["a", "b", "c", "d"][place])
}
