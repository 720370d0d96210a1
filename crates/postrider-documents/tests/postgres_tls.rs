//! TLS to PostgreSQL: verified, and refused where it cannot be.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails, and so does what it shares")]

#[path = "../../postrider-stores/tests/certificates/mod.rs"]
mod certificates;

use certificates::{Valid, certificates};
use postrider_core::{ErrorKind, Level};
use postrider_documents::open;
use postrider_testkit::servers::installed;
use postrider_testkit::servers::postgres::Postgres;
use postrider_testkit::servers::process::{Folder, own};

/// A server that shows a certificate for `localhost`, its URL by that name, and the file of the authority.
async fn start(folder: &Folder, valid: Valid) -> Option<(Postgres, String, String)> {
    certificates(folder, valid);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) =
        (format!("ssl_cert_file={}", path("leaf.pem")), format!("ssl_key_file={}", path("leaf.key")));
    let server = installed("documents over TLS", Postgres::start_with(&["ssl=on", &certificate, &key]).await)?;
    let by_name = server.url().replace("127.0.0.1", "localhost");
    Some((server, by_name, path("ca.pem")))
}

#[tokio::test]
async fn a_certificate_is_believed_only_from_a_known_authority_and_for_the_right_host() {
    let folder = Folder::create().unwrap();
    let Some((server, by_name, authority)) = start(&folder, Valid::Now).await else { return };
    let store = open(&format!("{by_name}?sslrootcert={authority}")).await.unwrap();
    store.prepare().await.unwrap();
    let findings = store.check().await.unwrap();
    let encryption = findings.iter().find(|finding| finding.subject == "encryption").unwrap();
    assert_eq!((encryption.level, encryption.found.as_str()), (Level::Good, "TLS, verified"));

    let unknown = format!("{by_name}?sslmode=verify-full");
    let of_another_host = format!("{}?sslmode=verify-full&sslrootcert={authority}", server.url());
    for url in [unknown, of_another_host] {
        let error = open(&url).await.unwrap().check().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error}");
        assert!(error.to_string().contains("sslrootcert"), "{error}");
    }
    let error = open(&format!("{by_name}?sslrootcert=/no/such/file.pem")).await.unwrap_err();
    assert!(error.to_string().contains("/no/such/file.pem"), "{error}");
}

#[tokio::test]
async fn a_certificate_that_expired_is_refused() {
    let folder = Folder::create().unwrap();
    let Some((_server, by_name, authority)) = start(&folder, Valid::InTheYear2020).await else { return };
    let error = open(&format!("{by_name}?sslrootcert={authority}")).await.unwrap().check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("still valid"), "{error}");
}

#[tokio::test]
async fn encryption_that_was_asked_for_is_never_given_up() {
    let Some(server) = installed("documents without TLS", Postgres::start().await) else { return };
    let error = open(&format!("{}?sslmode=verify-full", server.url())).await.unwrap().check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("switch TLS on"), "{error}");
}

#[tokio::test]
async fn a_socket_of_the_file_system_is_an_address_as_well() {
    let folder = Folder::create().unwrap();
    own(folder.path()).unwrap();
    let directory = folder.path().display().to_string();
    let started = Postgres::start_with(&[&format!("unix_socket_directories={directory}")]).await;
    let Some(server) = installed("documents over a socket", started) else { return };
    let url = server.url().replace("127.0.0.1", &directory.replace('/', "%2F"));
    let store = open(&url).await.unwrap();
    store.prepare().await.unwrap();
    store.check().await.unwrap();
}
