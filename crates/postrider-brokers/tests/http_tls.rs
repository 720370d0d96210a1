//! The HTTP broker verifies the receiver's certificate and its name. The certificates in `tls/` are for tests only; the
//! key of their authority is thrown away.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::sync::Arc;

use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Destination, Error, ErrorKind, Published};
use postrider_testkit::suites::broker::{message, outgoing};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/authority.pem");

/// A receiver whose certificate names localhost. Returns its port.
async fn receiver() -> u16 {
    receiver_with(include_bytes!("tls/localhost.pem"), include_bytes!("tls/localhost.key")).await
}

/// A receiver that answers 204 to whatever comes. Returns its port.
async fn receiver_with(certificate: &[u8], key: &[u8]) -> u16 {
    let chain = vec![CertificateDer::from_pem_slice(certificate).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not trust us hangs up here.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = [0; 4096];
            if stream.read(&mut request).await.is_ok_and(|length| length > 0) {
                let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
                let _ = stream.write_all(answer).await;
                let _ = stream.shutdown().await;
            }
        }
    });
    port
}

async fn publish(config: BrokerConfig) -> (Published, Result<(), Error>) {
    let broker = open(&config.option("timeout", "5s")).unwrap();
    let published = broker.publish(&[outgoing(message("x"), &Destination::new(""))]).await.remove(0);
    (published, broker.check(&[]).await.map(|_| ()))
}

async fn is_refused(config: BrokerConfig, words: &str) {
    let (Published::Failed(published), Err(checked)) = publish(config).await else { panic!("trusted") };
    for error in [published, checked] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_receiver_whose_authority_is_known_is_trusted() {
    let url = format!("https://localhost:{}/", receiver().await);
    let (published, checked) = publish(BrokerConfig::new(url).option("ca_file", AUTHORITY)).await;
    assert!(matches!(published, Published::Accepted(_)), "{published:?}");
    checked.unwrap();
}

#[tokio::test]
async fn a_receiver_whose_authority_is_unknown_is_refused() {
    is_refused(
        BrokerConfig::new(format!("https://localhost:{}/", receiver().await))
            .option("ca_file", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/localhost.pem")),
        "certificate does not verify",
    )
    .await;
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let url = format!("https://127.0.0.1:{}/", receiver().await);
    is_refused(BrokerConfig::new(url).option("ca_file", AUTHORITY), "certificate does not verify").await;
}

#[tokio::test]
async fn a_certificate_that_expired_is_refused_and_told_by_its_dates() {
    let port = receiver_with(include_bytes!("tls/expired.pem"), include_bytes!("tls/expired.key")).await;
    let authority = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/expired-authority.pem");
    let config = BrokerConfig::new(format!("https://localhost:{port}/")).option("ca_file", authority);
    is_refused(config, "has expired").await;
}

#[test]
fn a_certificate_file_that_cannot_be_read_is_refused_at_once() {
    let config = BrokerConfig::new("https://localhost/").option("ca_file", "/no/such/file.pem");
    let error = open(&config).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("/no/such/file.pem"), "{error}");
}
