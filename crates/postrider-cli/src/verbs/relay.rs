//! `postrider relay`: the daemon.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use postrider_core::{Broker, ErrorKind, Store};
use postrider_relay::Summary;
use tokio_util::sync::CancellationToken;

use crate::admin::{self, live::Live};
use crate::config::Config;
use crate::config::flags::SettingFlags;
use crate::exit::Exit;
use crate::failure::{self, Failure, Outcome};
use crate::running::{self, Ending, Setup};
use crate::{redact, signals, wiring};

/// The first pause between two tries to open the outbox.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// For `--help`.
pub(crate) const EXAMPLE: &str = "Examples:
  postrider relay --store postgres://relay@db/shop --broker nats://localhost:4222
  postrider relay --store sqlite:app.db --broker stdout: --until-empty
Settings are flags as well, but for secrets and lists: `postrider relay --help` lists them. SIGTERM and SIGINT stop
gracefully; a second one ends at once.
Exit codes of --until-empty: 0 nothing is due, in flight, retrying or set aside; 1 a destination stays paused,
or nothing is left but messages without a route.";

/// Moves messages from the outbox to the broker.
#[derive(Debug, Args)]
pub(crate) struct Relay {
    /// End when nothing is due, in flight, retrying or set aside
    #[arg(long)]
    until_empty: bool,
    /// The place in the broker, where there is one route; {topic} stands for the message's topic
    #[arg(long, value_name = "TEMPLATE")]
    destination: Option<String>,
    /// Every setting
    #[command(flatten)]
    settings: SettingFlags,
}

impl Relay {
    /// The settings among the flags.
    pub(crate) fn flags(&self) -> SettingFlags {
        let mut flags = self.settings.clone();
        let destination = self.destination.iter().cloned();
        flags.0.extend(destination.map(|it| ("route[0].destination".to_owned(), it, "destination".to_owned())));
        flags
    }

    /// Runs until it is stopped, or until the outbox is empty.
    pub(crate) async fn run(&self, config: &Config) -> Outcome<Exit> {
        has_somewhere_to_go(config)?;
        let brokers = wiring::brokers(config)?;
        let url = redact::address(wiring::store_url(config)?);
        let stop = CancellationToken::new();
        signals::watch(stop.clone());
        let live = Arc::new(Live::start(&config.relay.name)?);
        let admin_stop = CancellationToken::new();
        admin::start(config, Arc::clone(&live), admin_stop.clone()).await?;
        tracing::info!(relay = %config.relay.name, outbox = %url, broker = %addresses(config, &brokers), "starting");
        let Some(store) = self.opened(config, &live, &stop).await? else { return Ok(Exit::Good) };
        let ending = if self.until_empty { Ending::WhenEmpty } else { Ending::WhenStopped };
        let setup = Setup { config, store, brokers, ending };
        let summary = running::run(setup, &live, stop).await;
        admin_stop.cancel();
        self.report(&summary?)
    }

    /// Opens the outbox; a daemon waits for a database that is away, `--until-empty` does not.
    async fn opened(&self, config: &Config, live: &Live, stop: &CancellationToken) -> Outcome<Option<Arc<dyn Store>>> {
        let mut pause = FIRST_PAUSE;
        loop {
            let opened = tokio::select! {
                () = stop.cancelled() => return Ok(None),
                opened = wiring::open(config) => opened,
            };
            match opened {
                Ok(store) => {
                    wiring::agree_on_lanes(config, &*store)?;
                    return Ok(Some(store));
                }
                Err(error) if !self.until_empty && waits(error.kind()) => {
                    let story = redact::scrub(&error.story_and_advice());
                    tracing::warn!("the outbox is away, trying again in {}ms: {story}", pause.as_millis());
                    live.waiting(story);
                    tokio::select! {
                        () = stop.cancelled() => return Ok(None),
                        () = tokio::time::sleep(pause) => {}
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => return Err(Failure::store(&error)),
            }
        }
    }

    fn report(&self, summary: &Summary) -> Outcome<Exit> {
        // Standard output may be the broker: the last line goes where the logs go.
        let _ = writeln!(std::io::stderr(), "{}", redact::scrub(&running::last_line(summary)));
        if let Some((count, cause)) = &summary.unroutable {
            let text = failure::one_line(&redact::scrub(cause));
            return Err(Failure::bad(
                format!("nothing is left but messages without a route ({count}): {text}"),
                "correct what it names (`postrider config show` prints what is in force), then run this again",
            ));
        }
        // Where the outbox is empty, a destination that pauses is owed nothing.
        if !self.until_empty || summary.left.is_some() || summary.paused.is_empty() {
            return Ok(Exit::Good);
        }
        let paused = summary.paused.iter().map(|(name, cause)| format!("destination {name} stays paused: {cause}"));
        Err(Failure::bad(
            failure::one_line(&redact::scrub(&paused.collect::<Vec<_>>().join("; "))),
            "bring the broker back or correct its settings (`postrider check`), then run this again",
        ))
    }
}

/// Whether a daemon waits for it to pass.
fn waits(kind: ErrorKind) -> bool {
    match kind {
        ErrorKind::Unavailable | ErrorKind::Throttled | ErrorKind::Unknown => true,
        ErrorKind::Rejected | ErrorKind::Fenced | ErrorKind::Config => false,
    }
}

/// That there is any route.
fn has_somewhere_to_go(config: &Config) -> Outcome<()> {
    if config.routes.is_empty() {
        return Err(Failure::usage(
            "no broker is named",
            "say where messages go: --broker URL (try stdout:), or a [broker.NAME] section in postrider.toml",
        ));
    }
    Ok(())
}

/// The addresses of the brokers in use.
fn addresses(config: &Config, brokers: &BTreeMap<String, Arc<dyn Broker>>) -> String {
    let used = config.brokers.iter().filter(|section| brokers.contains_key(&section.name));
    used.map(|section| redact::address(section.url.reveal())).collect::<Vec<_>>().join(", ")
}
