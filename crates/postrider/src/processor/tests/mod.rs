//! Known ids and tokens, asked directly: over each store, and while its calls go wrong.

#[path = "../../../tests/processor/places.rs"]
#[macro_use]
mod places;
mod known_ids;
mod tokens;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use postrider_core::{Collection, DocumentStore, ErrorKind, MessageId, Result, Timestamp};
use postrider_testkit::suites::Report;
use postrider_testkit::troubled_documents::{Call, Trouble, TroubledDocuments};
use uuid::Uuid;

use super::entity::stamped;
use places::Place;

const NOON: Timestamp = Timestamp(1_764_000_000_000_000);
const DAY: Duration = Duration::from_secs(86_400);
/// How often something is asked again that fails.
const TRIES: usize = 50;
/// How often it is looked for what another client sees at once.
const ROUNDS: usize = 4;

/// What befalls calls of a store, and in which words it is told.
type Fault = (&'static str, Option<fn(Call<'_>) -> Trouble>);

const UNDISTURBED: Fault = ("undisturbed", None);
const FAULTS: [Fault; 4] = [
    ("failing", Some(|_| Trouble::FailBefore(ErrorKind::Unavailable))),
    ("failing after its work", Some(|_| Trouble::FailAfter)),
    ("late", Some(|_| Trouble::Late(Duration::from_millis(1)))),
    ("behind in what is due", Some(|call| if matches!(call, Call::Due(_)) { Trouble::Stale } else { Trouble::None })),
];

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The cases of one suite, each by its name.
type Cases = [(&'static str, fn(Bench) -> Running)];

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        const CASES: &$crate::processor::tests::Cases =
            &[$((stringify!($name), |bench| Box::pin($name(bench)))),*];
    };
}
use cases;

/// Two clients of a store, one and the same where it is in trouble, and collections that nobody else has.
struct Bench {
    clients: [Arc<dyn DocumentStore>; 2],
    mark: String,
}

impl Bench {
    async fn new(place: &Place, (_, trouble): Fault) -> Self {
        let clients = match trouble {
            None => [place.client().await, place.client().await],
            // What is behind is so in what was written through the same wrapper.
            Some(trouble) => {
                let client = befallen(place.client().await, trouble);
                [Arc::clone(&client), client]
            }
        };
        Self { clients, mark: Uuid::new_v4().simple().to_string()[..12].to_owned() }
    }

    fn collection(&self, name: &str) -> Collection {
        Collection::new(&format!("{name}-{}", self.mark)).unwrap()
    }
}

/// The store, with a fault at some of its calls: ever more of them go well in between, so that whatever is asked again gets
/// through.
fn befallen(inner: Arc<dyn DocumentStore>, trouble: fn(Call<'_>) -> Trouble) -> Arc<dyn DocumentStore> {
    let calls = AtomicUsize::new(0);
    TroubledDocuments::wrap(inner, move |call| {
        let nth = calls.fetch_add(1, Ordering::SeqCst);
        let is_befallen = (0..).map(|n| n * (n + 3) / 2).take_while(|at| *at <= nth).last() == Some(nth);
        if is_befallen { trouble(call) } else { Trouble::None }
    })
}

/// Asks until it succeeds, as deliveries do.
async fn again<T, F: Future<Output = Result<T>>>(ask: impl Fn() -> F) -> T {
    for _ in 0..TRIES {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown), "{error}"),
        }
    }
    panic!("it never succeeds")
}

/// Looks until it is so: what is due may be named late, and what is over for a moment longer.
async fn until<F: Future<Output = bool>>(is_so: impl Fn() -> F) {
    for _ in 0..TRIES {
        if is_so().await {
            return;
        }
    }
    panic!("it is never so")
}

/// Does something over a store in which the first call of a kind is held until something else is done. A store that is in
/// trouble by itself may fail it before.
async fn held_up<F: Future<Output = Result<()>>>(
    store: &Arc<dyn DocumentStore>,
    is_held: fn(Call<'_>) -> bool,
    slowly: impl FnOnce(Arc<dyn DocumentStore>) -> F,
    meanwhile: impl Future<Output = ()>,
) {
    let is_first = AtomicBool::new(true);
    let held = TroubledDocuments::new(Arc::clone(store), move |call| {
        let holds = is_held(call) && is_first.swap(false, Ordering::SeqCst);
        if holds { Trouble::Held } else { Trouble::None }
    });
    let mut slowly = std::pin::pin!(slowly(Arc::clone(&held) as _));
    let ended = tokio::select! {
        ended = &mut slowly => Some(ended),
        () = held.held() => None,
    };
    meanwhile.await;
    match ended {
        Some(ended) => assert!(ended.is_err(), "no call was held"),
        None => {
            held.release();
            drop(slowly.await);
        }
    }
}

/// A point in time, so long after noon.
fn at(after: Duration) -> Timestamp {
    Timestamp(NOON.0 + i64::try_from(after.as_micros()).unwrap())
}

/// An id that was made then.
fn made(at: Timestamp) -> MessageId {
    MessageId(stamped(at))
}

async fn run(suite: &'static str, cases: &Cases, place: &Place, fault: Fault) -> Report {
    let mut report = Report::new(suite, &format!("{}, {}", place.name, fault.0));
    for (name, case) in cases {
        report.run(name, case(Bench::new(place, fault).await)).await;
    }
    report
}

/// Runs every case with every fault, and prints what passed.
async fn passes(suite: &'static str, cases: &Cases, place: &Place) {
    place.client().await.prepare().await.unwrap();
    // What is counted is what passes undisturbed.
    run(suite, cases, place, UNDISTURBED).await.expect_success();
    for fault in FAULTS {
        let report = run(suite, cases, place, fault).await;
        assert!(report.failures().is_empty(), "{report}");
    }
    println!("{suite} over {}: {} cases passed, undisturbed and with {} faults", place.name, cases.len(), FAULTS.len());
}

/// Demands that a store whose reads are behind fails this case.
async fn is_caught(suite: &'static str, cases: &Cases, case: &str) {
    let inner = Place::memory().await.unwrap().client().await;
    let behind = TroubledDocuments::wrap(inner, |call| match call {
        Call::Load(_) => Trouble::Stale,
        _ => Trouble::None,
    });
    let report = run(suite, cases, &Place::of("memory, behind in its reads", behind), UNDISTURBED).await;
    let failed: Vec<&str> = report.failures().iter().map(|(case, _)| case.as_str()).collect();
    assert!(failed.contains(&case), "reads that are behind pass {case}; failed: {failed:?}");
}
