//! One real Kafka for all tests of a program, and topics in it.
#![allow(dead_code, reason = "each program uses what it needs")]

use std::time::Duration;

use postrider_testkit::servers::installed;
use postrider_testkit::servers::kafka::{KafkaOptions, KafkaServer};
use postrider_testkit::servers::process::ServerError;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use tokio::sync::{Mutex, OnceCell};

/// The password of the user `relay`, by PLAIN and by SCRAM.
pub const PASSWORD: &str = "hidden-password";

/// The node, shared by the tests of this program; it is ended with the program.
pub struct Node {
    pub server: Mutex<KafkaServer>,
    /// Where it asks for no password.
    pub address: String,
    /// Where it asks for one.
    pub guarded: String,
}

static NODE: OnceCell<Node> = OnceCell::const_new();

/// The node, running, for a test of this; none where there is no Kafka, which is said.
pub async fn node(what: &str) -> Option<&'static Node> {
    let node = installed(what, NODE.get_or_try_init(start).await)?;
    let mut server = node.server.lock().await;
    if !server.is_running() {
        server.restart().await.unwrap();
    }
    drop(server);
    Some(node)
}

async fn start() -> Result<Node, ServerError> {
    let user = |name: &str, word: &str| (name.to_owned(), word.to_owned());
    let options = KafkaOptions {
        users: vec![user("admin", "admin-password"), user("relay", PASSWORD), user("stranger", PASSWORD)],
        authorize: true,
        // A topic that is created by accident is a failure of the broker under test.
        extra: "auto.create.topics.enable=true".to_owned(),
        ..KafkaOptions::default()
    };
    let server = KafkaServer::start_with(options).await?;
    let (address, guarded) = (server.address(), server.address_with_password());
    Ok(Node { server: Mutex::new(server), address, guarded })
}

/// A client for what the tests set up.
pub fn admin(address: &str) -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", address).create().unwrap()
}

/// Creates a topic and waits until the node tells of it.
pub async fn create_topic(address: &str, name: &str, partitions: i32, settings: &[(&str, &str)]) {
    let admin = admin(address);
    let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    for (name, value) in settings {
        topic = topic.set(name, value);
    }
    let results = admin.create_topics(&[topic], &AdminOptions::new()).await.unwrap();
    results.into_iter().next().unwrap().unwrap();
    loop {
        let metadata = admin.inner().fetch_metadata(Some(name), Duration::from_secs(10)).unwrap();
        let found = &metadata.topics()[0];
        if found.error().is_none() && found.partitions().iter().all(|partition| partition.leader() >= 0) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Bytes that no codec makes smaller.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(step).take(length).collect()
}
