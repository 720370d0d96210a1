//! TLS to MariaDB: verified, and refused where it cannot be.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod certificates;

use certificates::{Valid, certificates};
use postrider_core::ErrorKind;
use postrider_stores::mysql::{MysqlOptions, migrate_check};
use postrider_testkit::servers::mariadb::{Family, Mariadb};
use postrider_testkit::servers::process::Folder;

async fn check(url: &str) -> postrider_core::Result<Option<postrider_stores::mysql::Installed>> {
    migrate_check(&MysqlOptions::new(url)?).await
}

#[tokio::test]
async fn a_certificate_is_believed_only_from_a_known_authority_and_for_the_right_host() {
    let folder = Folder::create().unwrap();
    certificates(&folder, Valid::Now);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (format!("--ssl-cert={}", path("leaf.pem")), format!("--ssl-key={}", path("leaf.key")));
    let server = Mariadb::start_with(&[&certificate, &key]).await.unwrap();
    // From here on it takes nobody in the clear.
    server.sql("mysql", "set global require_secure_transport = 1").await.unwrap();
    let (authority, by_number) = (path("ca.pem"), server.url_for("mysql"));
    let by_name = by_number.replace("127.0.0.1", "localhost");

    assert_eq!(check(&format!("{by_name}?sslmode=verify-full&sslrootcert={authority}")).await.unwrap(), None);
    assert_eq!(check(&format!("{by_name}?ssl-mode=VERIFY_IDENTITY&ssl-ca={authority}")).await.unwrap(), None);
    assert_eq!(check(&format!("{by_number}?sslmode=require")).await.unwrap(), None);
    assert_eq!(check(&by_number).await.unwrap(), None, "encrypted where the server can");
    for refused in [
        format!("{by_name}?sslmode=verify-full"),
        format!("{by_number}?sslmode=verify-full&sslrootcert={authority}"),
        format!("{by_name}?sslmode=verify-full&sslrootcert=/no/such/file.pem"),
    ] {
        let error = check(&refused).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{refused}: {error}");
        let told = format!("{error} {}", error.advice().unwrap_or_default());
        assert!(told.contains("sslrootcert"), "{told}");
    }
    let error = check(&format!("{by_number}?sslmode=disable")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.advice().unwrap().contains("sslmode"), "{error}");
}

#[tokio::test]
async fn a_certificate_that_expired_is_told_by_its_dates() {
    let folder = Folder::create().unwrap();
    certificates(&folder, Valid::InTheYear2020);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (format!("--ssl-cert={}", path("leaf.pem")), format!("--ssl-key={}", path("leaf.key")));
    let server = Mariadb::start_with(&[&certificate, &key]).await.unwrap();
    let by_name = server.url_for("mysql").replace("127.0.0.1", "localhost");
    let error = check(&format!("{by_name}?sslmode=verify-full&sslrootcert={}", path("ca.pem"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.story().contains("certificate expired"), "{error}");
    assert!(error.advice().unwrap().contains("still valid"), "{error}");
}

#[tokio::test]
async fn encryption_that_was_asked_for_is_never_given_up() {
    let server = Mariadb::start_with(&[Family::asked().unwrap().without_tls()]).await.unwrap();
    for mode in ["require", "verify-full"] {
        let error = check(&format!("{}?sslmode={mode}", server.url_for("mysql"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.story().contains("does not offer TLS"), "{error}");
    }
    assert_eq!(check(&server.url_for("mysql")).await.unwrap(), None, "on this machine it need not be");
}
