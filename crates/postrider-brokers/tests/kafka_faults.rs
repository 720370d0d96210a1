//! The Kafka broker under errors that a cluster injects: librdkafka's own mock cluster answers as it is told.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod kafka_log;

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Broker, Destination, ErrorKind, Message, OrderInBatch, Outgoing, Published};
use postrider_testkit::suites::broker::{message, outgoing, told};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{DefaultProducerContext, FutureProducer, FutureRecord};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tokio::task::JoinSet;

const TOPIC: &str = "orders.placed";
const OK: RDKafkaRespErr = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR;
const FORBIDDEN: RDKafkaRespErr = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;

/// So long that what is handed over at once goes in one request.
const LINGER: &str = "100ms";

type Mock = MockCluster<'static, DefaultProducerContext>;

/// A cluster of mock brokers with one topic.
fn cluster(brokers: i32, partitions: i32) -> Mock {
    let cluster = Mock::new(brokers).unwrap();
    cluster.create_topic(TOPIC, partitions, brokers).unwrap();
    cluster
}

fn config(cluster: &Mock) -> BrokerConfig {
    BrokerConfig::new(format!("kafka://{}", cluster.bootstrap_servers())).option("timeout", "3s")
}

fn broker(cluster: &Mock) -> Arc<dyn Broker> {
    open(&config(cluster)).unwrap()
}

fn to(message: Message) -> Outgoing {
    outgoing(message, &Destination::new(TOPIC))
}

fn of_key(key: &str, texts: &[&str]) -> Vec<Outgoing> {
    texts.iter().map(|text| to(message((*text).to_owned()).key(key))).collect()
}

/// The payloads of the topic, in their order.
async fn log(cluster: &Mock) -> Vec<String> {
    kafka_log::read(&cluster.bootstrap_servers(), TOPIC).await.iter().map(kafka_log::Found::text).collect()
}

/// Publishes as the relay does: what was not accepted is tried again, in the order of the batch, until all is.
async fn until_accepted(broker: &Arc<dyn Broker>, batch: Vec<Outgoing>) {
    let until = Instant::now() + Duration::from_secs(60);
    let mut left = batch;
    while !left.is_empty() {
        let results = broker.publish(&left).await;
        assert_eq!(results.len(), left.len());
        assert!(Instant::now() < until, "never accepted: {results:?}");
        let pairs = left.into_iter().zip(results);
        left = pairs.filter(|(_, result)| !matches!(result, Published::Accepted(_))).map(|(one, _)| one).collect();
        if !left.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Publishes three messages of a key until one call takes them all: the server knows the producer of series then, which is a
/// new one after a call whose time was up. Returns the log.
async fn with_series(broker: &Arc<dyn Broker>, cluster: &Mock) -> Vec<String> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let results = broker.publish(&of_key("warm", &["1", "2", "3"])).await;
        if told(&results) == ["ok"; 3] {
            return log(cluster).await;
        }
        assert!(Instant::now() < until, "never taken together: {results:?}");
    }
}

/// Demands that the first arrivals of each key are in the order in which they were sent, and that none is missing.
fn in_order(found: &[kafka_log::Found], keys: usize, each: usize) {
    for key in 0..keys {
        let key = format!("key {key}");
        let mut next = 0;
        for record in found.iter().filter(|record| record.key.as_deref() == Some(&key)) {
            let number: usize = record.text().parse().unwrap();
            assert!(number <= next, "{key}: {number} came before {next}");
            next = next.max(number + 1);
        }
        assert_eq!(next, each, "{key} is not complete");
    }
}

fn numbered(keys: usize, each: usize) -> Vec<Outgoing> {
    let one = |number| move |key| to(message(format!("{number}")).key(format!("key {key}")));
    (0..each).flat_map(|number| (0..keys).map(one(number))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_key_is_accepted_before_its_message_that_failed() {
    let cluster = cluster(3, 1);
    let broker = broker(&cluster);
    assert_eq!(broker.profile().order, OrderInBatch::Kept);
    until_accepted(&broker, of_key("warm", &["warm"])).await;
    cluster.request_errors(RDKafkaApiKey::Produce, &[OK, FORBIDDEN]);
    let batch = of_key("k", &["a", "b", "c", "d"]);
    let results = broker.publish(&batch).await;
    assert_eq!(told(&results), ["ok", "config", "-", "-"], "{results:?}");
    assert_eq!(log(&cluster).await, ["warm", "a"]);
    until_accepted(&broker, batch[1..].to_vec()).await;
    assert_eq!(log(&cluster).await, ["warm", "a", "b", "c", "d"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_series_that_is_refused_for_one_of_its_messages_is_sent_one_by_one() {
    let cluster = cluster(1, 1);
    let broker = open(&config(&cluster).option("linger", LINGER)).unwrap();
    let before = with_series(&broker, &cluster).await;
    cluster.request_errors(RDKafkaApiKey::Produce, &[OK, RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_RECORD]);
    let results = broker.publish(&of_key("k", &["a", "b", "c", "d", "e"])).await;
    assert_eq!(told(&results), ["ok"; 5], "{results:?}");
    assert_eq!(log(&cluster).await[before.len()..], ["a", "b", "c", "d", "e"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_series_whose_time_is_up_is_unknown_and_leaves_no_more() {
    let cluster = cluster(1, 1);
    let broker = broker(&cluster);
    let before = with_series(&broker, &cluster).await;
    let late = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS; 1000];
    cluster.request_errors(RDKafkaApiKey::Produce, &[&[OK], &late[..]].concat());
    let batch = of_key("k", &["a", "b", "c", "d"]);
    let began = Instant::now();
    let results = broker.publish(&batch).await;
    assert_eq!(told(&results), ["ok", "unknown", "unknown", "unknown"], "{results:?}");
    assert!(results[1..].iter().all(|result| format!("{result:?}").contains("in time")), "{results:?}");
    assert!(began.elapsed() < Duration::from_secs(6), "it took {:?}", began.elapsed());
    cluster.clear_request_errors(RDKafkaApiKey::Produce);
    until_accepted(&broker, of_key("other", &["after"])).await;
    assert_eq!(log(&cluster).await[before.len()..], ["a", "after"]);
    // Whoever tries again has the time not to repeat it: what came twice would be of the producer that was given up.
    let patient = open(&config(&cluster).option("timeout", "20s")).unwrap();
    until_accepted(&patient, batch[1..].to_vec()).await;
    assert_eq!(log(&cluster).await[before.len()..], ["a", "after", "b", "c", "d"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_series_goes_on_when_its_producer_ends_for_another_call() {
    let cluster = cluster(1, 1);
    // So long what is handed over waits for company.
    let broker = open(&config(&cluster).option("timeout", "20s").option("linger", "1s")).unwrap();
    with_series(&broker, &cluster).await;
    let (one, another) = (of_key("one", &["w", "x", "y", "z"]), of_key("another", &["a", "b", "c", "d"]));
    // By then both first messages are accepted, and what is behind them waits to leave.
    let given_up = tokio::time::timeout(Duration::from_millis(1700), broker.publish(&one));
    let (given_up, results) = tokio::join!(given_up, async {
        tokio::time::sleep(Duration::from_millis(350)).await;
        broker.publish(&another).await
    });
    assert!(given_up.is_err(), "{given_up:?}");
    assert_eq!(told(&results), ["ok"; 4], "{results:?}");
    let mut found = log(&cluster).await;
    found.retain(|text| ["a", "b", "c", "d"].contains(&text.as_str()));
    assert_eq!(found, ["a", "b", "c", "d"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_not_as_slow_as_one_round_trip_per_message() {
    let cluster = cluster(1, 1);
    let broker = open(&config(&cluster).option("timeout", "20s")).unwrap();
    with_series(&broker, &cluster).await;
    cluster.broker_round_trip_time(1, Duration::from_millis(100)).unwrap();
    let began = Instant::now();
    let results = broker.publish(&numbered(1, 200)).await;
    assert!(told(&results).iter().all(|told| *told == "ok"), "{results:?}");
    assert!(began.elapsed() < Duration::from_secs(4), "200 messages took {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipeline_of_one_key_would_store_a_later_message_before_the_failed_one() {
    // Why the broker does not do just this. Should this ever fail, librdkafka has become better.
    let cluster = cluster(1, 1);
    let producer: FutureProducer = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .set("enable.idempotence", "true")
        .set("batch.num.messages", "1")
        .create()
        .unwrap();
    let send = |text: &'static str| producer.send_result(FutureRecord::to(TOPIC).key("k").payload(text)).unwrap();
    send("warm").await.unwrap().unwrap();
    cluster.request_errors(RDKafkaApiKey::Produce, &[OK, RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_RECORD]);
    let (a, b, c) = (send("a"), send("b"), send("c"));
    let accepted = [a.await.unwrap().is_ok(), b.await.unwrap().is_ok(), c.await.unwrap().is_ok()];
    assert_eq!(accepted, [true, false, true]);
    assert_eq!(log(&cluster).await, ["warm", "a", "c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_passes_by_itself_is_retried_by_the_client_in_order_and_without_repeats() {
    use RDKafkaRespErr as E;
    let cluster = cluster(3, 2);
    let broker = open(&config(&cluster).option("timeout", "20s").option("linger", LINGER)).unwrap();
    until_accepted(&broker, of_key("warm", &["warm"])).await;
    cluster.request_errors(
        RDKafkaApiKey::Produce,
        &[
            E::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            OK,
            E::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
            E::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
            OK,
            OK,
            E::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            E::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
            E::RD_KAFKA_RESP_ERR__TRANSPORT,
        ],
    );
    // Two keys, one in each partition, so that no request follows one that failed: the mock stores it all the same, librdkafka
    // takes its answer for that of all before it, and that is no acceptance.
    let results = broker.publish(&numbered(2, 20)).await;
    assert!(told(&results).iter().all(|told| *told == "ok"), "{results:?}");
    let found = kafka_log::read(&cluster.bootstrap_servers(), TOPIC).await;
    in_order(&found, 2, 20);
    assert_eq!(found.len(), 41, "a repeat in quiet running");
}

/// librdkafka takes the answer to a later request for that of all before it. A server that knows nothing yet of the producer
/// in that partition stores whatever comes first, so that this loses the message whose request it had refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_not_accepted_because_a_later_one_was() {
    let cluster = cluster(1, 1);
    cluster.broker_round_trip_time(1, Duration::from_millis(300)).unwrap();
    let broker = open(&config(&cluster).option("timeout", "20s").option("producer.batch.num.messages", "1")).unwrap();
    until_accepted(&broker, of_key("warm", &["warm"])).await;
    cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, OK]);
    let batch: Vec<Outgoing> = [of_key("a", &["a"]), of_key("b", &["b"])].concat();
    let results = broker.publish(&batch).await;
    let stored = log(&cluster).await;
    for (outgoing, result) in batch.iter().zip(&results) {
        let text = String::from_utf8_lossy(&outgoing.message.payload).into_owned();
        let is_accepted = matches!(result, Published::Accepted(_));
        assert!(!is_accepted || stored.contains(&text), "{text} was accepted, and only {stored:?} is there");
    }
    assert_eq!(told(&results), ["unknown", "ok"], "{results:?}");
}

/// Requests of other keys follow those that fail, in the same partitions. Two messages of a key make no series, which a
/// server keeps in order by its numbers: the mock does not look at them, and stores what follows a refused one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_passes_by_itself_loses_and_reorders_nothing_of_many_keys() {
    use RDKafkaRespErr as E;
    let cluster = cluster(3, 2);
    let broker = open(&config(&cluster).option("timeout", "20s").option("producer.batch.num.messages", "1")).unwrap();
    for _ in 0..4 {
        cluster.request_errors(
            RDKafkaApiKey::Produce,
            &[
                E::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                OK,
                OK,
                E::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
                E::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                OK,
                E::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
            ],
        );
    }
    until_accepted(&broker, numbered(40, 2)).await;
    in_order(&kafka_log::read(&cluster.bootstrap_servers(), TOPIC).await, 40, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_changes_during_a_batch_loses_and_reorders_nothing() {
    let cluster = cluster(3, 2);
    // Slow enough that the batch is under way while the leader changes.
    for id in 1..=3 {
        cluster.broker_round_trip_time(id, Duration::from_millis(20)).unwrap();
    }
    let broker = broker(&cluster);
    let publishing = tokio::spawn({
        let broker = Arc::clone(&broker);
        // Two of each key at a time: no series, of which the mock does not keep the order.
        async move {
            let mut left = numbered(5, 60);
            while !left.is_empty() {
                let behind = left.split_off(10);
                until_accepted(&broker, std::mem::replace(&mut left, behind)).await;
            }
        }
    });
    for change in 0..6 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(change > 2 || !publishing.is_finished(), "the leader did not change during the batch");
        for partition in 0..2 {
            cluster.partition_leader(TOPIC, partition, Some((change + partition) % 3 + 1)).unwrap();
        }
        cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR__TRANSPORT]);
    }
    publishing.await.unwrap();
    cluster.clear_request_errors(RDKafkaApiKey::Produce);
    in_order(&kafka_log::read(&cluster.bootstrap_servers(), TOPIC).await, 5, 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_goes_down_leaves_the_outcome_unknown_then_unsent_and_everything_arrives_when_it_is_back() {
    let cluster = cluster(1, 1);
    let broker = broker(&cluster);
    until_accepted(&broker, of_key("k", &["before"])).await;
    // The answer to what is sent now takes longer than the connection lasts.
    cluster.broker_round_trip_time(1, Duration::from_secs(2)).unwrap();
    let batch = of_key("k", &["a", "b"]);
    let (results, ()) = tokio::join!(broker.publish(&batch), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        cluster.broker_down(1).unwrap();
    });
    assert_eq!(told(&results), ["unknown", "-"], "{results:?}");
    let results = broker.publish(&batch).await;
    for result in &results {
        let Published::Failed(error) = result else { panic!("{results:?}") };
        assert!(error.kind() == ErrorKind::Unavailable && error.is_unsent(), "{error}");
    }
    cluster.broker_round_trip_time(1, Duration::ZERO).unwrap();
    cluster.broker_up(1).unwrap();
    until_accepted(&broker, batch).await;
    let mut found = log(&cluster).await;
    found.dedup();
    assert!(found == ["before", "a", "b"] || found == ["before", "a", "b", "a"], "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_after_the_timeout_is_unknown_and_the_same_id_is_sent_again() {
    let cluster = cluster(1, 1);
    let broker = open(&config(&cluster).option("timeout", "1s")).unwrap();
    until_accepted(&broker, of_key("k", &["before"])).await;
    cluster.broker_round_trip_time(1, Duration::from_secs(4)).unwrap();
    let batch = of_key("k", &["late", "behind"]);
    let began = Instant::now();
    let results = broker.publish(&batch).await;
    assert_eq!(told(&results), ["unknown", "-"], "{results:?}");
    assert!(began.elapsed() < Duration::from_secs(6), "it took {:?}", began.elapsed());
    cluster.broker_round_trip_time(1, Duration::ZERO).unwrap();
    until_accepted(&broker, batch.clone()).await;
    let found = kafka_log::read(&cluster.bootstrap_servers(), TOPIC).await;
    let late = batch[0].message.id.to_string();
    let of_late = found.iter().filter(|record| record.header("postrider-id") == Some(&late));
    assert!(of_late.clone().count() >= 1 && of_late.clone().all(|record| record.text() == "late"), "{found:?}");
    let first = |text: &str| found.iter().position(|record| record.text() == text).unwrap();
    assert!(first("late") < first("behind"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_answers_within_the_timeout_are_waited_for() {
    let cluster = cluster(3, 3);
    let broker = open(&config(&cluster).option("timeout", "20s")).unwrap();
    for id in 1..=3 {
        cluster.broker_round_trip_time(id, Duration::from_millis(200)).unwrap();
    }
    let results = broker.publish(&numbered(20, 3)).await;
    assert!(told(&results).iter().all(|told| *told == "ok"), "{results:?}");
    in_order(&kafka_log::read(&cluster.bootstrap_servers(), TOPIC).await, 20, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_that_fails_for_good_is_replaced_and_what_it_had_is_unknown() {
    let cluster = cluster(1, 1);
    let refusal = RDKafkaRespErr::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
    cluster.request_errors(RDKafkaApiKey::InitProducerId, &[refusal, refusal, refusal]);
    let broker = broker(&cluster);
    let batch = of_key("k", &["a", "b"]);
    let results = broker.publish(&batch).await;
    let failed = told(&results);
    assert!(failed[0] != "ok" && failed[1] != "ok", "{results:?}");
    cluster.clear_request_errors(RDKafkaApiKey::InitProducerId);
    until_accepted(&broker, batch).await;
    assert_eq!(log(&cluster).await, ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_producer_had_on_its_way_when_it_failed_for_good_is_unknown_and_another_takes_its_place() {
    let cluster = cluster(1, 1);
    let broker = broker(&cluster);
    until_accepted(&broker, of_key("k", &["before"])).await;
    // librdkafka can't tell what the server has, and gives the producer up.
    cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER]);
    let batch = [of_key("k", &["a", "b"]), of_key("other", &["c"])].concat();
    let results = broker.publish(&batch).await;
    assert_eq!(told(&results)[..2], ["unknown", "-"], "{results:?}");
    let fatal = matches!(&results[0], Published::Failed(error) if !error.is_unsent());
    assert!(fatal && told(&results)[2] != "ok", "{results:?}");
    cluster.clear_request_errors(RDKafkaApiKey::Produce);
    until_accepted(&broker, batch.to_vec()).await;
    let found = log(&cluster).await;
    let at = |text: &str| found.iter().position(|found| found == text).unwrap();
    assert!(at("a") < at("b") && found.contains(&"c".to_owned()), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forbidden_topic_is_a_config_error_until_it_is_allowed_and_holds_back_no_other_topic() {
    let cluster = cluster(1, 1);
    cluster.create_topic("stock", 1, 1).unwrap();
    let broker = broker(&cluster);
    cluster.topic_error(TOPIC, FORBIDDEN).unwrap();
    let batch = [to(message("no").key("k")), outgoing(message("yes").key("k"), &Destination::new("stock"))];
    let results = broker.publish(&batch[..1]).await;
    let Published::Failed(error) = &results[0] else { panic!("{results:?}") };
    assert!(error.kind() == ErrorKind::Config && !error.is_unsent(), "{error}");
    assert!(error.to_string().contains("Write and Describe"), "{error}");
    assert_eq!(told(&broker.publish(&batch[1..]).await), ["ok"]);
    cluster.topic_error(TOPIC, OK).unwrap();
    until_accepted(&broker, batch[..1].to_vec()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_stays_full_asks_for_patience_and_says_that_nothing_was_sent() {
    let cluster = cluster(1, 1);
    let config = config(&cluster).option("timeout", "1s").option("producer.queue.buffering.max.messages", "3");
    let broker = open(&config).unwrap();
    until_accepted(&broker, of_key("k", &["before"])).await;
    cluster.broker_round_trip_time(1, Duration::from_secs(30)).unwrap();
    let is_throttled = |result: &Published| matches!(result, Published::Failed(error) if error.kind() == ErrorKind::Throttled && error.is_unsent());
    // Many more wait than the few whose time runs out can make room for, whoever of them comes first.
    let mut calls = JoinSet::new();
    for call in 0..6 {
        let broker = Arc::clone(&broker);
        let batch: Vec<Outgoing> = (0..6).map(|n| to(message(format!("{n}")).key(format!("{call} {n}")))).collect();
        calls.spawn(async move { broker.publish(&batch).await });
    }
    let results: Vec<Published> = calls.join_all().await.into_iter().flatten().collect();
    assert!(told(&results).iter().all(|told| *told != "ok"), "{results:?}");
    assert!(results.iter().any(is_throttled), "the queue was never full to the end: {results:?}");
}

#[tokio::test]
async fn nothing_blocks_the_runtime_while_there_is_no_broker() {
    let cluster = cluster(1, 1);
    let broker = broker(&cluster);
    until_accepted(&broker, of_key("k", &["before"])).await;
    cluster.broker_down(1).unwrap();
    let work = async {
        broker.publish(&of_key("k", &["a", "b"])).await;
        broker.publish(&of_key("k", &["a", "b"])).await;
        broker.check(&[Destination::new(TOPIC)]).await.unwrap_err();
        let began = Instant::now();
        broker.close().await;
        assert!(began.elapsed() < Duration::from_secs(7), "close took {:?}", began.elapsed());
    };
    tokio::pin!(work);
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    // The only thread of this runtime: a call that blocks it stops the clock.
    loop {
        tokio::select! {
            () = &mut work => break,
            () = tokio::time::sleep(Duration::from_millis(5)) => {
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
        }
    }
    assert!(longest < Duration::from_millis(900), "the runtime stood still for {longest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_given_up_publishes_nothing_more() {
    let cluster = cluster(1, 1);
    let broker = open(&config(&cluster).option("timeout", "30s")).unwrap();
    until_accepted(&broker, of_key("k", &["before"])).await;
    cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS; 1000]);
    let batch = of_key("k", &["given up"]);
    let call = tokio::time::timeout(Duration::from_millis(500), broker.publish(&batch)).await;
    assert!(call.is_err(), "{call:?}");
    cluster.clear_request_errors(RDKafkaApiKey::Produce);
    until_accepted(&broker, of_key("k", &["after"])).await;
    assert_eq!(log(&cluster).await, ["before", "after"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_given_up_publishes_nothing_more_of_a_series() {
    let cluster = cluster(1, 1);
    let broker = open(&config(&cluster).option("timeout", "30s")).unwrap();
    until_accepted(&broker, of_key("k", &["1", "2", "3"])).await;
    let refused = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS; 1000];
    cluster.request_errors(RDKafkaApiKey::Produce, &[&[OK], &refused[..]].concat());
    let batch = of_key("k", &["4", "given up", "given up", "given up"]);
    let until_first = async {
        while log(&cluster).await.len() < 4 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // Long enough for the series to be refused.
        tokio::time::sleep(Duration::from_millis(300)).await;
    };
    tokio::select! {
        results = broker.publish(&batch) => panic!("{results:?}"),
        () = until_first => {}
    }
    cluster.clear_request_errors(RDKafkaApiKey::Produce);
    until_accepted(&broker, of_key("k", &["after", "after", "after"])).await;
    let mut found = log(&cluster).await;
    found.dedup();
    assert_eq!(found, ["1", "2", "3", "4", "after"]);
}
