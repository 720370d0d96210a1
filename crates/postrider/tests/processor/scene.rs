//! A shop whose carts are documents, a broker that records, and a clock that a test sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use postrider::brokers::memory::MemoryBroker;
use postrider::documents::memory::MemoryDocuments;
use postrider::{
    Delivery, DestinationTemplate, EntityKey, Handler, KnownIds, Message, MessageId, Outputs, Processor,
    ProcessorBuilder, TOKEN_HEADER, Timestamp, Tokens,
};
use postrider_core::{Broker, Collection, DocumentKey, DocumentStore, Draft, Revision};
use serde::{Deserialize, Serialize};
use uuid::{Builder, Uuid};

use crate::gates::{GatedBroker, GatedStore};

/// What a message of the tests does, by its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carts;

/// A cart: what was put into it.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cart {
    pub items: Vec<String>,
}

impl Handler for Carts {
    type State = Cart;
    type Error = String;

    fn entity(&self, message: &Delivery) -> EntityKey {
        assert!(message.message.payload != "nowhere", "the handler knows no cart");
        EntityKey::new(message.message.key.as_ref().map_or("", |key| key.as_str()))
    }

    async fn handle(&self, cart: &mut Cart, message: &Delivery, out: &mut Outputs) -> Result<(), String> {
        let item = String::from_utf8_lossy(&message.message.payload).into_owned();
        match item.as_str() {
            "error" => return Err("no such item".to_owned()),
            "panic" => panic!("the handler is wrong"),
            "hang" => std::future::pending().await,
            "quiet" => {}
            "expired" => {
                let offer = Message::new("carts.offered", "late").key(7).expires_at(Timestamp(NOON.0 - 1));
                out.send(offer).map_err(|error| error.to_string())?;
            }
            "later" => {
                let reminder =
                    Message::new("carts.reminded", "later").key(7).deliver_at(Timestamp(NOON.0 + 3_600_000_000));
                out.send(reminder).map_err(|error| error.to_string())?;
            }
            "set" => {
                for part in ["cup", "saucer", "spoon"] {
                    out.send(Message::new("carts.filled", part).key(7)).map_err(|error| error.to_string())?;
                }
            }
            "in 8 days" => {
                let reminder = Message::new("carts.reminded", "reminder").key(7);
                let leaves = Timestamp(NOON.0 + 8 * 86_400_000_000);
                out.send(reminder.deliver_at(leaves)).map_err(|error| error.to_string())?;
            }
            item => {
                let placed = Message::new("carts.filled", format!("{item} is number {}", cart.items.len())).key(7);
                out.send(placed).map_err(|error| error.to_string())?;
            }
        }
        cart.items.push(item);
        Ok(())
    }
}

/// When the tests begin.
pub const NOON: Timestamp = Timestamp(1_764_000_000_000_000);
pub const DAY: Duration = Duration::from_secs(86_400);

/// What is remembered where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    InDocument,
    KnownIds,
    Tokens,
}

pub const MODES: [Mode; 3] = [Mode::InDocument, Mode::KnownIds, Mode::Tokens];
/// Those in which something is remembered, and forgotten.
pub const REMEMBERING: [Mode; 2] = [Mode::InDocument, Mode::KnownIds];

pub struct Scene {
    pub mode: Mode,
    pub store: Arc<dyn DocumentStore>,
    pub broker: Arc<MemoryBroker>,
    now: Arc<AtomicI64>,
    /// Every scene has collections of its own, so that many share a store.
    mark: String,
}

impl Scene {
    pub fn new(mode: Mode) -> Self {
        Self::over(mode, Arc::new(MemoryDocuments::new()), MemoryBroker::recording())
    }

    pub fn over(mode: Mode, store: Arc<dyn DocumentStore>, broker: MemoryBroker) -> Self {
        let mark = Uuid::new_v4().simple().to_string()[..12].to_owned();
        Self { mode, store, broker: Arc::new(broker), now: Arc::new(AtomicI64::new(NOON.0)), mark }
    }

    /// The same shop at noon, with a broker of its own.
    pub fn again(&self) -> Self {
        let (broker, now) = (Arc::new(MemoryBroker::recording()), Arc::new(AtomicI64::new(NOON.0)));
        Self { mode: self.mode, store: Arc::clone(&self.store), broker, now, mark: self.mark.clone() }
    }

    pub fn collection(&self, name: &str) -> Collection {
        Collection::new(&format!("{name}-{}", self.mark)).unwrap()
    }

    /// The document of cart 7.
    pub fn cart(&self) -> DocumentKey {
        DocumentKey::new(&self.collection("carts"), "7").unwrap()
    }

    pub fn processor(&self) -> Processor<Carts> {
        self.processor_over(Arc::clone(&self.store), Arc::clone(&self.broker) as Arc<dyn Broker>)
    }

    /// A processor whose every call waits until it is polled once more.
    pub fn gated(&self) -> Processor<Carts> {
        let store = Arc::new(GatedStore(Arc::clone(&self.store)));
        self.processor_over(store, Arc::new(GatedBroker(Arc::clone(&self.broker))))
    }

    pub fn processor_over(&self, store: Arc<dyn DocumentStore>, broker: Arc<dyn Broker>) -> Processor<Carts> {
        self.builder_over(store, broker).build().unwrap()
    }

    pub fn builder_over(&self, store: Arc<dyn DocumentStore>, broker: Arc<dyn Broker>) -> ProcessorBuilder<Carts> {
        let now = Arc::clone(&self.now);
        let builder = Processor::builder("carts", Arc::clone(&store), Carts)
            .collection(self.collection("carts").as_str())
            .broker(broker, DestinationTemplate::topic())
            .keep(7 * DAY)
            .handler_timeout(Duration::from_millis(50))
            .clock(move || Timestamp(now.load(Ordering::SeqCst)));
        match self.mode {
            Mode::InDocument => builder,
            Mode::KnownIds => {
                builder.known_ids(KnownIds::new(store, 7 * DAY).unwrap().collection(self.collection("known")))
            }
            Mode::Tokens => builder.tokens(self.tokens_in(store)),
        }
    }

    pub fn tokens(&self) -> Tokens {
        self.tokens_in(Arc::clone(&self.store))
    }

    fn tokens_in(&self, store: Arc<dyn DocumentStore>) -> Tokens {
        Tokens::new(store).unwrap().collection(self.collection("tokens"))
    }

    pub fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }

    pub fn passes(&self, time: Duration) {
        self.now.fetch_add(i64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
    }

    /// A message for cart 7, made now, with a token where one is needed.
    pub async fn delivery(&self, item: &str) -> Delivery {
        let milliseconds = u64::try_from(self.now().0 / 1_000).unwrap();
        let random: [u8; 10] = Uuid::new_v4().as_bytes()[6..].try_into().unwrap();
        let id = MessageId(Builder::from_unix_timestamp_millis(milliseconds, &random).into_uuid());
        let message = Message::new("carts.fill", item.to_owned()).key(7).id(id.0);
        match self.mode {
            Mode::InDocument | Mode::KnownIds => message.into(),
            Mode::Tokens => message.header(TOKEN_HEADER, self.tokens().issue().await.unwrap().to_string()).into(),
        }
    }

    /// What was sent, as it is delivered.
    pub fn delivered(&self) -> Vec<Delivery> {
        self.broker.messages().iter().map(|outgoing| Delivery::new((*outgoing.message).clone())).collect()
    }

    /// Puts a record of other making in the place of this name.
    pub async fn put(&self, collection: &str, name: &str, json: &'static str) -> DocumentKey {
        let key = DocumentKey::new(&self.collection(collection), name).unwrap();
        let json = Bytes::from_static(json.as_bytes());
        let draft = Draft { json, due: Some(Timestamp(0)), revision: Revision(Uuid::new_v4()) };
        match self.store.load(&key).await.unwrap() {
            Some(stored) => self.store.replace(&key, &stored.version, &draft).await.unwrap(),
            None => self.store.create(&key, &draft).await.unwrap(),
        };
        key
    }

    /// What is in cart 7.
    pub async fn items(&self) -> Vec<String> {
        let Some(document) = self.document().await else { return Vec::new() };
        serde_json::from_value::<Option<Cart>>(document["state"].clone()).unwrap().unwrap_or_default().items
    }

    /// The document of cart 7.
    pub async fn document(&self) -> Option<serde_json::Value> {
        let stored = self.store.load(&self.cart()).await.unwrap()?;
        Some(serde_json::from_slice(&stored.json).unwrap())
    }

    /// The payloads of what was sent.
    pub fn sent(&self) -> Vec<String> {
        let payload =
            |outgoing: &postrider_core::Outgoing| String::from_utf8_lossy(&outgoing.message.payload).into_owned();
        self.broker.messages().iter().map(payload).collect()
    }

    pub fn makes_tokens(&self) -> bool {
        self.mode == Mode::Tokens
    }

    /// How many tokens there are.
    pub async fn tokens_left(&self) -> usize {
        self.tokens().outstanding(None, 1_000).await.unwrap().len()
    }

    /// What is left to do in cart 7, and how many known ids there are.
    pub async fn left(&self) -> usize {
        let Some(document) = self.document().await else { return 0 };
        let entries = document["entries"].as_array().cloned().unwrap_or_default();
        match self.mode {
            Mode::InDocument => entries.iter().filter(|entry| entry.get("outputs").is_some()).count(),
            Mode::KnownIds | Mode::Tokens => entries.len(),
        }
    }
}
