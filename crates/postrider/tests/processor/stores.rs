//! A processor over each store, in each of its ways to remember: the table of `cargo xtask show receiving.1`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider::brokers::memory::{Answer, MemoryBroker};
use postrider::{Delivery, Lapse, Processed};
use postrider_core::{DocumentStore, ErrorKind};
use postrider_testkit::troubled_documents::{Call, Trouble, TroubledDocuments};

use crate::faults::{at_any_call, behind_at_any_read, slow_at_any_call};
use crate::meeting::{deliver, settled};
use crate::once::many_at_once;
use crate::places::Place;
use crate::scene::{DAY, MODES, Mode, Scene};

/// Those that a real store can be brought into without waiting for long.
const TROUBLES: [Trouble; 3] = [Trouble::FailBefore(ErrorKind::Unavailable), Trouble::FailAfter, Trouble::LoseAnswer];

type Running = Pin<Box<dyn Future<Output = ()>>>;

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        const CASES: &[(&str, fn(Mode, Arc<dyn DocumentStore>) -> Running)] =
            &[$((stringify!($name), |mode, store| Box::pin($name(mode, store)))),*];
    };
}

cases![
    a_repeat_has_no_effect,
    trouble_at_any_call_costs_another_delivery,
    a_delivery_that_is_slow_in_any_call_has_no_effect_beside_the_next_one,
    a_read_of_the_entity_that_is_behind_costs_another_try,
    a_sweep_whose_reads_of_the_entity_are_behind_deletes_nothing_that_is_committed,
    what_is_due_and_not_named_yet_is_done_by_a_later_round,
    many_at_once_have_one_effect_each,
    what_nobody_delivers_again_is_finished,
    what_is_forgotten_is_refused_or_without_a_token,
];

async fn a_repeat_has_no_effect(mode: Mode, store: Arc<dyn DocumentStore>) {
    let scene = Scene::over(mode, store, MemoryBroker::recording());
    let (book, pen) = (scene.delivery("book").await, scene.delivery("pen").await);
    for delivery in [&book, &pen] {
        assert!(matches!(scene.processor().process(delivery).await, Processed::Applied));
    }
    for delivery in [&pen, &book] {
        assert!(matches!(scene.processor().process(delivery).await, Processed::Repeat));
    }
    settled(&scene, &["book", "pen"], "repeats").await;
}

async fn trouble_at_any_call_costs_another_delivery(mode: Mode, store: Arc<dyn DocumentStore>) {
    at_any_call(mode, &store, &TROUBLES, Duration::from_millis(500)).await;
}

async fn a_delivery_that_is_slow_in_any_call_has_no_effect_beside_the_next_one(
    mode: Mode,
    store: Arc<dyn DocumentStore>,
) {
    slow_at_any_call(mode, &store).await;
}

async fn a_read_of_the_entity_that_is_behind_costs_another_try(mode: Mode, store: Arc<dyn DocumentStore>) {
    behind_at_any_read(mode, &store).await;
}

/// A scene in which one message is committed, and its delivery knows nothing of it.
async fn committed_unknown(mode: Mode, store: Arc<dyn DocumentStore>) -> (Scene, Delivery) {
    let scene = Scene::over(mode, store, MemoryBroker::recording());
    let (book, cart) = (scene.delivery("book").await, scene.cart());
    let unlucky = TroubledDocuments::wrap(Arc::clone(&scene.store), move |call| match call {
        Call::Create(key, _) if *key == cart => Trouble::FailAfter,
        _ => Trouble::None,
    });
    let processed = scene.processor_over(unlucky, Arc::clone(&scene.broker) as _).process(&book).await;
    assert!(matches!(processed, Processed::Again { lapse: Lapse::Unknown, .. }), "{processed}");
    assert_eq!((scene.items().await, scene.sent().len()), (vec!["book".to_owned()], 0));
    (scene, book)
}

/// Else its tokens are deleted, and what it sends is never processed.
async fn a_sweep_whose_reads_of_the_entity_are_behind_deletes_nothing_that_is_committed(
    mode: Mode,
    store: Arc<dyn DocumentStore>,
) {
    // What it was is known of what was written through it.
    let (is_behind, asked) = flag();
    let behind = TroubledDocuments::wrap(store, move |call| match call {
        Call::Load(key) if key.collection().as_str().starts_with("carts") && asked.load(Ordering::SeqCst) => {
            Trouble::Stale
        }
        _ => Trouble::None,
    });
    let (scene, book) = committed_unknown(mode, behind).await;
    scene.passes(Duration::from_secs(2 * 3_600));
    is_behind.store(true, Ordering::SeqCst);
    let kept = scene.processor().keep_up().await.unwrap();
    is_behind.store(false, Ordering::SeqCst);
    assert_eq!((kept.swept, kept.stuck.len()), (0, 0), "{mode:?}: {kept:?}");
    deliver(&scene, &book).await;
    settled(&scene, &["book"], "swept by what was").await;
}

/// An index may follow its documents after a moment.
async fn what_is_due_and_not_named_yet_is_done_by_a_later_round(mode: Mode, store: Arc<dyn DocumentStore>) {
    let (is_behind, asked) = flag();
    let behind = TroubledDocuments::wrap(store, move |call| match call {
        Call::Due(_) if asked.load(Ordering::SeqCst) => Trouble::Stale,
        _ => Trouble::None,
    });
    let (scene, book) = committed_unknown(mode, behind).await;
    for days in [1, 8] {
        scene.passes(days * DAY);
        // Behind what was made, up to date, and behind what was done.
        for (reads, finishes) in [(true, 0), (false, u64::from(days == 1)), (true, 0)] {
            is_behind.store(reads, Ordering::SeqCst);
            let kept = scene.processor().keep_up().await.unwrap();
            assert_eq!((kept.finished, kept.stuck.len()), (finishes, 0), "{mode:?}, behind: {reads}, {kept:?}");
        }
    }
    is_behind.store(false, Ordering::SeqCst);
    assert_eq!((scene.items().await, scene.left().await), (vec!["book".to_owned()], 0));
    let repeat = scene.processor().process(&book).await;
    assert!(matches!(repeat, Processed::Repeat | Processed::TooOld), "{mode:?}: {repeat}");
    assert_eq!(scene.sent().len(), 1, "{mode:?}");
}

/// A flag, and itself again.
fn flag() -> (Arc<AtomicBool>, Arc<AtomicBool>) {
    let flag = Arc::new(AtomicBool::new(false));
    (Arc::clone(&flag), flag)
}

async fn many_at_once_have_one_effect_each(mode: Mode, store: Arc<dyn DocumentStore>) {
    many_at_once(Scene::over(mode, store, MemoryBroker::recording())).await;
}

async fn what_nobody_delivers_again_is_finished(mode: Mode, store: Arc<dyn DocumentStore>) {
    let broker = MemoryBroker::recording().with_script(|_, nth| match nth {
        0 => Answer::Fail(ErrorKind::Unavailable),
        _ => Answer::Accept,
    });
    let scene = Scene::over(mode, store, broker);
    assert!(!scene.processor().process(&scene.delivery("book").await).await.is_over());
    scene.passes(Duration::from_secs(31));
    let kept = scene.processor().keep_up().await.unwrap();
    assert_eq!((kept.finished, kept.stuck.len(), scene.left().await), (1, 0, 0), "{kept:?}");
}

async fn what_is_forgotten_is_refused_or_without_a_token(mode: Mode, store: Arc<dyn DocumentStore>) {
    let scene = Scene::over(mode, store, MemoryBroker::recording());
    let book = scene.delivery("book").await;
    deliver(&scene, &book).await;
    scene.passes(8 * DAY);
    scene.processor().keep_up().await.unwrap();
    deliver(&scene, &scene.delivery("pen").await).await;
    let processed = scene.processor().process(&book).await;
    match mode {
        Mode::InDocument | Mode::KnownIds => assert!(matches!(processed, Processed::TooOld), "{processed}"),
        Mode::Tokens => assert!(matches!(processed, Processed::Repeat), "{processed}"),
    }
    assert_eq!(scene.items().await, ["book", "pen"]);
}

/// Runs every case in every mode, and prints what passed.
async fn passes(place: &Place) {
    let (name, store) = (place.name, place.client().await);
    store.prepare().await.unwrap();
    for mode in MODES {
        for (case, run) in CASES {
            // A step that fails says where.
            println!("{name}: {mode:?}: {case}");
            run(mode, Arc::clone(&store)).await;
        }
        println!("processor over {name}, {mode:?}: {} cases passed, each call of the store failing once", CASES.len());
    }
}

over_each_store!(passes);
