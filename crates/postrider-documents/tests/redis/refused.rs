//! Servers and users that are refused, and servers that refuse.

use std::time::{Duration, Instant};

use postrider_core::{ErrorKind, Timestamp};
use postrider_documents::open;
use postrider_testkit::servers::installed;
use postrider_testkit::servers::process::free_port;
use postrider_testkit::servers::redis::{PASSWORD, Redis};
use postrider_testkit::suites::documents::{draft, key};

use crate::failed;

#[tokio::test]
async fn a_wrong_password_is_told_and_not_shown() {
    let Some(server) = installed("a login of Redis", Redis::start().await) else { return };
    let wrong = [server.url_as("", "hunter2"), server.url_as("nobody", "hunter2"), server.url_as("", "")];
    for url in wrong.iter().chain([&format!("redis://127.0.0.1:{}/0", server.port())]) {
        let store = open(url).await.unwrap();
        for error in [
            store.check().await.unwrap_err(),
            store.prepare().await.unwrap_err(),
            store.load(&key("7")).await.unwrap_err(),
            failed(store.create(&key("7"), &draft("1")).await),
        ] {
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            let text = format!("{error} {error:?} {store:?}");
            assert!(text.contains("password in the URL") && !text.contains("hunter2"), "{text}");
        }
    }
}

#[tokio::test]
async fn a_user_who_may_not_write_is_told_by_prepare() {
    let Some(server) = installed("a reader of Redis", Redis::start().await) else { return };
    let words = ["ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+set", "+zrem", "+eval", "+evalsha"];
    server.ask(&words).await.unwrap();
    let store = open(&server.url_as("reader", "secret")).await.unwrap();
    let error = store.prepare().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("grant this user"), "{error}");
}

#[tokio::test]
async fn a_cache_is_refused() {
    let started = Redis::start_with(&["maxmemory 100mb", "maxmemory-policy allkeys-lru"]).await;
    let Some(server) = installed("a cache", started) else { return };
    let store = open(&server.url()).await.unwrap();
    let error = store.prepare().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("allkeys-lru") && error.to_string().contains("noeviction"), "{error}");
    server.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await.unwrap();
    store.prepare().await.unwrap();
    server.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"]).await.unwrap();
    assert_eq!(store.check().await.unwrap_err().kind(), ErrorKind::Config);
}

#[tokio::test]
async fn a_full_server_writes_nothing_and_is_read() {
    let Some(server) = installed("a full Redis", Redis::start().await) else { return };
    let store = open(&server.url()).await.unwrap();
    store.prepare().await.unwrap();
    let due = |json: &'static str, due| postrider_core::Draft { due: Some(Timestamp(due)), ..draft(json) };
    let version = store.create(&key("7"), &due("1", 5)).await.unwrap();
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    for error in [
        failed(store.replace(&key("7"), &version, &due("2", 9)).await),
        failed(store.replace(&key("7"), &version, &draft("2")).await),
        failed(store.create(&key("8"), &due("2", 1)).await),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("maxmemory"), "{error}");
    }
    let stored = store.load(&key("7")).await.unwrap().unwrap();
    assert_eq!((stored.version, &stored.json[..]), (version.clone(), &b"1"[..]));
    let named = store.due(key("7").collection(), Timestamp(9), None, 10).await.unwrap();
    assert_eq!(named, [key("7")]);
    // What takes away needs no memory.
    store.delete(&key("7"), &version).await.unwrap();
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    assert!(store.due(key("7").collection(), Timestamp(9), None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_replica_is_refused_also_by_who_is_connected_when_it_becomes_one() {
    let Some(primary) = installed("documents on a replica", Redis::start().await) else { return };
    open(&primary.url()).await.unwrap().prepare().await.unwrap();
    let replica = primary.replica().await.unwrap();
    let store = open(&replica.url()).await.unwrap();
    let error = store.load(&key("7")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("give the URL of the primary"), "{error}");

    replica.ask(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    store.prepare().await.unwrap();
    let version = store.create(&key("7"), &draft("1")).await.unwrap();
    replica.ask(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]).await.unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let due = store.due(key("7").collection(), Timestamp(0), None, 1).await;
        let errors = [
            store.load(&key("7")).await.map(|_| ()).unwrap_err(),
            due.map(|_| ()).unwrap_err(),
            failed(store.replace(&key("7"), &version, &draft("2")).await),
        ];
        let is_told = errors.iter().all(|error| error.to_string().contains("give the URL of the primary"));
        assert!(errors.iter().all(|error| error.kind() == ErrorKind::Unavailable), "{errors:?}");
        if is_told {
            break;
        }
        assert!(Instant::now() < until, "{errors:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_node_of_a_cluster_is_refused() {
    // Where it is not told, it takes the number 10,000 above its own, which a connection of somebody else's may have.
    let bus = format!("cluster-port {}", free_port().unwrap());
    let Some(server) = installed("a cluster", Redis::start_with(&["cluster-enabled yes", &bus]).await) else { return };
    let error = open(&server.url()).await.unwrap().prepare().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("cluster mode"), "{error}");
}

#[tokio::test]
async fn what_somebody_else_put_under_the_prefix_is_told_and_left() {
    let Some(server) = installed("a shared Redis", Redis::start().await) else { return };
    let store = open(&server.url()).await.unwrap();
    store.prepare().await.unwrap();
    server.ask(&["SET", "{postrider}:carts:doc:7", "theirs"]).await.unwrap();
    server.ask(&["SET", "{postrider}:carts:due", "theirs"]).await.unwrap();
    for error in [
        store.load(&key("7")).await.map(|_| ()).unwrap_err(),
        failed(store.create(&key("7"), &draft("1")).await),
        failed(store.create(&key("8"), &postrider_core::Draft { due: Some(Timestamp(0)), ..draft("1") }).await),
    ] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("under this prefix"), "{error}");
    }
    assert_eq!(server.ask(&["EXISTS", "{postrider}:carts:doc:8"]).await.unwrap(), ":0\r\n");
    assert_eq!(server.ask(&["GET", "{postrider}:carts:doc:7"]).await.unwrap(), "$6\r\ntheirs\r\n");
}

#[tokio::test]
async fn a_database_that_is_not_there_is_told() {
    let Some(server) = installed("a database of Redis", Redis::start().await) else { return };
    let url = server.url().replace("/0", "/99");
    let error = open(&url).await.unwrap().prepare().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("number of the database") && !error.to_string().contains(PASSWORD), "{error}");
    let (first, second) = (open(&server.url()).await.unwrap(), open(&server.url().replace("/0", "/2")).await.unwrap());
    first.prepare().await.unwrap();
    second.prepare().await.unwrap();
    first.create(&key("7"), &draft("1")).await.unwrap();
    assert!(second.load(&key("7")).await.unwrap().is_none());
}
