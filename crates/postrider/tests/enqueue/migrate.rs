//! Creating the tables through each driver.

use std::time::Duration;

use postrider::{ErrorKind, LaneCount, Message, Outbox};
use postrider_testkit::servers::postgres::shared;
use rusqlite::Connection;
use sqlx::{PgPool, SqlitePool};
use tokio_postgres::NoTls;

async fn database() -> (String, PgPool, tokio_postgres::Client) {
    let url = shared().await.unwrap().fresh_database().await.unwrap();
    let pool = PgPool::connect(&url).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    (url, pool, client)
}

fn lanes(number: u16) -> LaneCount {
    LaneCount::new(number).unwrap()
}

#[tokio::test]
async fn on_postgresql_several_starters_at_once_are_safe() {
    let (_, pool, client) = database().await;
    let starts = (0..6).map(|_| {
        tokio::spawn({
            let pool = pool.clone();
            async move { postrider::migrate(&pool).await }
        })
    });
    let starts: Vec<_> = starts.collect();
    postrider::migrate(&client).await.unwrap();
    for start in starts {
        start.await.unwrap().unwrap();
    }
    let lanes: i64 = client.query_one("select count(*) from postrider_lane", &[]).await.unwrap().get(0);
    assert_eq!(lanes, 64);
}

#[tokio::test]
async fn on_postgresql_the_number_of_lanes_is_kept_and_another_is_refused() {
    let (_, pool, client) = database().await;
    Outbox::new().lanes(lanes(3)).migrate(&pool).await.unwrap();
    postrider::migrate(&pool).await.unwrap();
    postrider::migrate(&client).await.unwrap();
    let count: i64 = client.query_one("select count(*) from postrider_lane", &[]).await.unwrap().get(0);
    assert_eq!(count, 3);

    let mut connection = pool.acquire().await.unwrap();
    let with_sqlx = Outbox::new().lanes(lanes(5)).migrate(&mut *connection).await.unwrap_err();
    let with_tokio = Outbox::new().lanes(lanes(5)).migrate(&client).await.unwrap_err();
    for error in [with_sqlx, with_tokio] {
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("3 lanes"), "{error}");
    }
    // Both connections are out of the script's failed transaction.
    sqlx::query("select 1").execute(&mut *connection).await.unwrap();
    client.batch_execute("select 1").await.unwrap();
}

#[tokio::test]
async fn on_postgresql_a_role_that_may_change_nothing_finds_the_tables_as_they_are() {
    let (url, owner, client) = database().await;
    let role = format!("service_{}", uuid::Uuid::new_v4().simple());
    client.batch_execute(&format!("create role {role} login password 'secret'")).await.unwrap();
    let (scheme, rest) = url.split_once("://").unwrap();
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let url = format!("{scheme}://{role}:secret@{host}");
    let pool = PgPool::connect(&url).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    postrider::migrate(&owner).await.unwrap();

    for error in [postrider::migrate(&pool).await.unwrap_err(), postrider::migrate(&client).await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("run `postrider migrate` as the owner"), "{error}");
    }
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("grant select on postrider_meta to {role}")))
        .execute(&owner)
        .await
        .unwrap();
    postrider::migrate(&pool).await.unwrap();
    postrider::migrate(&client).await.unwrap();
    Outbox::new().lanes(lanes(5)).migrate(&pool).await.unwrap_err();
    Outbox::new().lanes(lanes(5)).migrate(&client).await.unwrap_err();
    sqlx::query("update postrider_meta set version = 6").execute(&owner).await.unwrap();
    postrider::migrate(&pool).await.unwrap_err();
    postrider::migrate(&client).await.unwrap_err();
    client.batch_execute("select 1").await.unwrap();
}

#[tokio::test]
async fn on_postgresql_newer_tables_are_left_alone() {
    let (_, pool, client) = database().await;
    postrider::migrate(&pool).await.unwrap();
    client.batch_execute("update postrider_meta set version = 999").await.unwrap();
    postrider::migrate(&pool).await.unwrap();
    postrider::migrate(&client).await.unwrap();
    client.batch_execute("update postrider_meta set compatible_from = 999").await.unwrap();
    let error = postrider::migrate(&pool).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("newer"), "{error}");
}

#[tokio::test]
async fn on_postgresql_a_table_that_the_application_holds_is_not_waited_for_long() {
    let (url, pool, client) = database().await;
    postrider::migrate(&pool).await.unwrap();
    let (mut other, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let held = other.transaction().await.unwrap();
    // The tables of messages are not asked for; what the outbox says of itself is written anew.
    held.batch_execute("lock table postrider_outbox in row exclusive mode; select from postrider_meta").await.unwrap();
    // Two seconds are promised.
    let waiting = tokio::time::timeout(Duration::from_secs(10), postrider::migrate(&client));
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Throttled, "{error}");
    held.rollback().await.unwrap();
    postrider::migrate(&client).await.unwrap();
}

#[tokio::test]
async fn on_postgresql_other_names_are_another_outbox() {
    let (_, pool, client) = database().await;
    let outbox = Outbox::new().schema("billing").unwrap().prefix("b_").unwrap();
    outbox.migrate(&pool).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    outbox.enqueue(&mut tx, Message::new("t", "")).await.unwrap();
    tx.commit().await.unwrap();
    let count: i64 = client.query_one("select count(*) from billing.b_outbox", &[]).await.unwrap().get(0);
    assert_eq!(count, 1);
}

#[tokio::test]
async fn on_sqlite_several_starters_at_once_are_safe() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let url = format!("sqlite:{}?mode=rwc", path.to_str().unwrap());
    let pool = SqlitePool::connect(&url).await.unwrap();
    let starts: Vec<_> = (0..4)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { postrider::migrate(&pool).await })
        })
        .collect();
    let connection = Connection::open(&path).unwrap();
    postrider::migrate(&connection).unwrap();
    for start in starts {
        start.await.unwrap().unwrap();
    }
    let lanes: i64 = connection.query_row("select count(*) from postrider_lane", (), |row| row.get(0)).unwrap();
    let mode: String = connection.query_row("pragma journal_mode", (), |row| row.get(0)).unwrap();
    assert_eq!((lanes, mode.as_str()), (8, "wal"));
}

#[tokio::test]
async fn on_sqlite_another_connection_that_writes_to_the_new_file_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    for driver in ["sqlx", "rusqlite"] {
        let path = folder.path().join(driver);
        let other = Connection::open(&path).unwrap();
        other.execute_batch("begin immediate; create table mine (a)").unwrap();
        let mut migration = match driver {
            "sqlx" => {
                let pool = SqlitePool::connect(&format!("sqlite:{}", path.display())).await.unwrap();
                tokio::spawn(async move { postrider::migrate(&pool).await })
            }
            _ => tokio::task::spawn_blocking(move || postrider::migrate(&Connection::open(&path).unwrap())),
        };
        let ended = tokio::time::timeout(Duration::from_millis(300), &mut migration).await;
        assert!(ended.is_err(), "{driver} did not wait: {ended:?}");
        other.execute_batch("commit").unwrap();
        migration.await.unwrap().unwrap();
        let lanes: i64 = other.query_row("select count(*) from postrider_lane", (), |row| row.get(0)).unwrap();
        let mode: String = other.query_row("pragma journal_mode", (), |row| row.get(0)).unwrap();
        assert_eq!((lanes, mode.as_str()), (8, "wal"), "{driver}");
    }
}

#[tokio::test]
async fn on_sqlite_the_number_of_lanes_is_kept_and_another_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let connection = Connection::open(&path).unwrap();
    Outbox::new().lanes(lanes(3)).migrate(&connection).unwrap();
    postrider::migrate(&connection).unwrap();
    let pool = SqlitePool::connect(&format!("sqlite:{}", path.to_str().unwrap())).await.unwrap();
    let mut second = pool.acquire().await.unwrap();
    let with_sqlx = Outbox::new().lanes(lanes(5)).migrate(&mut *second).await.unwrap_err();
    let with_rusqlite = Outbox::new().lanes(lanes(5)).migrate(&connection).unwrap_err();
    for error in [with_sqlx, with_rusqlite] {
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("3 lanes"), "{error}");
    }
    assert!(connection.is_autocommit());
    sqlx::query("begin immediate").execute(&mut *second).await.unwrap();
}

#[test]
fn on_sqlite_newer_tables_are_left_alone() {
    let connection = Connection::open_in_memory().unwrap();
    postrider::migrate(&connection).unwrap();
    connection.execute("update postrider_meta set value = 999 where name = 'version'", ()).unwrap();
    postrider::migrate(&connection).unwrap();
    connection.execute("update postrider_meta set value = 999 where name = 'compatible_from'", ()).unwrap();
    let error = postrider::migrate(&connection).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("newer"), "{error}");
}

#[test]
fn on_sqlite_a_migration_inside_a_transaction_of_the_caller_is_refused() {
    let mut connection = Connection::open_in_memory().unwrap();
    let tx = connection.transaction().unwrap();
    let error = postrider::migrate(&*tx).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    tx.execute_batch("create table t (a); insert into t values (1)").unwrap();
    tx.commit().unwrap();
    connection.query_row("select a from t", (), |_| Ok(())).unwrap();
}
