//! A Kafka, a topic in it, and what stands there with the moment at which it came.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use postrider_testkit::servers::kafka::KafkaServer;
use postrider_testkit::servers::process::ServerError;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::timeline::Arrival;

/// The topic that the route leads to.
const TOPIC: &str = "orders.placed";
const PARTITIONS: i32 = 6;
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Kafka {
    server: KafkaServer,
}

impl Kafka {
    /// Starts one with a topic whose records bear the moment at which the server appended them.
    ///
    /// # Errors
    /// When Kafka is not there.
    pub async fn start() -> Result<Self, ServerError> {
        let server = KafkaServer::start().await?;
        let admin: AdminClient<DefaultClientContext> = client(&server).create().unwrap();
        let topic = NewTopic::new(TOPIC, PARTITIONS, TopicReplication::Fixed(1))
            .set("message.timestamp.type", "LogAppendTime")
            .set("min.insync.replicas", "1");
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
        admin.create_topics([&topic], &options).await.unwrap()[0].as_ref().unwrap();
        Ok(Self { server })
    }

    /// What stands in the relay's configuration.
    pub fn broker(&self) -> String {
        format!("url = \"kafka://{}\"", self.server.address())
    }

    /// Everything in the topic, in the order of each partition.
    pub async fn arrivals(&self) -> Vec<Arrival> {
        let config = client(&self.server);
        tokio::task::spawn_blocking(move || read(&config)).await.unwrap()
    }
}

fn client(server: &KafkaServer) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", server.address());
    config
}

fn read(config: &ClientConfig) -> Vec<Arrival> {
    let consumer: BaseConsumer = config
        .clone()
        .set("group.id", "reader")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(TOPIC, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&list).unwrap();
    let (mut arrivals, mut ended, began) = (Vec::new(), BTreeSet::new(), Instant::now());
    while ended.len() < usize::try_from(PARTITIONS).unwrap() {
        assert!(began.elapsed() < PATIENCE, "the topic could not be read to its end: {} found", arrivals.len());
        match consumer.poll(Duration::from_millis(200)) {
            Some(Ok(record)) => arrivals.push(arrival(&record)),
            Some(Err(rdkafka::error::KafkaError::PartitionEOF(partition))) => {
                ended.insert(partition);
            }
            Some(Err(_)) | None => {}
        }
    }
    arrivals
}

fn arrival(record: &BorrowedMessage<'_>) -> Arrival {
    let id = record.headers().and_then(|headers| headers.iter().find(|header| header.key == "postrider-id"));
    let id = id.and_then(|header| header.value).unwrap_or_default();
    let at = record.timestamp().to_millis().unwrap_or(0);
    Arrival { id: String::from_utf8_lossy(id).into_owned(), at: u64::try_from(at).unwrap() }
}
