//! How a processor is put together.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Broker, Collection, Destination, DestinationTemplate, DocumentStore, Error, ErrorKind, Invalid, Result, Timestamp,
};

use super::entity::Format;
use super::handler::Handler;
use super::known_ids::KnownIds;
use super::memory::Memory;
use super::running::{Clock, Processor};
use super::sending::Outlet;
use super::tokens::Tokens;
use crate::dead_letters::DeadLetters;

/// The longest name of a consumer: with an id before it, it is the name of a document.
const LONGEST_CONSUMER: usize = 200;

/// What a [`Processor`] is made of.
#[derive(Debug)]
pub struct ProcessorBuilder<H> {
    handler: H,
    consumer: String,
    store: Arc<dyn DocumentStore>,
    collection: String,
    outlet: Option<Outlet>,
    dead_letters: Option<DeadLetters>,
    memory: Memory,
    keep: Duration,
    resume_after: Duration,
    handler_timeout: Duration,
    clock: Clock,
}

impl<H: Handler> ProcessorBuilder<H> {
    pub(super) fn new(consumer: &str, store: Arc<dyn DocumentStore>, handler: H) -> Self {
        Self {
            handler,
            consumer: consumer.to_owned(),
            store,
            collection: "entities".to_owned(),
            outlet: None,
            dead_letters: None,
            memory: Memory::InDocument,
            keep: Duration::from_secs(7 * 86_400),
            resume_after: Duration::from_secs(30),
            handler_timeout: Duration::from_secs(30),
            clock: Clock::default(),
        }
    }

    /// The collection of the entities; `entities` without. A collection belongs to one consumer. Where processors of one consumer
    /// keep entities in several stores and share their tokens, each has a collection of another name: a token knows its entity by
    /// that, and by nothing of the store.
    #[must_use]
    pub fn collection(self, name: &str) -> Self {
        Self { collection: name.to_owned(), ..self }
    }

    /// Where outputs go: a broker, and where in it. Without one a handler that sends fails its message.
    #[must_use]
    pub fn broker(self, broker: Arc<dyn Broker>, destination: DestinationTemplate) -> Self {
        Self { outlet: Some(Outlet::new(broker, destination)), ..self }
    }

    /// Where outputs go that are given up: a broker, and the place in it. Without one an output that is refused stays, and its
    /// entity waits for it.
    ///
    /// An output is given up by the relay's rule after ten attempts at which it was itself at fault: refused, or failing while
    /// others were accepted; sixteen that are refused in a row are the broker's fault. They are counted in this process. It has
    /// the id, the key, the topic and the headers that it had, and `postrider-dead-reason`, `-attempts` and `-error`; what stands
    /// behind it goes on.
    #[must_use]
    pub fn dead_letters(self, broker: Arc<dyn Broker>, destination: Destination) -> Self {
        Self { dead_letters: Some(DeadLetters { broker, destination }), ..self }
    }

    /// For how long ids of handled messages stay in the documents; 7 days without. Each id is some 100 bytes of its entity.
    #[must_use]
    pub fn keep(self, keep: Duration) -> Self {
        Self { keep, ..self }
    }

    /// Keeps the ids of handled messages in a store of their own: documents hold what is in flight, and nothing else.
    #[must_use]
    pub fn known_ids(self, known: KnownIds) -> Self {
        Self { memory: Memory::KnownIds(known), ..self }
    }

    /// Processes a message only while its token exists, and makes one for each output: nothing is kept of what is over.
    ///
    /// Every message needs a token then, in [`TOKEN_HEADER`](postrider_core::TOKEN_HEADER): of a processor with tokens in the same
    /// store, or of [`Tokens::issue`]. One without fails.
    #[must_use]
    pub fn tokens(self, tokens: Tokens) -> Self {
        Self { memory: Memory::Tokens(tokens), ..self }
    }

    /// For how long a message that is committed is left to its own delivery before [`Processor::keep_up`] finishes it; 30 s
    /// without. Shorter only sends some outputs twice.
    #[must_use]
    pub fn resume_after(self, pause: Duration) -> Self {
        Self { resume_after: pause, ..self }
    }

    /// How long a handler may take; 30 s without. One that takes longer is dropped, and its message has failed.
    #[must_use]
    pub fn handler_timeout(self, limit: Duration) -> Self {
        Self { handler_timeout: limit, ..self }
    }

    /// What tells the time; the clock of this machine without.
    #[must_use]
    pub fn clock(self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { clock: Clock::new(clock), ..self }
    }

    /// The processor.
    ///
    /// # Errors
    /// `Config` for a name of the consumer that is empty, longer than 200 bytes or has control characters, for a collection that
    /// has a name of another form, and for a place of dead letters without a broker of outputs.
    pub fn build(self) -> Result<Processor<H>> {
        let refused = |invalid: Invalid| Error::new(ErrorKind::Config, invalid.to_string());
        let name = &self.consumer;
        if !(1..=LONGEST_CONSUMER).contains(&name.len()) || name.chars().any(char::is_control) {
            let text = format!("the consumer {name:?}: expected 1 to 200 bytes without control characters");
            return Err(Error::new(ErrorKind::Config, text));
        }
        let collection = Collection::new(&self.collection).map_err(refused)?;
        let mut outlet = self.outlet;
        match (&mut outlet, self.dead_letters) {
            (Some(outlet), dead_letters) => outlet.dead_letters = dead_letters,
            (None, None) => {}
            (None, Some(_)) => {
                let text = "dead letters of outputs, and no outputs: expected ProcessorBuilder::broker as well";
                return Err(Error::new(ErrorKind::Config, text));
            }
        }
        Ok(Processor {
            handler: self.handler,
            store: self.store,
            collection,
            outlet,
            memory: self.memory,
            format: Format { consumer: self.consumer, keep: self.keep, resume_after: self.resume_after },
            handler_timeout: self.handler_timeout,
            clock: self.clock,
        })
    }
}
