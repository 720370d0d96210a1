//! What every store of objects does when an answer is lost.

use postrider_core::DocumentStore;
use postrider_testkit::proxy::Proxy;
use postrider_testkit::suites::documents::{draft, key};

/// The answers to a create, a replace and a delete of the document `7` are lost, each once: none conflicts with itself.
pub async fn no_write_conflicts_with_itself(proxy: &Proxy, store: &dyn DocumentStore, direct: &dyn DocumentStore) {
    proxy.lose_answer();
    let created = store.create(&key("7"), &draft("1")).await.unwrap();
    proxy.lose_answer();
    let replaced = store.replace(&key("7"), &created, &draft("2")).await.unwrap();
    assert_eq!(direct.load(&key("7")).await.unwrap().unwrap().version, replaced);
    proxy.lose_answer();
    store.delete(&key("7"), &replaced).await.unwrap();
    assert!(direct.load(&key("7")).await.unwrap().is_none());
}
