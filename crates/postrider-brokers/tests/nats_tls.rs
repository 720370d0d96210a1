//! The NATS broker verifies the server's certificate and its name, and shows its own where the server asks for it. The
//! certificates in `tls/` are for tests only; the key of their authority is thrown away.
#![cfg(feature = "nats")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::time::{Duration, Instant};

use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Destination, Error, ErrorKind, Published};
use postrider_testkit::servers::nats::{NatsOptions, NatsServer};
use postrider_testkit::servers::process::Folder;
use postrider_testkit::suites::broker::{message, outgoing};

const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/authority.pem");
const LEAF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/localhost.pem");
const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/client.pem");
const CLIENT_KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/client.key");

/// A server whose certificate names localhost, with further settings of its TLS; and the folder that it reads.
async fn server(more: &str) -> (NatsServer, Folder) {
    server_with(include_str!("tls/localhost.pem"), include_str!("tls/localhost.key"), more).await
}

async fn server_with(certificate: &str, key: &str, more: &str) -> (NatsServer, Folder) {
    let folder = Folder::create().unwrap();
    let certificate = folder.write("localhost.pem", certificate).unwrap();
    let key = folder.write("localhost.key", key).unwrap();
    let authority = folder.write("authority.pem", include_str!("tls/authority.pem")).unwrap();
    let extra = format!(
        "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}\n {more} }}",
        certificate.display().to_string(),
        key.display().to_string(),
        authority.display().to_string()
    );
    let server = NatsServer::start_with(NatsOptions { extra, ..NatsOptions::default() }).await.unwrap();
    (server, folder)
}

fn config(scheme: &str, host: &str, server: &NatsServer) -> BrokerConfig {
    BrokerConfig::new(format!("{scheme}://{host}:{}", server.port())).option("timeout", "5s")
}

/// What `check` says once the server was reached or refused; there is no stream, which only a server reached can tell.
async fn verdict(config: &BrokerConfig) -> Error {
    let broker = open(config).unwrap();
    let destination = Destination::new("orders.placed");
    let error = broker.check(std::slice::from_ref(&destination)).await.unwrap_err();
    match broker.publish(&[outgoing(message("x"), &destination)]).await.remove(0) {
        Published::Failed(published) => assert_eq!(published.kind(), error.kind(), "{published} / {error}"),
        other => panic!("expected a failure, found {other:?}"),
    }
    error
}

async fn is_trusted(config: &BrokerConfig) {
    let error = verdict(config).await;
    assert!(error.to_string().contains("no JetStream stream"), "{error}");
}

async fn is_refused(config: &BrokerConfig, words: &str) {
    let began = Instant::now();
    let error = verdict(config).await;
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains(words), "{error}");
    assert!(began.elapsed() < Duration::from_secs(4), "it took {:?}", began.elapsed());
}

#[tokio::test]
async fn a_server_whose_authority_is_known_is_trusted() {
    let (server, _folder) = server("").await;
    for scheme in ["tls", "nats"] {
        is_trusted(&config(scheme, "localhost", &server).option("ca_file", AUTHORITY)).await;
    }
}

#[tokio::test]
async fn a_server_whose_authority_is_unknown_is_refused() {
    let (server, _folder) = server("").await;
    is_refused(&config("tls", "localhost", &server).option("ca_file", LEAF), "ca_file").await;
    is_refused(&config("nats", "localhost", &server).option("ca_file", LEAF), "certificate does not verify").await;
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let (server, _folder) = server("").await;
    let config = config("tls", "127.0.0.1", &server).option("ca_file", AUTHORITY);
    is_refused(&config, "certificate does not verify").await;
}

#[tokio::test]
async fn a_certificate_that_expired_is_refused_and_told_by_its_dates() {
    let (server, _folder) = server_with(include_str!("tls/expired.pem"), include_str!("tls/expired.key"), "").await;
    let authority = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/expired-authority.pem");
    is_refused(&config("tls", "localhost", &server).option("ca_file", authority), "has expired").await;
}

#[tokio::test]
async fn a_client_certificate_is_shown_and_the_authority_of_ca_file_still_trusted() {
    let (server, _folder) = server("verify: true").await;
    let nameless = config("tls", "localhost", &server).option("ca_file", AUTHORITY);
    let named = nameless.clone().option("client_cert_file", CLIENT).option("client_key_file", CLIENT_KEY);
    is_trusted(&named).await;
    is_refused(&named.option("ca_file", LEAF), "certificate does not verify").await;
    is_refused(&nameless, "client_cert_file").await;
}

#[tokio::test]
async fn a_server_without_tls_gets_nothing_when_tls_is_demanded() {
    let server = NatsServer::start().await.unwrap();
    let error = verdict(&config("tls", "localhost", &server).option("ca_file", AUTHORITY)).await;
    assert!(matches!(error.kind(), ErrorKind::Config | ErrorKind::Unavailable), "{error}");
    assert!(!error.to_string().contains("no JetStream stream"), "{error}");
}

#[test]
fn a_certificate_or_key_that_cannot_be_used_is_refused_at_once() {
    let config = BrokerConfig::new("nats://localhost");
    let with = |certificate: &str, key: &str| {
        let config = config.clone().option("client_cert_file", certificate).option("client_key_file", key);
        let error = open(&config).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        error.to_string()
    };
    assert!(with("/no/such/file.pem", CLIENT_KEY).contains("client_cert_file /no/such/file.pem"));
    assert!(with(CLIENT, "/no/such/file.key").contains("client_key_file /no/such/file.key"));
    assert!(with(CLIENT_KEY, CLIENT_KEY).contains("found no certificate"));
    assert!(with(LEAF, CLIENT_KEY).contains("do not belong together"));
}
