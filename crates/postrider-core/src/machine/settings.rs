//! What the relay was told: destinations, routes, retry policies, bounds.

use std::time::Duration;

use crate::address::DestinationName;
use crate::machine::destinations::{DestinationIndex, Destinations};
use crate::machine::ordering::Ordering;
use crate::message::{Message, Topic};
use crate::on_dead::OnDead;
use crate::retry::{RetryPolicy, TopicPattern};
use crate::seams::BrokerProfile;
use crate::template::DestinationTemplate;

/// The most destinations of one relay.
pub const MAX_DESTINATIONS: usize = 64;

/// One broker and a place in it.
#[derive(Debug, Clone)]
pub struct DestinationSettings {
    /// Its name.
    pub name: DestinationName,
    /// What its broker can do.
    pub profile: BrokerProfile,
    /// How the place is made from a message.
    pub template: DestinationTemplate,
}

/// A rule that maps topics to a destination.
#[derive(Debug, Clone)]
pub struct Route {
    /// Which topics.
    pub topics: TopicPattern,
    /// Which destination, by its place in [`Settings::destinations`].
    pub destination: DestinationIndex,
}

/// Everything the machine needs to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The destinations, at most [`MAX_DESTINATIONS`].
    pub destinations: Vec<DestinationSettings>,
    /// The routes; all that match apply.
    pub routes: Vec<Route>,
    /// Which messages wait for each other; default those of a key.
    pub ordering: Ordering,
    /// The retry policies; the first whose pattern matches the topic applies, the default one otherwise.
    pub retry: Vec<(TopicPattern, RetryPolicy)>,
    /// What becomes of a message that is given up; the first entry whose pattern matches the topic applies, skipping
    /// otherwise. A row that is no message has no topic: the first entry for every topic applies to it.
    pub on_dead: Vec<(TopicPattern, OnDead)>,
    /// The destination of dead letters, by its place in [`Settings::destinations`]; no route leads there. Without one
    /// nothing is forwarded.
    pub forward: Option<DestinationIndex>,
    /// The most messages in the window; default 8,192.
    pub window_rows: usize,
    /// The most payload bytes in the window; default 32 MiB. A heavier row travels alone.
    pub window_bytes: usize,
    /// The most rows of one read; default 1,024.
    pub page_rows: usize,
    /// The most rows of one settle; with so many more waiting, a second one is asked for ahead. Default 1,024.
    pub settle_rows: usize,
    /// So long at most a delivery waits to be recorded with others, where nothing waits for its record; default 20 ms. A relay
    /// that dies repeats what it delivered within this time.
    pub settle_pause: Duration,
    /// The longest pause between two reads of new rows; default 100 ms.
    pub max_poll_interval: Duration,
    /// The pause between two looks for due rows, which is the precision of delays; default 250 ms.
    pub due_interval: Duration,
    /// So long after the end of a sweep the next one begins, and within this time the waiting keys of every lane are walked
    /// once; default 10 min.
    pub sweep_round: Duration,
    /// The longest pause between two probes of a paused destination; default 30 s.
    pub max_pause: Duration,
    /// The seed of the jitter.
    pub seed: u64,
}

impl Settings {
    /// The defaults, for some destinations and routes.
    pub fn new(destinations: Vec<DestinationSettings>, routes: Vec<Route>) -> Self {
        Self {
            destinations,
            routes,
            ordering: Ordering::default(),
            retry: Vec::new(),
            on_dead: Vec::new(),
            forward: None,
            window_rows: 8_192,
            window_bytes: 32 << 20,
            page_rows: 1_024,
            settle_rows: 1_024,
            settle_pause: Duration::from_millis(20),
            max_poll_interval: Duration::from_millis(100),
            due_interval: Duration::from_millis(250),
            sweep_round: Duration::from_secs(600),
            max_pause: Duration::from_secs(30),
            seed: 0,
        }
    }

    /// Every destination that messages of a topic go to.
    pub(super) fn routed(&self, topic: &Topic) -> Destinations {
        let topic = topic.as_str();
        self.routes.iter().filter(|route| route.topics.matches(topic)).map(|route| route.destination).collect()
    }

    /// The destinations of these names; names that are not configured are left out.
    pub(super) fn named(&self, names: &[DestinationName]) -> Destinations {
        self.indexed().filter(|(_, settings)| names.contains(&settings.name)).map(|(index, _)| index).collect()
    }

    /// The names of these destinations.
    pub(super) fn names(&self, destinations: Destinations) -> Vec<DestinationName> {
        self.indexed()
            .filter(|(index, _)| destinations.contains(*index))
            .map(|(_, settings)| settings.name.clone())
            .collect()
    }

    /// The retry policy of a message.
    pub(super) fn policy(&self, message: &Message) -> RetryPolicy {
        let policy = self.policy_of(&message.topic);
        message.retry.map_or(policy, |change| policy.with(&change))
    }

    /// The retry policy of a topic's messages that do not change it.
    pub(super) fn policy_of(&self, topic: &Topic) -> RetryPolicy {
        let policy = self.retry.iter().find(|(pattern, _)| pattern.matches(topic.as_str())).map(|(_, policy)| *policy);
        policy.unwrap_or_default()
    }

    /// What becomes of a message of this topic, or of a row that is no message, when it is given up.
    pub(super) fn on_dead(&self, topic: Option<&Topic>) -> OnDead {
        let applies = |pattern: &TopicPattern| match topic {
            Some(topic) => pattern.matches(topic.as_str()),
            None => *pattern == TopicPattern::every(),
        };
        self.on_dead.iter().find(|(pattern, _)| applies(pattern)).map(|(_, on_dead)| *on_dead).unwrap_or_default()
    }

    /// The destinations that routes lead to: all but that of dead letters.
    pub(super) fn destinations_of_routes(&self) -> Destinations {
        self.routes.iter().map(|route| route.destination).collect()
    }

    fn indexed(&self) -> impl Iterator<Item = (DestinationIndex, &DestinationSettings)> {
        self.destinations.iter().enumerate().map(|(index, settings)| (DestinationIndex::new(index), settings))
    }
}
