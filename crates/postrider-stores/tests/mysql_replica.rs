//! A replica given by mistake, which takes writes: `check` sees that it applies another one's log.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod mysql;

use mysql::{Outbox, until};
use postrider_core::{Level, Store as _};
use postrider_stores::mysql::{MysqlOptions, MysqlStore};
use postrider_testkit::servers::mariadb::{Family, Mariadb, PASSWORD, USER};

/// Makes a server follow another one.
async fn follow(replica: &Mariadb, primary: &Mariadb) {
    let port = primary.port();
    let sql = match replica.family() {
        Family::Mariadb => format!(
            "change master to master_host = '127.0.0.1', master_port = {port}, master_user = '{USER}', \
             master_password = '{PASSWORD}'; start slave"
        ),
        Family::Mysql => format!(
            "change replication source to source_host = '127.0.0.1', source_port = {port}, source_user = '{USER}', \
             source_password = '{PASSWORD}', get_source_public_key = 1; start replica"
        ),
    };
    replica.sql("mysql", &sql).await.unwrap();
}

/// What the doctor says of replication on the server, if anything.
async fn said(url: &str) -> Option<(Level, String)> {
    let store = MysqlStore::open(MysqlOptions::new(url).unwrap()).await.unwrap();
    let findings = store.operator().await.unwrap().check().await.unwrap();
    let finding = findings.into_iter().find(|finding| finding.subject == "replication")?;
    Some((finding.level, finding.advice))
}

#[tokio::test]
async fn a_replica_that_takes_writes_is_warned_of_and_its_primary_is_not() {
    let primary = Mariadb::start_with(&["--log-bin=log", "--server-id=1"]).await.unwrap();
    let replica = Mariadb::start_with(&["--server-id=2"]).await.unwrap();
    follow(&replica, &primary).await;
    let outbox = Outbox::on(&primary, 8, |options| options).await;
    let here = format!("select count(*) from information_schema.routines where routine_schema = '{}'", outbox.database);
    until("the outbox on the replica", async || replica.sql("mysql", &here).await.unwrap() == "2").await;
    let warned = said(&replica.url_for(&outbox.database)).await;
    assert_eq!(warned, Some((Level::Warning, "give the URL of the primary".to_owned())));
    assert_eq!(said(&primary.url_for(&outbox.database)).await, None);
}
