//! TLS to PostgreSQL: verified, and refused where it cannot be.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod certificates;

use certificates::{Valid, certificates};
use postrider_core::ErrorKind;
use postrider_stores::postgres::{PostgresOptions, migrate_check};
use postrider_testkit::servers::postgres::Postgres;
use postrider_testkit::servers::process::{Folder, own};

#[tokio::test]
async fn a_certificate_is_believed_only_from_a_known_authority_and_for_the_right_host() {
    let folder = Folder::create().unwrap();
    certificates(&folder, Valid::Now);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) =
        (format!("ssl_cert_file={}", path("leaf.pem")), format!("ssl_key_file={}", path("leaf.key")));
    let server = Postgres::start_with(&["ssl=on", &certificate, &key]).await.unwrap();
    let authority = path("ca.pem");
    let by_name = server.url().replace("127.0.0.1", "localhost");
    let check = async |url: String| migrate_check(&PostgresOptions::new(&url).unwrap()).await;

    assert_eq!(check(format!("{by_name}?sslmode=verify-full&sslrootcert={authority}")).await.unwrap(), None);
    assert_eq!(check(format!("{}?sslmode=require", server.url())).await.unwrap(), None);
    assert_eq!(check(server.url()).await.unwrap(), None);
    for refused in [
        format!("{by_name}?sslmode=verify-full"),
        format!("{}?sslmode=verify-full&sslrootcert={authority}", server.url()),
        format!("{by_name}?sslmode=verify-full&sslrootcert=/no/such/file.pem"),
    ] {
        let error = check(refused.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{refused}: {error}");
        let told = format!("{error} {}", error.advice().unwrap_or_default());
        assert!(told.contains("sslrootcert"), "{told}");
    }
}

#[tokio::test]
async fn a_certificate_that_expired_is_told_by_its_dates() {
    let folder = Folder::create().unwrap();
    certificates(&folder, Valid::InTheYear2020);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) =
        (format!("ssl_cert_file={}", path("leaf.pem")), format!("ssl_key_file={}", path("leaf.key")));
    let server = Postgres::start_with(&["ssl=on", &certificate, &key]).await.unwrap();
    let by_name = server.url().replace("127.0.0.1", "localhost");
    let options = PostgresOptions::new(&format!("{by_name}?sslmode=verify-full&sslrootcert={}", path("ca.pem")));
    let error = migrate_check(&options.unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.story().contains("certificate expired"), "{error}");
    assert!(error.advice().unwrap().contains("still valid"), "{error}");
}

#[tokio::test]
async fn encryption_that_was_asked_for_is_never_given_up() {
    let server = Postgres::start().await.unwrap();
    for mode in ["require", "verify-full"] {
        let options = PostgresOptions::new(&format!("{}?sslmode={mode}", server.url())).unwrap();
        let error = migrate_check(&options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
}

#[tokio::test]
async fn a_socket_of_the_file_system_is_an_address_as_well() {
    let folder = Folder::create().unwrap();
    own(folder.path()).unwrap();
    let directory = folder.path().display().to_string();
    let server = Postgres::start_with(&[&format!("unix_socket_directories={directory}")]).await.unwrap();
    let url = server.url().replace("127.0.0.1", &directory.replace('/', "%2F"));
    let check = async |url: String| migrate_check(&PostgresOptions::new(&url).unwrap()).await;
    assert_eq!(check(url.clone()).await.unwrap(), None);
    assert_eq!(check(format!("{url}?sslmode=disable")).await.unwrap(), None);
    let error = check(format!("{url}?sslmode=require")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "nothing is encrypted there: {error}");
}
