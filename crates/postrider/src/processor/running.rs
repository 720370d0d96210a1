//! One delivery, step by step.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt as _;
use postrider_core::receiving::{
    Checking, Creating, Disposition, Document, Effect, Handling, Lapse, Loading, Mark, Marking, Outputs as Stored,
    Processing, Publishing, Step, Writing,
};
use postrider_core::{
    Collection, DocumentKey, DocumentStore, Draft, Error, ErrorKind, MessageId, Result, Revision, TOKEN_HEADER,
    Timestamp, Version, WriteError,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::builder::ProcessorBuilder;
use super::entity::{Attempt, Format, Json, State, stamped};
use super::handler::{EntityKey, Handler, Outputs};
use super::memory::{Asked, Memory};
use super::output::Output;
use super::processed::Processed;
use super::sending::Outlet;
use super::tokens::Owner;
use crate::delivery::Delivery;
use crate::last_words::last_words;

/// How often a delivery is begun again at once when somebody else wrote the entity in between.
const TRIES: u32 = 8;
/// How long it waits before that, at first; twice as long each time.
const PAUSE: Duration = Duration::from_millis(2);

/// The levels that a state may have: a reader of JSON refuses the 128th, and the document around the state is one.
const DEEPEST: usize = 126;

/// Handles messages, each with one effect on its entity, however often it is delivered.
///
/// Any number of processors of one consumer may run at once, in any number of processes. Make one at start, and share it.
/// Call [`keep_up`](Self::keep_up) now and then, in any of them.
pub struct Processor<H> {
    pub(super) handler: H,
    pub(super) store: Arc<dyn DocumentStore>,
    pub(super) collection: Collection,
    pub(super) outlet: Option<Outlet>,
    pub(super) memory: Memory,
    pub(super) format: Format,
    pub(super) handler_timeout: Duration,
    pub(super) clock: Clock,
}

impl<H> fmt::Debug for Processor<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processor").field("format", &self.format).field("store", &self.store).finish_non_exhaustive()
    }
}

impl<H: Handler> Processor<H> {
    /// A processor of this consumer, over this store.
    ///
    /// `consumer` is a stable name of what is done with messages, such as `cart`: its documents bear it.
    pub fn builder(consumer: &str, store: Arc<dyn DocumentStore>, handler: H) -> ProcessorBuilder<H> {
        ProcessorBuilder::new(consumer, store, handler)
    }

    /// The state of an entity, as its last message left it; none where no message has changed it yet.
    ///
    /// It is for showing: by the time that it is looked at it may have changed, so that nothing may be written by it. What
    /// is decided by the state belongs into the handler.
    ///
    /// # Errors
    /// When the store fails, or the document is not one of this handler; `Config` for a name that no document can have.
    pub async fn state(&self, entity: &EntityKey) -> Result<Option<H::State>> {
        let key = DocumentKey::new(&self.collection, entity.as_str());
        let key = key.map_err(|invalid| Error::new(ErrorKind::Config, invalid.to_string()))?;
        let Some(stored) = self.store.load(&key).await? else { return Ok(None) };
        let Some(found) = self.format.read(&stored.json)?.state else { return Ok(None) };
        let state = read(found.state);
        state.map(Some).map_err(|error| Error::new(ErrorKind::Config, not_its_state(&key)).because(error))
    }

    /// Handles one delivery.
    ///
    /// What an earlier message of the entity left unfinished is finished first. Dropped at any point, it leaves a message that
    /// is finished by its next delivery.
    pub async fn process(&self, delivery: &Delivery) -> Processed {
        let entity = match catch_unwind(AssertUnwindSafe(|| self.handler.entity(delivery))) {
            Ok(entity) => entity,
            Err(panic) => return Processed::Failed(panicked(panic.as_ref()).into()),
        };
        let key = match DocumentKey::new(&self.collection, entity.as_str()) {
            Ok(key) => key,
            Err(invalid) => return Processed::Failed(invalid.into()),
        };
        let token = delivery.token().map(|token| token.0);
        if token.is_none() && matches!(self.memory, Memory::Tokens(_)) {
            let text = format!("the message has no token: its sender puts one into the header {TOKEN_HEADER}");
            return Processed::Failed(text.into());
        }
        let mut tries = 0;
        loop {
            let processed = self.attempt(&key, delivery.id(), token, Some(delivery)).await;
            tries += 1;
            match processed {
                Processed::Again { lapse: Lapse::Conflict, .. } if tries < TRIES => {
                    // The last bits of a random number, so that those who met do not meet again.
                    let share = f64::from(Uuid::new_v4().as_bytes()[15]) / 255.0;
                    tokio::time::sleep((PAUSE * (1 << tries)).mul_f64(share)).await;
                }
                other => return other,
            }
        }
    }

    /// One way through the steps: of a delivery, or without one of a message that is committed.
    pub(super) async fn attempt(
        &self,
        key: &DocumentKey,
        id: MessageId,
        token: Option<Uuid>,
        delivery: Option<&Delivery>,
    ) -> Processed {
        let mut walk = Walk { processor: self, key, delivery, tokens: Vec::new(), error: None };
        let mut effect = Processing::<Json>::begin(self.memory.protocol(), id, token);
        loop {
            let next = match effect {
                Effect::Load(loading) => walk.load(loading).await,
                Effect::Check(checking) => walk.check(checking).await,
                Effect::Handle(handling) => walk.handle(handling).await,
                Effect::CreateTokens(creating) => walk.create(creating).await,
                Effect::Write(writing) => walk.write(writing).await,
                Effect::Publish(publishing) => walk.publish(publishing).await,
                Effect::Mark(marking) => walk.mark(marking).await,
                Effect::End(disposition) => return walk.ended(disposition),
            };
            match next {
                Ok(next) => effect = next,
                Err(processed) => return processed,
            }
        }
    }

    /// Writes a document over what was loaded.
    pub(super) async fn put(
        &self,
        key: &DocumentKey,
        over: Option<&Version>,
        document: &Document<Json>,
    ) -> std::result::Result<Version, WriteError> {
        let written = self.format.write(document, self.clock.now())?;
        let draft = Draft { json: written.json, due: written.due, revision: Revision(Uuid::new_v4()) };
        match over {
            Some(version) => self.store.replace(key, version, &draft).await,
            None => self.store.create(key, &draft).await,
        }
    }

    /// Sends outputs. Those that have expired are not sent, and nobody processes them: their tokens go.
    pub(super) async fn send(&self, outputs: &[Output]) -> Result<()> {
        let now = self.clock.now();
        let (expired, alive): (Vec<_>, Vec<_>) = outputs.iter().partition(|output| output.has_expired(now));
        if let Memory::Tokens(tokens) = &self.memory {
            for token in expired.into_iter().filter_map(Output::token) {
                tokens.consume(token).await?;
            }
        }
        let messages: Vec<_> = alive.into_iter().map(Output::message).collect::<Result<_>>()?;
        match &self.outlet {
            _ if messages.is_empty() => Ok(()),
            Some(outlet) => outlet.send(messages).await,
            None => Err(Error::new(ErrorKind::Config, no_broker())),
        }
    }
}

/// A state as it is kept; nothing is kept of the default of some.
fn read<S: DeserializeOwned + Default>(state: Value) -> std::result::Result<S, serde_json::Error> {
    if state.is_null() { Ok(S::default()) } else { serde_json::from_value(state) }
}

/// A state as it is to be kept. JSON has no place for some values, such as a float that is not a number: what could not be
/// read again must not be committed, because no later message of the entity could be handled.
fn written<S: Serialize + DeserializeOwned + Default>(state: &S) -> std::result::Result<Value, String> {
    let unfit = |error: &dyn fmt::Display| format!("the state that the handler left cannot be kept as JSON: {error}");
    let json = serde_json::to_value(state).map_err(|error| unfit(&error))?;
    if is_deeper(&json, DEEPEST) {
        return Err(unfit(&format_args!("it is nested more than {DEEPEST} levels deep")));
    }
    if !json.is_null() {
        S::deserialize(&json).map_err(|error| unfit(&error))?;
    } else if !serde_json::to_value(S::default()).map_err(|error| unfit(&error))?.is_null() {
        return Err(unfit(&"it became null, which is read as the default"));
    }
    Ok(json)
}

/// Whether arrays and objects stand in each other more than so many levels deep.
fn is_deeper(json: &Value, levels: usize) -> bool {
    let Some(left) = levels.checked_sub(1) else { return json.is_array() || json.is_object() };
    match json {
        Value::Array(list) => list.iter().any(|inner| is_deeper(inner, left)),
        Value::Object(map) => map.values().any(|inner| is_deeper(inner, left)),
        _ => false,
    }
}

fn panicked(panic: &(dyn Any + Send)) -> String {
    format!("the handler panicked: {}", last_words(panic))
}

fn not_its_state(key: &DocumentKey) -> String {
    format!("the state of {key} is not one of this handler")
}

fn no_broker() -> String {
    "there are outputs to send, and the processor has no broker: give it one with ProcessorBuilder::broker".to_owned()
}

/// The next step, or the end of the delivery.
type Next = std::result::Result<Effect<Json>, Processed>;

/// A delivery on its way.
struct Walk<'p, H> {
    processor: &'p Processor<H>,
    key: &'p DocumentKey,
    delivery: Option<&'p Delivery>,
    /// The tokens that this run's outputs have, those with a time of their own included.
    tokens: Vec<Uuid>,
    /// What failed.
    error: Option<Error>,
}

impl<H: Handler> Walk<'_, H> {
    async fn load(&mut self, loading: Loading<Json>) -> Next {
        let stored = match self.processor.store.load(self.key).await {
            Ok(Some(stored)) => stored,
            Ok(None) => return Ok(loading.absent()),
            Err(error) => return Ok(loading.lapsed(self.lapse(error))),
        };
        match self.processor.format.read(&stored.json) {
            Ok(document) => Ok(loading.found(document, stored.version)),
            Err(error) => Ok(loading.lapsed(self.lapse(error))),
        }
    }

    async fn check(&mut self, checking: Checking<Json>) -> Next {
        let Processor { memory, format, .. } = self.processor;
        match memory.ask(&format.consumer, *checking.id(), checking.token().copied()).await {
            Ok(Asked::Is(known)) => Ok(checking.answered(known)),
            Ok(Asked::TooOld) => Err(Processed::TooOld),
            Err(error) => Ok(checking.lapsed(self.lapse(error))),
        }
    }

    async fn handle(&mut self, handling: Handling<Json>) -> Next {
        // Without a delivery there is nothing to handle: the message was finished, and forgotten, in between.
        let Some(delivery) = self.delivery else { return Err(Processed::Repeat) };
        let found = handling.state().cloned().unwrap_or_default();
        if found.has_forgotten(delivery.id()) {
            return Err(Processed::TooOld);
        }
        let (state, messages) = self.result(delivery, found.state).await.map_err(Processed::Failed)?;
        let now = self.processor.clock.now();
        let has_token = matches!(self.processor.memory, Memory::Tokens(_));
        let output = |message| if has_token { Output::of(message).with(stamped(now)) } else { Output::of(message) };
        let outputs: Vec<_> = messages.iter().map(output).collect();
        self.tokens = outputs.iter().filter_map(Output::token).collect();
        let is_later = |output: &Output| output.deliver_at().is_some_and(|at| at > now);
        let (later, outputs): (Vec<_>, Vec<_>) = outputs.into_iter().partition(is_later);
        let later = found.later.into_iter().chain(later).collect();
        let state = State { state, later, floor: found.floor };
        let attempt = Attempt::at(now);
        Ok(if outputs.is_empty() {
            handling.handled_without_outputs(attempt, state, outputs)
        } else {
            handling.handled(attempt, state, outputs)
        })
    }

    /// Runs the handler: the state that it leaves, and what it sends.
    async fn result(
        &self,
        delivery: &Delivery,
        state: Value,
    ) -> std::result::Result<(Value, Vec<postrider_core::Message>), Box<dyn std::error::Error + Send + Sync>> {
        let mut state: H::State = read(state).map_err(|error| format!("{}: {error}", not_its_state(self.key)))?;
        let mut out = Outputs::of(self.processor.format.consumer.clone(), delivery.id());
        // It may panic before there is a future of it.
        let running = async { self.processor.handler.handle(&mut state, delivery, &mut out).await };
        let running = AssertUnwindSafe(running).catch_unwind();
        let limit = self.processor.handler_timeout;
        match tokio::time::timeout(limit, running).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => return Err(error.into()),
            Ok(Err(panic)) => return Err(panicked(panic.as_ref()).into()),
            Err(_) => return Err(format!("the handler took longer than {limit:?}").into()),
        }
        let messages = out.into_messages();
        // What could never be sent must not be committed: every later message of the entity would wait for it.
        match &self.processor.outlet {
            Some(outlet) => messages.iter().try_for_each(|message| outlet.place_of(message).map(drop))?,
            None if messages.is_empty() => {}
            None => return Err(no_broker().into()),
        }
        Ok((written(&state)?, messages))
    }

    async fn create(&mut self, creating: Creating<Json>) -> Next {
        let Memory::Tokens(tokens) = &self.processor.memory else { return Ok(creating.lapsed(Lapse::Away)) };
        let owner = Owner {
            consumer: self.processor.format.consumer.clone(),
            collection: self.key.collection().to_string(),
            entity: self.key.name().to_owned(),
            message: creating.id().0,
        };
        match tokens.create(&self.tokens, &owner, self.processor.clock.now()).await {
            Ok(()) => Ok(creating.created(std::mem::take(&mut self.tokens))),
            Err(error) => Ok(creating.lapsed(self.lapse(error))),
        }
    }

    async fn write(&mut self, writing: Writing<Json>) -> Next {
        // An entry may have waited for longer than ids are kept: its message may still come again.
        let is_over = writing.step() == Some(Step::Blank);
        let writing = if is_over { writing.at(Attempt::at(self.processor.clock.now())) } else { writing };
        match self.processor.put(self.key, writing.over(), writing.document()).await {
            Ok(version) => Ok(writing.written(version)),
            Err(WriteError::Conflict) => Ok(writing.lapsed(Lapse::Conflict)),
            Err(WriteError::TooLarge { limit, actual }) => Ok(writing.too_large(limit, actual)),
            Err(WriteError::Failed(error)) if error.kind() == ErrorKind::Rejected => {
                Err(Processed::Failed(Box::new(error)))
            }
            Err(WriteError::Failed(error)) => Ok(writing.lapsed(self.lapse(error))),
        }
    }

    async fn publish(&mut self, publishing: Publishing<Json>) -> Next {
        let outputs = match publishing.entry().map(|entry| &entry.outputs) {
            Some(Stored::ToSend(outputs)) => outputs.as_slice(),
            _ => &[],
        };
        match self.processor.send(outputs).await {
            Ok(()) => Ok(publishing.sent()),
            Err(error) => Ok(publishing.lapsed(self.lapse(error))),
        }
    }

    async fn mark(&mut self, marking: Marking<Json>) -> Next {
        let Processor { memory, format, clock, .. } = self.processor;
        let marked = match (marking.mark(), memory) {
            // The consumer acknowledges, by what comes out of this.
            (Mark::Acknowledge, _) => Ok(()),
            (Mark::Remember(id), Memory::KnownIds(known)) => known.remember(&format.consumer, *id, clock.now()).await,
            (Mark::Activate(made), Memory::Tokens(tokens)) => tokens.activate(made).await,
            (Mark::Consume(token), Memory::Tokens(tokens)) => tokens.consume(*token).await,
            _ => return Ok(marking.lapsed(Lapse::Away)),
        };
        match marked {
            Ok(()) => Ok(marking.done()),
            Err(error) => Ok(marking.lapsed(self.lapse(error))),
        }
    }

    fn lapse(&mut self, error: Error) -> Lapse {
        let lapse = if error.kind() == ErrorKind::Unknown { Lapse::Unknown } else { Lapse::Away };
        self.error = Some(error);
        lapse
    }

    fn ended(self, disposition: Disposition) -> Processed {
        match disposition {
            Disposition::Applied => Processed::Applied,
            Disposition::Resumed => Processed::Resumed,
            Disposition::Repeat => Processed::Repeat,
            Disposition::Retry(lapse) => Processed::Again { lapse, error: self.error },
            Disposition::Failed => Processed::Failed("the protocol has no handler".into()),
            Disposition::TooLarge { limit, actual } => Processed::TooLarge { limit, actual },
        }
    }
}

/// What tells the time.
#[derive(Clone)]
pub(super) struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub(super) fn new(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(clock))
    }

    pub(super) fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
        })
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
