//! One effect for each message, whatever happens on the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postrider::brokers::memory::{Answer, MemoryBroker};
use postrider::documents::memory::MemoryDocuments;
use postrider::{Delivery, EntityKey, Handler, Lapse, Message, Outputs, Processed, Processor};
use postrider_core::{AllowList, Broker, DeadReason, Destination, DestinationTemplate, ErrorKind, Placeholder};

use crate::scene::{Carts, MODES, Mode, Scene};

#[tokio::test]
async fn a_message_has_its_effect_once_and_sends_once_and_a_repeat_is_acknowledged() {
    for mode in MODES {
        let scene = Scene::new(mode);
        let (book, pen) = (scene.delivery("book").await, scene.delivery("pen").await);
        assert!(matches!(scene.processor().process(&book).await, Processed::Applied));
        assert!(matches!(scene.processor().process(&pen).await, Processed::Applied));
        for _ in 0..2 {
            assert!(matches!(scene.processor().process(&book).await, Processed::Repeat));
        }
        assert_eq!(scene.items().await, ["book", "pen"]);
        assert_eq!(scene.sent(), ["book is number 0", "pen is number 1"]);
        assert_eq!(scene.left().await, 0);
    }
}

#[tokio::test]
async fn a_handler_that_fails_panics_or_hangs_leaves_nothing() {
    for mode in MODES {
        let scene = Scene::new(mode);
        for (item, why) in [
            ("error", "no such item"),
            ("panic", "panicked: the handler is wrong"),
            ("nowhere", "panicked: the handler knows no cart"),
            ("hang", "longer"),
        ] {
            let processed = scene.processor().process(&scene.delivery(item).await).await;
            assert!(matches!(&processed, Processed::Failed(error) if error.to_string().contains(why)), "{processed}");
            assert!(!processed.is_over());
        }
        assert!(scene.document().await.is_none() && scene.sent().is_empty());
    }
}

/// Panics before there is a future of it.
struct Hasty;

impl Handler for Hasty {
    type State = ();
    type Error = String;

    fn entity(&self, _: &Delivery) -> EntityKey {
        EntityKey::new("7")
    }

    fn handle(
        &self,
        (): &mut (),
        message: &Delivery,
        _: &mut Outputs,
    ) -> impl Future<Output = Result<(), String>> + Send {
        assert!(message.message.payload.is_empty(), "too hasty");
        async { Ok(()) }
    }
}

#[tokio::test]
async fn a_handler_that_panics_before_its_future_fails_the_message() {
    let processor = Processor::builder("hasty", Arc::new(MemoryDocuments::new()), Hasty).build().unwrap();
    let processed = processor.process(&Message::new("carts.fill", "book").key(7).into()).await;
    assert!(processed.to_string().contains("panicked: too hasty"), "{processed}");
}

#[tokio::test]
async fn outputs_that_could_not_be_sent_are_sent_by_the_next_delivery_with_the_same_ids() {
    for mode in MODES {
        // The answer to the first call is lost, and the second one fails.
        let broker = MemoryBroker::recording().with_script(|_, nth| match nth {
            0 => Answer::LoseReply,
            1 => Answer::Fail(ErrorKind::Unavailable),
            _ => Answer::Accept,
        });
        let scene = Scene::over(mode, Arc::new(MemoryDocuments::new()), broker);
        let book = scene.delivery("book").await;
        let processed = scene.processor().process(&book).await;
        assert!(matches!(processed, Processed::Again { lapse: Lapse::Unknown, error: Some(_) }), "{processed}");
        let processed = scene.processor().process(&book).await;
        assert!(matches!(processed, Processed::Again { lapse: Lapse::Away, error: Some(_) }), "{processed}");
        assert!(matches!(scene.processor().process(&book).await, Processed::Resumed));
        assert!(matches!(scene.processor().process(&book).await, Processed::Repeat));
        assert_eq!(scene.items().await, ["book"]);
        let sent = scene.broker.messages();
        assert_eq!(sent.len(), 2);
        assert_eq!((&sent[0].message.id, &sent[0].message.payload), (&sent[1].message.id, &sent[1].message.payload));
        assert_eq!(scene.left().await, 0);
    }
}

#[tokio::test]
async fn outputs_before_one_that_is_refused_for_good_go_once_however_often_their_message_is_tried() {
    for mode in MODES {
        // Two tries refuse the saucer, in one call each; then somebody has widened the topic.
        let refused = AtomicU64::new(0);
        let broker = MemoryBroker::recording().with_script(move |outgoing, _| {
            let is_refused = outgoing.message.payload == "saucer" && refused.fetch_add(1, Ordering::SeqCst) < 2;
            if is_refused { Answer::Fail(ErrorKind::Rejected) } else { Answer::Accept }
        });
        let scene = Scene::over(mode, Arc::new(MemoryDocuments::new()), broker);
        let processor = scene.processor();
        let set = scene.delivery("set").await;
        assert!(matches!(processor.process(&set).await, Processed::Again { lapse: Lapse::Away, error: Some(_) }));
        scene.passes(Duration::from_secs(31));
        let kept = processor.keep_up().await.unwrap();
        assert_eq!((kept.finished, kept.stuck.len()), (0, 1), "{mode:?}");
        assert_eq!(scene.sent(), ["cup"], "{mode:?}");
        scene.passes(Duration::from_secs(31));
        assert_eq!(processor.keep_up().await.unwrap().finished, 1, "{mode:?}");
        assert_eq!(scene.sent(), ["cup", "saucer", "spoon"], "{mode:?}");
        assert!(matches!(processor.process(&set).await, Processed::Repeat));
        assert!(matches!(processor.process(&scene.delivery("set").await).await, Processed::Applied));
        assert_eq!(scene.sent().len(), 6, "another message's outputs are others: {mode:?}");
    }
}

/// A broker that takes everything of a set but the saucer.
fn without_saucers() -> MemoryBroker {
    MemoryBroker::recording().with_script(|outgoing, _| match &outgoing.message.payload[..] {
        b"saucer" => Answer::Fail(ErrorKind::Rejected),
        _ => Answer::Accept,
    })
}

fn with_dead_letters(scene: &Scene, dead: &Arc<MemoryBroker>) -> Processor<Carts> {
    let broker: Arc<dyn Broker> = Arc::<MemoryBroker>::clone(&scene.broker);
    let dead: Arc<dyn Broker> = Arc::<MemoryBroker>::clone(dead);
    let builder = scene.builder_over(Arc::clone(&scene.store), broker);
    builder.dead_letters(dead, Destination::new("dead.carts")).build().unwrap()
}

#[tokio::test]
async fn an_output_that_is_refused_at_every_attempt_becomes_a_dead_letter_and_what_is_behind_it_goes() {
    for mode in MODES {
        let scene = Scene::over(mode, Arc::new(MemoryDocuments::new()), without_saucers());
        let dead = Arc::new(MemoryBroker::recording());
        let processor = with_dead_letters(&scene, &dead);
        let set = scene.delivery("set").await;
        for attempt in 1..10 {
            let processed = processor.process(&set).await;
            assert!(matches!(processed, Processed::Again { .. }), "{mode:?}, attempt {attempt}: {processed}");
        }
        assert_eq!((scene.sent(), dead.accepted()), (vec!["cup".to_owned()], 0), "{mode:?}");
        assert!(matches!(processor.process(&set).await, Processed::Resumed), "{mode:?}");
        assert_eq!(scene.sent(), ["cup", "spoon"], "{mode:?}");
        let letters = dead.messages();
        assert_eq!(letters.len(), 1, "{mode:?}");
        let given_up = letters[0].given_up.clone().unwrap();
        assert_eq!(
            (&letters[0].message.payload[..], letters[0].destination.to_string()),
            (&b"saucer"[..], "dead.carts".into())
        );
        assert_eq!((given_up.reason, given_up.attempts), (DeadReason::Attempts, 10), "{mode:?}");
        assert!(matches!(processor.process(&set).await, Processed::Repeat), "{mode:?}");
        assert!(matches!(processor.process(&scene.delivery("book").await).await, Processed::Applied), "{mode:?}");
    }
}

#[tokio::test]
async fn an_output_that_meets_an_outage_is_not_given_up() {
    let broker = MemoryBroker::recording().with_script(|_, _| Answer::Fail(ErrorKind::Unavailable));
    let scene = Scene::over(Mode::InDocument, Arc::new(MemoryDocuments::new()), broker);
    let dead = Arc::new(MemoryBroker::recording());
    let processor = with_dead_letters(&scene, &dead);
    let set = scene.delivery("set").await;
    for _ in 0..30 {
        assert!(matches!(processor.process(&set).await, Processed::Again { .. }));
    }
    assert_eq!(dead.accepted(), 0);
}

#[tokio::test]
async fn an_output_stays_until_its_dead_letter_is_accepted() {
    let scene = Scene::over(Mode::InDocument, Arc::new(MemoryDocuments::new()), without_saucers());
    let dead = MemoryBroker::recording().with_script(|_, nth| match nth {
        0 => Answer::Fail(ErrorKind::Unavailable),
        _ => Answer::Accept,
    });
    let dead = Arc::new(dead);
    let processor = with_dead_letters(&scene, &dead);
    let set = scene.delivery("set").await;
    for _ in 0..10 {
        assert!(matches!(processor.process(&set).await, Processed::Again { .. }));
    }
    assert_eq!((scene.sent(), dead.accepted()), (vec!["cup".to_owned()], 0));
    assert!(matches!(processor.process(&set).await, Processed::Resumed));
    assert_eq!((scene.sent(), dead.accepted()), (vec!["cup".to_owned(), "spoon".to_owned()], 1));
}

#[tokio::test]
async fn what_one_message_left_the_next_one_of_the_entity_finishes_first() {
    for mode in MODES {
        let broker = MemoryBroker::recording().with_script(|_, nth| match nth {
            0 => Answer::Fail(ErrorKind::Unavailable),
            _ => Answer::Accept,
        });
        let scene = Scene::over(mode, Arc::new(MemoryDocuments::new()), broker);
        let book = scene.delivery("book").await;
        assert!(!scene.processor().process(&book).await.is_over());
        assert!(matches!(scene.processor().process(&scene.delivery("pen").await).await, Processed::Applied));
        assert_eq!(scene.sent(), ["book is number 0", "pen is number 1"]);
        assert!(matches!(scene.processor().process(&book).await, Processed::Repeat));
        assert_eq!((scene.items().await, scene.left().await), (vec!["book".to_owned(), "pen".to_owned()], 0));
    }
}

#[tokio::test]
async fn what_nobody_delivers_again_is_finished_by_keeping_up_and_not_before_its_time() {
    for mode in MODES {
        let broker = MemoryBroker::recording().with_script(|_, nth| match nth {
            0 => Answer::Fail(ErrorKind::Unavailable),
            _ => Answer::Accept,
        });
        let scene = Scene::over(mode, Arc::new(MemoryDocuments::new()), broker);
        assert!(!scene.processor().process(&scene.delivery("book").await).await.is_over());
        scene.passes(Duration::from_secs(29));
        assert_eq!(scene.processor().keep_up().await.unwrap().finished, 0);
        scene.passes(Duration::from_secs(2));
        assert_eq!(scene.processor().keep_up().await.unwrap().finished, 1);
        assert_eq!((scene.sent(), scene.left().await), (vec!["book is number 0".to_owned()], 0));
        assert_eq!(scene.processor().keep_up().await.unwrap().finished, 0);
    }
}

#[tokio::test]
async fn an_output_with_a_time_of_its_own_is_sent_then_and_keeps_nobody_waiting() {
    for mode in MODES {
        let scene = Scene::new(mode);
        assert!(matches!(scene.processor().process(&scene.delivery("later").await).await, Processed::Applied));
        assert!(matches!(scene.processor().process(&scene.delivery("book").await).await, Processed::Applied));
        assert_eq!(scene.sent(), ["book is number 1"]);
        scene.passes(Duration::from_secs(3_599));
        assert_eq!(scene.processor().keep_up().await.unwrap().sent, 0);
        scene.passes(Duration::from_secs(1));
        assert_eq!(scene.processor().keep_up().await.unwrap().sent, 1);
        assert_eq!(scene.processor().keep_up().await.unwrap().sent, 0);
        assert_eq!(scene.sent(), ["book is number 1", "later"]);
    }
}

#[tokio::test]
async fn many_at_once_have_one_effect_each() {
    for mode in MODES {
        many_at_once(Scene::new(mode)).await;
    }
}

/// Twelve messages of one entity, each delivered twice, at once.
pub async fn many_at_once(scene: Scene) {
    let mut deliveries = Vec::new();
    for n in 0..12 {
        deliveries.push(scene.delivery(&format!("item {n}")).await);
    }
    let mut running = tokio::task::JoinSet::new();
    for delivery in deliveries.iter().chain(&deliveries) {
        let (processor, delivery) = (scene.processor(), delivery.clone());
        running.spawn(async move {
            while !processor.process(&delivery).await.is_over() {
                tokio::task::yield_now().await;
            }
        });
    }
    running.join_all().await;
    let mut items = scene.items().await;
    items.sort_unstable();
    items.dedup();
    assert_eq!((items.len(), scene.items().await.len(), scene.left().await), (12, 12, 0));
}

#[tokio::test]
async fn a_message_that_sends_nothing_is_one_write_where_its_id_stays_in_the_document() {
    let scene = Scene::new(Mode::InDocument);
    assert!(matches!(scene.processor().process(&scene.delivery("quiet").await).await, Processed::Applied));
    let entries = &scene.document().await.unwrap()["entries"];
    assert!(entries[0].get("outputs").is_none(), "{entries}");
}

#[tokio::test]
async fn what_is_too_large_is_told_before_anything_happened() {
    for mode in MODES {
        let store = Arc::new(MemoryDocuments::new().limit(600));
        let scene = Scene::over(mode, store, MemoryBroker::recording());
        assert!(matches!(scene.processor().process(&scene.delivery("book").await).await, Processed::Applied));
        let long = scene.delivery(&"x".repeat(600)).await;
        let processed = scene.processor().process(&long).await;
        assert!(matches!(processed, Processed::TooLarge { limit: 600, actual } if actual > 600), "{processed}");
        assert!(processed.to_string().contains("send less at once"), "{processed}");
        assert_eq!((scene.items().await, scene.sent().len()), (vec!["book".to_owned()], 1));
    }
}

#[tokio::test]
async fn of_two_messages_with_one_id_the_second_is_a_repeat_whatever_it_says() {
    for mode in MODES {
        let scene = Scene::new(mode);
        let book = scene.delivery("book").await;
        let mut other = book.clone();
        other.message.payload = "pen".into();
        assert!(matches!(scene.processor().process(&book).await, Processed::Applied));
        assert!(matches!(scene.processor().process(&other).await, Processed::Repeat));
        assert_eq!(scene.items().await, ["book"]);
    }
}

/// Else it is committed, and every later message of the entity waits for an output that nobody can send.
#[tokio::test]
async fn an_output_that_has_no_place_is_refused_before_anything_is_committed() {
    let allowed = AllowList::default().allow(Placeholder::Key, ["nobody"]).unwrap();
    let nowhere = DestinationTemplate::allowing("carts.{key}", &allowed).unwrap();
    for mode in MODES {
        let scene = Scene::new(mode);
        let builder = scene.builder_over(Arc::clone(&scene.store), Arc::clone(&scene.broker) as _);
        let processor = builder.broker(Arc::clone(&scene.broker) as _, nowhere.clone()).build().unwrap();
        let book = scene.delivery("book").await;
        let processed = processor.process(&book).await;
        assert!(
            matches!(&processed, Processed::Failed(error) if error.to_string().contains("has no place")),
            "{processed}"
        );
        assert!(scene.document().await.is_none() && scene.sent().is_empty());
        assert!(matches!(scene.processor().process(&book).await, Processed::Applied), "with a place it goes");
    }
}
