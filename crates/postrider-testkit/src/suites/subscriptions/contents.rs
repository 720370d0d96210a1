//! What comes, beside what was published.

use std::time::Instant;

use bytes::Bytes;
use postrider_core::{Message, TOKEN_HEADER};

use super::hands::{comes_next, over, publish, read, take, taken};
use super::{Foreign, Harness, message};

/// The message with its headers in the order of their names: what a broker may not keep is their order.
fn ordered(message: &Message) -> Message {
    let mut headers: Vec<(String, String)> =
        message.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    headers.sort();
    Message { headers: headers.into_iter().collect(), ..message.clone() }
}

/// Publishes through our broker and demands that each comes once and is equal in everything.
async fn comes_as_it_was(harness: &Harness, messages: Vec<Message>) {
    for message in &messages {
        message.validate().expect("the suite's own message is legal");
    }
    publish(harness, &messages).await;
    let from = harness.subscribe("reader");
    let mut came: Vec<Message> = Vec::new();
    for incoming in taken(harness, &from, messages.len()).await {
        assert_eq!(incoming.payload, read(&incoming).payload, "the bytes as they came are not those of the message");
        came.push(read(&incoming).clone());
        over(harness, incoming).await;
    }
    for message in &messages {
        let found: Vec<&Message> = came.iter().filter(|found| found.id == message.id).collect();
        assert_eq!(found.len(), 1, "message {} came {} times", message.id, found.len());
        assert_eq!(ordered(found[0]), ordered(message));
    }
}

pub(super) async fn id_key_topic_and_media_type_come_as_they_were(harness: Harness) {
    let messages = vec![
        message("bare"),
        message("keyed").key("customer 42/\u{fc}"),
        message("typed").content_type("application/json; charset=utf-8"),
        message("all").key("k").content_type("text/plain").header("tenant", "blue").correlation_id("c-7"),
        Message::new("another.topic", "elsewhere"),
        Message::new("orders.placed", "foreign id").id("01234567-89ab-4def-8123-456789abcdef".parse().expect("a UUID")),
    ];
    comes_as_it_was(&harness, messages).await;
}

pub(super) async fn payloads_come_byte_for_byte(harness: Harness) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = (0..900_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    let payloads = [
        Bytes::new(),
        Bytes::from_static(b"\0"),
        Bytes::from_static(b"\xff\xfe\0\0"),
        Bytes::from_static(b"line\r\nline\n"),
        Bytes::from_static("{\"text\": \"gr\u{fc}\u{df}e \u{2028} \u{1f600}\"}".as_bytes()),
        Bytes::from(every_byte),
        Bytes::from(large),
    ];
    comes_as_it_was(&harness, payloads.into_iter().map(message).collect()).await;
}

pub(super) async fn headers_come_as_they_were(harness: Harness) {
    let mut unusual = message("x").header("!#$%&'*+-.^_`|~09az", "odd name").header("x-long", "v".repeat(2048));
    let values = ["two  blanks", "a\tb", "\"quoted\", comma; semicolon: colon", "gr\u{fc}\u{df}e \u{1f600}", "%0d%0a"];
    for (n, value) in values.iter().enumerate() {
        unusual = unusual.header(format!("x-{n}"), *value);
    }
    let traced = message("y").header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    comes_as_it_was(&harness, vec![unusual, traced, message("z").header("Tenant", "Blue").header("empty", "")]).await;
}

pub(super) async fn a_token_comes_as_it_was(harness: Harness) {
    let token = "0193e0a4-7d5e-7cc3-b3ae-4d2a5e5f7a10";
    comes_as_it_was(&harness, vec![message("x").header(TOKEN_HEADER, token), message("y")]).await;
}

pub(super) async fn a_message_of_another_producer_has_the_same_id_at_every_delivery(harness: Harness) {
    // Two that are alike are two: their producer sent it twice.
    let foreign = Foreign::new("foreign").header("tenant", "blue").header("Content-Type", "text/plain");
    harness.publish_foreign(vec![foreign.clone(), foreign]).await;
    let from = harness.subscribe("reader");
    let mut first = taken(&harness, &from, 2).await;
    let second = first.pop().expect("there are two");
    let first = first.pop().expect("there are two");
    for incoming in [&first, &second] {
        let message = read(incoming);
        assert_eq!((message.payload.as_ref(), incoming.payload.as_ref()), (&b"foreign"[..], &b"foreign"[..]));
        assert_eq!((message.headers.get("tenant"), message.headers.len()), (Some("blue"), 1), "{message:?}");
        assert_eq!((message.content_type.as_deref(), &message.key), (Some("text/plain"), &None));
    }
    assert_ne!(read(&first).id, read(&second).id);
    assert_ne!(first.place, second.place);
    let (place, message) = (second.place.clone(), read(&second).clone());
    over(&harness, first).await;
    second.receipt.release().await.expect("it is given back");
    let until = Instant::now() + harness.patience();
    let again = loop {
        assert!(Instant::now() < until, "what was given back did not come");
        if let Some(again) = take(&harness, &from, 1).await.pop() {
            break again;
        }
    };
    assert_eq!((read(&again), &again.place), (&message, &place), "another delivery of it is another message");
    over(&harness, again).await;
    let ours = message_after(&harness).await;
    over(&harness, comes_next(&harness, &from, &ours).await).await;
}

async fn message_after(harness: &Harness) -> Message {
    let ours = message("after");
    publish(harness, std::slice::from_ref(&ours)).await;
    ours
}
