//! Members of a group of Kafka that come, go, are slow and hang, while messages are in hand.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod kafka_member;
mod kafka_node;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kafka_member::{PATIENCE, acknowledge, gather, member, member_with, places, recorded, send_numbers, take, texts};
use kafka_node::{Node, create_topic, node};
use postrider_core::{ErrorKind, Incoming, Subscription};

/// The node; none where there is no Kafka, which is said.
async fn real() -> Option<&'static Node> {
    node("members of a group of Kafka").await
}

/// Whether a message is still its taker's.
async fn is_ours(one: &Incoming) -> bool {
    match one.receipt.extend().await {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
            false
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_hand_when_its_partition_goes_is_fenced_and_comes_to_its_new_owner() {
    let Some(Node { address, .. }) = real().await else { return };
    create_topic(address, "moving", 2, &[]).await;
    for partition in 0..2 {
        send_numbers(address, "moving", partition, 0, 10).await;
    }
    let old = member(address, "moving-readers", "moving");
    let mut held: BTreeMap<String, Incoming> =
        gather(&old, 20).await.into_iter().map(|one| (one.place.as_str().to_owned(), one)).collect();
    // The first of each partition is over, and the third, which stands behind one that is not.
    for partition in 0..2 {
        for offset in [0, 2] {
            acknowledge(vec![held.remove(&format!("moving[{partition}]@{offset}")).unwrap()]).await;
        }
    }
    let new = member(address, "moving-readers", "moving");
    let first = gather(&new, 9).await;
    let partition = first[0].place.as_str()[..9].to_owned();
    let expected: Vec<String> = (1..10).map(|offset| format!("{partition}@{offset}")).collect();
    assert_eq!(places(&first), expected, "it begins behind what was over at the front");
    let number: i32 = partition[7..8].parse().unwrap();
    // The new owner is done with it, and nothing that the old one says changes that.
    acknowledge(first).await;
    assert_eq!(recorded(address, "moving-readers", "moving", number).await, Some(10));
    let (gone, kept): (Vec<_>, Vec<_>) = held.into_values().partition(|one| one.place.as_str().starts_with(&partition));
    assert_eq!((gone.len(), kept.len()), (8, 8));
    for one in gone {
        assert!(!is_ours(&one).await);
        let error = one.receipt.acknowledge().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    }
    for one in &kept {
        assert!(is_ours(one).await, "{}", one.place);
    }
    acknowledge(kept).await;
    assert_eq!(recorded(address, "moving-readers", "moving", number).await, Some(10));
    assert_eq!(recorded(address, "moving-readers", "moving", 1 - number).await, Some(10));
    assert!(take(&old, 9).await.is_empty() && take(&new, 9).await.is_empty());
    old.close().await;
    new.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_member_that_is_gone_had_in_hand_comes_to_another() {
    let Some(Node { address, .. }) = real().await else { return };
    create_topic(address, "dying", 2, &[]).await;
    for partition in 0..2 {
        send_numbers(address, "dying", partition, 0, 5).await;
    }
    let dying = member(address, "dying-readers", "dying");
    let mut held = gather(&dying, 10).await;
    let at = held.iter().position(|one| one.place.as_str() == "dying[0]@0").unwrap();
    acknowledge(vec![held.remove(at)]).await;
    drop(dying);
    let heir = member(address, "dying-readers", "dying");
    let taken = gather(&heir, 9).await;
    let (mut came, mut open) = (places(&taken), places(&held));
    came.sort();
    open.sort();
    assert_eq!(came, open);
    // Its receipts outlive it, and say nothing any more.
    for one in held {
        assert_eq!(one.receipt.acknowledge().await.unwrap_err().kind(), ErrorKind::Fenced);
    }
    acknowledge(taken).await;
    heir.close().await;
}

/// Members come and go, each with some messages that it is slow with, which it drops when it goes. Then they stay: while a group
/// shares its partitions anew all the time, it is luck how soon the last ones come to somebody who is there long enough. Every
/// message is over at the end, and recorded. It is luck who has what in hand when it goes: a round without a repeat, or without
/// somebody who came too late, proves too little, and another one follows.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn members_that_come_and_go_lose_nothing() {
    const PARTITIONS: i32 = 6;
    const EACH: usize = 300;
    let Some(Node { address, .. }) = real().await else { return };
    create_topic(address, "churning", PARTITIONS, &[]).await;
    let partitions = usize::try_from(PARTITIONS).unwrap();
    let (over, slow) = (Arc::default(), Arc::default());
    let (mut rounds, mut repeats, mut fenced) = (0, 0, 0);
    while repeats == 0 || fenced == 0 {
        assert!(rounds < 6, "nobody had anything in hand when it went");
        for partition in 0..PARTITIONS {
            send_numbers(address, "churning", partition, rounds * EACH, (rounds + 1) * EACH).await;
        }
        rounds += 1;
        let all = rounds * EACH * partitions;
        let worker =
            |number| tokio::spawn(coming_and_going(number, address.clone(), Arc::clone(&over), Arc::clone(&slow), all));
        for worker in (0..3).map(worker).collect::<Vec<_>>() {
            let told = worker.await.unwrap();
            println!("{told:?}");
            (repeats, fenced) = (repeats + told.repeats, fenced + told.fenced);
        }
        assert_eq!(over.lock().unwrap().len(), all);
    }
    let heir = member(address, "churning-readers", "churning");
    // What was noted behind an open one of a member that went comes again, when the partition does; then everything is recorded.
    let (end, until) = (Some(i64::try_from(rounds * EACH).unwrap()), Instant::now() + PATIENCE);
    for partition in 0..PARTITIONS {
        loop {
            acknowledge(take(&heir, 100).await).await;
            let position = recorded(address, "churning-readers", "churning", partition).await;
            if position == end {
                break;
            }
            assert!(position < end && Instant::now() < until, "partition {partition}: {position:?} of {end:?}");
        }
    }
    assert!(take(&heir, 100).await.is_empty(), "it is over and recorded");
    heir.close().await;
}

/// A worker comes and goes so often, and stays then.
const LIVES: u64 = 6;

/// A worker has so many messages in hand that it is slow with: those of some seconds. A group learns at its members' next heartbeat
/// (2 s) that somebody came; with those of a moment in hand, 18 lives in a row had none whose partition had just moved.
const IN_HAND: usize = 30;

/// What a worker saw.
#[derive(Debug, Default)]
struct Told {
    lives: u64,
    repeats: usize,
    fenced: usize,
}

/// Lives several times, until all messages are over.
async fn coming_and_going(
    number: u64,
    address: String,
    over: Arc<Mutex<BTreeSet<String>>>,
    slow_once: Arc<Mutex<BTreeSet<String>>>,
    all: usize,
) -> Told {
    let (until, mut told) = (Instant::now() + PATIENCE * 3, Told::default());
    let say = async |one: Incoming, told: &mut Told| {
        let place = one.place.as_str().to_owned();
        match one.receipt.acknowledge().await {
            Ok(()) => told.repeats += usize::from(!over.lock().unwrap().insert(place)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
                told.fenced += 1;
            }
        }
    };
    while over.lock().unwrap().len() < all {
        assert!(Instant::now() < until, "{} of {all} are over", over.lock().unwrap().len());
        told.lives += 1;
        let member = member(&address, "churning-readers", "churning");
        let life = match told.lives {
            ..LIVES => Instant::now() + Duration::from_millis(2_000 + (number * 700 + told.lives * 900) % 2_000),
            _ => until,
        };
        let mut slow = VecDeque::new();
        while Instant::now() < life && over.lock().unwrap().len() < all {
            let mut taken: VecDeque<Incoming> = take(&member, 8).await.into();
            // The next owner gets the same one first again, and is not slow with it: nobody would ever be over with it.
            if told.lives < LIVES
                && let Some(first) = taken.front()
                && slow_once.lock().unwrap().insert(first.place.as_str().to_owned())
            {
                slow.extend(taken.pop_front());
            }
            tokio::time::sleep(Duration::from_millis(40)).await;
            // Over in another order.
            for one in taken.into_iter().rev() {
                say(one, &mut told).await;
            }
            if slow.len() > IN_HAND
                && let Some(one) = slow.pop_front()
            {
                say(one, &mut told).await;
            }
        }
        match told.lives % 2 {
            // It has been slow for most of its life: whatever moved meanwhile is another's.
            0 => {
                for one in slow {
                    say(one, &mut told).await;
                }
                member.close().await;
            }
            _ => drop(member),
        }
        // Long enough for the others to get what it had, which moves again when it comes back.
        tokio::time::sleep(Duration::from_millis(800)).await;
    }
    told
}

/// Polls with this many milliseconds between them are what the client allows.
const SHORT: &[(&str, &str)] = &[("consumer.max.poll.interval.ms", "6000")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_handler_keeps_its_partition() {
    let Some(Node { address, .. }) = real().await else { return };
    create_topic(address, "slow", 1, &[]).await;
    send_numbers(address, "slow", 0, 0, 2).await;
    let slow = member_with(address, "slow-readers", "slow", SHORT);
    let held = gather(&slow, 1).await;
    let other = member_with(address, "slow-readers", "slow", SHORT);
    let until = Instant::now() + Duration::from_secs(14);
    while Instant::now() < until {
        // Nobody takes from the slow one meanwhile.
        assert!(take(&other, 9).await.is_empty(), "it was taken from a member that lives");
    }
    assert!(is_ours(&held[0]).await);
    acknowledge(held).await;
    assert_eq!(texts(&gather(&slow, 1).await), ["1"]);
    slow.close().await;
    other.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_hangs_loses_its_partition_and_comes_back() {
    let Some(Node { address, .. }) = real().await else { return };
    create_topic(address, "hanging", 1, &[]).await;
    send_numbers(address, "hanging", 0, 0, 1).await;
    let (took, has_taken) = tokio::sync::oneshot::channel();
    let (wake, woken) = std::sync::mpsc::channel::<()>();
    let servers = address.clone();
    let hanging = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let member = member_with(&servers, "hanging-readers", "hanging", SHORT);
            let mut held = gather(&member, 1).await;
            took.send(()).unwrap();
            // Nothing else of this runtime runs.
            woken.recv().unwrap();
            let error = held.remove(0).receipt.acknowledge().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
            texts(&gather(&member, 1).await)
        })
    });
    has_taken.await.unwrap();
    let other = member_with(address, "hanging-readers", "hanging", SHORT);
    acknowledge(gather(&other, 1).await).await;
    wake.send(()).unwrap();
    // Where it came from goes away: it has the partition again.
    other.close().await;
    send_numbers(address, "hanging", 0, 1, 2).await;
    let back = tokio::task::spawn_blocking(move || hanging.join().unwrap()).await.unwrap();
    assert_eq!(back, ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_that_is_dropped_and_a_subscription_that_is_dropped_leave_nothing_behind() {
    let Some(Node { address, .. }) = real().await else { return };
    create_topic(address, "dropped", 1, &[]).await;
    let gone = member(address, "dropped-readers", "dropped");
    let some = NonZeroUsize::new(5).unwrap();
    for _ in 0..20 {
        let _ = tokio::time::timeout(Duration::from_millis(30), gone.take(some)).await;
    }
    send_numbers(address, "dropped", 0, 0, 3).await;
    for _ in 0..20 {
        let _ = tokio::time::timeout(Duration::from_millis(20), gone.take(some)).await;
    }
    let began = Instant::now();
    drop(gone);
    let heir: Arc<dyn Subscription> = member(address, "dropped-readers", "dropped");
    let taken = gather(&heir, 3).await;
    assert_eq!(texts(&taken), ["0", "1", "2"]);
    // A member that had not left would be waited for as long as its session lasts.
    assert!(began.elapsed() < Duration::from_secs(6), "it took {:?}", began.elapsed());
    acknowledge(taken).await;
    heir.close().await;
}
