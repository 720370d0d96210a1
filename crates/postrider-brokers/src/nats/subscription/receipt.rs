//! What ends a message, confirmed by the server.

use std::fmt;
use std::sync::Arc;

use async_nats::Subject;
use async_nats::client::RequestErrorKind;
use async_trait::async_trait;
use postrider_core::{Error, ErrorKind, Place, Receipt, Result};

use super::question::broken_at;
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
