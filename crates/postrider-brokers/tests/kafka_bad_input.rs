//! What the Kafka broker makes of a server that is away, refuses or has no topic, one test per clause.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod kafka_log;
mod kafka_node;

use std::sync::Arc;
use std::time::{Duration, Instant};

use kafka_node::{Node, PASSWORD, create_topic, node, noise};
use postrider_brokers::{BrokerConfig, open};
use postrider_core::{
    Broker, Destination, DestinationTemplate, Error, ErrorKind, Level, Message, Outgoing, Published, TopicPattern,
};
use postrider_testkit::servers::process::free_port;
use postrider_testkit::suites::broker::{message, outgoing};

/// The node; none where there is no Kafka, which is said.
async fn real() -> Option<&'static Node> {
    node("bad input over Kafka").await
}

fn broker(address: &str) -> Arc<dyn Broker> {
    open(&BrokerConfig::new(format!("kafka://{address}")).option("timeout", "5s")).unwrap()
}

fn to(topic: &str, message: Message) -> Outgoing {
    outgoing(message, &Destination::new(topic))
}

async fn error(broker: &Arc<dyn Broker>, outgoing: Outgoing) -> Error {
    match broker.publish(&[outgoing]).await.remove(0) {
        Published::Failed(error) => error,
        other => panic!("expected a failure, found {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nothing_listens_it_is_unavailable_and_nothing_was_sent() {
    let broker = broker(&format!("127.0.0.1:{}", free_port().unwrap()));
    let began = Instant::now();
    let error = error(&broker, to("orders", message("x"))).await;
    assert!(error.kind() == ErrorKind::Unavailable && error.is_unsent(), "{error}");
    assert!(error.to_string().contains("is the server running"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(8), "it took {:?}", began.elapsed());
    assert_eq!(broker.check(&[]).await.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_not_found_is_unavailable() {
    let broker = broker("no-such-host.invalid:9092");
    let error = error(&broker, to("orders", message("x"))).await;
    assert!(error.kind() == ErrorKind::Unavailable && error.is_unsent(), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_topic_is_a_config_error_that_says_how_to_create_it_and_creates_none() {
    let Some(node) = real().await else { return };
    let broker = broker(&node.address);
    for _ in 0..2 {
        let error = error(&broker, to("not.there", message("x"))).await;
        assert!(error.kind() == ErrorKind::Config && !error.is_unsent(), "{error}");
        assert!(error.to_string().contains("kafka-topics.sh --create --topic not.there"), "{error}");
    }
    let error = broker.check(&[Destination::new("not.there")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    create_topic(&node.address, "not.there", 1, &[]).await;
    let results = broker.publish(&[to("not.there", message("x"))]).await;
    assert!(matches!(results[..], [Published::Accepted(_)]), "{results:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_topic_holds_back_no_other_key() {
    let Some(node) = real().await else { return };
    create_topic(&node.address, "beside", 1, &[]).await;
    let batch = [
        to("missing.one", message("x").key("a")),
        to("beside", message("behind it").key("a")),
        to("beside", message("y").key("b")),
        to("beside", message("z")),
    ];
    let results = broker(&node.address).publish(&batch).await;
    assert!(matches!(&results[0], Published::Failed(error) if error.kind() == ErrorKind::Config), "{results:?}");
    assert!(matches!(results[1], Published::NotSent), "{results:?}");
    assert!(matches!(results[2..], [Published::Accepted(_), Published::Accepted(_)]), "{results:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_credentials_are_a_config_error_that_shows_none() {
    let Some(node) = real().await else { return };
    create_topic(&node.address, "guarded", 1, &[]).await;
    let mut mechanisms = vec!["plain"];
    if cfg!(feature = "kafka-tls") {
        mechanisms.extend(["scram-sha-256", "scram-sha-512"]);
    }
    for sasl in mechanisms {
        let config = |word: &str| {
            BrokerConfig::new(format!("kafka://{}", node.guarded))
                .option("sasl", sasl)
                .option("user", "admin")
                .option("password", word)
                .option("timeout", "5s")
        };
        let wrong = open(&config("wrong-canary")).unwrap();
        let from_publish = error(&wrong, to("guarded", message("x"))).await;
        let from_check = wrong.check(&[]).await.unwrap_err();
        for error in [from_publish, from_check] {
            assert!(error.kind() == ErrorKind::Config && error.is_unsent(), "{sasl}: {error}");
            let text = error.to_string();
            assert!(text.contains("user and password") && !text.contains("canary"), "{text}");
        }
        let right = open(&config("admin-password")).unwrap();
        let results = right.publish(&[to("guarded", message("x"))]).await;
        assert!(matches!(results[..], [Published::Accepted(_)]), "{sasl}: {results:?}");
        let findings = right.check(&[Destination::new("guarded")]).await.unwrap();
        let readable = findings.iter().any(|finding| finding.found.contains("travels readable"));
        assert_eq!(readable, sasl == "plain", "{findings:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_without_permission_is_a_config_error() {
    let Some(node) = real().await else { return };
    create_topic(&node.address, "private", 1, &[]).await;
    let url = format!("kafka://stranger:{PASSWORD}@{}?sasl=plain&timeout=5s", node.guarded);
    let broker = open(&BrokerConfig::new(url)).unwrap();
    let error = error(&broker, to("private", message("x"))).await;
    assert!(error.kind() == ErrorKind::Config && !error.is_unsent(), "{error}");
    assert!(error.to_string().contains("Write and Describe"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_above_the_topics_limit_is_rejected_by_itself() {
    let Some(node) = real().await else { return };
    create_topic(&node.address, "small", 1, &[("max.message.bytes", "100000")]).await;
    let broker = broker(&node.address);
    let batch = [
        to("small", message("a").key("a")),
        to("small", message(noise(100_001)).key("b")),
        to("small", message("c").key("c")),
        to("small", message("behind").key("b")),
    ];
    let results = broker.publish(&batch).await;
    assert!(matches!(&results[1], Published::Failed(error) if error.kind() == ErrorKind::Rejected), "{results:?}");
    assert!(matches!(results[3], Published::NotSent), "{results:?}");
    for index in [0, 2] {
        assert!(matches!(results[index], Published::Accepted(_)), "{results:?}");
    }
    assert_eq!(kafka_log::read(&node.address, "small").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_name_that_kafka_cannot_have_is_rejected() {
    let Some(node) = real().await else { return };
    let error = error(&broker(&node.address), to("orders/placed", message("x"))).await;
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timestamp_that_the_topic_does_not_allow_is_rejected() {
    let Some(node) = real().await else { return };
    create_topic(&node.address, "timely", 1, &[("message.timestamp.before.max.ms", "60000")]).await;
    let broker = broker(&node.address);
    let old = to("timely", message("old").key("a").attribute("kafka.timestamp", "1000"));
    let results = broker.publish(&[old, to("timely", message("now").key("b"))]).await;
    assert!(matches!(&results[0], Published::Failed(error) if error.kind() == ErrorKind::Rejected), "{results:?}");
    assert!(matches!(results[1], Published::Accepted(_)), "{results:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_reports_what_weakens_an_acknowledgement() {
    let Some(node) = real().await else { return };
    let weak =
        [("unclean.leader.election.enable", "true"), ("max.message.bytes", "5000"), ("cleanup.policy", "compact")];
    create_topic(&node.address, "weak", 1, &weak).await;
    let findings = broker(&node.address).check(&[Destination::new("weak")]).await.unwrap();
    let text = format!("{findings:?}");
    for expected in ["1 replica(s)", "lacks messages", "at most 5000 bytes, its server 8388608", "compacted"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    // Every other warning would send its reader the wrong way.
    assert!(!text.contains("could not be looked at"), "{text}");
    create_topic(&node.address, "ordinary", 1, &[]).await;
    let findings = broker(&node.address).check(&[Destination::new("ordinary")]).await.unwrap();
    let warnings: Vec<&str> = findings.iter().map(|finding| finding.found.as_str()).collect();
    assert!(matches!(warnings[..], [one] if one.contains("1 replica(s)")), "{findings:?}");
    assert!(findings.iter().all(|finding| finding.level == Level::Warning), "{findings:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_asks_for_more_replicas_than_it_has_is_a_config_error_of_check() {
    let Some(node) = real().await else { return };
    create_topic(&node.address, "demanding", 1, &[("min.insync.replicas", "2")]).await;
    let broker = broker(&node.address);
    let error = broker.check(&[Destination::new("demanding")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("asks for 2 replicas in sync"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_without_any_topic_is_a_config_error_of_check() {
    let Some(node) = real().await else { return };
    create_topic(&node.address, "routed.orders.placed", 1, &[]).await;
    let broker = broker(&node.address);
    let template = DestinationTemplate::parse("routed.{topic}").unwrap();
    let findings = broker.check_route(&TopicPattern::parse("orders.#").unwrap(), &template).await.unwrap();
    assert!(format!("{findings:?}").contains("topic routed.orders.placed"), "{findings:?}");
    let error = broker.check_route(&TopicPattern::parse("billing.#").unwrap(), &template).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("kafka-topics.sh --create"), "{error}");
}
