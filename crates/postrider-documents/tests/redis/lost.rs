//! What is known where answers and scripts are lost.

use std::time::Duration;

use postrider_core::{ErrorKind, WriteError};
use postrider_documents::open;
use postrider_testkit::proxy::{Passage, Proxy};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::redis::Redis;
use postrider_testkit::suites::documents::{draft, key};

use crate::{counting, failed};

/// The URL of a server through a proxy to it.
fn behind(proxy: &Proxy, server: &Redis) -> String {
    server.url().replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_lost_is_unknown_and_what_it_was_about_is_there() {
    let Some(server) = installed("documents behind a proxy", Redis::start().await) else { return };
    let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into(), b"").await.unwrap();
    let store = open(&format!("{}?timeout=1&connections=1", behind(&proxy, &server))).await.unwrap();
    let (key, first, second) = (key("7"), draft("{\"n\": 1}"), draft("{\"n\": 2}"));
    store.prepare().await.unwrap();

    proxy.lose_answer();
    assert_eq!(failed(store.create(&key, &first).await).kind(), ErrorKind::Unknown);
    let stored = store.load(&key).await.unwrap().unwrap();
    assert_eq!(stored.version.0, first.revision.0.to_string());

    // It hangs until the time is over, and may still be done.
    proxy.pass(Passage::HeldToServer);
    assert_eq!(failed(store.replace(&key, &stored.version, &second).await).kind(), ErrorKind::Unknown);
    assert_eq!(store.load(&key).await.unwrap_err().kind(), ErrorKind::Unavailable);
    // Nobody hears the answers of connections that were given up, and none of them is to be lost in the place of the next.
    proxy.cut();
    proxy.pass(Passage::Open);
    let version = store.load(&key).await.unwrap().unwrap().version;

    proxy.lose_answer();
    assert_eq!(failed(store.delete(&key, &version).await).kind(), ErrorKind::Unknown);
    assert!(store.load(&key).await.unwrap().is_none());
    proxy.lose_answer();
    assert_eq!(store.load(&key).await.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counting_is_exact_while_answers_are_lost_and_connections_cut() {
    let Some(server) = installed("documents behind a proxy that loses answers", Redis::start().await) else { return };
    let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into(), b"").await.unwrap();
    // Otherwise it is over before much could go wrong.
    proxy.pass(Passage::Slow(Duration::from_millis(1)));
    let url = format!("{}?timeout=5&connections=2", behind(&proxy, &server));
    counting::is_exact(&proxy, &server.url(), &url).await;
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_brought_again() {
    let Some(server) = installed("scripts of Redis", Redis::start().await) else { return };
    let store = open(&server.url()).await.unwrap();
    store.prepare().await.unwrap();
    let forget = async || server.ask(&["SCRIPT", "FLUSH", "SYNC"]).await.unwrap();
    forget().await;
    let created = store.create(&key("7"), &draft("1")).await.unwrap();
    forget().await;
    let replaced = store.replace(&key("7"), &created, &draft("2")).await.unwrap();
    forget().await;
    assert!(matches!(store.replace(&key("7"), &created, &draft("3")).await, Err(WriteError::Conflict)));
    forget().await;
    store.delete(&key("7"), &replaced).await.unwrap();
    assert!(store.load(&key("7")).await.unwrap().is_none());
    // A script that is known is called by its name.
    store.create(&key("7"), &draft("1")).await.unwrap();
    let before = calls(&server, "eval").await;
    store.create(&key("8"), &draft("1")).await.unwrap();
    assert_eq!(calls(&server, "eval").await, before);
}

/// How often a command was called since the server began.
async fn calls(server: &Redis, command: &str) -> String {
    let told = server.ask(&["INFO", "commandstats"]).await.unwrap();
    let line = told.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
    line.and_then(|line| line.split([':', ',']).nth(1)).unwrap_or("calls=0").to_owned()
}
