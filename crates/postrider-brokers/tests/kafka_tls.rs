//! The Kafka broker verifies the server's certificate and its name, and shows its own where the server asks for it. The
//! certificates in `tls/` are for tests only; the key of their authority is thrown away.
#![cfg(feature = "kafka-tls")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod kafka_node;

use std::time::{Duration, Instant};

use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Destination, Error, ErrorKind, Published};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::kafka::{KafkaOptions, KafkaServer};
use postrider_testkit::suites::broker::{message, outgoing};

const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/authority.pem");
/// The authority of the certificate that expired.
const ITS_AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/expired-authority.pem");
const LEAF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/localhost.pem");
const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/client.pem");
const CLIENT_KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/client.key");

/// A key and its certificate for localhost.
const VALID: &str = concat!(include_str!("tls/localhost.key"), include_str!("tls/localhost.pem"));

/// A node with a topic; none where there is no Kafka, which is said.
async fn node(options: KafkaOptions) -> Option<KafkaServer> {
    let server = installed("kafka over TLS", KafkaServer::start_with(options).await)?;
    kafka_node::create_topic(&server.address(), "orders", 1, &[]).await;
    Some(server)
}

fn with(certificate: &str) -> KafkaOptions {
    KafkaOptions { certificate: Some(certificate.to_owned()), ..KafkaOptions::default() }
}

fn config(scheme: &str, address: &str) -> BrokerConfig {
    BrokerConfig::new(format!("{scheme}://{address}")).option("timeout", "10s")
}

async fn is_trusted(config: &BrokerConfig) {
    let results = open(config).unwrap().publish(&[outgoing(message("x"), &Destination::new("orders"))]).await;
    assert!(matches!(results[..], [Published::Accepted(_)]), "{results:?}");
}

async fn refusal(config: &BrokerConfig) -> Error {
    let began = Instant::now();
    let broker = open(config).unwrap();
    let error = broker.check(&[Destination::new("orders")]).await.unwrap_err();
    match broker.publish(&[outgoing(message("x"), &Destination::new("orders"))]).await.remove(0) {
        Published::Failed(published) => {
            assert!(published.is_unsent() && published.kind() == error.kind(), "{published} / {error}");
        }
        other => panic!("expected a failure, found {other:?}"),
    }
    assert!(began.elapsed() < Duration::from_secs(15), "it took {:?}", began.elapsed());
    error
}

async fn is_refused(config: &BrokerConfig, words: &str) {
    let error = refusal(config).await;
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_verified_with_its_authority_and_its_name() {
    let Some(server) = node(with(VALID)).await else { return };
    let address = server.address_with_tls("localhost");
    is_trusted(&config("kafka+ssl", &address).option("ca_file", AUTHORITY)).await;
    is_trusted(&config("kafka", &address).option("security", "tls").option("ca_file", AUTHORITY)).await;
    // An unknown authority, the system's, and another name.
    is_refused(&config("kafka+ssl", &address).option("ca_file", LEAF), "certificate does not verify").await;
    is_refused(&config("kafka+ssl", &address), "ca_file").await;
    let elsewhere = server.address_with_tls("127.0.0.1");
    is_refused(&config("kafka+ssl", &elsewhere).option("ca_file", AUTHORITY), "certificate does not verify").await;
    // A port without TLS, and TLS without being asked for.
    let plain = refusal(&config("kafka+ssl", &server.address()).option("ca_file", AUTHORITY)).await;
    assert!(matches!(plain.kind(), ErrorKind::Config | ErrorKind::Unavailable), "{plain}");
    let guarded = refusal(&config("kafka", &address)).await;
    assert!(matches!(guarded.kind(), ErrorKind::Config | ErrorKind::Unavailable), "{guarded}");
    assert!(guarded.to_string().contains("security"), "{guarded}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_certificate_is_shown_where_it_is_asked_for() {
    let authority = Some(include_str!("tls/authority.pem").to_owned());
    let Some(server) = node(KafkaOptions { authority, ..with(VALID) }).await else { return };
    let nameless = config("kafka+ssl", &server.address_with_tls("localhost")).option("ca_file", AUTHORITY);
    is_trusted(&nameless.clone().option("client_cert_file", CLIENT).option("client_key_file", CLIENT_KEY)).await;
    is_refused(&nameless, "client_cert_file").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_expired_is_a_config_error_that_says_where_to_look() {
    let expired = concat!(include_str!("tls/expired.key"), include_str!("tls/expired.pem"));
    let Some(server) = node(with(expired)).await else { return };
    let config = config("kafka+ssl", &server.address_with_tls("localhost")).option("ca_file", ITS_AUTHORITY);
    is_refused(&config, "look at its name and its dates").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_over_tls_is_checked_by_every_mechanism_behind_a_verified_certificate() {
    let users = vec![("relay".to_owned(), kafka_node::PASSWORD.to_owned())];
    let Some(server) = node(KafkaOptions { users, ..with(VALID) }).await else { return };
    let by_name = server.address_with_both("localhost");
    let config = |address: &str, sasl: &str, word: &str| {
        config("kafka+ssl", address)
            .option("ca_file", AUTHORITY)
            .option("sasl", sasl)
            .option("user", "relay")
            .option("password", word)
    };
    for sasl in ["plain", "scram-sha-256", "scram-sha-512"] {
        let right = config(&by_name, sasl, kafka_node::PASSWORD);
        is_trusted(&right).await;
        let findings = open(&right).unwrap().check(&[Destination::new("orders")]).await.unwrap();
        assert!(!format!("{findings:?}").contains("travels readable"), "{findings:?}");
        let error = refusal(&config(&by_name, sasl, "wrong-canary")).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{sasl}: {error}");
        let text = error.to_string();
        assert!(text.contains("user and password") && !text.contains("canary"), "{sasl}: {text}");
    }
    // Without a verified server nobody is told the password.
    let elsewhere = config(&server.address_with_both("127.0.0.1"), "plain", kafka_node::PASSWORD);
    is_refused(&elsewhere, "certificate does not verify").await;
}

#[test]
fn a_certificate_or_key_that_cannot_be_used_is_refused_at_once() {
    let with = |certificate: &str, key: &str| {
        let config = BrokerConfig::new("kafka+ssl://localhost").option("ca_file", AUTHORITY);
        let config = config.option("client_cert_file", certificate).option("client_key_file", key);
        let error = open(&config).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        error.to_string()
    };
    assert!(with("/no/such/file.pem", CLIENT_KEY).contains("/no/such/file.pem"));
    assert!(with(CLIENT, "/no/such/file.key").contains("/no/such/file.key"));
    with(CLIENT_KEY, CLIENT_KEY);
    with(LEAF, CLIENT_KEY);
}
