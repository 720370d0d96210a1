//! Several subscriptions, of one consumer and of others.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use postrider_core::{ErrorKind, MessageId, Subscription};

use super::hands::{numbered, over, publish, read, take, taken};
use super::{Harness, message};

/// Takes and acknowledges until all of them together have so many; gives how often each message came here.
fn working(
    harness: &Harness,
    from: &Arc<dyn Subscription>,
    all: &Arc<AtomicUsize>,
    count: usize,
) -> tokio::task::JoinHandle<HashMap<MessageId, usize>> {
    let (harness, from, all) = (Arc::clone(harness), Arc::clone(from), Arc::clone(all));
    tokio::spawn(async move {
        let (mut came, until) = (HashMap::new(), Instant::now() + harness.patience());
        while all.load(Ordering::SeqCst) < count {
            assert!(Instant::now() < until, "{} of {count} came to all of them", all.load(Ordering::SeqCst));
            for incoming in take(&harness, &from, 10).await {
                *came.entry(read(&incoming).id).or_default() += 1;
                over(&harness, incoming).await;
                all.fetch_add(1, Ordering::SeqCst);
            }
        }
        came
    })
}

/// Takes from both, which gives nothing yet, until who reads what is settled.
pub(super) async fn settle(harness: &Harness, consumer: &str, both: [&Arc<dyn Subscription>; 2]) {
    let once = async || {
        let (one, two) = tokio::join!(take(harness, both[0], 1), take(harness, both[1], 1));
        assert!(one.is_empty() && two.is_empty(), "something came before it was published");
    };
    // At least once: each of them is there then.
    once().await;
    let again = async {
        loop {
            once().await;
        }
    };
    tokio::select! {
        () = harness.settled(consumer, 2) => {}
        () = again => {}
    }
}

pub(super) async fn two_of_one_consumer_share_what_there_is(harness: Harness) {
    let (one, two) = (harness.subscribe("shared"), harness.subscribe("shared"));
    settle(&harness, "shared", [&one, &two]).await;
    let messages: Vec<_> =
        numbered("message", 200).into_iter().enumerate().map(|(n, m)| m.key(format!("key {}", n % 40))).collect();
    let all = Arc::new(AtomicUsize::new(0));
    let hands = [&one, &two].map(|from| working(&harness, from, &all, messages.len()));
    publish(&harness, &messages).await;
    let mut came: HashMap<MessageId, usize> = HashMap::new();
    for hand in hands {
        let here = hand.await.expect("a hand failed");
        assert!(!here.is_empty(), "one of them got nothing");
        for (id, times) in here {
            *came.entry(id).or_default() += times;
        }
    }
    for message in &messages {
        assert_eq!(came.get(&message.id), Some(&1), "{:?} came to both, or twice, or not at all", message.payload);
    }
}

pub(super) async fn every_consumer_gets_everything(harness: Harness) {
    let consumers = [harness.subscribe("one"), harness.subscribe("two")];
    for from in &consumers {
        assert!(take(&harness, from, 1).await.is_empty());
    }
    everything_comes_to(&harness, &consumers).await;
}

pub(super) async fn a_consumer_that_comes_late_gets_everything(harness: Harness) {
    let early = harness.subscribe("early");
    everything_comes_to(&harness, &[early]).await;
    // What another consumer has done with them is not its business; what was published before it came is.
    let late = harness.subscribe("late");
    for incoming in taken(&harness, &late, 20).await {
        over(&harness, incoming).await;
    }
}

async fn everything_comes_to(harness: &Harness, consumers: &[Arc<dyn Subscription>]) {
    let messages = numbered("message", 20);
    publish(harness, &messages).await;
    for from in consumers {
        let mut came = HashMap::new();
        for incoming in taken(harness, from, messages.len()).await {
            *came.entry(read(&incoming).id).or_insert(0) += 1;
            over(harness, incoming).await;
        }
        assert!(messages.iter().all(|message| came.get(&message.id) == Some(&1)), "{came:?}");
        assert!(take(harness, from, 10).await.is_empty());
    }
}

pub(super) async fn names_that_can_not_be_are_refused(harness: Harness) {
    let misnamed = harness.misnamed();
    assert!(!misnamed.is_empty(), "the harness names nothing that its broker can't have");
    for (wrong, made) in misnamed {
        let error = made.err().unwrap_or_else(|| panic!("it was taken although {wrong}"));
        assert_eq!(error.kind(), ErrorKind::Config, "{wrong}: {error}");
        assert!(error.to_string().contains("expected"), "{wrong}: it does not say what was expected: {error}");
    }
    // And an ordinary one is not.
    let next = message("next");
    publish(&harness, std::slice::from_ref(&next)).await;
    // Named, so that it lives until the message is over: dropped, it leaves, and the message goes to others.
    let from = harness.subscribe("orders-to_invoices7");
    for incoming in taken(&harness, &from, 1).await {
        over(&harness, incoming).await;
    }
}
