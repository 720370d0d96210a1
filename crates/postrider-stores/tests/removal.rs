//! Removing the tables of a measurement: all of them, and nothing else.

#![cfg(all(feature = "postgres", feature = "sqlite"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use postrider_core::ErrorKind;
use postrider_stores::{MigrateOptions, StoreOptions, migrate, remove};
use postrider_testkit::servers::postgres::shared;
use rusqlite::Connection;

fn of_a_while() -> StoreOptions {
    StoreOptions { settings: [("prefix".to_owned(), "bench_".to_owned())].into(), ..StoreOptions::default() }
}

/// Makes the tables of an application and those of a measurement, and removes the latter twice.
async fn made_and_removed(url: &str) {
    migrate(url, &MigrateOptions::default()).await.unwrap();
    migrate(url, &MigrateOptions { store: of_a_while(), lanes: None }).await.unwrap();
    remove(url, &of_a_while()).await.unwrap();
    remove(url, &of_a_while()).await.unwrap();
    let error = remove(url, &StoreOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

#[tokio::test]
async fn on_postgresql_only_the_tables_and_functions_of_the_prefix_go() {
    let server = shared().await.unwrap();
    let database = server.create_database().await.unwrap();
    server.psql(&database, "create table bench_mine (a int)").await.unwrap();
    let things = "select string_agg(name, ',' order by name) from (
                    select relname as name from pg_class where relnamespace = 'public'::regnamespace
                    union select proname from pg_proc where pronamespace = 'public'::regnamespace) t";
    let url = server.url_for(&database);
    migrate(&url, &MigrateOptions::default()).await.unwrap();
    let before = server.psql(&database, things).await.unwrap();
    assert!(before.contains("bench_mine") && before.contains("postrider_outbox"), "{before}");
    made_and_removed(&url).await;
    assert_eq!(server.psql(&database, things).await.unwrap(), before);
}

#[tokio::test]
async fn on_sqlite_only_the_tables_of_the_prefix_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    Connection::open(&path).unwrap().execute_batch("create table bench_mine (a)").unwrap();
    let url = format!("sqlite://{}", path.display());
    migrate(&url, &MigrateOptions::default()).await.unwrap();
    let things = || -> String {
        let names = "select group_concat(name, ',') from (select name from sqlite_schema order by name)";
        Connection::open(&path).unwrap().query_row(names, [], |row| row.get(0)).unwrap()
    };
    let before = things();
    assert!(before.contains("bench_mine") && before.contains("postrider_outbox"), "{before}");
    made_and_removed(&url).await;
    assert_eq!(things(), before);
}
