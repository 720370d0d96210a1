//! Requests that meet a transaction that is open: nobody waits for it. SQLite has one writer, so that there everybody does.

use std::time::Duration;

use axum::http::StatusCode;
use sqlx::mysql::{MySqlPool, MySqlPoolOptions};
use tokio::time::timeout;

use crate::scene::{Scene, on_every_server};
use crate::shop::{Shop, Step};

on_every_server!(a_request_whose_first_one_hangs_before_its_commit_is_told_so_at_once_though_the_lease_is_over);

async fn a_request_whose_first_one_hangs_before_its_commit_is_told_so_at_once_though_the_lease_is_over<S: Shop>() {
    let mut scene = Scene::<S>::fresh(&[Step::HangBeforeCommit]).await;
    scene.lease = Duration::ZERO;
    let second = async {
        scene.script.arrived.acquire().await.unwrap().forget();
        let told = timeout(Duration::from_secs(10), scene.order()).await.unwrap();
        scene.script.go_on.add_permits(1);
        told
    };
    let (first, told) = tokio::join!(scene.order(), second);
    assert_eq!((told.status, told.problem().as_str()), (StatusCode::CONFLICT, "idempotency-key-in-progress"));
    assert_eq!(first.status, StatusCode::CREATED);
    assert!(scene.order().await.is_replay_of(&first));
    assert_eq!(scene.shop.orders().await, 1);
}

/// The same database in sessions that read what others have not committed.
async fn reading_uncommitted(pool: &MySqlPool) -> MySqlPool {
    let options = MySqlPoolOptions::new().after_connect(|connection, _| {
        Box::pin(async move {
            sqlx::query("set session transaction isolation level read uncommitted").execute(connection).await?;
            Ok(())
        })
    });
    options.connect_with(pool.connect_options().as_ref().clone()).await.unwrap()
}

#[tokio::test]
async fn on_mysql_an_answer_that_is_rolled_back_was_told_to_nobody_whatever_the_session_reads() {
    let mut scene = Scene::<MySqlPool>::fresh(&[Step::HangBeforeCommit]).await;
    scene.lease = Duration::ZERO;
    let committed = scene.shop.clone();
    scene.shop = reading_uncommitted(&committed).await;
    let second = async {
        scene.script.arrived.acquire().await.unwrap().forget();
        timeout(Duration::from_secs(10), scene.order()).await.unwrap()
    };
    // The first one is dropped, and rolled back, when the second one has its answer.
    let told = tokio::select! {
        first = scene.order() => panic!("{first:?}"),
        told = second => told,
    };
    assert_eq!((told.status, told.problem().as_str()), (StatusCode::CONFLICT, "idempotency-key-in-progress"));
    assert_eq!(committed.orders().await, 0);
    let again = scene.order_until_answered().await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (StatusCode::CREATED, None));
    assert_eq!(committed.orders().await, 1);
}
