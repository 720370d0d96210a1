//! An outbox of one lane: one relay leads, another one stands by, and all messages have one order.

use std::time::{Duration, Instant};

use postrider_testkit::servers::installed;
use postrider_testkit::verdict::Committed;

use crate::scene::Scene;
use crate::writer::{WITH_AND_WITHOUT_KEYS, Writer};
use crate::{allowed, takeover, two_heartbeats};

/// How often the leader is killed.
const KILLS: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_leader_is_killed_a_standby_goes_on_in_the_one_order_of_all_messages() {
    let Some(mut scene) = installed("one order over PostgreSQL", Scene::with(&["--lanes", "1"]).await) else { return };
    let writer = Writer::start(scene.url(), WITH_AND_WITHOUT_KEYS);
    scene.start(&["one", "two"]);
    scene.members(2).await;
    scene.comes_to("a leader and a standby", &[("one", 1), ("two", 0)], two_heartbeats()).await;
    for kill in 0..KILLS {
        let leader = scene.led_by_the_first().await;
        scene.moves(200).await;
        shows(&scene, &leader, &leader);
        scene.kill(&leader);
        let killed = Instant::now();
        let successor = scene.led_by_another_than(&leader).await;
        let took = killed.elapsed();
        println!("{leader} was killed: {successor} leads after {took:.1?}, {:.1?} are allowed", takeover());
        assert!(took <= takeover(), "{took:?}");
        scene.moves(200).await;
        let late = format!("late-{kill}");
        scene.start(&[&late]);
        scene.members(2).await;
        shows(&scene, &late, &successor);
    }
    println!("repeats after {KILLS} kills: {}", scene.repeats());
    let before = scene.repeats();
    let leader = scene.leader().await.unwrap();
    let gap = scene.stop(&leader).await;
    println!("{leader} was stopped: the lane was read again within {gap:?} of its end");
    assert!(gap < allowed(Duration::from_secs(1)), "{gap:?}");
    scene.moves(200).await;
    let committed = writer.stop().await;
    scene.drained().await;
    assert_eq!(scene.repeats(), before, "a graceful stop repeats something");
    let as_one = |one: Committed| Committed { key: String::new(), ..one };
    let committed: Vec<_> = committed.into_iter().map(as_one).collect();
    let verdict = scene.judge(&committed);
    println!("{} messages in one order in {:?}; {verdict}", committed.len(), scene.elapsed());
    assert!(verdict.holds(), "{verdict}");
}

/// `postrider status` tells the order, the leader, and who stands by.
fn shows(scene: &Scene, asked: &str, leader: &str) {
    let (text, json) = scene.status(asked);
    let order = format!("order    of all messages: {leader} leads, 1 standing by");
    assert!(text.lines().any(|line| line == order), "{text}");
    assert_eq!(json["ordering"], "everything", "{json}");
    assert_eq!((&json["lanes"]["total"], &json["lanes"]["owned"]), (&1.into(), &1.into()), "{json}");
}
