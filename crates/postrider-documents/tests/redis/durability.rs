//! What an answered write is worth, and what is told of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use postrider_core::{ErrorKind, Level, Timestamp};
use postrider_documents::open;
use postrider_testkit::servers::installed;
use postrider_testkit::servers::redis::Redis;
use postrider_testkit::suites::documents::{draft, key};
use tokio::task::JoinSet;

use crate::{failed, level};

const WRITERS: usize = 8;
const LEAST: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_write_that_was_answered_is_there_after_a_kill() {
    let Some(mut server) = installed("a killed Redis", Redis::start().await) else { return };
    let store = open(&format!("{}?timeout=5", server.url())).await.unwrap();
    store.prepare().await.unwrap();
    let is_killed = Arc::new(AtomicBool::new(false));
    let (answered, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (store, is_killed, answered) = (Arc::clone(&store), Arc::clone(&is_killed), answered.clone());
        writers.spawn(async move {
            for n in 0.. {
                let (key, first) = (key(&format!("{writer}-{n}")), draft("1"));
                let Ok(version) = store.create(&key, &first).await else { break };
                answered.send((key.clone(), version.clone())).unwrap();
                let Ok(version) = store.replace(&key, &version, &draft("2")).await else { break };
                answered.send((key, version)).unwrap();
            }
            assert!(is_killed.load(Ordering::SeqCst), "a write failed before");
        });
    }
    drop(answered);
    let (mut written, mut seen) = (HashMap::new(), 0);
    while let Some((key, version)) = answers.recv().await {
        written.insert(key, version);
        seen += 1;
        if seen == LEAST {
            is_killed.store(true, Ordering::SeqCst);
            server.kill9();
        }
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    server.restart().await.unwrap();
    let store = open(&server.url()).await.unwrap();
    for (key, version) in &written {
        let stored = store.load(key).await.unwrap().unwrap_or_else(|| panic!("{key} is lost"));
        // The write behind the last one that was answered may have happened as well.
        assert!(stored.version == *version || stored.json == "2", "{key} went back");
    }
    println!("{seen} answered writes, none lost");
}

#[tokio::test]
async fn what_weakens_an_answer_is_told() {
    let Some(server) = installed("a doctor of Redis", Redis::start().await) else { return };
    let store = open(&server.url()).await.unwrap();
    store.prepare().await.unwrap();
    let checked = async || store.check().await.unwrap();
    let findings = checked().await;
    assert!(findings.iter().all(|finding| finding.level == Level::Good), "{findings:?}");
    for (setting, value, subject) in [
        ("appendfsync", "everysec", "durability"),
        ("appendfsync", "no", "durability"),
        ("appendonly", "no", "durability"),
        ("maxmemory-policy", "volatile-lru", "eviction"),
    ] {
        server.ask(&["CONFIG", "SET", setting, value]).await.unwrap();
        assert_eq!(level(&checked().await, subject), Some(Level::Warning), "{setting} {value}");
    }
    let _replica = server.replica().await.unwrap();
    assert_eq!(level(&checked().await, "replication"), Some(Level::Warning));
}

#[tokio::test]
async fn what_may_not_be_seen_is_told_as_that() {
    let Some(server) = installed("a user of Redis", Redis::start().await) else { return };
    let rights = ["+@read", "+@write", "+eval", "+evalsha", "+select"];
    let words = [&["ACL", "SETUSER", "clerk", "on", ">secret", "~{postrider}:*"], &rights[..]].concat();
    server.ask(&words).await.unwrap();
    let store = open(&server.url_as("clerk", "secret")).await.unwrap();
    store.prepare().await.unwrap();
    let findings = store.check().await.unwrap();
    for subject in ["durability", "eviction", "replication"] {
        let finding = findings.iter().find(|finding| finding.subject == subject).unwrap();
        assert!(finding.level == Level::Warning && finding.found.contains("could not be seen"), "{finding:?}");
    }
    store.create(&key("7"), &draft("1")).await.unwrap();
}

#[tokio::test]
async fn everything_gone_is_seen_as_that_and_not_as_new() {
    let Some(server) = installed("an emptied Redis", Redis::start().await) else { return };
    let store = open(&server.url()).await.unwrap();
    store.prepare().await.unwrap();
    let version = store.create(&key("7"), &draft("1")).await.unwrap();
    server.ask(&["FLUSHALL"]).await.unwrap();
    let due = store.due(key("7").collection(), Timestamp(0), None, 1).await.unwrap_err();
    for error in [
        store.load(&key("7")).await.unwrap_err(),
        failed(store.create(&key("7"), &draft("2")).await),
        failed(store.replace(&key("7"), &version, &draft("2")).await),
        failed(store.delete(&key("7"), &version).await),
        store.check().await.unwrap_err(),
        due,
    ] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("everything in it is gone"), "{error}");
    }
    store.prepare().await.unwrap();
    assert!(store.load(&key("7")).await.unwrap().is_none());
}
