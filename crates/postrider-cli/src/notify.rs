//! Telling a URL of messages that were given up: in batches, again and again until it takes them.
//!
//! It is information, and the table is the truth: what was told may be told again after a crash, and while the URL is
//! away for long only the last [`KEPT`] are kept; how many were left out is said in the next body.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider_brokers::BrokerConfig;
use postrider_core::{Attempt, Broker, Destination, Lane, Message, Outgoing, Published, Term};
use postrider_relay::{DeadWatch, GaveUp};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::redact;

/// The most messages kept until they are told.
const KEPT: usize = 1_000;
/// The most messages of one request.
const BATCH: usize = 100;
/// How long a first message waits for others, so that they are told together.
const GATHERING: Duration = Duration::from_secs(1);
/// The first pause after a request that failed.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long the end of the relay waits for the last request.
const LAST_WORDS: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Waiting {
    dead: VecDeque<Value>,
    left_out: u64,
}

/// Who is told of messages that are given up.
#[derive(Debug)]
pub(crate) struct Notifier {
    relay: String,
    outbox: String,
    broker: Arc<dyn Broker>,
    waiting: Mutex<Waiting>,
    news: tokio::sync::Notify,
}

impl DeadWatch for Notifier {
    fn gave_up(&self, dead: GaveUp) {
        let told = json!({
            "id": dead.id.map(|id| id.to_string()), "row": dead.row.0,
            "topic": dead.topic.as_ref().map(postrider_core::Topic::as_str),
            "key": dead.key.as_ref().map(postrider_core::Key::as_str),
            "reason": dead.reason.as_str(), "error": redact::scrub(&dead.error),
        });
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.dead.len() == KEPT {
            waiting.dead.pop_front();
            waiting.left_out += 1;
        }
        waiting.dead.push_back(told);
        drop(waiting);
        self.news.notify_one();
    }
}

/// Begins to tell, if the configuration names a URL; the task ends after `stop`.
pub(crate) fn start(config: &Config, stop: CancellationToken) -> Outcome<Option<(Arc<Notifier>, JoinHandle<()>)>> {
    let Some(notify) = &config.notify else { return Ok(None) };
    let mut options = BrokerConfig::new(notify.url.reveal()).option("egress", notify.egress.clone());
    if let Some(secret) = &notify.secret {
        options = options.option("secret", json!(secret.reveal()));
    }
    let broker = postrider_brokers::open(&options).map_err(|error| {
        let failure = Failure::broker(&error);
        Failure { what: format!("notify.url: {}", failure.what), ..failure }
    })?;
    let notifier = Arc::new(Notifier {
        relay: config.relay.name.clone(),
        outbox: config.outbox.store.as_ref().map(|store| redact::address(store.reveal())).unwrap_or_default(),
        broker,
        waiting: Mutex::default(),
        news: tokio::sync::Notify::new(),
    });
    let task = tokio::spawn(tell(Arc::clone(&notifier), stop));
    Ok(Some((notifier, task)))
}

async fn tell(notifier: Arc<Notifier>, stop: CancellationToken) {
    let mut pause = FIRST_PAUSE;
    while !stop.is_cancelled() {
        tokio::select! {
            () = notifier.news.notified() => {}
            () = stop.cancelled() => break,
        }
        tokio::select! {
            () = sleep(GATHERING) => {}
            () = stop.cancelled() => break,
        }
        while let Some((batch, left_out)) = notifier.next() {
            let message = notifier.message(&batch, left_out);
            loop {
                match notifier.send(&message).await {
                    Ok(()) => {
                        pause = FIRST_PAUSE;
                        break;
                    }
                    Err(why) => tracing::warn!(error = %why, "a notification of dead letters was not taken"),
                }
                tokio::select! {
                    () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                    () = stop.cancelled() => {
                        let last = timeout(LAST_WORDS, notifier.send(&message)).await;
                        if !matches!(last, Ok(Ok(()))) {
                            tracing::warn!(messages = batch.len(), "dead letters were not told; see `postrider dead list`");
                        }
                        return notifier.broker.close().await;
                    }
                }
            }
        }
    }
    while let Some((batch, left_out)) = notifier.next() {
        let message = notifier.message(&batch, left_out);
        if !matches!(timeout(LAST_WORDS, notifier.send(&message)).await, Ok(Ok(()))) {
            tracing::warn!(messages = batch.len(), "dead letters were not told; see `postrider dead list`");
            break;
        }
    }
    notifier.broker.close().await;
}

impl Notifier {
    /// What is told next, and how many were left out before it.
    fn next(&self) -> Option<(Vec<Value>, u64)> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let count = waiting.dead.len().min(BATCH);
        let batch: Vec<Value> = waiting.dead.drain(..count).collect();
        (!batch.is_empty()).then(|| (batch, std::mem::take(&mut waiting.left_out)))
    }

    /// One request: what is sent again is the same to its last byte, and has the same id.
    fn message(&self, batch: &[Value], left_out: u64) -> Arc<Message> {
        let body = json!({ "relay": self.relay, "outbox": self.outbox, "left_out": left_out, "dead": batch });
        let mut message = Message::new("postrider.dead", body.to_string());
        message.content_type = Some("application/json".to_owned());
        Arc::new(message)
    }

    async fn send(&self, message: &Arc<Message>) -> Result<(), String> {
        let outgoing = Outgoing {
            message: Arc::clone(message),
            destination: Destination::new(""),
            attempt: Attempt(1),
            lane: Lane(0),
            term: Term(0),
            given_up: None,
        };
        match self.broker.publish(&[outgoing]).await.pop() {
            Some(Published::Accepted(_)) => Ok(()),
            Some(Published::Failed(error)) => Err(redact::scrub(&error.story())),
            Some(Published::NotSent) | None => Err("it was not sent".to_owned()),
        }
    }
}
