//! What a subscription to Kafka makes of a server that is away, refuses, or lacks a topic.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod kafka_member;
mod kafka_node;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kafka_member::{PATIENCE, acknowledge, gather, member, member_with, places, recorded, send_numbers, take, texts};
use kafka_node::{Node, PASSWORD, create_topic, node};
use postrider_brokers::{BrokerConfig, SubscriptionConfig, subscribe};
use postrider_core::{Error, ErrorKind, Incoming, Level, MessageId, Subscription};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::kafka::KafkaServer;
use postrider_testkit::servers::process::{Signal, free_port};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

const FORBIDDEN: RDKafkaRespErr = RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;

type Mock = MockCluster<'static, DefaultProducerContext>;

/// The node; none where there is no Kafka, which is said.
async fn real() -> Option<&'static Node> {
    node("faults while receiving from Kafka").await
}

/// Takes until it fails.
async fn failure(from: &Arc<dyn Subscription>) -> Error {
    let until = Instant::now() + PATIENCE;
    loop {
        match from.take(NonZeroUsize::MIN).await {
            Ok(taken) => assert!(Instant::now() < until, "it does not fail: {taken:?}"),
            Err(error) => return error,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nothing_listens_taking_fails_and_so_does_check() {
    let member = member(&format!("127.0.0.1:{}", free_port().unwrap()), "readers", "orders");
    let began = Instant::now();
    let error = failure(&member).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("is the server running"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10), "it took {:?}", began.elapsed());
    assert_eq!(member.check().await.unwrap_err().kind(), ErrorKind::Unavailable);
    member.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_topic_says_how_to_create_it_and_is_read_when_it_is_there() {
    let Some(Node { address, .. }) = real().await else { return };
    create_topic(address, "early", 1, &[]).await;
    send_numbers(address, "early", 0, 0, 1).await;
    let broker = BrokerConfig::new(format!("kafka://{address}?session_timeout=6s"));
    let member = subscribe(&SubscriptionConfig::new(broker, "late-readers", "early").and_from("late")).unwrap();
    // The topic that is there is read meanwhile.
    acknowledge(gather(&member, 1).await).await;
    for error in [failure(&member).await, member.check().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("kafka-topics.sh --create --topic late"), "{error}");
    }
    create_topic(address, "late", 2, &[]).await;
    send_numbers(address, "late", 1, 0, 2).await;
    let taken = gather(&member, 2).await;
    assert_eq!(places(&taken), ["late[1]@0", "late[1]@1"]);
    acknowledge(taken).await;
    assert!(member.check().await.is_ok());
    member.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_is_added_is_read_from_its_beginning() {
    let Some(Node { address, .. }) = real().await else { return };
    create_topic(address, "growing", 1, &[]).await;
    send_numbers(address, "growing", 0, 0, 1).await;
    let member = member(address, "growing-readers", "growing");
    acknowledge(gather(&member, 1).await).await;
    let more = rdkafka::admin::NewPartitions::new("growing", 2);
    let options = rdkafka::admin::AdminOptions::new();
    kafka_node::admin(address).create_partitions(&[more], &options).await.unwrap();
    let until = Instant::now() + PATIENCE;
    while kafka_node::admin(address).inner().fetch_metadata(Some("growing"), PATIENCE).unwrap().topics()[0]
        .partitions()
        .len()
        < 2
    {
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    send_numbers(address, "growing", 1, 0, 2).await;
    let taken = gather(&member, 2).await;
    assert_eq!(places(&taken), ["growing[1]@0", "growing[1]@1"]);
    acknowledge(taken).await;
    member.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_missing_is_named_and_nothing_secret_is_shown() {
    let Some(Node { address, guarded, .. }) = real().await else { return };
    create_topic(address, "guarded", 1, &[]).await;
    let as_user = |user: &str, password: &str| {
        let broker = BrokerConfig::new(format!("kafka://{user}:{password}@{guarded}?sasl=plain&session_timeout=6s"));
        subscribe(&SubscriptionConfig::new(broker, "guarded-readers", "guarded")).unwrap()
    };
    let stranger = as_user("stranger", PASSWORD);
    for error in [failure(&stranger).await, stranger.check().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("permission"), "{error}");
        assert!(!format!("{error:?} {error} {stranger:?}").contains(PASSWORD));
    }
    let liar = as_user("admin", "canary");
    for error in [failure(&liar).await, liar.check().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("user and password"), "{error}");
        assert!(!format!("{error:?} {error} {liar:?}").contains("canary"));
    }
    let admin = as_user("admin", "admin-password");
    send_numbers(address, "guarded", 0, 0, 1).await;
    acknowledge(gather(&admin, 1).await).await;
    let findings = admin.check().await.unwrap();
    let found: Vec<&str> = findings.iter().map(|finding| finding.found.as_str()).collect();
    for expected in ["password travels readable", "creates topics by itself"] {
        assert!(found.iter().any(|found| found.contains(expected)), "{expected}: {found:?}");
    }
    assert!(findings.iter().all(|finding| finding.level != Level::Failure));
    assert!(!format!("{findings:?} {admin:?}").contains("admin-password"));
    for member in [stranger, liar, admin] {
        member.close().await;
    }
}

/// A server that is killed, and one that is frozen: what was recorded is not seen again, and the rest is not lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_frozen_loses_nothing() {
    let Some(mut server) = installed("receiving from a Kafka that is killed", KafkaServer::start().await) else {
        return;
    };
    let address = server.address();
    create_topic(&address, "killed", 2, &[]).await;
    for partition in 0..2 {
        send_numbers(&address, "killed", partition, 0, 20).await;
    }
    let member = member_with(&address, "killed-readers", "killed", &[("timeout", "5s")]);
    let mut taken = gather(&member, 40).await;
    taken.sort_by_key(|one| one.place.clone());
    let at = taken.iter().position(|one| one.place.as_str() == "killed[0]@0").unwrap();
    acknowledge(vec![taken.remove(at)]).await;
    server.kill9();
    let began = Instant::now();
    assert_eq!(failure(&member).await.kind(), ErrorKind::Unavailable);
    let at = taken.iter().position(|one| one.place.as_str() == "killed[1]@0").unwrap();
    let error = taken.remove(at).receipt.acknowledge().await.unwrap_err();
    // The session may be over before the answer is given up.
    let kinds = [ErrorKind::Unavailable, ErrorKind::Unknown, ErrorKind::Fenced];
    assert!(kinds.contains(&error.kind()), "{error}");
    assert!(began.elapsed() < Duration::from_secs(30), "it took {:?}", began.elapsed());
    server.restart().await.unwrap();
    send_numbers(&address, "killed", 0, 20, 21).await;
    // Whether the session outlived it or not: what is not ours any more comes again.
    let mut open = std::collections::BTreeSet::from(["killed[0]@20".to_owned()]);
    for one in taken {
        let place = one.place.as_str().to_owned();
        if let Err(error) = one.receipt.acknowledge().await {
            assert!(matches!(error.kind(), ErrorKind::Fenced | ErrorKind::Unknown | ErrorKind::Unavailable), "{error}");
            open.insert(place);
        }
    }
    everything_comes(&member, open).await;
    server.signal(Signal::Stop);
    assert_eq!(failure(&member).await.kind(), ErrorKind::Unavailable);
    server.signal(Signal::Continue);
    send_numbers(&address, "killed", 1, 20, 21).await;
    everything_comes(&member, std::collections::BTreeSet::from(["killed[1]@20".to_owned()])).await;
    let until = Instant::now() + PATIENCE;
    for partition in 0..2 {
        while recorded(&address, "killed-readers", "killed", partition).await != Some(21) {
            assert!(Instant::now() < until, "partition {partition}");
            acknowledge(take(&member, 9).await).await;
        }
    }
    member.close().await;
}

/// Cuts the log of a partition, of a server that does not run, behind so many of its batches.
fn cut(server: &KafkaServer, partition: &str, batches: usize) {
    let folders = std::fs::read_dir(server.path()).unwrap().map(|entry| entry.unwrap().path());
    let all = folders.flat_map(|folder| [folder.clone(), folder.join(partition)]);
    let folder = all.into_iter().find(|path| path.ends_with(partition) && path.is_dir()).unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let (bytes, mut end) = (std::fs::read(&path).unwrap(), 0);
            for _ in 0..batches {
                // An offset, then how many bytes follow.
                let length = bytes[end + 8..end + 12].try_into().unwrap();
                end += 12 + usize::try_from(i32::from_be_bytes(length)).unwrap();
            }
            assert!(end < bytes.len(), "nothing is cut");
            std::fs::write(&path, &bytes[..end]).unwrap();
        }
    }
}

/// As after a loss of power at a server that is alone: what it had not written to disk is gone, and it counts from there again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_after_a_log_lost_its_end_is_taken_though_its_offsets_were_taken_before() {
    let Some(mut server) = installed("receiving from a Kafka that lost the end of a log", KafkaServer::start().await)
    else {
        return;
    };
    let address = server.address();
    create_topic(&address, "cut", 1, &[]).await;
    for number in 0..10 {
        send_numbers(&address, "cut", 0, number, number + 1).await;
    }
    // It stays in the group meanwhile: the client itself finds out that the log is shorter.
    let member = member_with(&address, "cut-readers", "cut", &[("session_timeout", "60s")]);
    let mut taken = gather(&member, 10).await;
    let (last, kept) = (taken.pop().unwrap(), taken.remove(3));
    acknowledge(taken).await;
    server.kill9();
    cut(&server, "cut-0", 7);
    server.restart().await.unwrap();
    for number in 20..25 {
        send_numbers(&address, "cut", 0, number, number + 1).await;
    }
    let (mut came, until) = (Vec::new(), Instant::now() + PATIENCE);
    while !texts(&came).iter().any(|text| text == "24") {
        assert!(Instant::now() < until, "only these came: {:?}", texts(&came));
        came.extend(take(&member, 10).await);
    }
    assert_eq!(texts(&came), ["20", "21", "22", "23", "24"]);
    assert_eq!(places(&came)[0], "cut[0]@7");
    // What is in hand and in the log is ours; what was taken back is not, and nothing of it is recorded.
    kept.receipt.extend().await.unwrap();
    assert_eq!(last.receipt.acknowledge().await.unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(recorded(&address, "cut-readers", "cut", 0).await, Some(3));
    kept.receipt.acknowledge().await.unwrap();
    assert_eq!(recorded(&address, "cut-readers", "cut", 0).await, Some(7));
    acknowledge(came).await;
    assert_eq!(recorded(&address, "cut-readers", "cut", 0).await, Some(12));
    member.close().await;
}

/// Takes and acknowledges until all of these came.
async fn everything_comes(member: &Arc<dyn Subscription>, mut open: std::collections::BTreeSet<String>) {
    let until = Instant::now() + PATIENCE * 2;
    while !open.is_empty() {
        assert!(Instant::now() < until, "these did not come: {open:?}");
        for one in take(member, 50).await {
            let place = one.place.as_str().to_owned();
            if one.receipt.acknowledge().await.is_ok() {
                open.remove(&place);
            }
        }
    }
}

/// The first answers are those of a cluster that has just begun: nobody takes the silence for a missing topic.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_topic_is_no_failure() {
    let Some(Node { address, .. }) = real().await else { return };
    create_topic(address, "empty", 1, &[]).await;
    let (one, other) = (member(address, "empty-readers", "empty"), member(address, "empty-readers", "empty"));
    for _ in 0..4 {
        for member in [&one, &other] {
            assert!(member.take(NonZeroUsize::MIN).await.unwrap().is_empty());
        }
    }
    send_numbers(address, "empty", 0, 0, 1).await;
    let until = Instant::now() + PATIENCE;
    let taken = loop {
        assert!(Instant::now() < until);
        let mut taken = take(&one, 1).await;
        taken.extend(take(&other, 1).await);
        if !taken.is_empty() {
            break taken;
        }
    };
    assert_eq!(texts(&taken), ["0"]);
    acknowledge(taken).await;
    one.close().await;
    other.close().await;
}

/// A cluster that injects errors: librdkafka's own mock cluster, with three numbers in a topic.
async fn mock(topic: &str) -> Mock {
    let cluster = Mock::new(1).unwrap();
    cluster.create_topic(topic, 1, 1).unwrap();
    send_numbers(&cluster.bootstrap_servers(), topic, 0, 0, 3).await;
    cluster
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_that_was_not_recorded_is_sent_again() {
    let cluster = mock("again").await;
    let address = cluster.bootstrap_servers();
    let member = member(&address, "readers", "again");
    let taken = gather(&member, 3).await;
    let passing = [
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
    ];
    cluster.request_errors(RDKafkaApiKey::OffsetCommit, &passing);
    acknowledge(taken).await;
    assert_eq!(recorded(&address, "readers", "again", 0).await, Some(3));
    member.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_may_record_nothing_is_told_so_and_records_when_it_may() {
    let cluster = mock("forbidden").await;
    let address = cluster.bootstrap_servers();
    let member = member(&address, "readers", "forbidden");
    let mut taken = gather(&member, 3).await;
    cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[FORBIDDEN; 2]);
    let error = taken.remove(0).receipt.acknowledge().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("Read on the group"), "{error}");
    // Nobody says more: what was noted is recorded all the same, when it is allowed.
    let until = Instant::now() + PATIENCE;
    while recorded(&address, "readers", "forbidden", 0).await != Some(1) {
        assert!(Instant::now() < until);
    }
    acknowledge(taken).await;
    member.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_read_is_told_though_the_cluster_is_well() {
    let cluster = mock("damaged").await;
    let address = cluster.bootstrap_servers();
    let member = member(&address, "readers", "damaged");
    acknowledge(gather(&member, 3).await).await;
    cluster.request_errors(RDKafkaApiKey::Fetch, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_MSG; 8]);
    let error = failure(&member).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for expected in ["something in damaged", "can't be read", "offset 3", "kafka-dump-log.sh"] {
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
    send_numbers(&address, "damaged", 0, 3, 4).await;
    acknowledge(gather(&member, 1).await).await;
    member.close().await;
}

/// The client tells one answer for all positions that it sent at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_is_deleted_holds_back_no_acknowledgement_of_another() {
    let Some(Node { address, .. }) = real().await else { return };
    for topic in ["doomed", "spared"] {
        create_topic(address, topic, 1, &[]).await;
        send_numbers(address, topic, 0, 0, 2).await;
    }
    let broker = BrokerConfig::new(format!("kafka://{address}?session_timeout=6s&timeout=2s"));
    let config = SubscriptionConfig::new(broker, "spared-readers", "doomed").and_from("spared");
    let member = subscribe(&config).unwrap();
    let taken = gather(&member, 4).await;
    let (doomed, spared): (Vec<_>, Vec<_>) =
        taken.into_iter().partition(|one| one.place.as_str().starts_with("doomed"));
    kafka_node::admin(address).delete_topics(&["doomed"], &rdkafka::admin::AdminOptions::new()).await.unwrap();
    let lost = tokio::spawn(futures_util::future::join_all(doomed.into_iter().map(|one| one.receipt.acknowledge())));
    acknowledge(spared).await;
    for told in lost.await.unwrap() {
        let error = told.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Fenced), "{error}");
    }
    member.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_is_deleted_and_made_again_while_it_is_read_is_read_from_its_beginning() {
    let Some(Node { address, .. }) = real().await else { return };
    create_topic(address, "remade", 1, &[]).await;
    send_numbers(address, "remade", 0, 0, 10).await;
    let member = member(address, "remade-readers", "remade");
    let mut taken = gather(&member, 10).await;
    let id = |one: &Incoming| one.message.as_ref().unwrap().id;
    let old_ids: Vec<MessageId> = taken.iter().map(id).collect();
    let held = taken.split_off(5);
    acknowledge(taken).await;
    let admin = kafka_node::admin(address);
    admin.delete_topics(&["remade"], &rdkafka::admin::AdminOptions::new()).await.unwrap();
    create_topic(address, "remade", 1, &[]).await;
    send_numbers(address, "remade", 0, 20, 23).await;
    let mut open: std::collections::BTreeSet<String> = (20..23).map(|number| number.to_string()).collect();
    let until = Instant::now() + PATIENCE;
    while !open.is_empty() {
        assert!(Instant::now() < until, "these did not come: {open:?}");
        for one in take(&member, 10).await {
            let text = texts(std::slice::from_ref(&one)).remove(0);
            // An inbox would take it for a repeat.
            assert!(
                !open.contains(&text) || !old_ids.contains(&id(&one)),
                "{text} has the id of what lay there before"
            );
            if one.receipt.acknowledge().await.is_ok() {
                open.remove(&text);
            }
        }
    }
    for old in held {
        assert_eq!(old.receipt.acknowledge().await.unwrap_err().kind(), ErrorKind::Fenced);
    }
    assert_eq!(recorded(address, "remade-readers", "remade", 0).await, Some(3));
    member.close().await;
}
