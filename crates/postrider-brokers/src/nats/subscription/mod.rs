//! Taking messages from NATS JetStream: `nats://host:4222` and what else [`nats`](super) says about reaching servers.
//!
//! A consumer is a durable pull consumer of the stream that holds what it reads. Processes that name the same one share its
//! messages; each consumer gets all of them, from the first that the stream has.
//!
//! **Promises**: a message stays at the server until it is acknowledged, and an acknowledgement counts when the server has
//! confirmed it. What is not acknowledged comes again: released, at once; taken and forgotten, after `ack_wait`. Messages are
//! taken in the order of the stream, where none came back. A take that is dropped leaves what it had asked for to the next
//! one, in its order. A connection that is lost, a server that restarts or is slow make takes fail for a while; then they go
//! on by themselves. A consumer that is there is never changed.
//!
//! **Does not promise**: that a message comes once. It comes again after `ack_wait` without a word, to another process too,
//! and the server does not tell the first one: it accepts the late acknowledgement of a delivery that it has given up
//! (nats-server issue 4786), so `Fenced` is not reported of it, and the message is over for everybody with it. Nor that an
//! acknowledgement is synced to disk, or at a majority of a cluster, when it is confirmed: after a crash of the server some
//! come again. So use the inbox. And a process that is gone without `close` is known to be gone by `ack_wait` alone, which is
//! also how long the others wait for what a closed one had taken and neither acknowledged nor released.
//!
//! **The consumer** is made where there is none: acknowledgement of each message (`ack_policy` explicit), from the stream's
//! first message (`deliver_policy` all), `ack_wait`, `max_ack_pending`, no `max_deliver` (who gives up on a message is the
//! consumer here, not the server), and the subjects as its filter. Several subjects need a server of 2.10 or later, and must
//! have none in common. Two processes that make it at once get the same one; a server before 2.10 lets the later of two with
//! different options change the consumer of the other in that moment. One that is there is used where its messages, its
//! `ack_wait` and its way of acknowledging are the same; otherwise nothing is taken and the error says what is different. So
//! another `deliver_policy` (such as `new`), a description, replicas and limits can be chosen by making it by hand.
//!
//! **Deleted while it is read**, takes fail once with `Config`, for somebody to see it; the next one makes it again, from the
//! first message that the stream has. Everything comes again then, and is recognised as far back as the inbox keeps ids. The
//! same happens when the stream was deleted and is made again. The server takes a word about a delivery of before for one about the
//! message that lies at its place now, so it is not said: what was taken before is `Fenced`. The subscription knows of it when a
//! take is told, when the consumer that it finds was made at another time, or counts from the beginning; it looks every ten
//! seconds, and before a word where no take has looked for so long. **Within these ten seconds** a word of a member that took
//! nothing meanwhile can end another message, and nobody gets that: stop the members before a stream that is read is made again.
//! A purged stream is only empty. A consumer that somebody changes is looked at every ten seconds and at every new connection.
//!
//! **What is read**: the subject is the topic, unless `postrider-topic` says another. Of a header with several values the
//! first one counts. `Nats-Msg-Id` and `Nats-Expected-Stream` of our own messages are left out. A message of another producer
//! has the id of its `Nats-Msg-Id` where that is a UUID, else one made of its place and the time at which it was stored. The
//! place is `STREAM/sequence`. NATS does not keep the order of headers: they are in the order of their names. A message whose
//! headers are no UTF-8, have a name with a blank or a line without a colon, or begin with a status that is not three digits, ends
//! the connection of the client at each delivery; remove it with `nats stream rmm`.
//!
//! **What failures mean**
//!
//! | failure | kind |
//! |---|---|
//! | no stream, several, a consumer with other settings, no permission, wrong credentials, JetStream off, a certificate | `Config` |
//! | the consumer was deleted while it was read: once, as above | `Config` |
//! | not connected, no answer in time, the consumer or its stream does not answer now | `Unavailable` |
//! | an acknowledgement, more time or a return that the server did not confirm | `Unknown` |
//! | the consumer that the message came from was deleted | `Fenced`, or `Unavailable` where it is not made again yet |
//! | of one message: `postrider-id` is no UUID, or it breaks a limit of messages | `Rejected` |
//!
//! **Options**, beside those of [`nats`](super), also in the query of the URL: `ack_wait`, how long a message stays with who
//! took it (`"30s"`, from `"1s"` to `"1h"`) · `max_ack_pending`, the most messages that all members together have taken and
//! not ended (1,000, to 1,000,000), of a consumer that is made here · `stream`, the stream to read, where several have the
//! subjects; without it the server is asked · `timeout`, how long an answer of the server is waited for. A take asks for at
//! most 1,000 messages and 32 MiB at once, and waits for the first up to a second.
//!
//! **Permissions** of the user, for a stream `S` and a consumer `C`: publish to `$JS.API.STREAM.NAMES` (without the option
//! `stream`), `$JS.API.CONSUMER.INFO.S.C`, `$JS.API.CONSUMER.CREATE.S.C` and `….C.>` (to make it),
//! `$JS.API.CONSUMER.MSG.NEXT.S.C`, `$JS.ACK.S.C.>`; subscribe to `_INBOX.>`. For [`check`](Subscription::check), and for a
//! consumer made by hand without a filter, `$JS.API.STREAM.INFO.S` too.

mod check;
mod durable;
mod incarnations;
mod incoming;
mod pull;
mod question;
mod reading;
mod receipt;
mod shape;
mod stream;
mod subjects;
mod taking;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, Subject};
use async_trait::async_trait;
use postrider_core::{Finding, Incoming, Result, Subscription};
use tokio::sync::Mutex;

use super::link::Link;
use super::settings::{CONNECT, Settings};
use crate::config::SubscriptionConfig;
use crate::options::Options;
use incarnations::Incarnations;
use incoming::Told;
use pull::Came;
use question::Desk;
use reading::Reading;
use receipt::NatsReceipt;
use taking::Taking;

/// A consumer's place at JetStream.
pub struct NatsSubscription {
    settings: Arc<Settings>,
    reading: Reading,
    link: Arc<Link>,
    incarnations: Incarnations,
    /// One take at a time: two would part the messages of a key.
    taking: Mutex<Taking>,
}

impl fmt::Debug for NatsSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsSubscription")
            .field("settings", &self.settings)
            .field("reading", &self.reading)
            .finish_non_exhaustive()
    }
}

impl NatsSubscription {
    /// Prepares the connection; the first call opens it.
    ///
    /// # Errors
    /// `Config` for a bad URL, option, certificate file, name or subject.
    pub fn open(config: &SubscriptionConfig) -> Result<Self> {
        let options = Options::with_query(&config.broker);
        let settings = Settings::read(&config.broker, &options)?;
        let reading = Reading::read(config, &options)?;
        options.finish()?;
        let settings = Arc::new(settings);
        let link = Arc::new(Link::new(Arc::clone(&settings)));
        let incarnations = Incarnations::default();
        let taking = Mutex::new(Taking::new(incarnations.clone()));
        Ok(Self { settings, reading, link, incarnations, taking })
    }

    /// What came, as a message with its receipt; none for what came from elsewhere than a consumer.
    fn incoming(&self, came: Came) -> Option<Incoming> {
        let Came { message: came, incarnation, .. } = came;
        let to = came.reply.clone()?;
        let told = Told::read(to.as_str())?;
        let (message, place, deliveries) = (incoming::read(&came, &told), told.place(), Some(told.deliveries));
        let (settings, link) = (Arc::clone(&self.settings), Arc::clone(&self.link));
        let incarnations = self.incarnations.clone();
        let asks = format!("CONSUMER.INFO.{}.{}", told.stream, self.reading.consumer);
        let (to, place) = (to.clone(), place.clone());
        let receipt =
            Box::new(NatsReceipt { settings, link, to, place: place.clone(), incarnations, incarnation, asks });
        Some(Incoming { message, payload: came.payload, place, position: None, deliveries, receipt })
    }

    /// Lets the time begin anew of what waited here, so that a part of it is over. Unheard, it comes again the sooner.
    fn refresh(&self, client: Client, came: &[Came]) {
        let waited = came.iter().filter(|came| came.since.elapsed() > self.reading.ack_wait / 3);
        let to: Vec<Subject> = waited.filter_map(|came| came.message.reply.clone()).collect();
        if !to.is_empty() {
            // Beside the take: whoever drops that would lose what it has already.
            tokio::spawn(async move {
                for to in to {
                    let _ = client.publish(to, receipt::WORKING.into()).await;
                }
            });
        }
    }
}

#[async_trait]
impl Subscription for NatsSubscription {
    fn name(&self) -> &'static str {
        "nats"
    }

    fn hold(&self) -> Option<Duration> {
        Some(self.reading.ack_wait)
    }

    async fn take(&self, at_most: NonZeroUsize) -> Result<Vec<Incoming>> {
        let mut taking = self.taking.lock().await;
        let (context, watch) = self.link.connected().await?;
        let mut desk = Desk { shown: &self.settings.shown, context: &context, watch };
        let came = taking.take(&self.settings, &self.reading, &mut desk, at_most.get()).await?;
        self.refresh(context.client(), &came);
        Ok(came.into_iter().filter_map(|came| self.incoming(came)).collect())
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        let (context, watch) = self.link.connected().await?;
        let mut desk = Desk { shown: &self.settings.shown, context: &context, watch };
        check::look(&self.settings, &self.reading, &mut desk).await
    }

    async fn close(&self) {
        // A take that goes on gives what it has to its caller.
        if let Ok(mut taking) = tokio::time::timeout(CONNECT, self.taking.lock()).await {
            let left = taking.leave(&self.reading);
            if let (false, Ok((context, _))) = (left.is_empty(), self.link.connected().await) {
                let client = context.client();
                for to in left.into_iter().filter_map(|came| came.message.reply) {
                    let _ = client.publish(to, receipt::BACK.into()).await;
                }
                let _ = tokio::time::timeout(CONNECT, client.flush()).await;
            }
        }
        self.link.close().await;
    }
}

pub(crate) fn subscribe(config: &SubscriptionConfig) -> Result<Arc<dyn Subscription>> {
    Ok(Arc::new(NatsSubscription::open(config)?))
}
