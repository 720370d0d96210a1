//! Putting a relay together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::machine::{
    DestinationIndex, DestinationSettings, MAX_DESTINATIONS, Machine, Ordering, Route, Settings,
};
use postrider_core::{
    Archive, Broker, DestinationName, DestinationTemplate, Error, ErrorKind, LaneCount, OnDead, Result, Retention,
    RetryPolicy, Store, TopicPattern,
};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::dead_watch::DeadWatch;
use crate::relay_loop::RelayLoop;
use crate::snapshot::{Ended, RelayHandle, Shared, Summary};

/// How long a graceful stop may take: 20 s.
const DEFAULT_STOP_DEADLINE: Duration = Duration::from_secs(20);
/// How long a relay that runs until empty waits for a paused destination: 30 s.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(30);
/// The shortest lease.
const SHORTEST_LEASE: Duration = Duration::from_millis(500);

/// A destination with its broker.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    pub(crate) name: DestinationName,
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) template: DestinationTemplate,
}

/// Whether a relay ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    WhenStopped,
    WhenEmpty,
}

/// What a relay was built with.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) name: String,
    pub(crate) outlets: Vec<Outlet>,
    pub(crate) lease: Duration,
    pub(crate) retention: Retention,
    pub(crate) archive: Option<Arc<dyn Archive>>,
    pub(crate) inbox: Option<Duration>,
    pub(crate) stop_deadline: Duration,
    pub(crate) patience: Duration,
    pub(crate) ending: Ending,
    pub(crate) watch: Option<Arc<dyn DeadWatch>>,
}

/// Puts a [`Relay`] together; every setting but the store and one destination has a default.
#[derive(Debug)]
pub struct RelayBuilder {
    plan: Plan,
    settings: Settings,
    routes: Vec<(TopicPattern, DestinationName)>,
    /// More than one is refused.
    forward: Vec<DestinationName>,
}

impl RelayBuilder {
    /// Its label in `status`; default `relay`. Two relays may share it.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.plan.name = name.into();
        self
    }

    /// One more destination: its name, its broker, and how the place in it is made from a message. Several may have one
    /// broker.
    ///
    /// The name stands in the table while a message is owed there and not elsewhere, so it must stay what it is: what is
    /// owed to a name that is no longer given waits until it is given again.
    #[must_use]
    pub fn destination(
        mut self,
        name: DestinationName,
        broker: Arc<dyn Broker>,
        template: DestinationTemplate,
    ) -> Self {
        self.plan.outlets.push(Outlet { name, broker, template });
        self
    }

    /// Where messages are forwarded that are given up and whose topic says so ([`OnDead::Forward`]): a destination of
    /// dead letters that no route leads to. A relay has one of them.
    #[must_use]
    pub fn forward_to(mut self, name: DestinationName, broker: Arc<dyn Broker>, template: DestinationTemplate) -> Self {
        self.forward.push(name.clone());
        self.destination(name, broker, template)
    }

    /// One more route: messages of these topics go to this destination. All that match apply; a message is delivered when
    /// each of its destinations has accepted it. Without any route every message goes to every destination.
    #[must_use]
    pub fn route(mut self, topics: TopicPattern, destination: DestinationName) -> Self {
        self.routes.push((topics, destination));
        self
    }

    /// One more retry policy; the first whose pattern matches applies, the default policy otherwise.
    #[must_use]
    pub fn retry(mut self, topics: TopicPattern, policy: RetryPolicy) -> Self {
        self.settings.retry.push((topics, policy));
        self
    }

    /// Which messages wait for each other; default [`Ordering::Key`], which in an outbox of one lane is
    /// [`Ordering::Everything`]. Every relay of an outbox must be given the same.
    #[must_use]
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.settings.ordering = ordering;
        self
    }

    /// What becomes of messages of these topics that are given up; the first entry whose pattern matches applies, and
    /// otherwise they are skipped. A row that is no message has no topic: the entry for every topic applies to it.
    #[must_use]
    pub fn on_dead(mut self, topics: TopicPattern, on_dead: OnDead) -> Self {
        self.settings.on_dead.push((topics, on_dead));
        self
    }

    /// Who is told of every message that is given up; by default nobody but the log and the metrics.
    #[must_use]
    pub fn dead_watch(mut self, watch: Arc<dyn DeadWatch>) -> Self {
        self.plan.watch = Some(watch);
        self
    }

    /// The most messages and payload bytes in memory; default 8,192 and 32 MiB.
    #[must_use]
    pub fn window(mut self, rows: usize, bytes: usize) -> Self {
        self.settings.window_rows = rows;
        self.settings.window_bytes = bytes;
        self
    }

    /// The longest pause between two looks for new messages; default 100 ms.
    #[must_use]
    pub fn max_poll_interval(mut self, interval: Duration) -> Self {
        self.settings.max_poll_interval = interval;
        self
    }

    /// How long a lease lasts without renewal, at least 500 ms; the default is the store's (10 s, SQLite 3 s).
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.plan.lease = lease;
        self
    }

    /// How long delivered and dead messages are kept; default for ever.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.plan.retention = retention;
        self
    }

    /// Where rows are kept before retention removes them: one is removed only after it is durable there, and may stand there
    /// twice after a crash. By default they are not kept anywhere.
    #[must_use]
    pub fn archive(mut self, archive: Arc<dyn Archive>) -> Self {
        self.plan.archive = Some(archive);
        self
    }

    /// How long the inbox in the same tables remembers what was handled: one of the relays forgets what is older, whoever
    /// received it, on PostgreSQL by when the ids were made. By default none does: then the application calls
    /// `Inbox::forget`.
    #[must_use]
    pub fn inbox(mut self, keep: Duration) -> Self {
        self.plan.inbox = Some(keep);
        self
    }

    /// How long a graceful stop may take; default 20 s.
    #[must_use]
    pub fn stop_deadline(mut self, deadline: Duration) -> Self {
        self.plan.stop_deadline = deadline;
        self
    }

    /// The longest pause between two probes of a paused destination; default 30 s.
    #[must_use]
    pub fn max_pause(mut self, pause: Duration) -> Self {
        self.settings.max_pause = pause;
        self
    }

    /// Ends by itself when nothing is due, in flight, retrying or set aside, or when a destination stays paused and no other
    /// one accepts anything any more.
    #[must_use]
    pub fn until_empty(mut self) -> Self {
        self.plan.ending = Ending::WhenEmpty;
        self
    }

    /// How long a relay that runs until empty waits for a paused destination, counted from the last message that any
    /// destination accepted; default 30 s.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.plan.patience = patience;
        self
    }

    /// The relay.
    ///
    /// # Errors
    /// `Config` without a destination, with too many, with one name twice, with a route to an unknown destination, with
    /// two that always lead a message to one place in one broker, with a destination to which no route leads, with a
    /// lease that is too short, with one order of everything in an outbox of several lanes, when a key is to be held
    /// where keys have no order of their own, or when dead letters are to be forwarded and no destination is given for
    /// them, or several are.
    pub fn build(mut self) -> Result<Relay> {
        let config = |text: String| Error::new(ErrorKind::Config, text);
        let mut places = BTreeMap::new();
        for (place, outlet) in self.plan.outlets.iter().enumerate() {
            if outlet.name.as_str().is_empty() {
                return Err(config(
                    "a destination has an empty name; it stands in tables and metrics: write one".to_owned(),
                ));
            }
            if places.insert(outlet.name.clone(), DestinationIndex::new(place)).is_some() {
                return Err(config(format!(
                    "two destinations are called {:?}; give each its own name",
                    outlet.name.as_str()
                )));
            }
        }
        if places.keys().all(|name| self.forward.contains(name)) || places.len() > MAX_DESTINATIONS {
            let found = places.len();
            return Err(config(format!("a relay needs 1 to {MAX_DESTINATIONS} destinations; {found} are given")));
        }
        if self.plan.lease < SHORTEST_LEASE {
            return Err(config(format!(
                "the lease of {:?} is too short; it must last 500 ms or more",
                self.plan.lease
            )));
        }
        if self.settings.window_rows == 0 || self.settings.window_bytes == 0 {
            return Err(config("the window must hold at least one message and one byte".to_owned()));
        }
        let lanes = self.plan.store.profile().lanes;
        self.settings.ordering = match self.settings.ordering {
            Ordering::Key if lanes == LaneCount::ONE => Ordering::Everything,
            Ordering::Everything if lanes != LaneCount::ONE => {
                let lanes = lanes.get();
                return Err(config(format!(
                    "one order of everything needs an outbox of one lane; this one has {lanes}"
                )));
            }
            ordering => ordering,
        };
        if self.settings.ordering != Ordering::Key && self.settings.on_dead.iter().any(|(_, it)| *it == OnDead::Hold) {
            return Err(config(
                "a key cannot be held where keys have no order of their own; use skip or forward, or an outbox of \
                 several lanes with one order per key"
                    .to_owned(),
            ));
        }
        let outlets = &self.plan.outlets;
        self.settings.destinations = outlets
            .iter()
            .map(|outlet| DestinationSettings {
                name: outlet.name.clone(),
                profile: outlet.broker.profile(),
                template: outlet.template.clone(),
            })
            .collect();
        if let [first, second, ..] = self.forward.as_slice() {
            return Err(config(format!(
                "dead letters are forwarded to one destination; {:?} and {:?} are given",
                first.as_str(),
                second.as_str()
            )));
        }
        self.settings.forward = self.forward.first().and_then(|name| places.get(name)).copied();
        if self.settings.forward.is_none() && self.settings.on_dead.iter().any(|(_, it)| *it == OnDead::Forward) {
            return Err(config("dead letters are to be forwarded, and no destination is given for them".to_owned()));
        }
        self.settings.routes = if self.routes.is_empty() {
            let routed = places.iter().filter(|(name, _)| !self.forward.contains(name));
            routed.map(|(_, place)| Route { topics: TopicPattern::every(), destination: *place }).collect()
        } else {
            let mut routes = Vec::new();
            for (topics, name) in std::mem::take(&mut self.routes) {
                let place = places.get(&name).copied();
                let destination = place.ok_or_else(|| {
                    config(format!(
                        "a route leads to {:?}, which is no destination; add it or correct the name",
                        name.as_str()
                    ))
                })?;
                routes.push(Route { topics, destination });
            }
            routes
        };
        if let Some(text) = self.lonely().or_else(|| self.leads_twice()) {
            return Err(config(text));
        }
        Ok(Relay { plan: self.plan, settings: self.settings, ended: Ended(Arc::new(Shared::default())) })
    }
}

impl RelayBuilder {
    /// A destination that no message can reach, in words.
    fn lonely(&self) -> Option<String> {
        let is_reached = |place: DestinationIndex| {
            self.settings.forward == Some(place) || self.settings.routes.iter().any(|route| route.destination == place)
        };
        let mut outlets = self.plan.outlets.iter().enumerate();
        let (_, lonely) = outlets.find(|(place, _)| !is_reached(DestinationIndex::new(*place)))?;
        Some(format!(
            "no route leads to the destination {:?}; add one, or leave the destination out",
            lonely.name.as_str()
        ))
    }

    /// Two destinations at which a message would arrive twice, in words: one broker, one place, and a topic that goes to
    /// both. What only the data of a message could make one place is not seen.
    fn leads_twice(&self) -> Option<String> {
        let routes = &self.settings.routes;
        let pairs = routes.iter().enumerate().flat_map(|(at, one)| routes[at + 1..].iter().map(move |two| (one, two)));
        pairs.filter(|(one, two)| one.destination != two.destination && one.topics.overlaps(&two.topics)).find_map(
            |(one, two)| {
                let outlet = |route: &Route| self.plan.outlets.get(route.destination.get());
                let (first, second) = (outlet(one)?, outlet(two)?);
                let meet = first.template.meets(&one.topics, &second.template, &two.topics);
                (meet && Arc::ptr_eq(&first.broker, &second.broker)).then(|| {
                    format!(
                        "the destinations {:?} and {:?} are both \"{}\" in one broker, for {} and {}: a message would \
                         arrive there twice; leave one of them out, or lead other topics there",
                        first.name.as_str(),
                        second.name.as_str(),
                        first.template,
                        one.topics,
                        two.topics
                    )
                })
            },
        )
    }
}

/// A relay, ready to run.
#[derive(Debug)]
pub struct Relay {
    plan: Plan,
    settings: Settings,
    /// One that is dropped before it runs has ended too, and its listeners wait for nothing.
    ended: Ended,
}

impl Relay {
    /// Begins to put a relay together over a store.
    pub fn builder(store: Arc<dyn Store>) -> RelayBuilder {
        let lease = store.profile().default_lease;
        RelayBuilder {
            plan: Plan {
                store,
                name: "relay".to_owned(),
                outlets: Vec::new(),
                lease,
                retention: Retention::default(),
                archive: None,
                inbox: None,
                stop_deadline: DEFAULT_STOP_DEADLINE,
                patience: DEFAULT_PATIENCE,
                ending: Ending::WhenStopped,
                watch: None,
            },
            settings: Settings::new(Vec::new(), Vec::new()),
            routes: Vec::new(),
            forward: Vec::new(),
        }
    }

    /// A hand on the relay while it runs.
    pub fn handle(&self) -> RelayHandle {
        RelayHandle(Arc::clone(&self.ended.0))
    }

    /// Relays until `stop` is cancelled, then finishes what is in flight, releases its lanes and ends.
    ///
    /// A store or a broker that is away does not end it: it waits and goes on by itself. Dropping the future is like
    /// a crash: nothing is lost, what was in flight is repeated, and the lanes are free once the lease has run out.
    ///
    /// # Errors
    /// `Config` when the store can never work as it is (no tables, a newer schema), at the start only. `Unknown` when a
    /// panic in the store's client ended one of its tasks: like a crash, what was in flight is repeated by the next
    /// relay, once the lease has run out.
    pub async fn run(self, stop: CancellationToken) -> Result<Summary> {
        let Self { plan, mut settings, ended } = self;
        settings.seed = uuid::Uuid::new_v4().as_u64_pair().0;
        let shared = Arc::clone(&ended.0);
        RelayLoop::new(plan, Machine::new(settings), shared, Clock::start(), stop).run().await
    }
}
