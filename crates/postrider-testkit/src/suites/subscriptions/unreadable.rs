//! What lies at the broker and is no message.

use postrider_core::{ErrorKind, Incoming};

use super::hands::{comes_next, over, publish, quiet, read, take, taken};
use super::{Foreign, Harness, message};
use std::time::Duration;

/// What no delivery of it makes a message: its id is none.
fn unreadable() -> Foreign {
    Foreign::new(&b"\xffunreadable"[..]).header("postrider-id", "7").header("postrider-topic", "orders.placed")
}

fn is_rejected(incoming: &Incoming) -> bool {
    match &incoming.message {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
            let (text, place) = (error.to_string(), incoming.place.as_str());
            assert!(text.contains("postrider-id") && text.contains(place), "it does not say what and where: {text}");
            assert!(!text.contains("unreadable"), "the payload is shown: {text}");
            true
        }
    }
}

pub(super) async fn what_can_not_be_read_comes_with_its_payload(harness: Harness) {
    let (before, after) = (message("before").key("k"), message("after").key("k"));
    publish(&harness, std::slice::from_ref(&before)).await;
    harness.publish_foreign(vec![unreadable()]).await;
    publish(&harness, std::slice::from_ref(&after)).await;
    let from = harness.subscribe("reader");
    let came = taken(&harness, &from, 3).await;
    let (bad, good): (Vec<Incoming>, Vec<Incoming>) = came.into_iter().partition(is_rejected);
    assert_eq!((bad.len(), good.len()), (1, 2));
    assert_eq!(bad[0].payload, &b"\xffunreadable"[..]);
    assert_eq!((&read(&good[0]).payload, &read(&good[1]).payload), (&before.payload, &after.payload));
}

pub(super) async fn what_can_not_be_read_is_over_when_it_is_acknowledged(harness: Harness) {
    harness.publish_foreign(vec![unreadable()]).await;
    let from = harness.subscribe("reader");
    let bad = taken(&harness, &from, 1).await.remove(0);
    assert!(is_rejected(&bad), "{bad:?}");
    over(&harness, bad).await;
    quiet(&harness, &from, from.hold().unwrap_or_default() + Duration::from_secs(1)).await;
    from.close().await;
    let next = message("next");
    publish(&harness, std::slice::from_ref(&next)).await;
    let from = harness.subscribe("reader");
    over(&harness, comes_next(&harness, &from, &next).await).await;
    assert!(take(&harness, &from, 10).await.is_empty());
}
