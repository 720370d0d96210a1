//! Topics of Kafka that are not as they should be, beside topics that are.

use std::time::{Duration, Instant};

use postrider_testkit::servers::installed;
use postrider_testkit::servers::kafka::{KafkaCluster, KafkaOptions};
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;

use crate::harness::{Place, Relay, nowhere, until};

const ONE: TopicReplication<'static> = TopicReplication::Fixed(1);

/// A cluster, and a client that sets up its topics.
struct Kafka {
    nodes: KafkaCluster,
    admin: AdminClient<DefaultClientContext>,
}

impl Kafka {
    /// None where there is no Kafka, which is said.
    async fn start(nodes: usize) -> Option<Self> {
        let options = KafkaOptions { heap: Some(192), ..KafkaOptions::default() };
        let started = KafkaCluster::start(vec![options; nodes]).await;
        let nodes = installed("topics of Kafka under the binary", started)?;
        let admin = ClientConfig::new().set("bootstrap.servers", nodes.addresses()).create().unwrap();
        Some(Self { nodes, admin })
    }

    /// Three nodes of which the last one is away for good, with a topic that takes messages, and one that does not: it asks
    /// for its replica on the missing node.
    async fn with_a_thin_topic() -> Option<Self> {
        let mut kafka = Self::start(3).await?;
        kafka.create("thin", TopicReplication::Variable(&[&[1, 3]]), &[("min.insync.replicas", "2")]).await;
        kafka.create("orders", TopicReplication::Variable(&[&[1, 2]]), &[("min.insync.replicas", "2")]).await;
        kafka.nodes.node(2).unwrap().kill9();
        // While the cluster believes in the missing one, it stores what it does not acknowledge.
        until("a replica too few", || (kafka.in_sync("thin") == 1).then_some(()));
        Some(kafka)
    }

    async fn create(&self, name: &str, replicas: TopicReplication<'_>, settings: &[(&str, &str)]) {
        let topic = NewTopic::new(name, 1, replicas);
        let topic = settings.iter().fold(topic, |topic, (name, value)| topic.set(name, value));
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
        self.admin.create_topics([&topic], &options).await.unwrap()[0].as_ref().unwrap();
    }

    /// From now on one replica is enough.
    async fn mend_the_thin_topic(&self) {
        let change = AlterConfig::new(ResourceSpecifier::Topic("thin")).set("min.insync.replicas", "1");
        self.admin.alter_configs([&change], &AdminOptions::new()).await.unwrap()[0].as_ref().unwrap();
    }

    fn in_sync(&self, topic: &str) -> usize {
        let metadata = self.admin.inner().fetch_metadata(Some(topic), Duration::from_secs(10)).unwrap();
        metadata.topics()[0].partitions().first().map_or(0, |partition| partition.isr().len())
    }

    /// How many messages a topic has.
    fn stored(&self, topic: &str) -> i64 {
        let (first, next) = self.admin.inner().fetch_watermarks(topic, 0, Duration::from_secs(10)).unwrap();
        next - first
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_names_a_topic_of_waiting_messages_that_cannot_take_them_beside_those_that_can() {
    let Some(kafka) = Kafka::start(1).await else { return };
    kafka.create("orders.placed", ONE, &[]).await;
    kafka.create("demanding", ONE, &[("min.insync.replicas", "2")]).await;
    kafka.create("narrow", ONE, &[("max.message.bytes", "5000")]).await;
    let place = Place::migrated();
    for topic in ["orders.placed", "orders.paid", "demanding", "narrow"] {
        place.enqueue(topic, "k", "x");
    }
    let check = || place.on(&["check", "--broker", &format!("kafka://{}", kafka.nodes.addresses())]);
    let told = check().ends(1).out.clone();
    for words in [
        "no topic \"orders.paid\"",
        "kafka-topics.sh --create --topic orders.paid",
        "the topic \"demanding\"",
        "asks for 2 replicas in sync",
        "next: give it more replicas",
        "kafka-configs.sh --alter --topic demanding --add-config min.insync.replicas=1",
        "topic narrow",
        "batches of at most 5000 bytes",
        "2 that stop the relay",
    ] {
        assert!(told.contains(words), "{words:?} is not in {told}");
    }
    kafka.create("orders.paid", ONE, &[]).await;
    let told = check().ends(1).out.clone();
    assert!(!told.contains("orders.paid\" at") && told.contains("1 that stop the relay"), "{told}");
}

/// What `status --json` counts as pending and as dead.
fn left(place: &Place) -> (u64, u64) {
    let status = place.on(&["status", "--json", "--admin", &nowhere()]).json();
    let count = |name: &str| status[name]["value"].as_u64().unwrap();
    (count("pending"), count("dead"))
}

/// A relay with these routes that soon tries again, and gives up after the third charged attempt.
fn relay(place: &Place, kafka: &Kafka, routes: &str) -> Relay {
    let broker = format!("[broker.bus]\nurl = \"kafka://{}\"\ntimeout = \"1s\"\n", kafka.nodes.addresses());
    let retry = "[retry]\nmax_attempts = 3\ninitial = \"10ms\"\n[relay]\nmax_pause = \"100ms\"\n";
    place.write("postrider.toml", format!("{broker}{retry}{routes}"));
    let fixed = ["relay", "--store", "sqlite:app.db", "--admin-listen", "127.0.0.1:0", "--log-format", "json"];
    place.start(&mut place.command(&fixed))
}

/// Messages of one route, of which one topic takes none: its messages are charged, because others are accepted there, and
/// become dead letters as the policy says and not before. What is stored is what was replayed once the topic was mended.
async fn dies_by_the_policy(place: &Place, kafka: &Kafka, topic: &str, cause: &str) -> Relay {
    let relay = relay(place, kafka, "");
    let id = place.enqueue(topic, "a", "1");
    place.enqueue("orders", "a", "behind it");
    let mut others = 1;
    until("a dead letter", || {
        others += 1;
        place.enqueue("orders", "b", "another");
        (left(place).1 > 0).then_some(())
    });
    until("an empty outbox", || (left(place) == (0, 1)).then_some(()));
    assert_eq!(kafka.stored("orders"), others);
    let told = place.on(&["explain", &id]).good().out.clone();
    assert!(told.contains(cause), "{told}");
    let told = place.on(&["explain", &id, "--json"]).json().to_string();
    assert!(told.contains("\"attempts\":3") && told.contains("\"dead_reason\":\"attempts\""), "{told}");
    relay
}

/// The one message that died, of a topic that takes it now.
fn arrives_when_it_is_replayed(place: &Place, kafka: &Kafka, topic: &str) {
    place.on(&["dead", "replay", "--yes"]).good();
    until("an empty outbox", || (left(place) == (0, 0)).then_some(()));
    assert_eq!(kafka.stored(topic), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_a_missing_topic_beside_others_die_by_the_policy_and_arrive_when_they_are_replayed() {
    let Some(kafka) = Kafka::start(1).await else { return };
    kafka.create("orders", ONE, &[]).await;
    let place = Place::migrated();
    let _relay = dies_by_the_policy(&place, &kafka, "missing", "kafka-topics.sh --create --topic missing").await;
    kafka.create("missing", ONE, &[]).await;
    arrives_when_it_is_replayed(&place, &kafka, "missing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_an_under_replicated_topic_beside_others_die_by_the_policy_and_arrive_when_they_are_replayed() {
    let Some(kafka) = Kafka::with_a_thin_topic().await else { return };
    let place = Place::migrated();
    let _relay = dies_by_the_policy(&place, &kafka, "thin", "are min.insync.replicas of its replicas there?").await;
    assert_eq!(kafka.stored("thin"), 0);
    kafka.mend_the_thin_topic().await;
    arrives_when_it_is_replayed(&place, &kafka, "thin");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_under_replicated_topic_with_a_route_of_its_own_costs_no_attempt_and_is_waited_for() {
    let Some(kafka) = Kafka::with_a_thin_topic().await else { return };
    let place = Place::migrated();
    let routes = "[[route]]\nname = \"thin\"\ntopics = \"thin\"\n[[route]]\nname = \"orders\"\ntopics = \"orders\"\n";
    let relay = relay(&place, &kafka, routes);
    let ids = ["a", "a", "b"].map(|key| place.enqueue("thin", key, "x"));
    let began = Instant::now();
    let mut others = 0;
    // With the route of the others they would be dead by then.
    while began.elapsed() < Duration::from_secs(12) {
        others += 1;
        place.enqueue("orders", "a", "another");
        until("the others", || (left(&place) == (3, 0)).then_some(()));
    }
    assert_eq!((kafka.stored("thin"), kafka.stored("orders")), (0, others));
    for id in ids {
        let told = place.on(&["explain", &id, "--json"]).json().to_string();
        assert!(told.contains("\"attempts\":0"), "an attempt was counted: {told}");
    }
    let told = relay.ask("/status", None).1;
    assert!(told.contains("are min.insync.replicas of its replicas there?"), "{told}");
    let told = place.on(&["check"]).good().out.clone();
    assert!(told.contains("1 of its replicas are in sync, and it asks for 2: messages wait"), "{told}");
    kafka.mend_the_thin_topic().await;
    until("an empty outbox", || (left(&place) == (0, 0)).then_some(()));
    assert!(kafka.stored("thin") >= 3, "what was not certain may be there twice");
}
