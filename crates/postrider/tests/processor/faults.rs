//! A store in trouble at any of its calls: whatever was done, the next delivery goes on from there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use postrider::Processed;
use postrider::brokers::memory::MemoryBroker;
use postrider::documents::memory::MemoryDocuments;
use postrider_core::{DocumentStore, ErrorKind};
use postrider_testkit::troubled_documents::{Call, Trouble, TroubledDocuments};

use crate::meeting::{deliver, settled};
use crate::scene::{MODES, Mode, Scene};

const TROUBLES: [Trouble; 7] = [
    Trouble::FailBefore(ErrorKind::Unavailable),
    Trouble::FailBefore(ErrorKind::Throttled),
    Trouble::FailBefore(ErrorKind::Config),
    Trouble::FailAfter,
    Trouble::Hang,
    Trouble::LoseAnswer,
    Trouble::Late(Duration::from_millis(1)),
];

/// The store, in this trouble at the call of this number.
fn troubled(
    inner: Arc<dyn DocumentStore>,
    at: usize,
    trouble: Trouble,
    calls: Arc<AtomicUsize>,
) -> Arc<dyn DocumentStore> {
    TroubledDocuments::wrap(
        inner,
        move |_| {
            if calls.fetch_add(1, Ordering::SeqCst) == at { trouble } else { Trouble::None }
        },
    )
}

#[tokio::test]
async fn trouble_at_any_call_costs_another_delivery_and_nothing_else() {
    for mode in MODES {
        at_any_call(mode, &(Arc::new(MemoryDocuments::new()) as _), &TROUBLES, Duration::from_millis(20)).await;
    }
}

/// A delivery in each trouble at each call, which ends within `limit` or is dropped, as by a consumer that dies.
pub async fn at_any_call(mode: Mode, store: &Arc<dyn DocumentStore>, troubles: &[Trouble], limit: Duration) {
    for trouble in troubles {
        for at in 0.. {
            let scene = Scene::over(mode, Arc::clone(store), MemoryBroker::recording());
            let book = scene.delivery("book").await;
            let calls = Arc::new(AtomicUsize::new(0));
            let in_trouble = troubled(Arc::clone(store), at, *trouble, Arc::clone(&calls));
            let processor = scene.processor_over(in_trouble, Arc::clone(&scene.broker) as _);
            drop(tokio::time::timeout(limit, processor.process(&book)).await);
            let all = calls.load(Ordering::SeqCst);
            let case = format!("{mode:?}: {trouble:?} at call {at}");
            deliver(&scene, &book).await;
            let repeat = scene.processor().process(&book).await;
            assert!(matches!(repeat, Processed::Repeat), "{case}: {repeat}");
            settled(&scene, &["book"], &case).await;
            if all <= at {
                assert!(at >= 3, "{case}: too few calls to be all of them");
                break;
            }
        }
    }
}

/// A delivery that is held in each call while the next one goes through, and then goes on: the write that it was about to
/// make arrives late.
pub async fn slow_at_any_call(mode: Mode, store: &Arc<dyn DocumentStore>) {
    for at in 0.. {
        let scene = Scene::over(mode, Arc::clone(store), MemoryBroker::recording());
        let book = scene.delivery("book").await;
        let calls = AtomicUsize::new(0);
        let slow = TroubledDocuments::new(Arc::clone(store), move |_| match calls.fetch_add(1, Ordering::SeqCst) {
            call if call == at => Trouble::Held,
            _ => Trouble::None,
        });
        let processor = scene.processor_over(Arc::clone(&slow) as _, Arc::clone(&scene.broker) as _);
        let mut first = std::pin::pin!(processor.process(&book));
        let is_held = tokio::select! {
            () = slow.held() => true,
            _ = &mut first => false,
        };
        let case = format!("{mode:?}: slow in call {at}");
        deliver(&scene, &book).await;
        if is_held {
            slow.release();
            let late = first.await;
            assert!(!matches!(late, Processed::Failed(_)), "{case}: {late}");
        }
        let repeat = scene.processor().process(&book).await;
        assert!(matches!(repeat, Processed::Repeat), "{case}: {repeat}");
        settled(&scene, &["book"], &case).await;
        if !is_held {
            assert!(at >= 3, "{case}: too few calls to be all of them");
            break;
        }
    }
}

/// Two messages and a repeat, one read of their entity answering by what it was: it costs a conflict, and nothing else.
/// Every other read must be of the present, as each store promises.
pub async fn behind_at_any_read(mode: Mode, store: &Arc<dyn DocumentStore>) {
    for at in 0.. {
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reads);
        let behind = TroubledDocuments::wrap(Arc::clone(store), move |call| match call {
            Call::Load(key) if key.collection().as_str().starts_with("carts") => {
                if counted.fetch_add(1, Ordering::SeqCst) == at { Trouble::Stale } else { Trouble::None }
            }
            _ => Trouble::None,
        });
        let scene = Scene::over(mode, behind, MemoryBroker::recording());
        let (book, pen) = (scene.delivery("book").await, scene.delivery("pen").await);
        for delivery in [&book, &pen, &book, &pen] {
            deliver(&scene, delivery).await;
        }
        // What the test itself looks at is the present.
        let all = reads.swap(usize::MAX / 2, Ordering::SeqCst);
        settled(&scene, &["book", "pen"], &format!("{mode:?}: behind in read {at}")).await;
        if all <= at {
            assert!(at >= 4, "{mode:?}: too few reads to be all of them");
            break;
        }
    }
}

/// Also where the store fails while what was left is finished.
#[tokio::test]
async fn trouble_while_keeping_up_is_told_and_mended_by_the_next_round() {
    for mode in MODES {
        for at in 0.. {
            let scene = Scene::new(mode);
            let book = scene.delivery("book").await;
            let gated = scene.gated();
            let mut running = Box::pin(gated.process(&book));
            while scene.document().await.is_none() {
                let _ = running.as_mut().now_or_never();
            }
            drop(running);
            scene.passes(Duration::from_secs(2 * 3_600));
            let calls = Arc::new(AtomicUsize::new(0));
            let trouble = Trouble::FailBefore(ErrorKind::Unavailable);
            let store = troubled(Arc::clone(&scene.store), at, trouble, Arc::clone(&calls));
            let processor = scene.processor_over(store, Arc::clone(&scene.broker) as _);
            let case = format!("{mode:?}: at call {at}");
            match processor.keep_up().await {
                Ok(kept) => assert_eq!(kept.stuck.is_empty(), calls.load(Ordering::SeqCst) <= at, "{case}: {kept:?}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{case}"),
            }
            assert!(scene.processor().keep_up().await.unwrap().stuck.is_empty(), "{case}");
            assert_eq!((scene.items().await, scene.left().await), (vec!["book".to_owned()], 0), "{case}");
            if calls.load(Ordering::SeqCst) <= at {
                assert!(at >= 3, "{case}");
                break;
            }
        }
    }
}
