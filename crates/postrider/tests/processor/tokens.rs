//! Tokens: what is kept is what is in flight.

use std::sync::Arc;
use std::time::Duration;

use postrider::brokers::memory::{Answer, MemoryBroker};
use postrider::documents::memory::MemoryDocuments;
use postrider::{
    Delivery, DestinationTemplate, EntityKey, Handler, Lapse, Message, Outputs, Processed, Processor, TOKEN_HEADER,
};
use postrider_core::ErrorKind;

use crate::scene::{Mode, Scene};

/// The receiver of what carts send: it counts, and sends nothing.
struct Totals;

impl Handler for Totals {
    type State = u64;
    type Error = std::convert::Infallible;

    fn entity(&self, _message: &Delivery) -> EntityKey {
        EntityKey::new("all")
    }

    async fn handle(&self, count: &mut u64, _message: &Delivery, _out: &mut Outputs) -> Result<(), Self::Error> {
        *count += 1;
        Ok(())
    }
}

fn totals(scene: &Scene) -> Processor<Totals> {
    let builder =
        Processor::builder("totals", Arc::clone(&scene.store), Totals).collection(scene.collection("totals").as_str());
    builder.broker(Arc::clone(&scene.broker) as _, DestinationTemplate::topic()).tokens(scene.tokens()).build().unwrap()
}

#[tokio::test]
async fn of_messages_that_went_through_two_receivers_nothing_is_left_and_repeats_have_no_effect() {
    let scene = Scene::new(Mode::Tokens);
    let mut carts = Vec::new();
    for n in 0..5 {
        carts.push(scene.delivery(&format!("item {n}")).await);
    }
    for cart in carts.iter().chain(&carts) {
        assert!(scene.processor().process(cart).await.is_over());
    }
    assert_eq!(scene.tokens_left().await, 5, "those of the outputs");
    let totals = totals(&scene);
    let sent = scene.delivered();
    assert!(sent.iter().all(|delivery| delivery.token().is_some()));
    for delivery in sent.iter().chain(&sent) {
        assert!(totals.process(delivery).await.is_over());
    }
    assert_eq!(scene.tokens_left().await, 0);
    for cart in &carts {
        assert!(matches!(scene.processor().process(cart).await, Processed::Repeat));
    }
    assert_eq!(scene.items().await.len(), 5);
    let entities = scene.document().await.unwrap();
    assert!(entities.get("entries").is_none(), "{entities}");
}

#[tokio::test]
async fn a_message_without_a_token_fails_and_one_whose_token_is_gone_is_a_repeat() {
    let scene = Scene::new(Mode::Tokens);
    let bare = Message::new("carts.fill", "book").key(7).into();
    let processed = scene.processor().process(&bare).await;
    assert!(matches!(&processed, Processed::Failed(error) if error.to_string().contains(TOKEN_HEADER)), "{processed}");
    let book = scene.delivery("book").await;
    scene.tokens().revoke(book.token().unwrap()).await.unwrap();
    scene.tokens().revoke(book.token().unwrap()).await.unwrap();
    assert!(matches!(scene.processor().process(&book).await, Processed::Repeat));
    assert!(scene.document().await.is_none_or(|document| document["state"].is_null()));
}

#[tokio::test]
async fn an_output_is_not_processed_before_its_token_is_valid() {
    // The broker takes the output and its answer is lost: it is delivered while its sender is not done.
    let broker = MemoryBroker::recording().with_script(|_, nth| match nth {
        0 => Answer::Fail(ErrorKind::Unavailable),
        _ => Answer::Accept,
    });
    let scene = Scene::over(Mode::Tokens, Arc::new(MemoryDocuments::new()), broker);
    assert!(!scene.processor().process(&scene.delivery("book").await).await.is_over());
    let tokens = scene.tokens().outstanding(None, 10).await.unwrap();
    assert_eq!(tokens.len(), 2, "its own, and that of its output, which is valid before it is sent");
    // A token that an attempt made which is not committed.
    let scene = Scene::new(Mode::Tokens);
    let book = scene.delivery("book").await;
    let gated = scene.gated();
    let mut running = Box::pin(gated.process(&book));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    while scene.tokens_left().await < 2 {
        let _ = std::future::Future::poll(running.as_mut(), &mut context);
    }
    drop(running);
    let all = scene.tokens().outstanding(None, 10).await.unwrap();
    let pending = all.into_iter().find(|token| Some(*token) != book.token()).unwrap();
    let early: Delivery = Message::new("carts.filled", "x").header(TOKEN_HEADER, pending.to_string()).into();
    let processed = totals(&scene).process(&early).await;
    assert!(matches!(processed, Processed::Again { lapse: Lapse::TokenPending, .. }), "{processed}");
    scene.passes(Duration::from_secs(3_599));
    assert_eq!(scene.processor().keep_up().await.unwrap().swept, 0);
    scene.passes(Duration::from_secs(2));
    assert_eq!(totals(&scene).keep_up().await.unwrap().swept, 0, "it is not this consumer's");
    let elsewhere =
        scene.builder_over(Arc::clone(&scene.store), Arc::clone(&scene.broker) as _).collection("elsewhere");
    assert_eq!(elsewhere.build().unwrap().keep_up().await.unwrap().swept, 0, "it is of another collection's entity");
    assert_eq!(scene.processor().keep_up().await.unwrap().swept, 1);
    assert!(matches!(scene.processor().process(&book).await, Processed::Applied));
    assert_eq!((scene.items().await.len(), scene.tokens_left().await), (1, 1));
}

#[tokio::test]
async fn the_token_of_an_output_that_expired_is_gone_with_it() {
    let scene = Scene::new(Mode::Tokens);
    assert!(matches!(scene.processor().process(&scene.delivery("expired").await).await, Processed::Applied));
    assert_eq!((scene.sent().len(), scene.tokens_left().await), (0, 0));
}

#[tokio::test]
async fn an_output_with_a_time_of_its_own_keeps_its_token_until_then() {
    let scene = Scene::new(Mode::Tokens);
    assert!(matches!(scene.processor().process(&scene.delivery("later").await).await, Processed::Applied));
    scene.passes(Duration::from_secs(7_200));
    let kept = scene.processor().keep_up().await.unwrap();
    assert_eq!((kept.sent, kept.swept, scene.tokens_left().await), (1, 0, 1));
    assert!(totals(&scene).process(&scene.delivered()[0]).await.is_over());
    assert_eq!(scene.tokens_left().await, 0);
}

#[tokio::test]
async fn a_token_that_was_used_does_not_come_back_when_its_output_is_sent_again() {
    let broker = MemoryBroker::recording().with_script(|_, nth| match nth {
        0 => Answer::LoseReply,
        _ => Answer::Accept,
    });
    let scene = Scene::over(Mode::Tokens, Arc::new(MemoryDocuments::new()), broker);
    let (book, totals) = (scene.delivery("book").await, totals(&scene));
    assert!(!scene.processor().process(&book).await.is_over());
    assert!(matches!(totals.process(&scene.delivered()[0]).await, Processed::Applied));
    assert!(matches!(scene.processor().process(&book).await, Processed::Resumed));
    let sent = scene.delivered();
    assert_eq!((sent.len(), sent[0].token()), (2, sent[1].token()));
    assert!(matches!(totals.process(&sent[1]).await, Processed::Repeat));
    assert_eq!(scene.tokens_left().await, 0);
}

#[tokio::test]
async fn a_sweep_leaves_what_a_committed_message_still_needs() {
    let scene = Scene::new(Mode::Tokens);
    let book = scene.delivery("book").await;
    let gated = scene.gated();
    let mut running = Box::pin(gated.process(&book));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    while scene.document().await.is_none() {
        let _ = std::future::Future::poll(running.as_mut(), &mut context);
    }
    drop(running);
    scene.passes(Duration::from_secs(7_200));
    let patient = scene.builder_over(Arc::clone(&scene.store), Arc::clone(&scene.broker) as _);
    let patient = patient.resume_after(Duration::from_secs(86_400)).build().unwrap();
    let kept = patient.keep_up().await.unwrap();
    assert_eq!((kept.finished, kept.swept), (0, 0));
    assert!(matches!(scene.processor().process(&book).await, Processed::Resumed));
    assert!(matches!(totals(&scene).process(&scene.delivered()[0]).await, Processed::Applied));
    assert_eq!(scene.tokens_left().await, 0);
}

/// A token that a newer program wrote is neither used nor deleted.
#[tokio::test]
async fn a_token_that_this_program_does_not_know_is_an_error_and_stays_as_it_is() {
    let scene = Scene::new(Mode::Tokens);
    let message = scene.delivery("book").await;
    let newer = "{\"format\":2,\"state\":\"active\"}";
    let key = scene.put("tokens", &message.token().unwrap().to_string(), newer).await;
    let processed = scene.processor().process(&message).await;
    assert!(!processed.is_over() && processed.to_string().contains("upgrade this one"), "{processed}");
    let kept = scene.processor().keep_up().await.unwrap();
    assert_eq!((kept.stuck.len(), kept.stuck[0].0.as_str()), (1, key.name()));
    assert_eq!(scene.store.load(&key).await.unwrap().unwrap().json, newer);
    assert!(matches!(scene.processor().process(&scene.delivery("pen").await).await, Processed::Applied));
}
