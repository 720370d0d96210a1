//! TLS to Redis: verified, and refused where it cannot be.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails, and so does what it shares")]

#[path = "../../../postrider-stores/tests/certificates/mod.rs"]
mod certificates;

use certificates::{Valid, certificates};
use postrider_core::{ErrorKind, Level};
use postrider_documents::open;
use postrider_testkit::servers::installed;
use postrider_testkit::servers::process::{Folder, free_port};
use postrider_testkit::servers::redis::Redis;

use crate::level;

/// A server that shows a certificate for `localhost`, its URL by TLS and that name, and the file of the authority.
async fn start(folder: &Folder, valid: Valid) -> Option<(Redis, String, String)> {
    certificates(folder, valid);
    let (path, port) = (|name: &str| folder.path().join(name).display().to_string(), free_port().unwrap());
    let settings = [
        format!("tls-port {port}"),
        format!("tls-cert-file {}", path("leaf.pem")),
        format!("tls-key-file {}", path("leaf.key")),
        format!("tls-ca-cert-file {}", path("ca.pem")),
        "tls-auth-clients no".to_owned(),
    ];
    let started = Redis::start_with(&settings.each_ref().map(String::as_str)).await;
    let server = installed("documents in Redis over TLS", started)?;
    let url = server.url().replace("redis:", "rediss:").replace("127.0.0.1", "localhost");
    let url = url.replace(&format!(":{}/", server.port()), &format!(":{port}/"));
    Some((server, url, path("ca.pem")))
}

#[tokio::test]
async fn a_certificate_is_believed_only_from_a_known_authority_and_for_the_right_host() {
    let folder = Folder::create().unwrap();
    let Some((_server, url, authority)) = start(&folder, Valid::Now).await else { return };
    let store = open(&format!("{url}?ca_file={authority}")).await.unwrap();
    store.prepare().await.unwrap();
    let findings = store.check().await.unwrap();
    assert_eq!(level(&findings, "encryption"), Some(Level::Good), "{findings:?}");
    assert!(findings.iter().any(|finding| finding.found == "TLS, verified"), "{findings:?}");

    let of_another_host = format!("{}?ca_file={authority}", url.replace("localhost", "127.0.0.1"));
    for url in [url.clone(), of_another_host] {
        let error = open(&url).await.unwrap().check().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error}");
        assert!(error.to_string().contains("ca_file"), "{error}");
    }
    let error = open(&format!("{url}?ca_file=/no/such/file.pem")).await.unwrap_err();
    assert!(error.to_string().contains("/no/such/file.pem"), "{error}");
}

#[tokio::test]
async fn a_certificate_that_expired_is_refused() {
    let folder = Folder::create().unwrap();
    let Some((_server, url, authority)) = start(&folder, Valid::InTheYear2020).await else { return };
    let error = open(&format!("{url}?ca_file={authority}")).await.unwrap().check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("still valid"), "{error}");
}

#[tokio::test]
async fn encryption_that_was_asked_for_is_never_given_up() {
    let Some(server) = installed("documents in Redis without TLS", Redis::start().await) else { return };
    let url = server.url().replace("redis:", "rediss:");
    let error = open(&format!("{url}?timeout=3")).await.unwrap().check().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Config | ErrorKind::Unavailable), "{error}");
}
