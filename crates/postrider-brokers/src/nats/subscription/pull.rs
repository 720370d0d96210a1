//! Asking a consumer for messages, one request at a time, and reading what comes of it.
//!
//! A request waits at the server for the first message and ends with the last that is there then. What it brings is kept here
//! until somebody takes it: a take that is dropped in the middle of a request leaves the rest of it to the next.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use async_nats::{Client, Message, Subscriber};
use futures_util::{FutureExt, StreamExt};
use postrider_core::{Error, ErrorKind, Result};
use serde_json::json;

use super::incarnations::Incarnations;
use super::incoming::Told;
use super::shape::Shape;
use crate::nats::link::{Broken, Watch};

/// The most messages of one request.
const MOST: usize = 1000;
/// The most bytes of one request; more where the server lets one message be half as large.
const BYTES: usize = 32 << 20;

/// The consumer that is asked.
#[derive(Debug)]
pub(super) struct Bound {
    /// The stream's name.
    pub(super) stream: String,
    /// Where to ask.
    pub(super) next: String,
    /// How the consumer is made, with its own bounds for a request.
    pub(super) shape: Shape,
    /// How often the connection had been lost when it was looked at.
    pub(super) losses: u64,
    /// When it was looked at.
    pub(super) since: Instant,
}

/// What a request has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// A message came, or nothing of importance.
    On,
    /// Nothing more comes of it.
    Ended,
    /// It was not heard: there is less than others have asked for.
    Busy,
    /// The next message does not fit into a request with a bound of bytes.
    TooLarge,
    /// The consumer is not there any more, or is another one: look at it again. In the server's words.
    Gone(String),
    /// No request of this kind is answered, in the server's words.
    Refused(String),
    /// No word of it came in its time.
    Silent,
}

/// A request that was sent.
#[derive(Debug)]
struct Request {
    /// Where its messages and its end come to.
    reply: String,
    /// How many of its messages have not come.
    left: usize,
    /// When no more word of it is expected.
    until: Instant,
    /// How often the connection had been lost when it was sent.
    losses: u64,
}

/// What came, and since when at the earliest it is ours.
#[derive(Debug)]
pub(super) struct Came {
    pub(super) message: Message,
    pub(super) since: Instant,
    /// Which of the consumers of its name it is of.
    pub(super) incarnation: u64,
}

/// Where messages come in.
struct Inbox {
    name: String,
    messages: Subscriber,
    requests: u64,
}

/// The requests of one subscription.
#[derive(Default)]
pub(super) struct Pull {
    inbox: Option<Inbox>,
    request: Option<Request>,
    /// When the last request was sent.
    sent: Option<Instant>,
    came: VecDeque<Came>,
    /// Whether the next request is for one message of any size.
    alone: bool,
    pub(super) incarnations: Incarnations,
}

impl Pull {
    pub(super) fn new(incarnations: Incarnations) -> Self {
        Self { incarnations, ..Self::default() }
    }

    /// How many have come and are not taken.
    pub(super) fn len(&self) -> usize {
        self.came.len()
    }

    /// Whether a request is on its way.
    pub(super) fn is_asking(&self) -> bool {
        self.request.is_some()
    }

    /// Takes what has come, at most so many, in its order. What came so long ago that it may be another's by now, or from a
    /// consumer that is no more, is left out: it comes again.
    pub(super) fn take(&mut self, at_most: usize, stale: Duration) -> Vec<Came> {
        self.came.retain(|came| came.since.elapsed() < stale && self.incarnations.is(came.incarnation));
        let count = self.came.len().min(at_most);
        self.came.drain(..count).collect()
    }

    /// Sends a request for at most so many messages, which waits so long for the first.
    ///
    /// # Errors
    /// `Unavailable` when the client does not take it.
    pub(super) async fn ask(
        &mut self,
        client: &Client,
        watch: &Watch,
        bound: &Bound,
        at_most: usize,
        patience: (Duration, Duration),
    ) -> Result<()> {
        let (moment, answer) = patience;
        let limit = |most: i64| usize::try_from(most).ok().filter(|most| *most > 0).unwrap_or(usize::MAX);
        let batch = if self.alone { 1 } else { at_most.min(MOST).min(limit(bound.shape.max_batch)) };
        let moment = match bound.shape.max_expires {
            0 => moment,
            most => moment.min(Duration::from_nanos(most)),
        };
        let mut body =
            json!({ "batch": batch, "no_wait": true, "expires": u64::try_from(moment.as_nanos()).unwrap_or(1) });
        if !self.alone {
            let bytes = BYTES.max(client.server_info().max_payload.saturating_mul(2));
            body["max_bytes"] = json!(bytes.min(limit(bound.shape.max_bytes)));
        }
        let away = |error: String| Error::new(ErrorKind::Unavailable, "asking for messages").because(error);
        watch.connected()?;
        let inbox = match &mut self.inbox {
            Some(inbox) => inbox,
            none => {
                let name = client.new_inbox();
                let messages = client.subscribe(format!("{name}.*")).await.map_err(|error| away(error.to_string()))?;
                none.insert(Inbox { name, messages, requests: 0 })
            }
        };
        inbox.requests += 1;
        let reply = format!("{}.{}", inbox.name, inbox.requests);
        // Before it is sent: whoever drops this call finds it.
        let sent = Instant::now();
        let until = sent + moment + answer;
        self.request = Some(Request { reply: reply.clone(), left: batch, until, losses: watch.losses() });
        (self.sent, self.alone) = (Some(sent), false);
        let asked = client.publish_with_reply(bound.next.clone(), reply, body.to_string().into()).await;
        asked.map_err(|error| away(error.to_string()))
    }

    /// Waits for the next word of the request, or until a moment.
    ///
    /// # Errors
    /// What ended the wait on the connection, where nothing more comes of the request.
    pub(super) async fn next(&mut self, watch: &mut Watch, next: &str, until: Instant) -> Result<Step, Broken> {
        let (Some(inbox), Some(request)) = (&mut self.inbox, &self.request) else { return Ok(Step::Ended) };
        let deadline = request.until.min(until);
        let message = tokio::select! {
            biased;
            message = inbox.messages.next() => message,
            () = std::future::ready(()), if request.losses != watch.losses() => None,
            broken = watch.broken(next) => {
                self.request = None;
                return Err(broken);
            }
            () = tokio::time::sleep_until(deadline.into()) => {
                if Instant::now() < request.until {
                    return Ok(Step::On);
                }
                self.forget();
                return Ok(Step::Silent);
            }
        };
        match message {
            Some(message) => Ok(self.learn(message)),
            // Of a connection that is lost, or of a client that is closed.
            None => {
                self.request = None;
                Ok(Step::Ended)
            }
        }
    }

    fn learn(&mut self, message: Message) -> Step {
        // A message may have a status of its own; its subject is that of the stream.
        let is_told = self.inbox.as_ref().is_some_and(|inbox| message.subject.starts_with(&inbox.name));
        let Some(status) = message.status.filter(|_| is_told) else {
            let since = self.sent.unwrap_or_else(Instant::now);
            let told = message.reply.as_ref().and_then(|reply| Told::read(reply.as_str()));
            // What came from elsewhere than a consumer is nobody's.
            if let Some(told) = told {
                let incarnation = self.incarnations.delivered(told.delivery);
                self.came.push_back(Came { message, since, incarnation });
            }
            if let Some(request) = &mut self.request {
                request.left = request.left.saturating_sub(1);
                if request.left == 0 {
                    self.request = None;
                    return Step::Ended;
                }
            }
            return Step::On;
        };
        // The end of a request that was given up before is no news.
        if self.request.as_ref().is_none_or(|request| request.reply != message.subject.as_str()) {
            return Step::On;
        }
        let step = ended(status.as_u16(), message.description.as_deref().unwrap_or_default());
        if step != Step::On {
            self.request = None;
        }
        self.alone = step == Step::TooLarge;
        step
    }

    /// Leaves the inbox, and with it whatever may still be on its way.
    fn forget(&mut self) {
        (self.inbox, self.request) = (None, None);
    }

    /// Reads everything that is here already, leaves the inbox, and gives what nobody has taken, but for what may be another's by
    /// now: a word about that would be one about the other's.
    pub(super) fn leave(&mut self, stale: Duration) -> Vec<Came> {
        while let Some(Some(Some(message))) = self.inbox.as_mut().map(|inbox| inbox.messages.next().now_or_never()) {
            self.learn(message);
        }
        self.forget();
        self.take(usize::MAX, stale)
    }

    /// How long ago the request was sent that is on its way or was the last.
    pub(super) fn since_asked(&self) -> Duration {
        self.sent.map_or(Duration::MAX, |sent| sent.elapsed())
    }
}

/// What a status says about the request that it answers.
fn ended(status: u16, description: &str) -> Step {
    let told = description.to_ascii_lowercase();
    let words = || if description.is_empty() { status.to_string() } else { format!("{status} {description}") };
    match status {
        100 => Step::On,
        400 => Step::Refused(words()),
        503 => Step::Gone(words()),
        408 if told.contains("requests pending") => Step::Busy,
        409 if told.contains("size exceeds maxbytes") => Step::TooLarge,
        // Deleted, made a pushing one, or bounded in another way than when it was looked at.
        409 if ["deleted", "push based", "exceeded maxrequest"].iter().any(|word| told.contains(word)) => {
            Step::Gone(words())
        }
        _ => Step::Ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_request_is_read_from_the_words_of_the_server() {
        for (status, description, step) in [
            (100, "Idle Heartbeat", Step::On),
            (404, "No Messages", Step::Ended),
            (408, "Request Timeout", Step::Ended),
            (408, "Requests Pending", Step::Busy),
            (409, "Message Size Exceeds MaxBytes", Step::TooLarge),
            (409, "Exceeded MaxWaiting", Step::Ended),
            (409, "Leadership Change", Step::Ended),
            (409, "Server Shutdown", Step::Ended),
            (409, "Consumer Deleted", Step::Gone("409 Consumer Deleted".into())),
            (409, "Consumer is push based", Step::Gone("409 Consumer is push based".into())),
            (409, "Exceeded MaxRequestBatch of 5", Step::Gone("409 Exceeded MaxRequestBatch of 5".into())),
            (503, "", Step::Gone("503".into())),
            (400, "Bad Request", Step::Refused("400 Bad Request".into())),
        ] {
            assert_eq!(ended(status, description), step, "{status} {description}");
        }
    }
}
