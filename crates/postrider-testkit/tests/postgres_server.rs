//! The private PostgreSQL server does what its tests rely on.

use postrider_testkit::servers::postgres::{Postgres, shared};
use postrider_testkit::servers::process::{ServerError, find};

#[tokio::test]
async fn a_server_survives_kill_9_and_a_restart_with_its_data() {
    let mut server = Postgres::start().await.unwrap();
    server.psql("postgres", "create table kept as select 7 as n").await.unwrap();
    server.kill9();
    assert!(server.psql("postgres", "select 1").await.is_err());
    server.restart().await.unwrap();
    assert_eq!(server.psql("postgres", "select n from kept").await.unwrap(), "7");
    server.stop();
    server.restart().await.unwrap();
    assert_eq!(server.psql("postgres", "show wal_level").await.unwrap(), "logical");
}

#[tokio::test]
async fn every_test_gets_a_database_of_its_own() {
    let server = shared().await.unwrap();
    let (one, other) = tokio::join!(server.fresh_database(), server.fresh_database());
    assert_ne!(one.unwrap(), other.unwrap());
}

#[test]
fn a_missing_program_is_told_apart_from_a_failing_one() {
    let error = find("no-such-server", &[], "a-package").unwrap_err();
    assert!(matches!(error, ServerError::NotInstalled { .. }), "{error}");
    assert!(error.to_string().contains("apt-get install a-package"));
}
