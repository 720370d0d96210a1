//! Many relays over one outbox, with the real binary, PostgreSQL and an HTTP receiver, under 500 messages a second:
//! two, then four, then one killed, one paused for three lease times, and the others stopped one by one.
//!
//! The miniature has a short lease and short phases and allows a busy machine twice the time; `POSTRIDER_FULL=1`
//! (`cargo xtask show fire.4`) has the default lease and allows what is promised.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "../cli/harness.rs"]
#[allow(dead_code, reason = "the other tests of the binary use the rest")]
mod harness;
mod one_order;
mod scene;
mod upgrade;
mod writer;

use postrider_testkit::servers::installed;
use std::time::{Duration, Instant};

use scene::{Scene, signal};

/// Whether this is the run that is promised.
pub fn full() -> bool {
    std::env::var_os("POSTRIDER_FULL").is_some()
}

/// How long a lease lasts.
pub fn lease() -> Duration {
    Duration::from_secs(if full() { 10 } else { 3 })
}

/// So much of what is promised, where the machine may be busy with other tests.
fn allowed(promised: Duration) -> Duration {
    if full() { promised } else { promised * 2 }
}

fn two_heartbeats() -> Duration {
    allowed(lease() / 3 * 2)
}

fn takeover() -> Duration {
    allowed(lease() + Duration::from_secs(3))
}

fn phase() -> Duration {
    Duration::from_secs(if full() { 20 } else { 2 })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_that_come_die_pause_and_stop_share_evenly_and_keep_every_promise() {
    let Some(mut scene) = installed("many relays over PostgreSQL", Scene::set().await) else { return };
    let writer = writer::Writer::start(scene.url(), writer::MANY_KEYS);

    scene.start(&["one", "two"]);
    scene.members(2).await;
    scene.comes_to("two relays", &[("one", 32), ("two", 32)], two_heartbeats()).await;
    scene.shows(&[("one", 32), ("two", 32)]).await;
    tokio::time::sleep(phase()).await;

    scene.start(&["three", "four"]);
    scene.members(4).await;
    scene.comes_to("four relays", &[("one", 16), ("two", 16), ("three", 16), ("four", 16)], two_heartbeats()).await;
    scene.shows(&[("one", 16), ("two", 16), ("three", 16), ("four", 16)]).await;
    tokio::time::sleep(phase()).await;
    assert_eq!(scene.repeats(), 0, "lanes that were handed over repeat nothing");

    scene.kill("two");
    scene.comes_to("a relay was killed", &[("one", 22), ("three", 21), ("four", 21)], takeover()).await;
    scene.shows(&[("one", 22), ("three", 21), ("four", 21)]).await;
    tokio::time::sleep(phase()).await;
    println!("repeats after the kill: {}", scene.repeats());

    signal(scene.pid("three"), "STOP");
    let paused = Instant::now();
    scene.comes_to("a relay was paused", &[("one", 32), ("four", 32)], takeover()).await;
    scene.shows(&[("one", 32), ("four", 32)]).await;
    tokio::time::sleep((lease() * 3).saturating_sub(paused.elapsed())).await;
    signal(scene.pid("three"), "CONT");
    scene.members(3).await;
    scene.comes_to("it woke up", &[("one", 22), ("four", 21), ("three", 21)], two_heartbeats()).await;
    scene.shows(&[("one", 22), ("four", 21), ("three", 21)]).await;
    tokio::time::sleep(phase()).await;
    println!("repeats after the pause: {}", scene.repeats());

    let before = scene.repeats();
    for name in ["four", "one"] {
        let gap = scene.stop(name).await;
        println!("{name} was stopped: each of its lanes was read again within {gap:?} of its end");
        assert!(gap < allowed(Duration::from_secs(1)), "a lane of {name} was not read for {gap:?}");
    }
    scene.comes_to("one is left", &[("three", 64)], two_heartbeats()).await;
    tokio::time::sleep(phase()).await;

    let committed = writer.stop().await;
    scene.drained().await;
    assert_eq!(scene.repeats(), before, "a graceful stop repeats something");
    let verdict = scene.judge(&committed);
    println!("{} messages in {:?}; {verdict}", committed.len(), scene.elapsed());
    assert!(verdict.holds(), "{verdict}");
}
