//! The MySQL store against the suite of stores, on MariaDB.
//!
//! MySQL 8 is no package of Debian: what is said of it here is that it was not run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod mysql;

use std::time::Duration;

use mysql::Relay;
use mysql::harness::Harness;
use mysql_async::prelude::Queryable as _;
use postrider_core::{Level, Message, Outcome, Store as _};
use postrider_stores::mysql::{MysqlOptions, MysqlStore, Names, migrate, remove};
use postrider_testkit::servers::mariadb::shared;
use postrider_testkit::suites::store::LANES;
use postrider_testkit::suites::store::bench::retry;
use postrider_testkit::{one_order_suite, store_suite};

async fn start() -> Harness {
    Harness::fresh(shared().await.unwrap(), LANES).await
}

async fn start_of_one_lane() -> Harness {
    Harness::fresh(shared().await.unwrap(), 1).await
}

store_suite!(start);
one_order_suite!(start_of_one_lane);

/// A database of a MySQL 8 that a test may make tables in, as a URL: no package of Debian brings such a server.
const MYSQL_8: &str = "POSTRIDER_MYSQL_URL";

#[tokio::test]
async fn the_main_road_on_mysql_8() {
    let Ok(url) = std::env::var(MYSQL_8) else {
        eprintln!("NOT RUN: MySQL 8: no package of Debian brings it; {MYSQL_8} names a database of one");
        return;
    };
    let prefix = format!("main_road_{}_", std::process::id());
    let options = MysqlOptions::new(&url).unwrap().names(Names::new(&prefix).unwrap());
    migrate(&options, mysql::lanes(4)).await.unwrap();
    let store = MysqlStore::open(options.clone()).await.unwrap();
    let mut relay = Relay::joined(&store).await;
    let mut operator = store.operator().await.unwrap();
    operator.enqueue(&(0..10).map(|n| Message::new("t", n.to_string()).key("k")).collect::<Vec<_>>()).await.unwrap();
    let mut connection = mysql::connection(&url).await;
    let call = format!(
        "set @id = null; call {prefix}enqueue('t', 'k', 'called', '{{\"b\": \"1\"}}', null, null, null, null, @id)"
    );
    connection.query_drop(call).await.unwrap();
    let rows = relay.read_all().await;
    assert_eq!((rows.len(), mysql::payload(&rows[10])), (11, "called".to_owned()));
    assert_eq!(relay.settle(&rows[..1], retry(Duration::ZERO)).await.rows, mysql::ids(&rows[..1]));
    assert_eq!(relay.source.due(&relay.held, mysql::ROOM, &[]).await.unwrap().rows.len(), 1);
    assert_eq!(relay.settle(&rows, Outcome::Delivered).await.rows, mysql::ids(&rows));
    for finding in operator.check().await.unwrap() {
        assert_ne!(finding.level, Level::Failure, "{finding:?}");
    }
    operator.status(10).await.unwrap();
    remove(&options).await.unwrap();
}
