//! The connection and what is known about it.
//!
//! The client tells only through events that a subject is forbidden, that credentials were refused, or that the
//! connection is gone; this file keeps them so that a message in flight learns of it before its time is over.

use std::collections::HashMap;
use std::time::Instant;

use async_nats::connection::State;
use async_nats::jetstream::{self, context::ContextBuilder};
use async_nats::{Client, ClientError, Event, Server, ServerError};
use postrider_core::{Error, ErrorKind, Published, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{OnceCell, watch};

use super::settings::{CONNECT, Settings};
use super::{MAX_BATCH, MAX_CONCURRENT};

/// What events have told.
#[derive(Debug, Clone, Default)]
struct Known {
    /// How often the connection was lost.
    losses: u64,
    /// Why there is no connection, since the last time there was one.
    trouble: Option<(ErrorKind, String)>,
    /// When the server last refused to be told something at a subject.
    denied: HashMap<String, (Instant, String)>,
    /// That the server refused on this connection to send answers. It is not asked again before the next one.
    unanswered: Option<String>,
}

/// What ended a wait before its answer came.
#[derive(Debug)]
pub(super) enum Broken {
    /// The server refuses what was sent to the subject, in its own words.
    Denied(String),
    /// The server refuses to send answers, in its own words. The connection is made anew, to ask it again.
    Unanswered(String),
    /// The connection was lost.
    Lost,
}

/// How many refused subjects are remembered.
const MAX_DENIED: usize = 1000;

/// The connection, opened by the first call and kept up by the client.
pub(super) struct Link {
    settings: Arc<Settings>,
    known: watch::Sender<Known>,
    client: OnceCell<(Client, jetstream::Context)>,
    closed: AtomicBool,
}

/// The connection as it was when a batch began.
pub(super) struct Watch {
    shown: String,
    client: Client,
    known: watch::Receiver<Known>,
    losses: u64,
    began: Instant,
}

impl Link {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, known: watch::Sender::default(), client: OnceCell::new(), closed: AtomicBool::new(false) }
    }

    /// The connection, waiting for the first one to stand as long as an attempt may take.
    ///
    /// # Errors
    /// `Config` when the server refused us, `Unavailable` otherwise; unsent either way.
    pub(super) async fn connected(&self) -> Result<(jetstream::Context, Watch)> {
        let away = |why: &str| {
            Error::new(ErrorKind::Unavailable, format!("not connected to {}{why}", self.settings.shown)).unsent()
        };
        if self.closed.load(Ordering::SeqCst) {
            return Err(away(": the broker was closed"));
        }
        let (client, context) = self.client.get_or_try_init(|| self.connect()).await?;
        let mut known = self.known.subscribe();
        if client.connection_state() == State::Pending {
            let settled =
                known.wait_for(|known| known.trouble.is_some() || client.connection_state() != State::Pending);
            // Whatever ends the wait, the state below tells.
            let _ = tokio::time::timeout(CONNECT, settled).await;
        }
        let (losses, trouble) = {
            let known = known.borrow_and_update();
            (known.losses, known.trouble.clone())
        };
        match (client.connection_state(), trouble) {
            (State::Connected, _) => {}
            (_, Some((kind, why))) => {
                return Err(Error::new(kind, format!("connecting to {}: {why}", self.settings.shown)).unsent());
            }
            (_, None) => return Err(away("; is the server running?")),
        }
        let watch =
            Watch { shown: self.settings.shown.clone(), client: client.clone(), known, losses, began: Instant::now() };
        Ok((context.clone(), watch))
    }

    async fn connect(&self) -> Result<(Client, jetstream::Context)> {
        let known = self.known.clone();
        let tried = self.known.clone();
        let options = self.settings.client()?.event_callback(move |event| {
            known.send_modify(|known| known.learn(&event));
            std::future::ready(())
        });
        // Events name only the kind of a failure to connect; why is told here, before the next attempt.
        let options = options.reconnect_to_server_callback(move |servers, _| {
            tried.send_modify(|known| known.learn_attempts(&servers));
            std::future::ready(None)
        });
        // With retries on, this returns at once and connects behind.
        let client = options.connect(self.settings.servers.clone()).await.map_err(|error| {
            let text = format!("preparing the connection to {}", self.settings.shown);
            Error::new(ErrorKind::Config, text).because(error).unsent()
        })?;
        let context = ContextBuilder::new()
            .timeout(self.settings.timeout)
            .ack_timeout(self.settings.timeout)
            .max_ack_inflight(MAX_BATCH * MAX_CONCURRENT)
            .build(client.clone());
        Ok((client, context))
    }

    /// Ends the connection. Everything accepted is at the server already.
    pub(super) async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        if let Some((client, _)) = self.client.get() {
            let _ = tokio::time::timeout(CONNECT, client.drain()).await;
        }
    }
}

impl Watch {
    /// # Errors
    /// `Unavailable` and unsent when the connection is away now.
    pub(super) fn connected(&self) -> Result<()> {
        if self.client.connection_state() == State::Connected && self.known.borrow().losses == self.losses {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Unavailable, format!("the connection to {} is lost", self.shown)).unsent())
    }

    /// How often the connection had been lost when the watch began.
    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    /// Waits until the connection that the watch began on is lost, or the server refuses the subject or every answer.
    pub(super) async fn broken(&mut self, subject: &str) -> Broken {
        let (losses, began) = (self.losses, self.began);
        let verdict = self.known.wait_for(|known| known.breaks(losses, subject, began).is_some());
        let broken = verdict.await.map(|known| known.breaks(losses, subject, began));
        let Ok(Some(broken)) = broken else {
            // The link itself is gone, so no event will come; the caller's own deadline decides.
            return std::future::pending().await;
        };
        if matches!(broken, Broken::Unanswered(_)) {
            // The client subscribes to its answers once per connection. Nothing is lost by it: none comes on this one.
            let _ = self.client.force_reconnect().await;
            let _ = tokio::time::timeout(CONNECT, self.known.wait_for(|known| known.losses != losses)).await;
        }
        broken
    }
}

impl Known {
    fn learn(&mut self, event: &Event) {
        match event {
            Event::Connected => (self.trouble, self.unanswered) = (None, None),
            Event::Disconnected | Event::Closed => self.losses += 1,
            Event::ServerError(ServerError::AuthorizationViolation) => {
                self.trouble = Some(refused("authorization violation"))
            }
            Event::ServerError(ServerError::Other(text)) => self.server_error(text),
            // The next attempt tells more of it.
            Event::ClientError(ClientError::Other(text)) if text == "IO error" => {}
            Event::ClientError(ClientError::Other(text)) => self.trouble = Some(unconnected(text)),
            _ => {}
        }
    }

    /// Why the last attempts failed; of several servers, the one that needs a human.
    fn learn_attempts(&mut self, servers: &[Server]) {
        let told = servers.iter().filter_map(|server| server.last_error.as_deref()).map(unconnected);
        if let Some(trouble) = told.min_by_key(|(kind, _)| *kind != ErrorKind::Config) {
            self.trouble = Some(trouble);
        }
    }

    fn server_error(&mut self, text: &str) {
        let lower = text.to_ascii_lowercase();
        if lower.starts_with("permissions violation") {
            if lower.contains("for subscription") {
                self.unanswered = Some(text.to_owned());
                return;
            }
            let subject = text.split('"').nth(1).unwrap_or_default();
            if self.denied.len() >= MAX_DENIED {
                self.denied.clear();
            }
            self.denied.insert(subject.to_owned(), (Instant::now(), text.to_owned()));
        } else if lower.contains("authenti") || lower.contains("authoriz") {
            self.trouble = Some(refused(text));
        }
    }

    /// What ends a wait for what was sent to this subject after a moment.
    fn breaks(&self, losses: u64, subject: &str, since: Instant) -> Option<Broken> {
        let denied = self.denied.get(subject).filter(|(at, _)| *at >= since);
        match (denied, &self.unanswered) {
            (Some((_, text)), _) => Some(Broken::Denied(text.clone())),
            (None, Some(text)) if self.losses == losses => Some(Broken::Unanswered(text.clone())),
            _ => (self.losses != losses).then_some(Broken::Lost),
        }
    }
}

fn refused(text: &str) -> (ErrorKind, String) {
    (ErrorKind::Config, format!("{text}; check token, user and password, nkey or creds"))
}

/// What it means when an attempt to connect failed, by the client's words for it.
fn unconnected(text: &str) -> (ErrorKind, String) {
    let text = text.strip_prefix("IO error: ").unwrap_or(text);
    let config = |advice: &str| (ErrorKind::Config, format!("{text}; {advice}"));
    if text.starts_with("authorization violation") || text.starts_with("failed signing nonce") {
        refused(text)
    } else if text.contains("certificate expired") || text.contains("certificate not valid yet") {
        config(
            "the server's certificate has expired, or is not valid yet; renew it there, or set the clock of this machine",
        )
    } else if text.contains("invalid peer certificate") {
        config("the server's certificate does not verify; repair it, or name its authority in ca_file")
    } else if text.contains("received fatal alert") {
        config("the server refuses our side of TLS; does it ask for client_cert_file and client_key_file?")
    } else if text.starts_with("TLS error") {
        config("check the server's certificate and the option ca_file")
    } else if text == "DNS error" {
        (ErrorKind::Unavailable, "the server's name is not found".to_owned())
    } else {
        (ErrorKind::Unavailable, format!("{text}; is the server running?"))
    }
}

/// The same failure for every message of a batch of which nothing was sent.
pub(super) fn unsent(length: usize, error: &Error) -> Vec<Published> {
    (0..length).map(|_| Published::Failed(Error::new(error.kind(), error.story()).unsent())).collect()
}
