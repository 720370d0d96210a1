//! Which fault comes when: drawn from the seed before the run begins.

use std::time::Duration;

use crate::moment::Moment;
use crate::random::Random;
use crate::settings::{BrokerKind, StoreKind};

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A kind of fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind { $($(#[doc = $doc])+ $variant,)+ }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// What it is called in reports and on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

kinds! {
    /// A relay gets SIGKILL and is started again.
    RelayKill = "relay-kill",
    /// A relay gets SIGTERM, must end with exit code 0, and is started again.
    RelayTerm = "relay-term",
    /// A relay gets SIGSTOP, for half to ten lease times.
    RelayPause = "relay-pause",
    /// A relay joins the others for a while and leaves by SIGTERM.
    RelayAdded = "relay-added",
    /// A relay's clock is an hour off for a while.
    RelayClock = "relay-clock",
    /// A relay's connections to the database are cut.
    StoreCut = "store-cut",
    /// Nothing passes between a relay and the database, in one direction or both.
    StoreHole = "store-hole",
    /// Everything between a relay and the database takes long.
    StoreSlow = "store-slow",
    /// The database's answer to a relay is lost.
    StoreAnswer = "store-answer-lost",
    /// A relay's connections to the broker are cut.
    BrokerCut = "broker-cut",
    /// Nothing passes between a relay and the broker, in one direction or both.
    BrokerHole = "broker-hole",
    /// Everything between a relay and the broker takes long.
    BrokerSlow = "broker-slow",
    /// The broker's answer to a relay is lost.
    BrokerAnswer = "broker-answer-lost",
    /// The application's connections are cut, or an answer of the database to it is lost.
    WriterCut = "writer-cut",
    /// The database's postmaster gets SIGKILL.
    DatabaseKill = "database-kill",
    /// The database is restarted in good order.
    DatabaseRestart = "database-restart",
    /// Some backends of the relays are terminated.
    DatabaseBackend = "database-backend",
    /// Somebody locks the outbox table, or the whole file, for two seconds.
    DatabaseLock = "database-lock",
    /// Somebody locks rows and lanes in the other order than the relays, again and again, and changed more than they did:
    /// they are the ones whose transactions are undone.
    DatabaseDeadlock = "database-deadlock",
    /// The database is restarted and draws numbers again that rows had which left.
    DatabaseNumbers = "database-numbers",
    /// The broker, or one of its nodes, is restarted in good order.
    BrokerRestart = "broker-restart",
    /// The broker, or one of its nodes, gets SIGKILL.
    BrokerKill = "broker-kill",
    /// The broker or one of its nodes gets SIGSTOP, or answers nothing, for a while.
    BrokerPause = "broker-pause",
    /// The broker refuses everything for a while.
    BrokerRefuses = "broker-refuses",
}

impl Kind {
    /// Whether it can happen to this pair.
    pub fn fits(self, store: StoreKind, broker: BrokerKind) -> bool {
        let (server, network) = (store != StoreKind::Sqlite, broker != BrokerKind::File);
        match self {
            Self::RelayKill | Self::RelayTerm | Self::RelayPause | Self::DatabaseLock => true,
            // SQLite's time is that of the process that asks.
            Self::RelayClock
            | Self::StoreCut
            | Self::StoreHole
            | Self::StoreSlow
            | Self::StoreAnswer
            | Self::WriterCut
            | Self::DatabaseKill
            | Self::DatabaseRestart
            | Self::DatabaseBackend => server,
            // PostgreSQL's fence and its rows are locked by one statement, and its numbers never go back.
            Self::DatabaseDeadlock | Self::DatabaseNumbers => matches!(store, StoreKind::Mariadb | StoreKind::Mysql),
            // One process writes a file at a time.
            Self::RelayAdded
            | Self::BrokerCut
            | Self::BrokerHole
            | Self::BrokerSlow
            | Self::BrokerAnswer
            | Self::BrokerRestart
            | Self::BrokerPause
            | Self::BrokerRefuses => network,
            Self::BrokerKill => broker.is_killed(),
        }
    }

    /// Whether a repeat may come of it. A graceful stop, a wrong clock and a deadlock are no excuse.
    pub fn excuses_repeats(self) -> bool {
        !matches!(
            self,
            Self::RelayTerm | Self::RelayAdded | Self::RelayClock | Self::WriterCut | Self::DatabaseDeadlock
        )
    }

    /// Whether it is done to every relay at once, and not to one of them.
    pub fn touches_every_relay(self) -> bool {
        matches!(
            self,
            Self::DatabaseKill
                | Self::DatabaseRestart
                | Self::DatabaseBackend
                | Self::DatabaseLock
                | Self::DatabaseNumbers
                | Self::BrokerRestart
                | Self::BrokerKill
                | Self::BrokerPause
                | Self::BrokerRefuses
        )
    }

    /// Whether it needs messages in flight to prove anything.
    pub fn wants_flight(self) -> bool {
        matches!(self, Self::RelayKill | Self::RelayPause)
    }

    /// Whether the application's own database is part of it. Who locks rows and lanes is in no insert's way.
    pub fn touches_application(self) -> bool {
        matches!(
            self,
            Self::WriterCut
                | Self::DatabaseKill
                | Self::DatabaseRestart
                | Self::DatabaseBackend
                | Self::DatabaseLock
                | Self::DatabaseNumbers
        )
    }

    /// Whether the application may have to wait as long as it lasts: a process that is frozen in the middle of an SQLite
    /// write keeps the only write lock (`docs/guarantees.md`).
    pub fn may_keep_the_write_lock(self, store: StoreKind) -> bool {
        self == Self::RelayPause && store == StoreKind::Sqlite
    }
}

/// A fault to come.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Which.
    pub kind: Kind,
    /// When.
    pub at: Moment,
    /// How long, where that is not in its nature.
    pub lasts: Duration,
    /// Decides the target among those that are there then, and the variant.
    pub draw: u64,
}

impl Planned {
    /// Whether a relay that has lanes is to be hit, where there is one; one of four may hit an idle one.
    pub fn wants_lanes(&self) -> bool {
        !self.draw.is_multiple_of(4)
    }
}

/// The faults of a run, in order.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The faults.
    pub faults: Vec<Planned>,
    /// From when to when no fault begins, and what went before has time to heal.
    pub quiet: Vec<(Moment, Moment)>,
}

/// Nothing happens to a run that has just begun.
const WARM_UP: Duration = Duration::from_secs(6);
/// A quiet window begins this often, and lasts this long.
const QUIET_EVERY: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(14);
/// What the takeover after a solitary kill may take on top of the lease, with some room.
const TAKEOVER: Duration = Duration::from_secs(4);

/// From this length on a run has one outage of the broker that outlasts every interval between two attempts.
const LONG: Duration = Duration::from_secs(600);
const OUTAGE: Duration = Duration::from_secs(60);

impl Plan {
    /// Draws the faults of a load of this length.
    ///
    /// Kinds come in shuffled rounds, so that a run of any length has as many of each as it can. After each quiet window
    /// a relay that has lanes is killed, and nothing else begins until others must have them: that time is promised,
    /// and among other faults it cannot be measured. In the middle of a long run the broker is away for a minute.
    pub fn draw(seed: u64, kinds: &[Kind], load: Duration, lease: Duration, mean_gap: Duration) -> Self {
        let mut random = Random::new(seed, 1);
        let end = Moment(0).after(load).before(Duration::from_secs(8));
        let mut quiet = Vec::new();
        let mut from = Moment(0).after(QUIET_EVERY - QUIET);
        while from < end {
            quiet.push((from, from.after(QUIET)));
            from = from.after(QUIET_EVERY);
        }
        let middle = quiet.get(quiet.len() / 2).map(|(_, until)| *until);
        let outage = middle.filter(|_| load >= LONG && kinds.contains(&Kind::BrokerRestart));
        if let Some(begins) = outage {
            // It is not quiet while it lasts, nor while what piled up drains.
            quiet.retain(|(from, _)| *from < begins || *from > begins.after(OUTAGE + QUIET));
        }
        let (mut faults, mut round) = (Vec::new(), Vec::new());
        let mut at = Moment(0).after(WARM_UP);
        while !kinds.is_empty() && at < end {
            if let Some((_, until)) = quiet.iter().find(|(from, until)| *from <= at && at < *until) {
                at = *until;
                if outage == Some(at) {
                    faults.push(Planned { kind: Kind::BrokerRestart, at, lasts: OUTAGE, draw: random.bits() });
                } else if kinds.contains(&Kind::RelayKill) && at < end {
                    faults.push(solitary_kill(at, &mut random));
                    at = at.after(lease + TAKEOVER);
                }
                continue;
            }
            if round.is_empty() {
                round = kinds.to_vec();
                random.shuffle(&mut round);
            }
            let Some(kind) = round.pop() else { break };
            let lasts = lasts(kind, lease, &mut random);
            faults.push(Planned { kind, at, lasts, draw: random.bits() });
            at = at.after(random.between(mean_gap / 4, mean_gap * 7 / 4));
        }
        Self { faults, quiet }
    }

    /// The same plan, begun at a moment.
    #[must_use]
    pub fn moved(mut self, began: Moment) -> Self {
        let by = began.since(Moment(0));
        self.faults.iter_mut().for_each(|fault| fault.at = fault.at.after(by));
        self.quiet.iter_mut().for_each(|(from, until)| (*from, *until) = (from.after(by), until.after(by)));
        self
    }
}

fn solitary_kill(at: Moment, random: &mut Random) -> Planned {
    Planned { kind: Kind::RelayKill, at, lasts: Duration::from_secs(1), draw: random.bits() | 1 }
}

fn lasts(kind: Kind, lease: Duration, random: &mut Random) -> Duration {
    let between = |random: &mut Random, least: f64, most: f64| {
        random.between(Duration::from_secs_f64(least), Duration::from_secs_f64(most))
    };
    match kind {
        // Ten lease times are rare, because nothing else can happen to that relay meanwhile.
        Kind::RelayPause => match random.below(10) {
            0..3 => lease / 2,
            3..7 => lease * 3 / 2,
            7..9 => lease * 3,
            _ => lease * 10,
        },
        Kind::RelayKill | Kind::RelayTerm => between(random, 0.0, 2.0),
        Kind::RelayAdded | Kind::RelayClock => between(random, 5.0, 12.0),
        Kind::StoreHole | Kind::BrokerHole => random.between(lease / 3, lease * 2),
        Kind::StoreSlow | Kind::BrokerSlow => between(random, 1.0, 4.0),
        Kind::DatabaseKill | Kind::DatabaseRestart | Kind::DatabaseNumbers | Kind::BrokerRestart | Kind::BrokerKill => {
            between(random, 0.0, 1.5)
        }
        Kind::DatabaseDeadlock => between(random, 1.0, 3.0),
        Kind::DatabaseLock => Duration::from_secs(2),
        Kind::BrokerPause | Kind::BrokerRefuses => between(random, 1.0, 5.0),
        Kind::StoreCut
        | Kind::StoreAnswer
        | Kind::BrokerCut
        | Kind::BrokerAnswer
        | Kind::WriterCut
        | Kind::DatabaseBackend => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: (StoreKind, BrokerKind) = (StoreKind::Postgres, BrokerKind::Nats);

    fn kinds((store, broker): (StoreKind, BrokerKind)) -> Vec<Kind> {
        Kind::ALL.iter().copied().filter(|kind| kind.fits(store, broker)).collect()
    }

    fn drawn_for(pair: (StoreKind, BrokerKind), seed: u64, minutes: u64) -> Plan {
        let load = Duration::from_secs(60 * minutes);
        Plan::draw(seed, &kinds(pair), load, Duration::from_secs(3), Duration::from_millis(3500))
    }

    fn drawn(seed: u64, minutes: u64) -> Plan {
        drawn_for(PAIR, seed, minutes)
    }

    #[test]
    fn a_seed_fixes_the_plan_and_another_seed_changes_it() {
        let text = |plan: &Plan| format!("{:?}", plan.faults);
        assert_eq!(text(&drawn(7, 10)), text(&drawn(7, 10)));
        assert_ne!(text(&drawn(7, 10)), text(&drawn(8, 10)));
    }

    #[test]
    fn five_minutes_have_kills_with_nothing_else_beginning_before_or_after() {
        for seed in 0..50 {
            let plan = drawn(seed, 5);
            let near = |kill: &Planned, other: &Planned| {
                kill.at.before(QUIET) < other.at && other.at < kill.at.after(Duration::from_secs(7))
            };
            let kills = plan.faults.iter().filter(|fault| fault.kind == Kind::RelayKill && fault.wants_lanes());
            let alone = kills.filter(|kill| plan.faults.iter().filter(|other| near(kill, other)).count() == 1).count();
            assert!(alone >= 3, "seed {seed}: {alone}");
        }
    }

    #[test]
    fn the_broker_is_away_for_a_minute_once_in_a_long_run() {
        let outages = |plan: &Plan| plan.faults.iter().filter(|fault| fault.lasts >= OUTAGE).count();
        for seed in 0..50 {
            assert_eq!((outages(&drawn(seed, 5)), outages(&drawn(seed, 10)), outages(&drawn(seed, 15))), (0, 1, 1));
        }
    }

    #[test]
    fn ten_minutes_have_three_of_each_kind_and_sixty_in_all_outside_the_quiet_windows() {
        let pairs = [PAIR, (StoreKind::Mariadb, BrokerKind::Kafka3)];
        for (pair, seed) in pairs.into_iter().flat_map(|pair| (0..50).map(move |seed| (pair, seed))) {
            let plan = drawn_for(pair, seed, 10);
            assert!(plan.faults.len() >= 60, "{}", plan.faults.len());
            for kind in kinds(pair) {
                let count = plan.faults.iter().filter(|fault| fault.kind == kind).count();
                assert!(count >= 3, "{} {count}", kind.name());
            }
            let disturbs = |at: Moment| plan.quiet.iter().any(|(from, until)| *from <= at && at < *until);
            assert!(plan.faults.iter().all(|fault| !disturbs(fault.at)));
        }
    }
}
