//! What ends a message, confirmed by the server.

use std::fmt;
use std::sync::Arc;

use async_nats::Subject;
use async_nats::client::RequestErrorKind;
use async_nats::jetstream::context::Context;
use async_trait::async_trait;
use postrider_core::{Error, ErrorKind, Place, Receipt, Result};
use serde_json::json;

use super::incarnations::Incarnations;
use super::question::{Answer, Desk, broken_at};
use super::shape::Consumer;
use crate::nats::link::{Broken, Link};
use crate::nats::settings::Settings;

/// The words of a consumer for one message.
const OVER: &str = "+ACK";
pub(super) const WORKING: &str = "+WPI";
pub(super) const BACK: &str = "-NAK";

/// The receipt of one delivery.
pub(super) struct NatsReceipt {
    pub(super) settings: Arc<Settings>,
    pub(super) link: Arc<Link>,
    /// Where the server waits for a word about it.
    pub(super) to: Subject,
    pub(super) place: Place,
    pub(super) incarnations: Incarnations,
    /// Which of the consumers of its name it is of.
    pub(super) incarnation: u64,
    /// Where to ask for the consumer, below `$JS.API`.
    pub(super) asks: String,
}

impl fmt::Debug for NatsReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsReceipt").field("place", &self.place).finish_non_exhaustive()
    }
}

impl NatsReceipt {
    /// Says a word about the message and waits until the server has confirmed it.
    async fn say(&self, word: &'static str) -> Result<()> {
        let (context, mut watch) = self.link.connected().await?;
        watch.connected()?;
        self.demand_ours(&context, word).await?;
        let client = context.client();
        let answer = tokio::select! {
            biased;
            answer = client.request(self.to.clone(), word.into()) => answer,
            broken = watch.broken(self.to.as_str()) => {
                // It was on its way: whether the server has read it is not known.
                return Err(match broken {
                    Broken::Lost => self.unconfirmed(word, "the connection was lost"),
                    other => broken_at(&self.settings.shown, self.to.as_str(), &other),
                });
            }
        };
        match answer {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == RequestErrorKind::NoResponders => {
                let text = format!(
                    "{word} for {} at {}: its consumer is not there any more; it comes again with the next one",
                    self.place, self.settings.shown
                );
                Err(Error::new(ErrorKind::Unavailable, text))
            }
            Err(error) => {
                Err(self.unconfirmed(word, "the server did not confirm it in time").because(error.to_string()))
            }
        }
    }

    /// Demands that the consumer is the one that the message came from; asks for it where nobody did so lately.
    async fn demand_ours(&self, context: &Context, word: &str) -> Result<()> {
        if self.incarnations.is(self.incarnation) && self.incarnations.is_old() {
            let _looking = self.incarnations.looking.lock().await;
            if self.incarnations.is_old() {
                let (_, watch) = self.link.connected().await?;
                let mut desk = Desk { shown: &self.settings.shown, context, watch };
                let answer: Answer<Consumer> = desk.ask(&self.asks, &json!({})).await?;
                match answer {
                    Ok(consumer) => self.incarnations.seen(&consumer.created),
                    Err(error) if error.code() == 404 => self.incarnations.gone(),
                    Err(error) => return Err(desk.refused(&format!("{word} for {}", self.place), &error)),
                }
            }
        }
        if self.incarnations.is(self.incarnation) {
            return Ok(());
        }
        let text = format!(
            "{word} for {} at {}: its consumer was deleted, and the word would be about another message; it comes again where \
             it is still there",
            self.place, self.settings.shown
        );
        Err(Error::new(ErrorKind::Fenced, text))
    }

    fn unconfirmed(&self, word: &str, why: &str) -> Error {
        let text = format!("{word} for {} at {}: {why}; it may come again", self.place, self.settings.shown);
        Error::new(ErrorKind::Unknown, text)
    }
}

#[async_trait]
impl Receipt for NatsReceipt {
    async fn acknowledge(self: Box<Self>) -> Result<()> {
        self.say(OVER).await
    }

    async fn extend(&self) -> Result<()> {
        self.say(WORKING).await
    }

    async fn release(self: Box<Self>) -> Result<()> {
        self.say(BACK).await
    }
}
