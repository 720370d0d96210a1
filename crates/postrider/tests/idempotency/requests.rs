//! Requests that are sent again: at once, after a crash, after a disconnect, after a lease.

use std::time::Duration;

use axum::Router;
use axum::extract::OriginalUri;
use axum::http::StatusCode;
use axum::http::request::Parts;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::scene::{Scene, on_every_database, order, request};
use crate::shop::{Shop, Step};

on_every_database!(
    a_request_that_is_sent_again_to_another_server_gets_the_same_bytes,
    two_at_once_have_one_effect_and_one_answer,
    a_request_that_waits_gets_the_answer_of_the_first,
    a_client_that_disconnects_before_the_commit_has_no_effect_and_its_retry_has_one,
    a_connection_that_ends_before_the_commit_has_no_effect_and_the_retry_has_one,
    a_client_that_disconnects_after_the_commit_gets_the_answer_on_its_retry,
    a_server_whose_lease_ends_while_it_works_has_no_effect_beside_the_next_one,
    a_refusal_that_is_stored_is_the_answer_for_ever,
    what_was_rolled_back_may_be_tried_again_at_once,
    a_failure_without_a_word_keeps_the_key_until_its_lease_ends,
    a_success_that_was_not_stored_is_passed_on_and_not_promised,
    an_answer_that_is_too_large_is_refused_before_its_effect,
    what_is_nested_has_its_keys_under_the_whole_path,
);

async fn a_request_that_is_sent_again_to_another_server_gets_the_same_bytes<S: Shop>() {
    let scene = Scene::<S>::fresh(&[]).await;
    let first = scene.order().await;
    assert_eq!((first.status, first.header("location")), (StatusCode::CREATED, Some("/orders/7")));
    assert_eq!(first.header("set-cookie"), None, "what is sent is what is stored");
    for key in ["8e03978e-40d5-43e8-bc93-6894a57f9324", " \"8e03978e-40d5-43e8-bc93-6894a57f9324\""] {
        let again = scene.send(request(key, "book")).await;
        assert!(again.is_replay_of(&first), "{again:?}");
    }
    assert_eq!(scene.shop.orders().await, 1);
}

async fn two_at_once_have_one_effect_and_one_answer<S: Shop>() {
    let scene = Scene::<S>::fresh(&[Step::PlaceLater]).await;
    let second = async {
        scene.script.arrived.acquire().await.unwrap().forget();
        let told = scene.order().await;
        scene.script.go_on.add_permits(1);
        told
    };
    let (first, told) = tokio::join!(scene.order(), second);
    assert_eq!((told.status, told.problem().as_str()), (StatusCode::CONFLICT, "idempotency-key-in-progress"));
    let seconds: u64 = told.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=5).contains(&seconds), "{seconds}");
    assert_eq!(first.status, StatusCode::CREATED);
    assert!(scene.order().await.is_replay_of(&first));
    assert_eq!(scene.shop.orders().await, 1);
}

async fn a_request_that_waits_gets_the_answer_of_the_first<S: Shop>() {
    let mut scene = Scene::<S>::fresh(&[Step::PlaceLater]).await;
    scene.wait = Duration::from_secs(60);
    let go_on = async {
        scene.script.arrived.acquire().await.unwrap().forget();
        scene.script.go_on.add_permits(1);
    };
    let (one, other, ()) = tokio::join!(scene.order(), scene.order(), go_on);
    assert!(one.is_replay_of(&other) || other.is_replay_of(&one), "{one:?} {other:?}");
    assert_eq!(scene.shop.orders().await, 1);
}

/// Sends a request, and goes away when it has come to its point.
async fn disconnect_at_its_point<S: Shop>(scene: &Scene<S>) {
    tokio::select! {
        got = scene.order() => panic!("{got:?}"),
        arrived = scene.script.arrived.acquire() => arrived.unwrap().forget(),
    }
}

async fn a_client_that_disconnects_before_the_commit_has_no_effect_and_its_retry_has_one<S: Shop>() {
    let mut scene = Scene::<S>::fresh(&[Step::HangBeforeCommit]).await;
    scene.lease = Duration::from_millis(200);
    disconnect_at_its_point(&scene).await;
    let first = scene.order_until_answered().await;
    assert_eq!((first.status, first.header("idempotent-replayed")), (StatusCode::CREATED, None));
    assert!(scene.order().await.is_replay_of(&first));
    assert_eq!(scene.shop.orders().await, 1);
}

/// Over a socket: the server drops the handler, and its transaction with it.
async fn a_connection_that_ends_before_the_commit_has_no_effect_and_the_retry_has_one<S: Shop>() {
    let mut scene = Scene::<S>::fresh(&[Step::HangBeforeCommit]).await;
    scene.lease = Duration::from_millis(200);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    tokio::spawn(axum::serve(listener, scene.server()).into_future());
    let request = "POST /orders HTTP/1.1\r\nhost: shop\r\ncaller: alice\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\
                   idempotency-key: \"8e03978e-40d5-43e8-bc93-6894a57f9324\"\r\n\r\nbook";
    client.write_all(request.as_bytes()).await.unwrap();
    scene.script.arrived.acquire().await.unwrap().forget();
    drop(client);
    let first = scene.order_until_answered().await;
    assert_eq!((first.status, first.header("idempotent-replayed")), (StatusCode::CREATED, None));
    assert_eq!(scene.shop.orders().await, 1);
}

async fn a_client_that_disconnects_after_the_commit_gets_the_answer_on_its_retry<S: Shop>() {
    let scene = Scene::<S>::fresh(&[Step::HangAfterCommit]).await;
    disconnect_at_its_point(&scene).await;
    let again = scene.order().await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (StatusCode::CREATED, Some("true")));
    assert_eq!(scene.shop.orders().await, 1);
}

async fn a_server_whose_lease_ends_while_it_works_has_no_effect_beside_the_next_one<S: Shop>() {
    let mut scene = Scene::<S>::fresh(&[Step::PlaceLater, Step::Place]).await;
    scene.lease = Duration::ZERO;
    let second = async {
        scene.script.arrived.acquire().await.unwrap().forget();
        let got = scene.order().await;
        scene.script.go_on.add_permits(1);
        got
    };
    let (late, got) = tokio::join!(scene.order(), second);
    assert_eq!((late.status, got.status), (StatusCode::CONFLICT, StatusCode::CREATED));
    assert_eq!(scene.shop.orders().await, 1);
    assert!(scene.order().await.is_replay_of(&got));
}

async fn a_refusal_that_is_stored_is_the_answer_for_ever<S: Shop>() {
    let scene = Scene::<S>::fresh(&[Step::SoldOut]).await;
    let first = scene.order().await;
    assert_eq!((first.status, first.body.as_slice()), (StatusCode::GONE, &b"sold out"[..]));
    assert!(scene.order().await.is_replay_of(&first));
    assert_eq!(scene.shop.orders().await, 0);
}

async fn what_was_rolled_back_may_be_tried_again_at_once<S: Shop>() {
    let scene = Scene::<S>::fresh(&[Step::RollBack, Step::RollBack]).await;
    let statuses = [scene.order().await.status, scene.order().await.status, scene.order().await.status];
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    assert_eq!(statuses, [unavailable, unavailable, StatusCode::CREATED]);
    assert_eq!(scene.shop.orders().await, 1);
}

async fn a_failure_without_a_word_keeps_the_key_until_its_lease_ends<S: Shop>() {
    let mut scene = Scene::<S>::fresh(&[Step::Fail]).await;
    assert_eq!(scene.order().await.status, StatusCode::BAD_GATEWAY);
    assert_eq!(scene.order().await.status, StatusCode::CONFLICT);
    scene.lease = Duration::ZERO;
    let other = || request("other", "book");
    assert_eq!(scene.send(other()).await.status, StatusCode::CREATED, "another key is free");
    assert_eq!(scene.order().await.status, StatusCode::CONFLICT, "the lease is the first one's");
}

async fn a_success_that_was_not_stored_is_passed_on_and_not_promised<S: Shop>() {
    let mut scene = Scene::<S>::fresh(&[Step::Forget]).await;
    scene.lease = Duration::from_millis(200);
    let got = scene.order().await;
    assert_eq!((got.status, got.body.as_slice()), (StatusCode::OK, &b"done, I think"[..]));
    assert_eq!(scene.order_until_answered().await.status, StatusCode::CREATED, "it is handled again");
}

async fn an_answer_that_is_too_large_is_refused_before_its_effect<S: Shop>() {
    let scene = Scene::<S>::fresh(&[Step::PlaceWithTooLargeAnAnswer]).await;
    let got = scene.order().await;
    let told = String::from_utf8(got.body).unwrap();
    assert_eq!(got.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(told.contains("the answer is") && told.contains("at most 1048576"), "{told}");
    assert_eq!(scene.shop.orders().await, 0);
    assert_eq!(scene.send(order()).await.status, StatusCode::CREATED);
    assert_eq!(scene.shop.orders().await, 1);
}

fn whole_path(parts: &Parts) -> String {
    parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |sent| &sent.0).path().to_owned()
}

/// Nested, the layer is told of the whole path; around the nested one, it sees it.
async fn what_is_nested_has_its_keys_under_the_whole_path<S: Shop>() {
    for is_within in [true, false] {
        let scene = Scene::<S>::fresh(&[]).await;
        let shops = |server| Router::new().nest("/shops/{shop}", server);
        let server = match is_within {
            true => shops(scene.router().layer(scene.layer().path(whole_path))),
            false => shops(scene.router()).layer(scene.layer()),
        };
        for shop in [1, 2] {
            let mut order = order();
            *order.uri_mut() = format!("/shops/{shop}/orders").parse().unwrap();
            let got = scene.send_to(server.clone(), order).await;
            assert_eq!((got.status, got.header("idempotent-replayed")), (StatusCode::CREATED, None), "shop {shop}");
        }
        assert_eq!(scene.shop.orders().await, 2);
    }
}
