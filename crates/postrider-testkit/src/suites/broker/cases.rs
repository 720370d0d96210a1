//! Quiet running.

use std::sync::Arc;

use bytes::Bytes;
use postrider_core::{Broker, Confirmation, Level, Message, OrderInBatch, Outgoing, Published};

use super::{Deduplication, Harness, Received, message, outgoing};

/// Publishes everything in batches that the profile allows, demanding one result per message.
pub(super) async fn publish(harness: &Harness, messages: Vec<Message>) -> Vec<Published> {
    let broker = harness.broker();
    let destination = harness.destination();
    let profile = broker.profile();
    // Without order in a batch, the relay sends one message of a key at a time; the suite sends one at a time.
    let size = if profile.order == OrderInBatch::Kept { profile.max_batch } else { 1 };
    assert!(size > 0 && profile.max_concurrent > 0, "the profile allows nothing: {profile:?}");
    let outgoing: Vec<Outgoing> = messages.into_iter().map(|message| outgoing(message, &destination)).collect();
    let mut results = Vec::new();
    for batch in outgoing.chunks(size) {
        results.extend(call(harness, &broker, batch).await);
    }
    results
}

/// One call, within the deadline, with one result per message.
pub(super) async fn call(harness: &Harness, broker: &Arc<dyn Broker>, batch: &[Outgoing]) -> Vec<Published> {
    let results = tokio::time::timeout(harness.deadline(), broker.publish(batch)).await;
    let results = results.expect("publish did not end within the broker's own deadline");
    assert_eq!(results.len(), batch.len(), "one result per message");
    results
}

/// Publishes everything, demanding that it is accepted.
pub(super) async fn accepted(harness: &Harness, messages: Vec<Message>) {
    for (n, result) in publish(harness, messages).await.into_iter().enumerate() {
        assert!(matches!(result, Published::Accepted(_)), "message {n}: {result:?}");
    }
}

/// What arrived of one message.
pub(super) fn of<'a>(received: &'a [Received], message: &Message) -> Vec<&'a Received> {
    let id = message.id.to_string();
    received.iter().filter(|received| received.header("postrider-id") == Some(&id)).collect()
}

/// What arrived of one message, demanding that it is there once.
fn once<'a>(received: &'a [Received], message: &Message) -> &'a Received {
    match of(received, message)[..] {
        [received] => received,
        ref found => panic!("message {} arrived {} times", message.id, found.len()),
    }
}

pub(super) async fn every_message_gets_one_result_in_order_and_arrives(harness: Harness) {
    let messages: Vec<Message> = (0..200)
        .map(|n: i32| match n % 21 {
            20 => message(format!("payload {n}")),
            key => message(format!("payload {n}")).key(key),
        })
        .collect();
    accepted(&harness, messages.clone()).await;
    let received = harness.received().await;
    for message in &messages {
        assert_eq!(once(&received, message).payload, message.payload);
    }
    assert_eq!(received.len(), messages.len());
}

pub(super) async fn an_empty_batch_gets_an_empty_answer(harness: Harness) {
    assert!(call(&harness, &harness.broker(), &[]).await.is_empty());
    assert!(harness.received().await.is_empty());
}

pub(super) async fn payloads_arrive_byte_for_byte(harness: Harness) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let payloads: [Bytes; 7] = [
        Bytes::new(),
        Bytes::from_static(b"\0"),
        Bytes::from_static(b"\xff\xfe\0\0"),
        Bytes::from_static(b"line\r\nline\n"),
        Bytes::from_static("{\"text\": \"gr\u{fc}\u{df}e \u{2028} \u{1f600}\"}".as_bytes()),
        Bytes::from_static(b"\x1f\x8bnot really gzip"),
        Bytes::from(every_byte),
    ];
    let messages: Vec<Message> = payloads.into_iter().map(message).collect();
    accepted(&harness, messages.clone()).await;
    let received = harness.received().await;
    for message in &messages {
        assert_eq!(once(&received, message).payload, message.payload);
    }
}

pub(super) async fn a_payload_of_one_mebibyte_arrives(harness: Harness) {
    let payload: Vec<u8> = (0..1_048_576_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    let large = message(payload);
    accepted(&harness, vec![large.clone()]).await;
    assert!(once(&harness.received().await, &large).payload == large.payload, "the payload changed");
}

pub(super) async fn id_content_type_and_user_headers_arrive(harness: Harness) {
    let full = message("{}")
        .content_type("application/json; charset=utf-8")
        .header("tenant", "blue")
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let bare = message("bare");
    accepted(&harness, vec![full.clone(), bare.clone()]).await;
    let received = harness.received().await;
    let found = once(&received, &full);
    assert_eq!(found.content_type.as_deref(), Some("application/json; charset=utf-8"));
    for (name, value) in full.headers.iter() {
        assert_eq!(found.header(name), Some(value));
    }
    assert_eq!(once(&received, &bare).content_type, None);
    assert_eq!(once(&received, &bare).header("tenant"), None);
}

pub(super) async fn unusual_but_legal_headers_arrive(harness: Harness) {
    let mut unusual = message("x").header("!#$%&'*+-.^_`|~09az", "odd name").header("x-long", "v".repeat(2048));
    let values =
        ["", "two  blanks", "a\tb", "\"quoted\", comma; semicolon: colon", "gr\u{fc}\u{df}e \u{1f600}", "%0d%0a"];
    for (n, value) in values.iter().enumerate() {
        unusual = unusual.header(format!("x-{n}"), *value);
    }
    unusual.validate().expect("the suite's own message is legal");
    accepted(&harness, vec![unusual.clone()]).await;
    let received = harness.received().await;
    let found = once(&received, &unusual);
    for (name, value) in unusual.headers.iter() {
        assert_eq!(found.header(name), Some(value), "header {name}");
    }
}

pub(super) async fn the_wire_headers_arrive(harness: Harness) {
    let keyed = message("keyed").key("customer 42/\u{fc}");
    let keyless = message("keyless");
    accepted(&harness, vec![keyed.clone(), keyless.clone()]).await;
    let received = harness.received().await;
    for message in [&keyed, &keyless] {
        let found = once(&received, message);
        for (name, value) in outgoing(message.clone(), &harness.destination()).wire_headers() {
            assert_eq!(found.header(name), Some(value.as_str()), "header {name}");
        }
    }
    assert_eq!(once(&received, &keyless).header("postrider-key"), None);
}

pub(super) async fn the_same_id_again_is_accepted(harness: Harness) {
    let again = message("again").key("k");
    accepted(&harness, vec![again.clone()]).await;
    accepted(&harness, vec![again.clone()]).await;
    let received = harness.received().await;
    let found = of(&received, &again);
    let expected = if harness.deduplication() == Deduplication::ById { 1 } else { 2 };
    assert_eq!(found.len(), expected);
    for found in found {
        assert_eq!(found.payload, again.payload);
    }
}

pub(super) async fn a_repeat_is_recognised(harness: Harness) {
    let again = message("again");
    let confirmation = |results: Vec<Published>| match results[..] {
        [Published::Accepted(accepted)] => accepted.confirmation,
        ref other => panic!("expected an acceptance, found {other:?}"),
    };
    assert_eq!(confirmation(publish(&harness, vec![again.clone()]).await), Confirmation::Fresh);
    let repeat = confirmation(publish(&harness, vec![again]).await);
    let expected =
        if harness.deduplication() == Deduplication::ById { Confirmation::Duplicate } else { Confirmation::Fresh };
    assert_eq!(repeat, expected);
}

pub(super) async fn the_messages_of_a_key_arrive_in_order(harness: Harness) {
    let messages: Vec<Message> = (0..150).map(|n| message(format!("{n}")).key(format!("key {}", n % 3))).collect();
    accepted(&harness, messages.clone()).await;
    let received = harness.received().await;
    for key in ["key 0", "key 1", "key 2"] {
        let sent = messages.iter().filter(|message| message.key.as_ref().is_some_and(|found| found.as_str() == key));
        let arrived = received.iter().filter(|received| received.header("postrider-key") == Some(key));
        assert!(sent.map(|message| &message.payload).eq(arrived.map(|received| &received.payload)), "{key}");
    }
}

pub(super) async fn as_many_calls_at_once_as_the_profile_says_all_succeed(harness: Harness) {
    let broker = harness.broker();
    let mut calls = tokio::task::JoinSet::new();
    for call in 0..broker.profile().max_concurrent.min(64) {
        let (broker, destination) = (Arc::clone(&broker), harness.destination());
        calls.spawn(async move {
            for n in 0..5 {
                let one = outgoing(message(format!("{call} {n}")).key(call), &destination);
                let results = broker.publish(&[one]).await;
                assert!(matches!(results[..], [Published::Accepted(_)]), "{results:?}");
            }
        });
    }
    let expected = calls.len() * 5;
    while let Some(ended) = calls.join_next().await {
        ended.expect("a concurrent call failed");
    }
    assert_eq!(harness.received().await.len(), expected);
}

pub(super) async fn what_was_accepted_is_there_after_close(harness: Harness) {
    let messages: Vec<Message> = (0..50).map(|n| message(format!("{n}"))).collect();
    accepted(&harness, messages.clone()).await;
    tokio::time::timeout(harness.deadline(), harness.broker().close()).await.expect("close did not end");
    assert_eq!(harness.received().await.len(), messages.len());
    // What comes after close may fail, but it ends and is answered.
    publish(&harness, vec![message("late")]).await;
}

pub(super) async fn check_is_content_with_a_working_place(harness: Harness) {
    let check =
        tokio::time::timeout(harness.deadline(), async { harness.broker().check(&[harness.destination()]).await });
    let findings = check.await.expect("check did not end").expect("check failed");
    assert!(findings.iter().all(|finding| finding.level != Level::Failure), "{findings:?}");
    assert!(harness.received().await.is_empty(), "check sent a message");
}
