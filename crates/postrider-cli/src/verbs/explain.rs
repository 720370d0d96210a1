//! `postrider explain`: where a message is, and why.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use postrider_core::{ErrorKind, Explained, Key, MessageId, Standing, Subject};
use serde_json::json;
use uuid::Uuid;

use super::standing::{self, Around};
use crate::admin::ask::ask;
use crate::admin::report::Report;
use crate::config::{Config, values};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::output::table::argument;
use crate::wiring;

/// The most rows the store tells about.
const MOST: usize = 100;

/// For `--help`.
pub(crate) const EXAMPLE: &str = "Examples:
  postrider explain 01939f7e-8b1c-7c3a-9b1e-2f6f5a0c1d2e
  postrider explain customer-42        # every message of a key
The table has no index on message ids (it would cost every insert): this is a scan, ended after --timeout.";

/// Says where a message, or every message of a key, is and why.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A message id, or a key
    subject: String,
    /// Take the subject as a key even when it looks like an id
    #[arg(long)]
    key: bool,
    /// How long the database may search
    #[arg(long, value_name = "TIME", default_value = "10s")]
    timeout: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The admin address of a relay, which knows what is halted: an IP address and a port, no host name [default:
    /// admin.listen]
    #[arg(long, value_name = "IP:PORT")]
    admin: Option<SocketAddr>,
}

impl Explain {
    /// Searches and prints.
    pub(crate) async fn run(&self, config: &Config) -> Outcome<Exit> {
        let timeout = values::duration(&self.timeout)
            .filter(|time| !time.is_zero())
            .ok_or_else(|| Failure::usage(format!("{:?} is no length of time", self.timeout), "write --timeout 10s"))?;
        let subject = match Uuid::parse_str(&self.subject) {
            Ok(id) if !self.key => Subject::Id(MessageId(id)),
            _ => Subject::Key(Key::unchecked(self.subject.clone())),
        };
        let mut operator = wiring::operator(config).await?;
        if !self.json {
            tracing::info!("searching the outbox: a scan, ended after {}", values::spoken(timeout));
        }
        let found = operator.explain(&subject, timeout).await.map_err(|error| self.gave_up(&error, timeout))?;
        let relay = self.relay(config, &found).await;
        let around = Around { routes: &config.routes, relay: relay.as_ref() };
        if self.json {
            output::json::print(
                &json!({ "found": found.iter().map(|one| standing::told_json(one, around)).collect::<Vec<_>>() }),
            )?;
        } else {
            let lines: Vec<String> = found.iter().map(|one| standing::told(one, around).join("\n")).collect();
            if !lines.is_empty() {
                output::print(&lines.join("\n"))?;
            }
        }
        if found.len() >= MOST && !self.json {
            output::print(&format!("only the first {MOST} are told"))?;
        }
        if found.is_empty() {
            let (what, as_key) = match subject {
                Subject::Id(id) => (
                    format!("message {id} is not in the outbox"),
                    format!("; if it is a key: `postrider explain {}`", argument("key", &self.subject)),
                ),
                Subject::Key(key) => (format!("the outbox has no message of key {:?}", key.as_str()), String::new()),
            };
            let next = match config.outbox.history {
                Some(_) => "it was never committed, or its time in the history has passed; is this the right --store?",
                None => {
                    "it was delivered, or never committed; outbox.history = \"7d\" keeps what was delivered to tell them apart"
                }
            };
            return Err(Failure::bad(what, format!("{next}{as_key}")));
        }
        Ok(Exit::Good)
    }

    /// What a relay says of its destinations, where a message waits and one answers.
    async fn relay(&self, config: &Config, found: &[Explained]) -> Option<Report> {
        let address = self.admin.or(config.admin.listen)?;
        let is_waiting = found.iter().any(|one| matches!(one.standing, Standing::Outbox(_)));
        if is_waiting { ask(address, config.admin.token.as_ref()).await.ok() } else { None }
    }

    fn gave_up(&self, error: &postrider_core::Error, timeout: Duration) -> Failure {
        let failure = Failure::store(error);
        match error.kind() {
            ErrorKind::Throttled | ErrorKind::Unknown => Failure {
                next: format!("the search was ended after {}; give it longer: --timeout 60s", values::spoken(timeout)),
                ..failure
            },
            ErrorKind::Unavailable | ErrorKind::Rejected | ErrorKind::Fenced | ErrorKind::Config => failure,
        }
    }
}
