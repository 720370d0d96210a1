//! From the configuration to a running relay, and from its snapshot to the admin address.

use std::collections::BTreeMap;
use std::sync::Arc;

use postrider_core::{Broker, DestinationName, Store, TopicPattern};
use postrider_relay::{Relay, RelaySnapshot, RelayState as State, Summary};
use tokio_util::sync::CancellationToken;

use crate::admin::live::Live;
use crate::admin::report::{DestinationReport, RelayState, Report};
use crate::config::{Config, DEAD_LETTERS};
use crate::failure::{Failure, Outcome};
use crate::{notify, wiring};

/// What a relay is built from.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    /// The configuration.
    pub(crate) config: &'a Config,
    /// The outbox, open.
    pub(crate) store: Arc<dyn Store>,
    /// The brokers, open, by name.
    pub(crate) brokers: BTreeMap<String, Arc<dyn Broker>>,
    /// How it ends.
    pub(crate) ending: Ending,
}

/// How a relay ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// When it is told to.
    WhenStopped,
    /// By itself, when the outbox is empty.
    WhenEmpty,
}

/// Runs the relay.
pub(crate) async fn run(setup: Setup<'_>, live: &Live, stop: CancellationToken) -> Outcome<Summary> {
    let config = setup.config;
    let mut builder = Relay::builder(setup.store)
        .name(config.relay.name.clone())
        .window(config.relay.window_rows, config.relay.window_bytes)
        .ordering(config.relay.ordering)
        .max_poll_interval(config.relay.poll_interval)
        .max_pause(config.relay.max_pause)
        .patience(config.relay.patience)
        .stop_deadline(config.relay.stop_deadline)
        .retention(config.retention);
    if let Some(archive) = wiring::archive(config)? {
        builder = builder.archive(archive);
    }
    if let Some(keep) = config.inbox {
        builder = builder.inbox(keep);
    }
    for route in &config.routes {
        let Some(broker) = setup.brokers.get(&route.broker) else { continue };
        let name = DestinationName::new(&route.name);
        builder = builder.destination(name.clone(), Arc::clone(broker), route.destination.clone());
        for topics in &route.topics {
            builder = builder.route(topics.clone(), name.clone());
        }
    }
    for (topics, policy) in &config.topics {
        builder = builder.retry(topics.clone(), *policy);
    }
    builder = builder.retry(TopicPattern::every(), config.retry);
    if let Some(forward) = &config.forward
        && let Some(broker) = setup.brokers.get(&forward.broker)
    {
        let name = DestinationName::new(DEAD_LETTERS);
        builder = builder.forward_to(name, Arc::clone(broker), forward.destination.clone());
    }
    for (topics, on_dead) in &config.on_dead {
        builder = builder.on_dead(topics.clone(), *on_dead);
    }
    if let Some(lease) = config.relay.lease {
        builder = builder.lease(lease);
    }
    let end_of_news = CancellationToken::new();
    let notifier = notify::start(config, end_of_news.clone())?;
    if let Some((watch, _)) = &notifier {
        builder = builder.dead_watch(Arc::<notify::Notifier>::clone(watch));
    }
    if setup.ending == Ending::WhenEmpty {
        builder = builder.until_empty();
    }
    let relay = builder.build().map_err(|error| Failure::store(&error))?;
    let (handle, label) = (relay.handle(), config.relay.name.clone());
    live.relaying(move || report(&label, handle.snapshot()));
    let summary = relay.run(stop).await.map_err(|error| Failure::store(&error));
    end_of_news.cancel();
    if let Some((_, task)) = notifier {
        drop(task.await);
    }
    summary
}

/// The last line of a run.
pub(crate) fn last_line(summary: &Summary) -> String {
    let mut line = format!("delivered {}, retried {}, given up {}", summary.delivered, summary.retried, summary.dead);
    if summary.dropped > 0 {
        line.push_str(&format!(", {} expired and dropped", summary.dropped));
    }
    if let Some(left) = &summary.left {
        let (delayed, dead, holding) = (left.delayed, left.dead, left.holding);
        line.push_str(&format!("; left in the outbox: {delayed} delayed, {dead} dead, {holding} holding"));
        if left.held_back > 0 {
            line.push_str(&format!(" ({} wait behind them)", left.held_back));
        }
    }
    if summary.abandoned > 0 {
        line.push_str(&format!("; {} in flight at the deadline are delivered again", summary.abandoned));
    }
    line
}

fn report(label: &str, snapshot: RelaySnapshot) -> Report {
    let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let destinations = snapshot.destinations.into_iter().map(|destination| {
        let paused = destination.paused;
        let (last_failed_id, last_failed_topic) =
            destination.last_failed.map(|(id, topic)| (id.to_string(), topic.to_string())).unzip();
        DestinationReport {
            name: destination.name.to_string(),
            silent_seconds: destination.silent.map(|silent| silent.as_secs_f64()),
            paused_seconds: paused.as_ref().map(|(.., since)| since.as_secs_f64()),
            kind: paused.as_ref().map(|(kind, ..)| kind.as_str().to_owned()),
            cause: paused.map(|(_, cause, _)| crate::redact::scrub(&cause)),
            accepted: destination.accepted,
            failed: destination.failed,
            last_failed_id,
            last_failed_topic,
        }
    });
    Report {
        relay: label.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        state: match snapshot.state {
            State::Starting => RelayState::Starting,
            State::Standby => RelayState::Standby,
            State::Relaying => RelayState::Relaying,
            State::StoreAway => RelayState::StoreAway,
            State::Stopping => RelayState::Stopping,
            State::Stopped => RelayState::Stopped,
        },
        because: snapshot.store_error.map(|error| crate::redact::scrub(&error)),
        next: snapshot.store_advice.map(|advice| crate::redact::scrub(&advice)),
        lanes: number(snapshot.lanes.len()),
        ordering: (snapshot.state != State::Starting).then(|| snapshot.ordering.as_str().to_owned()),
        window_rows: number(snapshot.window_rows),
        window_bytes: number(snapshot.window_bytes),
        delivered: snapshot.delivered,
        retried: snapshot.retried,
        dead: snapshot.dead,
        dropped: snapshot.dropped,
        last_progress_seconds: snapshot.last_progress.map(|at| at.elapsed().as_secs_f64()),
        destinations: destinations.collect(),
    }
}
