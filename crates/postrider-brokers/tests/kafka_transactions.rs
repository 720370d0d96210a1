//! The Kafka broker with a transactional producer per lane passes the suite, against a real Kafka with a password.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod kafka_harness;
mod kafka_log;
mod kafka_node;

use kafka_harness::Harness;
use kafka_node::node;
use postrider_testkit::suites::broker::run;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kafka_broker_with_transactions_passes_the_suite() {
    if node("kafka with transactions").await.is_none() {
        return;
    }
    run("kafka-transactions", || Harness::start(&[("transactional_id_prefix", "suite")])).await.expect_success();
}
