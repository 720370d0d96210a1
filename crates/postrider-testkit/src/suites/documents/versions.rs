//! What a version is worth, in quiet running.

use super::Harness;
use super::harness::{absent, conflict, draft, holds, key, loaded, number, value};

pub(super) async fn an_absent_document_is_none(harness: Harness) {
    absent(&harness.client().await, &key("nobody")).await;
}

pub(super) async fn a_second_create_conflicts_and_the_first_value_stays(harness: Harness) {
    let (one, two, key) = (harness.client().await, harness.client().await, key("7"));
    let first = number(1);
    let version = one.create(&key, &first).await.expect("the first create");
    conflict(one.create(&key, &number(2)).await);
    conflict(two.create(&key, &first).await);
    holds(&two, &key, &first, &version).await;
}

pub(super) async fn a_replace_over_the_current_version_gives_another(harness: Harness) {
    let (store, key) = (harness.client().await, key("7"));
    let mut versions = vec![store.create(&key, &number(0)).await.expect("the create")];
    for n in 1..10 {
        let next = number(n);
        let version = store.replace(&key, &versions[n - 1], &next).await.expect("a replace over the current version");
        assert!(!versions.contains(&version), "a version came back: {version:?}");
        holds(&store, &key, &next, &version).await;
        versions.push(version);
    }
    store.delete(&key, &versions[9]).await.expect("a delete at the current version");
    absent(&store, &key).await;
}

pub(super) async fn a_stale_replace_conflicts_and_the_value_stays(harness: Harness) {
    let (one, two, key) = (harness.client().await, harness.client().await, key("7"));
    let stale = one.create(&key, &number(0)).await.expect("the create");
    let current = number(1);
    let version = two.replace(&key, &stale, &current).await.expect("the replace");
    conflict(one.replace(&key, &stale, &number(2)).await);
    conflict(two.replace(&key, &stale, &number(3)).await);
    holds(&one, &key, &current, &version).await;
}

pub(super) async fn a_stale_delete_conflicts_and_the_value_stays(harness: Harness) {
    let (one, two, key) = (harness.client().await, harness.client().await, key("7"));
    let stale = one.create(&key, &number(0)).await.expect("the create");
    let current = number(1);
    let version = two.replace(&key, &stale, &current).await.expect("the replace");
    conflict(one.delete(&key, &stale).await);
    holds(&one, &key, &current, &version).await;
}

pub(super) async fn a_write_over_an_absent_document_conflicts_and_makes_none(harness: Harness) {
    let (store, other, key) = (harness.client().await, key("other"), key("7"));
    // A version that the store itself gave, to another document.
    let version = store.create(&other, &number(0)).await.expect("the create");
    conflict(store.replace(&key, &version, &number(1)).await);
    absent(&store, &key).await;
    conflict(store.delete(&key, &version).await);
    absent(&store, &key).await;
}

pub(super) async fn the_same_content_written_twice_has_two_versions(harness: Harness) {
    let (store, one, two) = (harness.client().await, key("one"), key("two"));
    let content = "{\"total\": 7}";
    let first = store.create(&one, &draft(content)).await.expect("the create");
    let elsewhere = store.create(&two, &draft(content)).await.expect("the create of the other");
    let second = store.replace(&one, &first, &draft(content)).await.expect("the replace");
    assert!(first != second && first != elsewhere, "one version for two writes: {first:?}");
    conflict(store.replace(&one, &first, &draft(content)).await);
    conflict(store.delete(&one, &first).await);
    assert_eq!(loaded(&store, &one).await.version, second);
}

pub(super) async fn content_that_comes_back_brings_no_version_back(harness: Harness) {
    let (one, two, key) = (harness.client().await, harness.client().await, key("7"));
    let (old, new) = ("{\"open\": true}", "{\"open\": false}");
    one.create(&key, &draft(old)).await.expect("the create");
    let read = loaded(&one, &key).await.version;
    let changed = two.replace(&key, &read, &draft(new)).await.expect("there");
    let back = two.replace(&key, &changed, &draft(old)).await.expect("and back");
    conflict(one.replace(&key, &read, &draft("{\"lost\": \"update\"}")).await);
    holds(&one, &key, &draft(old), &back).await;
}

pub(super) async fn a_document_that_was_deleted_brings_no_version_back(harness: Harness) {
    let (one, two, key) = (harness.client().await, harness.client().await, key("7"));
    let content = "{\"n\": 1}";
    let old = one.create(&key, &draft(content)).await.expect("the create");
    two.delete(&key, &old).await.expect("the delete");
    conflict(one.delete(&key, &old).await);
    let new = two.create(&key, &draft(content)).await.expect("the create after the delete");
    conflict(one.replace(&key, &old, &draft("{\"n\": 2}")).await);
    conflict(one.delete(&key, &old).await);
    holds(&one, &key, &draft(content), &new).await;
}

pub(super) async fn every_client_sees_a_write_once_it_is_answered(harness: Harness) {
    let (one, two) = (harness.client().await, harness.client().await);
    for n in 0..harness.rounds() {
        let key = key(&format!("{n}"));
        // Asked before, so that nobody answers by what was remembered of then.
        absent(&two, &key).await;
        let version = one.create(&key, &number(n)).await.expect("the create");
        holds(&one, &key, &number(n), &version).await;
        holds(&two, &key, &number(n), &version).await;
        let version = two.replace(&key, &version, &number(n + 1)).await.expect("the replace");
        holds(&one, &key, &number(n + 1), &version).await;
        let stored = loaded(&two, &key).await;
        assert_eq!(value(&stored.json), value(&number(n + 1).json));
        one.delete(&key, &stored.version).await.expect("the delete");
        absent(&two, &key).await;
    }
}
