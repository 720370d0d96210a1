//! What it costs a receiver to have each effect once: each way to remember, in turns with none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use postrider::brokers::memory::MemoryBroker;
use postrider::documents;
use postrider::{
    Advance, Begun, Delivery, DestinationTemplate, EntityKey, Fingerprint, Handler, IdempotencyKeys, Inbox, KnownIds,
    Message, MessageId, Outputs, Processor, ScopedKey, Seen, StoredAnswer, TOKEN_HEADER, Tokens,
};
use postrider_bench::figure::{Demand, Figure};
use postrider_bench::spread::percentile;
use postrider_core::{Collection, DocumentKey, DocumentStore, Draft, Revision, Version};
use tokio_postgres::{Client, Transaction};
use uuid::Uuid;

use super::database::{Database, connect};
use super::forgetting;
use super::plan::Plan;

const PART: &str = "receiving";
const CONSUMER: &str = "bench";
const EFFECT: &str = "insert into effects (message) values ($1)";
/// How long a request is whose server does not answer.
const LEASE: Duration = Duration::from_secs(60);
/// Receivers at a time.
const HANDS: usize = 2;
/// Entities of each receiver: one after another, so that no document is written by two.
const ENTITIES: u64 = 1_000;
/// Each run takes so many turns with each of them, so that a machine that is slow for some seconds is so for all.
const TURNS: u32 = 4;
/// Of so many parts of a turn the first is warm-up.
const WARM_UP: u32 = 5;
/// What the inbox may cost: the time of a transaction with it, over that of one without.
const INBOX_AT_MOST: f64 = 1.35;

/// How a receiver works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum With {
    /// The effect in a transaction, and nothing else.
    Transaction,
    /// A question to the database before the effect that asks nothing: what any question costs.
    RoundTrip,
    /// The inbox is asked with the effect.
    Inbox,
    /// The inbox is asked, and then the effect is written.
    InboxFirst,
    Cursor,
    /// The token that the sender issued is taken with the effect.
    Token,
    /// A request is begun in a transaction of its own, and its answer stored with the effect.
    Key,
    /// A document is read and written, and nothing else.
    Document,
    InDocument,
    KnownIds,
    Tokens,
}

const EVERY: [With; 11] = [
    With::Transaction,
    With::RoundTrip,
    With::Inbox,
    With::InboxFirst,
    With::Cursor,
    With::Token,
    With::Key,
    With::Document,
    With::InDocument,
    With::KnownIds,
    With::Tokens,
];

impl With {
    const fn says(self) -> &'static str {
        match self {
            Self::Transaction => "a transaction, nothing remembered",
            Self::RoundTrip => "a transaction with a round trip more, nothing remembered",
            Self::Inbox => "a transaction with the inbox, asked with the effect",
            Self::InboxFirst => "a transaction with the inbox, asked before the effect",
            Self::Cursor => "a transaction with the cursor",
            Self::Token => "a transaction with a token of the same database",
            Self::Key => "a request with an idempotency key, in two transactions",
            Self::Document => "a document read and written, nothing remembered",
            Self::InDocument => "a processor, ids in the document",
            Self::KnownIds => "a processor with known ids",
            Self::Tokens => "a processor with tokens",
        }
    }

    /// What it is compared with.
    const fn beside(self) -> Option<Self> {
        match self {
            Self::Transaction | Self::Document => None,
            Self::RoundTrip | Self::Inbox | Self::InboxFirst | Self::Cursor | Self::Token | Self::Key => {
                Some(Self::Transaction)
            }
            Self::InDocument | Self::KnownIds | Self::Tokens => Some(Self::Document),
        }
    }
}

/// One turn: milliseconds of a message, and messages a second of all hands.
struct Turn {
    p50: f64,
    p99: f64,
    rate: f64,
}

/// A counter: as little as a handler can do.
struct Counting;

impl Handler for Counting {
    type State = u64;
    type Error = std::convert::Infallible;

    fn entity(&self, message: &Delivery) -> EntityKey {
        EntityKey::new(message.message.key.as_ref().map_or("", |key| key.as_str()))
    }

    async fn handle(&self, count: &mut u64, _message: &Delivery, _out: &mut Outputs) -> Result<(), Self::Error> {
        *count += 1;
        Ok(())
    }
}

pub async fn measure(plan: &Plan, notes: &mut Vec<String>) -> Vec<Figure> {
    let database = Database::start().await;
    notes.push(database.note().await);
    notes.push(format!(
        "{HANDS} receivers, a connection each; no message is a repeat, and none sends anything. Tokens are made before the clock \
         runs."
    ));
    let effects = "create table effects (id bigint generated always as identity primary key, message uuid)";
    database.client.batch_execute(effects).await.unwrap();
    let store = documents::open(&database.url).await.unwrap();
    store.prepare().await.unwrap();
    let mut turns = EVERY.map(|_| Vec::new());
    let numbers = Arc::new(AtomicU64::new(1));
    for run in 0..plan.runs {
        eprintln!("{PART}: run {} of {}", run + 1, plan.runs);
        for _ in 0..TURNS {
            for (of, with) in turns.iter_mut().zip(EVERY) {
                database.flushed().await;
                of.push(turn(&database, &store, with, plan.steady / TURNS, &numbers).await);
            }
        }
    }
    let mut figures = figures(&turns);
    figures.extend(forgetting::measure(plan, &database, notes).await);
    figures
}

async fn turn(
    database: &Database,
    store: &Arc<dyn DocumentStore>,
    with: With,
    length: Duration,
    numbers: &Arc<AtomicU64>,
) -> Turn {
    // Each turn has a source and entities of its own.
    let turn = numbers.fetch_add(1, Ordering::Relaxed);
    let start = Instant::now();
    let mut hands = Vec::new();
    for hand in 0..HANDS {
        let receiver = Receiver {
            with,
            client: connect(&database.url).await,
            store: Arc::clone(store),
            source: format!("{turn}-{hand}"),
        };
        hands.push(tokio::spawn(receiver.receive(start, length)));
    }
    let mut times = Vec::new();
    for hand in hands {
        times.extend(hand.await.unwrap());
    }
    #[allow(clippy::cast_precision_loss, reason = "a count")]
    let rate = HANDS as f64 * 1_000.0 * times.len() as f64 / times.iter().sum::<f64>();
    Turn { p50: percentile(&mut times, 0.5), p99: percentile(&mut times, 0.99), rate }
}

/// One that receives messages, one after another.
struct Receiver {
    with: With,
    client: Client,
    store: Arc<dyn DocumentStore>,
    source: String,
}

impl Receiver {
    /// Milliseconds of each message after the warm-up.
    async fn receive(mut self, start: Instant, length: Duration) -> Vec<f64> {
        let tokens = Tokens::new(Arc::clone(&self.store)).unwrap();
        let processor = self.processor(tokens.clone());
        let mut times = Vec::new();
        for number in 1.. {
            let mut message =
                Message::new("received", Vec::new()).key(format!("{}-{}", self.source, number % ENTITIES));
            match self.with {
                With::Tokens => {
                    message = message.header(TOKEN_HEADER, tokens.issue().await.unwrap().to_string());
                }
                With::Token => self.issue_token(message.id).await,
                _ => {}
            }
            let began = Instant::now();
            match self.with {
                With::Transaction | With::RoundTrip | With::Inbox | With::InboxFirst | With::Cursor | With::Token => {
                    self.in_transaction(message.id, number).await
                }
                With::Key => self.answer_once(message.id).await,
                With::Document => self.in_plain_document(&message).await,
                With::InDocument | With::KnownIds | With::Tokens => {
                    let processed = processor.process(&Delivery::new(message)).await;
                    assert!(processed.is_over(), "{processed}");
                }
            }
            if start.elapsed() >= length {
                break;
            }
            if began - start >= length / WARM_UP {
                times.push(began.elapsed().as_secs_f64() * 1_000.0);
            }
        }
        times
    }

    fn processor(&self, tokens: Tokens) -> Processor<Counting> {
        let builder = Processor::builder(CONSUMER, Arc::clone(&self.store), Counting)
            .broker(Arc::new(MemoryBroker::counting()), DestinationTemplate::topic());
        let builder = match self.with {
            With::KnownIds => {
                builder.known_ids(KnownIds::new(Arc::clone(&self.store), Duration::from_secs(86_400)).unwrap())
            }
            With::Tokens => builder.tokens(tokens),
            _ => builder,
        };
        builder.build().unwrap()
    }

    async fn in_transaction(&mut self, id: MessageId, number: u64) {
        let transaction = self.client.transaction().await.unwrap();
        let effect = async { transaction.execute(EFFECT, &[&id.0]).await };
        let first = first(self.with, &self.source, &transaction, id, number);
        let is_first = if self.with == With::Inbox {
            let (is_first, written) = tokio::join! { biased; first, effect };
            written.unwrap();
            is_first
        } else {
            let is_first = first.await;
            effect.await.unwrap();
            is_first
        };
        assert!(is_first, "a message that was never sent before is a repeat");
        transaction.commit().await.unwrap();
    }

    async fn issue_token(&mut self, id: MessageId) {
        let transaction = self.client.transaction().await.unwrap();
        Inbox::new().issue_token(&transaction, CONSUMER, id).await.unwrap();
        transaction.commit().await.unwrap();
    }

    /// As the layer for requests over HTTP does it.
    async fn answer_once(&mut self, id: MessageId) {
        let keys = IdempotencyKeys::new();
        let key = ScopedKey::new(CONSUMER, "POST /effects", &id.to_string()).unwrap();
        let transaction = self.client.transaction().await.unwrap();
        let begun = keys.begin(&transaction, &key, Fingerprint([7; 32]), LEASE).await.unwrap();
        transaction.commit().await.unwrap();
        let Begun::Started(epoch) = begun else {
            panic!("a request that was never sent before is a repeat: {begun:?}")
        };
        let transaction = self.client.transaction().await.unwrap();
        transaction.execute(EFFECT, &[&id.0]).await.unwrap();
        let answer = StoredAnswer { status: 201, headers: Vec::new(), body: b"made".to_vec() };
        keys.answer(&transaction, &key, epoch, answer).await.unwrap();
        transaction.commit().await.unwrap();
    }

    /// What a processor does without remembering anything.
    async fn in_plain_document(&self, message: &Message) {
        let collection = Collection::new("plain").unwrap();
        let key = DocumentKey::new(&collection, message.key.as_ref().map_or("", |key| key.as_str())).unwrap();
        let draft = |count: u64| Draft {
            json: format!("{{\"state\": {count}}}").into(),
            due: None,
            revision: Revision(Uuid::new_v4()),
        };
        let stored = self.store.load(&key).await.unwrap();
        let _: Version = match stored {
            Some(stored) => {
                let count = serde_json::from_slice::<serde_json::Value>(&stored.json).unwrap()["state"].as_u64();
                self.store.replace(&key, &stored.version, &draft(count.unwrap_or_default() + 1)).await.unwrap()
            }
            None => self.store.create(&key, &draft(1)).await.unwrap(),
        };
    }
}

/// Whether the message is to be handled.
async fn first(with: With, source: &str, transaction: &Transaction<'_>, id: MessageId, number: u64) -> bool {
    let inbox = Inbox::new();
    match with {
        With::RoundTrip => transaction.query_typed("select true", &[]).await.unwrap()[0].get(0),
        With::Inbox | With::InboxFirst => inbox.first_seen(transaction, CONSUMER, id).await.unwrap() == Seen::First,
        With::Token => inbox.take_token(transaction, CONSUMER, id).await.unwrap() == Seen::First,
        With::Cursor => inbox.advance(transaction, CONSUMER, source, 0, number).await.unwrap() == Advance::Next,
        _ => true,
    }
}

fn figures(turns: &[Vec<Turn>; EVERY.len()]) -> Vec<Figure> {
    let column = |with: With, of: fn(&Turn) -> f64| -> Vec<f64> { turns[with as usize].iter().map(of).collect() };
    let figure = |with: With, percent: &str, unit: &str, of: fn(&Turn) -> f64| {
        let figure = Figure::new(PART, format!("{}: {percent}", with.says()), unit, column(with, of));
        match with.beside() {
            Some(beside) => figure.beside("nothing remembered", column(beside, of)),
            None => figure,
        }
    };
    let mut figures: Vec<Figure> = EVERY.map(|with| figure(with, "messages", "messages/s", |turn| turn.rate)).into();
    figures.extend(EVERY.map(|with| {
        let figure = figure(with, "p50", "ms", |turn| turn.p50);
        if with == With::InboxFirst { figure.demand(Demand::RatioAtMost(INBOX_AT_MOST)) } else { figure }
    }));
    figures.extend(EVERY.map(|with| figure(with, "p99", "ms", |turn| turn.p99)));
    figures
}
