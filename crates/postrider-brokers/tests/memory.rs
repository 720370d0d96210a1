//! The memory broker passes the suite, and does what its script says.
#![cfg(feature = "memory")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use postrider_brokers::memory::{Answer, MemoryBroker};
use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Broker, Destination, ErrorKind, Message, MessageId, Published};
use postrider_testkit::suites::broker::{BrokerHarness, Deduplication, Exclusion, Received, message, outgoing, run};

struct Harness {
    broker: Arc<MemoryBroker>,
    away: Arc<AtomicBool>,
    refused: Arc<Mutex<HashSet<MessageId>>>,
}

impl Harness {
    fn new() -> Self {
        let (away, refused) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(HashSet::new())));
        let (is_away, is_refused) = (Arc::clone(&away), Arc::clone(&refused));
        let broker = MemoryBroker::recording().deduplicating().with_script(move |outgoing, _| {
            if is_away.load(Ordering::SeqCst) {
                Answer::Fail(ErrorKind::Unavailable)
            } else if is_refused.lock().unwrap().contains(&outgoing.message.id) {
                Answer::Fail(ErrorKind::Rejected)
            } else {
                Answer::Accept
            }
        });
        Self { broker: Arc::new(broker), away, refused }
    }
}

#[async_trait]
impl BrokerHarness for Harness {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.broker) as Arc<dyn Broker>
    }

    fn destination(&self) -> Destination {
        Destination::new("orders")
    }

    async fn received(&self) -> Vec<Received> {
        let received = self.broker.messages().into_iter().map(|outgoing| {
            let user = outgoing.message.headers.iter().map(|(name, value)| (name.to_lowercase(), value.to_owned()));
            let wire = outgoing.wire_headers();
            let wire = wire.into_iter().map(|(name, value)| (name.to_owned(), value));
            Received {
                headers: user.chain(wire).collect(),
                content_type: outgoing.message.content_type.clone(),
                payload: outgoing.message.payload.clone(),
            }
        });
        received.collect()
    }

    fn deduplication(&self) -> Deduplication {
        Deduplication::ById
    }

    fn oversize(&self) -> Message {
        message("")
    }

    async fn refused(&self, message: Message) -> Message {
        self.refused.lock().unwrap().insert(message.id);
        message
    }

    async fn missing(&self) -> (Arc<dyn Broker>, Destination) {
        (self.broker(), self.destination())
    }

    async fn stop(&self) {
        self.away.store(true, Ordering::SeqCst);
    }

    async fn start(&self) {
        self.away.store(false, Ordering::SeqCst);
    }

    fn exclusions(&self) -> &'static [Exclusion] {
        &[
            Exclusion { case: "a_message_that_is_too_large_is_rejected_alone", reason: "it has no limit" },
            Exclusion {
                case: "publishing_to_a_missing_destination_is_a_config_error",
                reason: "every destination exists",
            },
            Exclusion { case: "check_finds_a_missing_destination", reason: "every destination exists" },
            Exclusion {
                case: "check_of_an_unreachable_broker_fails_with_what_to_do",
                reason: "memory is always reachable",
            },
        ]
    }
}

#[tokio::test]
async fn the_memory_broker_passes_the_suite() {
    run("memory", || async { Harness::new() }).await.expect_success();
}

#[tokio::test]
async fn a_lost_reply_is_unknown_and_the_message_is_there() {
    let broker = MemoryBroker::recording().with_script(|_, _| Answer::LoseReply);
    let results = broker.publish(&[outgoing(message("x"), &Destination::new("d"))]).await;
    assert!(matches!(&results[..], [Published::Failed(error)] if error.kind() == ErrorKind::Unknown));
    assert_eq!(broker.messages().len(), 1);
}

#[tokio::test]
async fn a_held_message_waits_until_it_is_released() {
    let broker = Arc::new(MemoryBroker::recording().with_script(|_, _| Answer::Hold));
    let publishing = Arc::clone(&broker);
    let batch = [outgoing(message("x"), &Destination::new("d"))];
    let call = tokio::spawn(async move { publishing.publish(&batch).await });
    while !call.is_finished() {
        assert!(broker.sent() == 0 || broker.calls() == 1);
        if broker.sent() == 1 {
            assert_eq!(broker.accepted(), 0, "accepted before its release");
            broker.release();
        }
        tokio::task::yield_now().await;
        if broker.accepted() == 1 {
            break;
        }
    }
    assert!(matches!(call.await.unwrap()[..], [Published::Accepted(_)]));
}

#[tokio::test]
async fn without_order_the_later_messages_of_a_failed_key_go_on() {
    let reject_first = |_: &_, nth| if nth == 0 { Answer::Fail(ErrorKind::Rejected) } else { Answer::Accept };
    let batch = ["a", "b"].map(|text| outgoing(message(text).key("k"), &Destination::new("d")));
    let kept = MemoryBroker::recording().with_script(reject_first);
    assert!(matches!(kept.publish(&batch).await[..], [Published::Failed(_), Published::NotSent]));
    let free = MemoryBroker::recording().with_script(reject_first).without_order();
    assert!(matches!(free.publish(&batch).await[..], [Published::Failed(_), Published::Accepted(_)]));
}

#[tokio::test]
async fn by_its_url_it_only_counts_and_refuses_what_it_does_not_know() {
    let broker = open(&BrokerConfig::new("memory:").option("delay", "1ms")).unwrap();
    let results = broker.publish(&[outgoing(message("x"), &Destination::new("d"))]).await;
    assert!(matches!(results[..], [Published::Accepted(_)]));
    let error = open(&BrokerConfig::new("memory:?deley=1ms")).unwrap_err();
    assert!(error.to_string().contains("did you mean \"delay\"?"), "{error}");
}
