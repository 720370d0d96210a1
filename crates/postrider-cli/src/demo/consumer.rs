//! The consumer: a small HTTP service that writes down every delivery and fails now and then.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::stream;
use postrider_core::MessageId;
use serde::Deserialize;
use tokio::net::TcpListener;

use super::effects::Effects;
use super::faults::{Again, Fault, Faults};
use super::record::{Answer, Delivery};
use super::signature::Verifier;
use crate::failure::{Failure, Outcome};

/// How late a late answer is: longer than it takes until the relay that waits for it is killed.
const LATE: Duration = Duration::from_secs(3);
/// How far back latencies are remembered.
const RECENT: Duration = Duration::from_secs(3);

/// The consumer's memory.
#[derive(Debug)]
struct Book {
    faults: Faults,
    deliveries: Vec<Delivery>,
    taken: HashSet<MessageId>,
    repeats: u64,
    unsigned: u64,
    lost_answers: u64,
    refused: BTreeMap<u16, u64>,
    late: usize,
    recent: VecDeque<(Instant, Duration)>,
    /// What it does with orders, where it does something.
    effects: Option<Effects>,
}

/// What the picture shows of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Distinct orders taken.
    pub(super) taken: u64,
    /// Deliveries of orders that were taken before.
    pub(super) repeats: u64,
    /// Answers that broke off.
    pub(super) lost_answers: u64,
    /// Refusals by status.
    pub(super) refused: BTreeMap<u16, u64>,
    /// From the commit to the first delivery, of the last three seconds: half were faster.
    pub(super) median: Duration,
    /// 99 of 100 were faster.
    pub(super) p99: Duration,
}

/// The consumer.
#[derive(Debug, Clone)]
pub(super) struct Consumer {
    book: Arc<Mutex<Book>>,
    verifier: Verifier,
    began: Instant,
}

/// The part of the payload that the consumer reads.
#[derive(Debug, Deserialize)]
struct Placed {
    number: i64,
    quantity: u32,
    placed_us: u64,
}

impl Consumer {
    /// Begins to listen on a free port of the loopback address; answers the URL.
    ///
    /// # Errors
    /// When no port can be had.
    pub(super) async fn start(
        seed: u64,
        verifier: Verifier,
        began: Instant,
        effects: Option<Effects>,
    ) -> Outcome<(Self, String)> {
        let failed = |error| {
            Failure::usage(
                format!("the demo's consumer cannot listen on 127.0.0.1: {error}"),
                "free a port of the loopback address, then run this again",
            )
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let book = Book {
            faults: Faults::seeded(seed, if effects.is_some() { Again::Often } else { Again::Seldom }),
            deliveries: Vec::new(),
            taken: HashSet::new(),
            repeats: 0,
            unsigned: 0,
            lost_answers: 0,
            refused: BTreeMap::new(),
            late: 0,
            recent: VecDeque::new(),
            effects,
        };
        let consumer = Self { book: Arc::new(Mutex::new(book)), verifier, began };
        let router = Router::new().route("/orders", post(receive)).with_state(consumer.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok((consumer, format!("http://{address}/orders")))
    }

    /// Changes how it misbehaves.
    pub(super) fn misbehave(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.book().faults);
    }

    /// How many answers are being held back, or were since the last question.
    pub(super) fn late_answers(&self) -> usize {
        self.book().late
    }

    /// Everything that arrived, and how many requests had a bad signature.
    pub(super) fn record(&self) -> (Vec<Delivery>, u64) {
        let book = self.book();
        (book.deliveries.clone(), book.unsigned)
    }

    /// How often each order was shipped, where orders are.
    ///
    /// # Errors
    /// When the consumer's database cannot be read.
    pub(super) fn shipped(&self) -> Outcome<Option<HashMap<MessageId, u64>>> {
        self.book().effects.as_ref().map(Effects::shipped).transpose()
    }

    /// What the picture shows.
    pub(super) fn seen(&self) -> Seen {
        let mut book = self.book();
        while book.recent.front().is_some_and(|(at, _)| at.elapsed() > RECENT) {
            book.recent.pop_front();
        }
        let mut latencies: Vec<Duration> = book.recent.iter().map(|(_, latency)| *latency).collect();
        latencies.sort_unstable();
        let at = |percent: usize| latencies.get(latencies.len() * percent / 100).copied().unwrap_or_default();
        Seen {
            taken: u64::try_from(book.taken.len()).unwrap_or(u64::MAX),
            repeats: book.repeats,
            lost_answers: book.lost_answers,
            refused: book.refused.clone(),
            median: at(50),
            p99: at(99),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides on one request and writes it down before anything is answered.
    fn decide(&self, headers: &HeaderMap, body: &Bytes) -> Decision {
        let read = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let mut book = self.book();
        if !self.verifier.verifies(headers, body) {
            book.unsigned += 1;
            return Decision::Refuse(StatusCode::UNAUTHORIZED);
        }
        let id = read("webhook-id").and_then(|id| id.parse().ok()).map(MessageId);
        let (Some(id), Ok(placed)) = (id, serde_json::from_slice::<Placed>(body)) else {
            return Decision::Refuse(StatusCode::BAD_REQUEST);
        };
        let fault = book.faults.next();
        let decision = match fault {
            Fault::Down => Decision::Refuse(StatusCode::SERVICE_UNAVAILABLE),
            Fault::TooMany => Decision::Refuse(StatusCode::TOO_MANY_REQUESTS),
            _ if placed.quantity == 0 => Decision::Refuse(StatusCode::UNPROCESSABLE_ENTITY),
            Fault::Error => Decision::Refuse(StatusCode::INTERNAL_SERVER_ERROR),
            Fault::LostAnswer => Decision::BreakOff,
            Fault::Late => Decision::AnswerLate,
            Fault::None => Decision::Take,
        };
        let customer = read("postrider-key").unwrap_or_default().to_owned();
        let decision = match (&mut book.effects, decision) {
            (_, Decision::Refuse(_)) | (None, _) => decision,
            (Some(effects), _) => match effects.ship(id, &customer, placed.number) {
                Ok(_) => decision,
                // What it could not ship comes again.
                Err(_) => Decision::Refuse(StatusCode::INTERNAL_SERVER_ERROR),
            },
        };
        let answer = match decision {
            Decision::Refuse(status) => Answer::Refused(status.as_u16()),
            Decision::BreakOff => Answer::Lost,
            Decision::AnswerLate | Decision::Take => Answer::Taken,
        };
        let delivery = Delivery {
            id,
            customer,
            number: placed.number,
            term: read("postrider-term").and_then(|term| term.parse().ok()).unwrap_or(0),
            answer,
        };
        book.late += usize::from(decision == Decision::AnswerLate);
        book.note(delivery, self.began.elapsed().saturating_sub(Duration::from_micros(placed.placed_us)));
        decision
    }
}

impl Book {
    fn note(&mut self, delivery: Delivery, latency: Duration) {
        match delivery.answer {
            Answer::Refused(status) => *self.refused.entry(status).or_insert(0) += 1,
            Answer::Taken | Answer::Lost if self.taken.insert(delivery.id) => {
                self.recent.push_back((Instant::now(), latency));
            }
            Answer::Taken | Answer::Lost => self.repeats += 1,
        }
        self.lost_answers += u64::from(delivery.answer == Answer::Lost);
        self.deliveries.push(delivery);
    }
}

/// What is done with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Take,
    AnswerLate,
    BreakOff,
    Refuse(StatusCode),
}

async fn receive(State(consumer): State<Consumer>, headers: HeaderMap, body: Bytes) -> Response {
    match consumer.decide(&headers, &body) {
        Decision::Take => StatusCode::NO_CONTENT.into_response(),
        Decision::AnswerLate => {
            tokio::time::sleep(LATE).await;
            StatusCode::NO_CONTENT.into_response()
        }
        // A body that fails before its end makes the server close the connection.
        Decision::BreakOff => {
            let pieces = [Ok(Bytes::from_static(b"ta")), Err(io::Error::from(io::ErrorKind::ConnectionReset))];
            Body::from_stream(stream::iter(pieces)).into_response()
        }
        Decision::Refuse(StatusCode::TOO_MANY_REQUESTS) => {
            (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "1")]).into_response()
        }
        Decision::Refuse(StatusCode::UNPROCESSABLE_ENTITY) => {
            (StatusCode::UNPROCESSABLE_ENTITY, "quantity must be 1 or more").into_response()
        }
        Decision::Refuse(status) => status.into_response(),
    }
}
