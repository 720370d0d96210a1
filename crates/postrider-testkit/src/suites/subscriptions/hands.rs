//! What the cases do with a subscription, in their words.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_core::{ErrorKind, Incoming, Message, MessageId, Published, Result, Subscription};

use super::Harness;
use crate::suites::broker::outgoing;

/// The pause after a failure, as a consumer makes it.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) fn at_most(most: usize) -> NonZeroUsize {
    NonZeroUsize::new(most).expect("the suite asks for at least one")
}

/// Publishes everything through our own broker, one at a time, demanding that it is accepted.
pub(super) async fn publish(harness: &Harness, messages: &[Message]) {
    let (broker, place) = (harness.broker(), harness.destination());
    for message in messages {
        let until = Instant::now() + harness.patience();
        loop {
            match &broker.publish(&[outgoing(message.clone(), &place)]).await[..] {
                [Published::Accepted(_)] => break,
                other => assert!(Instant::now() < until, "the suite's own message is not accepted: {other:?}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Messages with these payloads: `name 0`, `name 1`, …
pub(super) fn numbered(name: &str, count: usize) -> Vec<Message> {
    (0..count).map(|n| super::message(format!("{name} {n}"))).collect()
}

/// One take, within the deadline, of no more than was asked for.
pub(super) async fn tried(harness: &Harness, from: &Arc<dyn Subscription>, most: usize) -> Result<Vec<Incoming>> {
    let taken = tokio::time::timeout(harness.deadline(), from.take(at_most(most))).await;
    let taken = taken.unwrap_or_else(|_| panic!("a take did not end within {:?}", harness.deadline()));
    if let Ok(taken) = &taken {
        assert!(taken.len() <= most, "{} came of {most} that were asked for", taken.len());
    }
    taken
}

/// One take that must not fail.
pub(super) async fn take(harness: &Harness, from: &Arc<dyn Subscription>, most: usize) -> Vec<Incoming> {
    tried(harness, from, most).await.unwrap_or_else(|error| panic!("a take failed: {error}"))
}

/// Takes until so many came, one take after another, and keeps them all.
pub(super) async fn taken(harness: &Harness, from: &Arc<dyn Subscription>, count: usize) -> Vec<Incoming> {
    let (mut all, until) = (Vec::new(), Instant::now() + harness.patience());
    while all.len() < count {
        assert!(Instant::now() < until, "{} of {count} came in {:?}", all.len(), harness.patience());
        all.extend(take(harness, from, count - all.len()).await);
    }
    all
}

/// Takes from both in turn until something came to either.
pub(super) async fn either(harness: &Harness, both: [&Arc<dyn Subscription>; 2]) -> Incoming {
    let until = Instant::now() + harness.patience();
    loop {
        assert!(Instant::now() < until, "nothing came to either in {:?}", harness.patience());
        for from in both {
            if let Some(incoming) = take(harness, from, 1).await.pop() {
                return incoming;
            }
        }
    }
}

/// The message of what came, demanding that there is one.
pub(super) fn read(incoming: &Incoming) -> &Message {
    incoming.message.as_ref().unwrap_or_else(|error| panic!("what lies at {} was not read: {error}", incoming.place))
}

/// Demands that this is over.
pub(super) async fn over(harness: &Harness, incoming: Incoming) {
    let place = incoming.place.clone();
    let said = tokio::time::timeout(harness.deadline(), incoming.receipt.acknowledge()).await;
    let said = said.unwrap_or_else(|_| panic!("acknowledging {place} did not end"));
    said.unwrap_or_else(|error| panic!("acknowledging {place} failed: {error}"));
}

/// The identities of what came.
pub(super) fn ids(taken: &[Incoming]) -> Vec<MessageId> {
    taken.iter().map(|incoming| read(incoming).id).collect()
}

/// Takes and acknowledges, whatever fails meanwhile, until each of these messages came at least once and was acknowledged, or
/// nobody knows whether it was; gives how often each came. Another message than these fails the case.
pub(super) async fn drained(
    harness: &Harness,
    from: &Arc<dyn Subscription>,
    expected: &[Message],
) -> HashMap<MessageId, usize> {
    drained_among(harness, from, expected, &[]).await
}

/// The same, where these others may come too.
pub(super) async fn drained_among(
    harness: &Harness,
    from: &Arc<dyn Subscription>,
    expected: &[Message],
    others: &[Message],
) -> HashMap<MessageId, usize> {
    let mut left: Vec<&Message> = expected.iter().collect();
    let mut came: HashMap<MessageId, usize> = HashMap::new();
    let until = Instant::now() + harness.patience() * 2;
    while !left.is_empty() {
        assert!(Instant::now() < until, "{} of {} did not come: {left:?}", left.len(), expected.len());
        let Ok(taken) = tried(harness, from, 16).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        for incoming in taken {
            let id = read(&incoming).id;
            let known = expected.iter().chain(others).find(|message| message.id == id);
            assert_eq!(known.map(|message| &message.payload), Some(&read(&incoming).payload), "{incoming:?}");
            *came.entry(id).or_default() += 1;
            let said = tokio::time::timeout(harness.deadline(), incoming.receipt.acknowledge()).await;
            let said = said.expect("acknowledging did not end");
            // Where that is not known, it may have been heard: then it does not come again.
            if said.is_ok() || said.is_err_and(|error| error.kind() == ErrorKind::Unknown) {
                left.retain(|message| message.id != id);
            }
        }
    }
    came
}

/// Demands that nothing more comes for so long.
pub(super) async fn quiet(harness: &Harness, from: &Arc<dyn Subscription>, length: Duration) {
    let until = Instant::now() + length;
    while Instant::now() < until {
        let taken = take(harness, from, 100).await;
        assert!(taken.is_empty(), "this came and should not: {taken:?}");
    }
}

/// Takes until this message comes, and demands that nothing else does.
pub(super) async fn comes_next(harness: &Harness, from: &Arc<dyn Subscription>, expected: &Message) -> Incoming {
    let incoming = taken(harness, from, 1).await.remove(0);
    assert_eq!(read(&incoming).payload, expected.payload, "another message came: {incoming:?}");
    incoming
}
