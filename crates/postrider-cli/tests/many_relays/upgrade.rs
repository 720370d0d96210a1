//! A rolling upgrade: relays of an earlier build beside those of this one, replaced one by one under load.

use std::time::Duration;

use crate::scene::Scene;
use crate::writer::{MANY_KEYS, Writer};

/// Names the `postrider` of another build.
const PREVIOUS: &str = "POSTRIDER_PREVIOUS";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs another build: POSTRIDER_PREVIOUS names its postrider (cargo xtask show fire.4)"]
async fn two_builds_side_by_side_keep_the_promises_while_one_replaces_the_other() {
    let Ok(previous) = std::env::var(PREVIOUS) else {
        println!("NOT RUN: a rolling upgrade: {PREVIOUS} names no other build (`cargo xtask show fire.4` builds one)");
        return;
    };
    let mut scene = Scene::set().await.unwrap();
    let writer = Writer::start(scene.url(), MANY_KEYS);
    scene.start_build("old-1", &previous);
    scene.start_build("old-2", &previous);
    scene.members(2).await;
    for (old, new) in [("old-1", "new-1"), ("old-2", "new-2")] {
        tokio::time::sleep(Duration::from_secs(3)).await;
        scene.start(&[new]);
        scene.members(3).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        scene.end(old);
        scene.members(2).await;
    }
    scene.comes_to("two new relays", &[("new-1", 32), ("new-2", 32)], Duration::from_secs(30)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let committed = writer.stop().await;
    scene.drained().await;
    let verdict = scene.judge(&committed);
    println!("{} messages during the upgrade; {verdict}", committed.len());
    assert!(verdict.holds() && verdict.repeats == 0, "every stop was graceful: {verdict}");
}
