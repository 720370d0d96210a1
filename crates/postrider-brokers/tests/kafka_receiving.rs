//! What is taken from Kafka, and how far a position goes.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod kafka_member;
mod kafka_node;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use kafka_member::{
    PATIENCE, Sent, acknowledge, gather, member, member_with, places, recorded, send, send_numbers, take, texts,
};
use kafka_node::{Node, create_topic, node, noise};
use postrider_core::{ErrorKind, Key, Level};
use rdkafka::admin::AdminOptions;
use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

/// The node; none where there is no Kafka, which is said.
async fn real() -> Option<&'static Node> {
    node("receiving from Kafka").await
}

fn bare(payload: &[u8]) -> Sent<'_> {
    Sent { partition: 0, key: None, payload: Some(payload), headers: &[] }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_others_tombstones_and_binary_keys_are_messages() {
    let Some(Node { address, .. }) = real().await else { return };
    create_topic(address, "foreign", 1, &[]).await;
    let headers: &[(&str, &[u8])] = &[("tenant", b"blue"), ("trace", b"\x00\xff")];
    let all = [
        bare(b"bare"),
        Sent { key: Some(b"7"), payload: None, ..bare(b"") },
        Sent { key: Some(b"\xff\x00"), headers, ..bare(b"binary") },
        Sent { headers: &[("postrider-id", b"\xff")], ..bare(b"unreadable") },
    ];
    send(address, "foreign", &all).await;
    let member = member(address, "foreign-readers", "foreign");
    let taken = gather(&member, 4).await;
    assert_eq!(places(&taken), ["foreign[0]@0", "foreign[0]@1", "foreign[0]@2", "foreign[0]@3"]);
    let read = |n: usize| taken[n].message.as_ref().unwrap();
    let key = |n: usize| read(n).key.as_ref().map(Key::as_str);
    assert_eq!((read(0).topic.as_str(), &read(0).payload[..], key(0)), ("foreign", &b"bare"[..], None));
    assert_eq!((&read(1).payload[..], key(1)), (&b""[..], Some("7")));
    let found: Vec<(&str, &str)> = read(2).headers.iter().collect();
    assert_eq!((found, key(2)), (vec![("tenant", "blue"), ("trace.hex", "00ff")], Some("hex:ff00")));
    let error = taken[3].message.as_ref().unwrap_err();
    assert!(error.kind() == ErrorKind::Rejected && error.to_string().contains("foreign[0]@3"), "{error}");
    assert_eq!(&taken[3].payload[..], b"unreadable");
    assert!(taken.iter().all(|one| one.deliveries.is_none()) && member.hold().is_none());
    acknowledge(taken).await;
    assert_eq!(recorded(address, "foreign-readers", "foreign", 0).await, Some(4));
    member.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_goes_to_the_first_message_that_is_not_over_and_no_further() {
    let Some(Node { address, .. }) = real().await else { return };
    create_topic(address, "prefix", 1, &[]).await;
    send_numbers(address, "prefix", 0, 0, 6).await;
    let member = member(address, "prefix-readers", "prefix");
    let mut taken = gather(&member, 6).await;
    let slow = taken.remove(2);
    let beside = taken.remove(3);
    // From the end: only the first two stand at the front.
    taken.reverse();
    acknowledge(taken).await;
    assert_eq!(recorded(address, "prefix-readers", "prefix", 0).await, Some(2));
    // A death now makes repeats of what is over behind the slow one, and loses nothing.
    drop((slow, beside));
    drop(member);
    let member = kafka_member::member(address, "prefix-readers", "prefix");
    let mut again = gather(&member, 4).await;
    assert_eq!(texts(&again), ["2", "3", "4", "5"]);
    let last = again.split_off(1);
    acknowledge(last).await;
    assert_eq!(recorded(address, "prefix-readers", "prefix", 0).await, Some(2));
    acknowledge(again).await;
    assert_eq!(recorded(address, "prefix-readers", "prefix", 0).await, Some(6));
    member.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_back_comes_again_in_its_place() {
    let Some(Node { address, .. }) = real().await else { return };
    create_topic(address, "back", 1, &[]).await;
    send_numbers(address, "back", 0, 0, 3).await;
    let member = member(address, "back-readers", "back");
    let mut taken = gather(&member, 2).await;
    taken.remove(0).receipt.release().await.unwrap();
    // Dropped without a word.
    drop(taken);
    assert_eq!(texts(&gather(&member, 3).await), ["0", "1", "2"]);
    assert_eq!(texts(&gather(&member, 3).await), ["0", "1", "2"]);
    member.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_taken_back_in_a_transaction_is_not_seen() {
    let Some(Node { address, .. }) = real().await else { return };
    create_topic(address, "transacted", 1, &[]).await;
    let servers = address.clone();
    let publishing = move || {
        let producer: BaseProducer =
            ClientConfig::new().set("bootstrap.servers", &servers).set("transactional.id", "t").create().unwrap();
        producer.init_transactions(PATIENCE).unwrap();
        for (text, is_kept) in [("one", true), ("aborted", false), ("two", true)] {
            producer.begin_transaction().unwrap();
            producer.send(BaseRecord::<(), str>::to("transacted").payload(text)).unwrap();
            producer.flush(PATIENCE).unwrap();
            match is_kept {
                true => producer.commit_transaction(PATIENCE).unwrap(),
                false => producer.abort_transaction(PATIENCE).unwrap(),
            }
        }
    };
    tokio::task::spawn_blocking(publishing).await.unwrap();
    let member = member(address, "transacted-readers", "transacted");
    let taken = gather(&member, 2).await;
    assert_eq!(texts(&taken), ["one", "two"]);
    acknowledge(taken).await;
    assert!(take(&member, 9).await.is_empty());
    // One record and its marker are before the second message, and two of what was aborted.
    assert_eq!(recorded(address, "transacted-readers", "transacted", 0).await, Some(5));
    member.close().await;
}

/// Many acknowledgements at once share words to the broker: one each would take far longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_is_taken_and_acknowledged_whole() {
    const ALL: usize = 20_000;
    let Some(Node { address, .. }) = real().await else { return };
    create_topic(address, "backlog", 3, &[]).await;
    for partition in 0..3 {
        send_numbers(address, "backlog", partition, 0, ALL / 3).await;
    }
    let member = member(address, "backlog-readers", "backlog");
    let (began, mut seen) = (Instant::now(), BTreeSet::new());
    while seen.len() < ALL / 3 * 3 {
        assert!(began.elapsed() < PATIENCE * 2, "only {} came", seen.len());
        let taken = take(&member, 500).await;
        for place in places(&taken) {
            assert!(seen.insert(place.clone()), "{place} came twice");
        }
        acknowledge(taken).await;
    }
    println!("{} messages in {:?}", seen.len(), began.elapsed());
    for partition in 0..3 {
        let position = recorded(address, "backlog-readers", "backlog", partition).await;
        assert_eq!(position, Some(i64::try_from(ALL / 3).unwrap()));
    }
    member.close().await;
}

/// With little room here, the client is told to stop and to go on many times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_takes_is_not_fetched_and_nothing_is_lost_or_doubled_by_waiting() {
    const EACH: usize = 50;
    let Some(Node { address, .. }) = real().await else { return };
    create_topic(address, "bounded", 2, &[]).await;
    let body = noise(16 << 10);
    for partition in 0..2 {
        for _ in 0..EACH / 25 {
            let some: Vec<Sent<'_>> = (0..25).map(|_| Sent { partition, ..bare(&body) }).collect();
            send(address, "bounded", &some).await;
        }
    }
    let little = [("consumer.queued.max.messages.kbytes", "16"), ("consumer.fetch.message.max.bytes", "40000")];
    let member = member_with(address, "bounded-readers", "bounded", &little);
    acknowledge(gather(&member, 1).await).await;
    // Nobody takes for a while. What waits is a quarter of a megabyte at most, of more than a megabyte and a half.
    let shown = || {
        let shown = format!("{member:?}");
        let digits =
            shown.split("bytes_waiting: ").nth(1).unwrap().split(|c: char| !c.is_ascii_digit()).next().unwrap();
        digits.parse::<usize>().unwrap()
    };
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        assert!(shown() < 1 << 18, "{}", shown());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(shown() > 1 << 14, "{}", shown());
    let (mut seen, mut turn) = (vec![], 0_u32);
    let until = Instant::now() + PATIENCE * 2;
    while seen.len() < 2 * EACH - 1 {
        assert!(Instant::now() < until, "only {} came", seen.len());
        let taken = take(&member, 3).await;
        seen.extend(places(&taken));
        acknowledge(taken).await;
        turn += 1;
        if turn.is_multiple_of(8) {
            // Until the room here is full again.
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
    }
    for partition in 0..2 {
        let of_it: Vec<_> = seen.iter().filter(|place| place.starts_with(&format!("bounded[{partition}]"))).collect();
        let all: Vec<String> = (0..EACH).map(|offset| format!("bounded[{partition}]@{offset}")).collect();
        // The first of one of them was taken before.
        let expected = &all[EACH - of_it.len()..];
        assert!(of_it.iter().copied().eq(expected) && of_it.len() >= EACH - 1, "{of_it:?}");
    }
    member.close().await;
}

/// What was deleted before it was read is lost, which is told; what is left is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_deletion_it_goes_on_with_the_oldest_that_is_left_and_check_tells_of_it() {
    let Some(Node { address, .. }) = real().await else { return };
    create_topic(address, "deleted", 1, &[("retention.ms", "1800000"), ("cleanup.policy", "compact,delete")]).await;
    send_numbers(address, "deleted", 0, 0, 0).await;
    let keyed = |number: &'static [u8]| Sent { key: Some(number), ..bare(number) };
    send(address, "deleted", &[keyed(b"0"), keyed(b"1"), keyed(b"2"), keyed(b"3")]).await;
    let first = member(address, "deleted-readers", "deleted");
    acknowledge(gather(&first, 1).await).await;
    first.close().await;
    let mut until = TopicPartitionList::new();
    until.add_partition_offset("deleted", 0, Offset::Offset(3)).unwrap();
    kafka_node::admin(address).delete_records(&until, &AdminOptions::new()).await.unwrap();
    let second = member(address, "deleted-readers", "deleted");
    let findings = second.check().await.unwrap();
    let found: Vec<&str> = findings.iter().map(|finding| finding.found.as_str()).collect();
    for expected in ["up to 2 messages of its partition 0 were deleted", "after 0.5 h", "compacted", "one partition"] {
        assert!(found.iter().any(|found| found.contains(expected)), "{expected}: {found:?}");
    }
    assert!(findings.iter().all(|finding| finding.level != Level::Failure));
    let taken = gather(&second, 1).await;
    assert_eq!(texts(&taken), ["3"]);
    acknowledge(taken).await;
    second.close().await;
    let error = second.take(NonZeroUsize::MIN).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("closed"), "{error}");
}
