//! Requests that do not reach their handler, and what they are told.

use axum::body::Body;
use axum::http::{Request, StatusCode};

use crate::scene::{Scene, on_every_database, order, request};
use crate::shop::{Shop, Step};

on_every_database!(
    another_request_with_the_key_is_refused_while_the_first_is_worked_on_and_after,
    a_request_without_a_key_that_counts_is_refused,
    keys_count_for_their_caller,
    a_body_that_is_too_large_is_refused_and_takes_no_key,
    other_methods_are_passed_on,
    a_long_path_has_its_keys_too,
    a_database_that_is_away_is_told,
);

async fn another_request_with_the_key_is_refused_while_the_first_is_worked_on_and_after<S: Shop>() {
    let scene = Scene::<S>::fresh(&[Step::PlaceLater]).await;
    let key = "8e03978e-40d5-43e8-bc93-6894a57f9324";
    let others = async || {
        let mut query = request(key, "book");
        *query.uri_mut() = "/orders?express=1".parse().unwrap();
        let mut content_type = order();
        content_type.headers_mut().insert("content-type", "text/html".parse().unwrap());
        for other in [request(key, "books"), query, content_type] {
            let got = scene.send(other).await;
            assert_eq!(
                (got.status, got.problem().as_str()),
                (StatusCode::UNPROCESSABLE_ENTITY, "idempotency-key-reused")
            );
        }
    };
    let second = async {
        scene.script.arrived.acquire().await.unwrap().forget();
        others().await;
        scene.script.go_on.add_permits(1);
    };
    let (first, ()) = tokio::join!(scene.order(), second);
    assert_eq!(first.status, StatusCode::CREATED);
    others().await;
    assert_eq!(scene.shop.orders().await, 1);
}

async fn a_request_without_a_key_that_counts_is_refused<S: Shop>() {
    let scene = Scene::<S>::fresh(&[]).await;
    let mut missing = order();
    missing.headers_mut().remove("idempotency-key");
    let mut twice = order();
    twice.headers_mut().append("idempotency-key", "another".parse().unwrap());
    let mut nobodys = order();
    nobodys.headers_mut().remove("caller");
    let mut too_long = order();
    too_long.headers_mut().insert("caller", "a".repeat(256).parse().unwrap());
    for (bad, kind) in [
        (missing, "idempotency-key-missing"),
        (twice, "idempotency-key-invalid"),
        (request("", "book"), "idempotency-key-invalid"),
        (request("\"open", "book"), "idempotency-key-invalid"),
        (request(&"k".repeat(256), "book"), "idempotency-key-invalid"),
        (nobodys, "idempotency-caller-unknown"),
        (too_long, "idempotency-scope-invalid"),
    ] {
        let got = scene.send(bad).await;
        assert_eq!((got.status, got.problem().as_str()), (StatusCode::BAD_REQUEST, kind));
    }
    assert_eq!(scene.shop.orders().await, 0);
}

async fn keys_count_for_their_caller<S: Shop>() {
    let scene = Scene::<S>::fresh(&[]).await;
    let hers = scene.order().await;
    let mut his = order();
    his.headers_mut().insert("caller", "bob".parse().unwrap());
    let his = scene.send(his).await;
    assert_eq!((his.status, his.header("idempotent-replayed")), (StatusCode::CREATED, None));
    assert_ne!(hers.body, his.body);
    assert_eq!(scene.shop.orders().await, 2);
}

async fn a_body_that_is_too_large_is_refused_and_takes_no_key<S: Shop>() {
    let scene = Scene::<S>::fresh(&[]).await;
    let key = "8e03978e-40d5-43e8-bc93-6894a57f9324";
    let got = scene.send(request(key, vec![b'b'; 1_001])).await;
    assert_eq!((got.status, got.problem().as_str()), (StatusCode::PAYLOAD_TOO_LARGE, "body-too-large"));
    assert_eq!(scene.order().await.status, StatusCode::CREATED);
}

async fn other_methods_are_passed_on<S: Shop>() {
    let scene = Scene::<S>::fresh(&[]).await;
    for key in [None, Some("k"), Some("k")] {
        let mut get = Request::get("/orders").body(Body::from(vec![0; 5_000])).unwrap();
        if let Some(key) = key {
            get.headers_mut().insert("idempotency-key", key.parse().unwrap());
        }
        let got = scene.send(get).await;
        assert_eq!((got.status, got.header("idempotent-replayed")), (StatusCode::OK, None));
    }
}

async fn a_long_path_has_its_keys_too<S: Shop>() {
    let scene = Scene::<S>::fresh(&[]).await;
    let send = async |path: String| {
        let mut request = order();
        *request.uri_mut() = path.parse().unwrap();
        scene.send(request).await.status
    };
    // The second one has a character where its beginning ends.
    for long in ["x".repeat(300), format!("x{}", "\u{e4}".repeat(200))] {
        let told = (send(format!("/orders/{long}a")).await, send(format!("/orders/{long}b")).await);
        // There is no such order; what differs behind the beginning is another request.
        assert_eq!(told, (StatusCode::NOT_FOUND, StatusCode::UNPROCESSABLE_ENTITY), "{long}");
    }
}

async fn a_database_that_is_away_is_told<S: Shop>() {
    let scene = Scene::<S>::fresh(&[]).await;
    scene.shop.leave().await;
    let got = scene.order().await;
    assert_eq!((got.status, got.problem().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "idempotency-keys-unavailable"));
    assert!(got.header("retry-after").is_some());
}
