//! What is forgotten, and what is refused from then on.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use postrider::brokers::memory::{Answer, MemoryBroker};
use postrider::documents::memory::MemoryDocuments;
use postrider::{EntityKey, Message, Processed};
use postrider_core::{Draft, ErrorKind, Revision, Timestamp};
use uuid::Uuid;

use crate::scene::{DAY, Mode, NOON, REMEMBERING, Scene};

/// How many documents there are of known ids.
async fn known(scene: &Scene) -> usize {
    let named = scene.store.due(&scene.collection("known"), Timestamp::NEVER, None, 1_000).await.unwrap();
    named.iter().filter(|key| !key.name().starts_with("floor")).count()
}

#[tokio::test]
async fn what_is_forgotten_is_refused_and_not_handled_again() {
    for mode in REMEMBERING {
        let scene = Scene::new(mode);
        let book = scene.delivery("book").await;
        assert!(matches!(scene.processor().process(&book).await, Processed::Applied));
        scene.passes(7 * DAY - Duration::from_secs(1));
        scene.processor().keep_up().await.unwrap();
        assert!(matches!(scene.processor().process(&scene.delivery("pen").await).await, Processed::Applied));
        assert!(matches!(scene.processor().process(&book).await, Processed::Repeat), "{mode:?}");
        scene.passes(Duration::from_secs(2));
        scene.processor().keep_up().await.unwrap();
        assert!(matches!(scene.processor().process(&scene.delivery("ink").await).await, Processed::Applied));
        let processed = scene.processor().process(&book).await;
        assert!(matches!(processed, Processed::TooOld), "{mode:?}: {processed}");
        assert!(!processed.is_over());
        assert_eq!(scene.items().await, ["book", "pen", "ink"]);
    }
}

#[tokio::test]
async fn ids_that_were_kept_for_long_enough_are_gone() {
    let scene = Scene::new(Mode::KnownIds);
    for n in 0..5 {
        assert!(scene.processor().process(&scene.delivery(&n.to_string()).await).await.is_over());
    }
    assert_eq!(known(&scene).await, 5);
    scene.passes(7 * DAY + Duration::from_secs(1));
    assert_eq!(scene.processor().keep_up().await.unwrap().forgotten, 5);
    assert_eq!(known(&scene).await, 0);
    let scene = Scene::new(Mode::InDocument);
    for _ in 0..20 {
        assert!(scene.processor().process(&scene.delivery("quiet").await).await.is_over());
        scene.passes(DAY);
    }
    let entries = async || scene.document().await.unwrap()["entries"].as_array().map_or(0, Vec::len);
    assert_eq!(entries().await, 8);
    // No message comes any more.
    assert_eq!((scene.processor().keep_up().await.unwrap().forgotten, entries().await), (0, 8));
    scene.passes(7 * DAY);
    assert_eq!((scene.processor().keep_up().await.unwrap().forgotten, entries().await), (8, 0));
    assert_eq!(scene.processor().keep_up().await.unwrap().forgotten, 0);
}

/// One that is late and not older than what is remembered is handled.
#[tokio::test]
async fn a_message_that_is_late_is_handled() {
    for mode in REMEMBERING {
        let scene = Scene::new(mode);
        let late = scene.delivery("late").await;
        scene.passes(6 * DAY);
        assert!(matches!(scene.processor().process(&scene.delivery("book").await).await, Processed::Applied));
        scene.processor().keep_up().await.unwrap();
        assert!(matches!(scene.processor().process(&late).await, Processed::Applied), "{mode:?}");
    }
}

#[tokio::test]
async fn an_id_of_a_time_that_has_not_come_is_remembered_until_it_has() {
    for mode in REMEMBERING {
        let scene = Scene::new(mode);
        scene.passes(30 * DAY);
        let future = scene.delivery("future").await;
        let now = scene.again();
        assert!(matches!(now.processor().process(&future).await, Processed::Applied));
        now.passes(8 * DAY);
        now.processor().keep_up().await.unwrap();
        assert!(matches!(now.processor().process(&now.delivery("pen").await).await, Processed::Applied));
        assert!(matches!(now.processor().process(&future).await, Processed::Repeat), "{mode:?}");
    }
}

#[tokio::test]
async fn an_id_without_a_time_is_a_first_one_when_it_is_forgotten() {
    for mode in REMEMBERING {
        let scene = Scene::new(mode);
        let timeless = Message::new("carts.fill", "book").key(7).id(Uuid::new_v4()).into();
        assert!(matches!(scene.processor().process(&timeless).await, Processed::Applied));
        assert!(matches!(scene.processor().process(&timeless).await, Processed::Repeat));
        scene.passes(8 * DAY);
        scene.processor().keep_up().await.unwrap();
        assert!(matches!(scene.processor().process(&scene.delivery("pen").await).await, Processed::Applied));
        assert!(matches!(scene.processor().process(&timeless).await, Processed::Applied));
    }
}

/// Its window is not over before it can come.
#[tokio::test]
async fn an_output_that_leaves_later_than_ids_are_kept_is_handled() {
    for mode in REMEMBERING {
        let scene = Scene::new(mode);
        assert!(matches!(scene.processor().process(&scene.delivery("in 8 days").await).await, Processed::Applied));
        scene.passes(8 * DAY);
        assert_eq!(scene.processor().keep_up().await.unwrap().sent, 1);
        let reminder = scene.delivered().remove(0);
        let processed = scene.processor().process(&reminder).await;
        assert!(matches!(processed, Processed::Applied), "{mode:?}: {processed}");
        assert!(matches!(scene.processor().process(&reminder).await, Processed::Repeat), "{mode:?}");
    }
}

/// Its delivery still comes: how long it is remembered counts from there.
#[tokio::test]
async fn a_message_that_waited_for_longer_than_ids_are_kept_is_remembered_when_it_is_finished() {
    for mode in REMEMBERING {
        for has_time in [true, false] {
            let broker = MemoryBroker::recording().with_script(|_, nth| match nth {
                0 => Answer::Fail(ErrorKind::Unavailable),
                _ => Answer::Accept,
            });
            let scene = Scene::over(mode, Arc::new(MemoryDocuments::new()), broker);
            let book = match has_time {
                true => scene.delivery("book").await,
                false => Message::new("carts.fill", "book").key(7).id(Uuid::new_v4()).into(),
            };
            assert!(!scene.processor().process(&book).await.is_over());
            scene.passes(8 * DAY);
            assert_eq!(scene.processor().keep_up().await.unwrap().finished, 1);
            let processed = scene.processor().process(&book).await;
            assert!(matches!(processed, Processed::Repeat), "{mode:?}, a time in the id: {has_time}: {processed}");
            assert_eq!(scene.items().await, ["book"]);
        }
    }
}

#[tokio::test]
async fn a_known_id_that_cannot_be_read_stays_and_keeps_no_other_from_being_forgotten() {
    let scene = Scene::new(Mode::KnownIds);
    let nil = format!("{}@carts", Uuid::nil());
    for n in 0..5 {
        assert!(scene.processor().process(&scene.delivery(&n.to_string()).await).await.is_over());
    }
    for json in ["{\"format\":2,\"at\":0}", "{\"format\":1,\"at\":0,\"more\":1}", "[]"] {
        let key = scene.put("known", &nil, json).await;
        scene.passes(8 * DAY);
        let kept = scene.processor().keep_up().await.unwrap();
        assert_eq!((kept.stuck.len(), kept.stuck[0].0.as_str()), (1, key.name()), "{json}");
        assert_eq!(scene.store.load(&key).await.unwrap().unwrap().json, json);
        assert_eq!(known(&scene).await, 1, "{json}");
    }
}

#[tokio::test]
async fn a_document_that_is_not_of_this_processor_is_an_error_and_stays_as_it_is() {
    let documents = [
        ("{\"format\":2,\"consumer\":\"carts\"}", "upgrade this one"),
        ("{\"format\":1,\"consumer\":\"wishes\"}", "its own collection"),
        ("{\"format\":1,\"consumer\":\"carts\",\"more\":1}", "no entity of a processor"),
        ("{\"total\":7}", "it has no format"),
        ("[]", "no entity of a processor"),
    ];
    for (json, why) in documents {
        let scene = Scene::new(Mode::InDocument);
        let key = scene.cart();
        let draft = Draft {
            json: Bytes::from_static(json.as_bytes()),
            due: Some(NOON),
            revision: Revision(Uuid::from_u128(1)),
        };
        scene.store.create(&key, &draft).await.unwrap();
        let processed = scene.processor().process(&scene.delivery("book").await).await;
        assert!(!processed.is_over() && processed.to_string().contains(why), "{processed}");
        let kept = scene.processor().keep_up().await.unwrap();
        assert_eq!((kept.stuck.len(), kept.stuck[0].0.as_str()), (1, "7"));
        assert_eq!(scene.store.load(&key).await.unwrap().unwrap().json, draft.json);
    }
}

#[tokio::test]
async fn a_state_that_the_handler_does_not_know_fails_the_message() {
    let scene = Scene::new(Mode::InDocument);
    let key = scene.cart();
    let json = Bytes::from_static(b"{\"format\":1,\"consumer\":\"carts\",\"state\":{\"items\":7}}");
    let draft = Draft { json, due: None, revision: Revision(Uuid::from_u128(1)) };
    scene.store.create(&key, &draft).await.unwrap();
    let processed = scene.processor().process(&scene.delivery("book").await).await;
    assert!(processed.to_string().contains("/7 is not one of this handler"), "{processed}");
    let error = scene.processor().state(&EntityKey::new("7")).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("/7 is not one of this handler"), "{error}");
}

#[tokio::test]
async fn the_state_of_an_entity_is_what_its_last_message_left() {
    let scene = Scene::new(Mode::InDocument);
    let cart = EntityKey::new("7");
    assert!(scene.processor().state(&cart).await.unwrap().is_none());
    assert!(matches!(scene.processor().process(&scene.delivery("book").await).await, Processed::Applied));
    assert_eq!(scene.processor().state(&cart).await.unwrap().unwrap().items, ["book"]);
    let error = scene.processor().state(&EntityKey::new("")).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
}
