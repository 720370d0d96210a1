//! What is deleted, purged and made again while it is read.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{ErrorKind, Incoming};

use crate::scene::{Scene, failing, fit, orders, over, payloads, take, taken};

#[tokio::test]
async fn a_consumer_that_is_deleted_is_told_once_and_made_again_from_the_beginning() {
    let scene = Scene::start().await;
    scene.publish(&["1", "2"]).await;
    let from = scene.subscribe();
    over(taken(&from, 2).await).await;
    // While a take waits, and between two.
    for _ in 0..2 {
        let waiting = {
            let from = std::sync::Arc::clone(&from);
            tokio::spawn(async move { failing(&from).await })
        };
        tokio::task::yield_now().await;
        scene.context.delete_consumer_from_stream("invoices", "ORDERS").await.unwrap();
        let error = waiting.await.unwrap();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("was deleted while it was read; it is made again"), "{error}");
        let again = taken(&from, 2).await;
        assert_eq!(payloads(&again), ["1", "2"]);
        over(again).await;
        assert!(take(&from, 10).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_receipt_of_a_consumer_that_is_deleted_says_so() {
    let scene = Scene::start().await;
    scene.publish(&["1"]).await;
    let from = scene.subscribe();
    let incoming = taken(&from, 1).await.remove(0);
    scene.context.delete_consumer_from_stream("invoices", "ORDERS").await.unwrap();
    let error = incoming.receipt.acknowledge().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("ORDERS/1") && error.to_string().contains("not there any more"), "{error}");
    assert_eq!(payloads(&taken(&from, 1).await), ["1"]);
}

#[tokio::test]
async fn a_consumer_that_somebody_makes_again_in_another_way_is_refused_until_it_is_put_right() {
    let scene = Scene::start().await;
    scene.publish(&["1"]).await;
    let from = scene.subscribe();
    over(taken(&from, 1).await).await;
    scene.context.delete_consumer_from_stream("invoices", "ORDERS").await.unwrap();
    scene.make(async_nats::jetstream::consumer::Config { max_deliver: 2, ..fit() }).await;
    let error = failing(&from).await;
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("max_deliver"), "{error}");
    scene.context.delete_consumer_from_stream("invoices", "ORDERS").await.unwrap();
    scene.make(fit()).await;
    assert_eq!(payloads(&taken(&from, 1).await), ["1"]);
}

#[tokio::test]
async fn a_stream_that_is_deleted_is_told_until_it_is_made_again_and_what_lies_there_then_is_new() {
    let scene = Scene::start().await;
    scene.publish(&["same"]).await;
    let from = scene.subscribe();
    let mut seen = HashSet::new();
    let first = taken(&from, 1).await;
    assert_eq!(first[0].place.as_str(), "ORDERS/1");
    seen.insert(first[0].message.as_ref().unwrap().id);
    over(first).await;
    scene.context.delete_stream("ORDERS").await.unwrap();
    for _ in 0..2 {
        let error = failing(&from).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
    assert!(failing(&from).await.to_string().contains("nats stream add"));
    scene.context.create_stream(orders()).await.unwrap();
    scene.publish(&["same"]).await;
    let again = taken(&from, 1).await;
    assert_eq!(again[0].place.as_str(), "ORDERS/1");
    // The same bytes at the same place, and no repeat: an inbox must not take it for one.
    assert!(seen.insert(again[0].message.as_ref().unwrap().id));
}

#[tokio::test]
async fn a_purged_stream_is_empty_and_nothing_more() {
    let scene = Scene::start().await;
    scene.publish(&["1", "2", "3"]).await;
    let from = scene.subscribe();
    let held = taken(&from, 1).await;
    scene.context.get_stream("ORDERS").await.unwrap().purge().await.unwrap();
    assert!(take(&from, 10).await.unwrap().is_empty());
    over(held).await;
    scene.publish(&["4"]).await;
    assert_eq!(payloads(&taken(&from, 1).await), ["4"]);
}

/// Deletes the stream and makes it again, with one message at the place of the old one.
async fn again(scene: &Scene) {
    scene.context.delete_stream("ORDERS").await.unwrap();
    scene.context.create_stream(orders()).await.unwrap();
    scene.make(fit()).await;
    scene.publish(&["new"]).await;
}

/// Says late words about the message of the old stream while another member has the one that lies there now, and dies: it
/// comes again.
async fn nothing_is_over_by_late_words_about(old: Vec<Incoming>, scene: &Scene) {
    let other = scene.subscribe();
    let new = taken(&other, 1).await;
    assert_eq!((payloads(&new).as_slice(), new[0].place.as_str()), (&["new".to_owned()][..], "ORDERS/1"));
    for incoming in old {
        assert_eq!(incoming.place.as_str(), "ORDERS/1");
        let error = incoming.receipt.extend().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
        assert!(error.to_string().contains("ORDERS/1") && error.to_string().contains("was deleted"), "{error}");
        assert_eq!(incoming.receipt.acknowledge().await.unwrap_err().kind(), ErrorKind::Fenced);
    }
    drop(new);
    other.close().await;
    let once_more = taken(&scene.subscribe(), 1).await;
    assert_eq!((payloads(&once_more).as_slice(), once_more[0].deliveries), (&["new".to_owned()][..], Some(2)));
}

#[tokio::test]
async fn a_word_about_a_message_of_a_stream_that_is_no_more_ends_none_of_the_next_one() {
    let scene = Scene::start().await;
    scene.publish(&["old"]).await;
    let from = scene.subscribe();
    let old = taken(&from, 1).await;
    let waiting = {
        let from = Arc::clone(&from);
        tokio::spawn(async move { take(&from, 1).await })
    };
    let stream = scene.context.get_stream("ORDERS").await.unwrap();
    while stream.consumer_info("invoices").await.unwrap().num_waiting == 0 {
        assert!(!waiting.is_finished(), "it was over before the stream was deleted");
    }
    scene.context.delete_stream("ORDERS").await.unwrap();
    assert!(waiting.await.unwrap().is_err());
    scene.context.create_stream(orders()).await.unwrap();
    scene.publish(&["new"]).await;
    nothing_is_over_by_late_words_about(old, &scene).await;
}

#[tokio::test]
async fn who_has_not_looked_for_a_while_looks_before_saying_a_word() {
    let scene = Scene::start().await;
    scene.publish(&["old"]).await;
    let from = scene.subscribe();
    let old = taken(&from, 1).await;
    again(&scene).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    nothing_is_over_by_late_words_about(old, &scene).await;
}

#[tokio::test]
async fn a_consumer_that_counts_from_the_beginning_is_another_one() {
    let scene = Scene::start().await;
    scene.publish(&["old"]).await;
    let from = scene.subscribe();
    let old = taken(&from, 1).await.remove(0);
    again(&scene).await;
    let new = taken(&from, 1).await.remove(0);
    assert_eq!((&new.payload[..], new.place.as_str()), (&b"new"[..], "ORDERS/1"));
    let error = old.receipt.acknowledge().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    new.receipt.extend().await.unwrap();
    drop(new);
    assert_eq!(taken(&from, 1).await[0].deliveries, Some(2));
}
