//! What stands in Kafka's topics: read partition by partition from the beginning on, and written down in that order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::kafka::{PARTITIONS, TOPICS};
use crate::Fallible;
use crate::record::{Delivered, Recorder, print};
use crate::writers::NUMBER;

const POLL: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(5);
const READ_WITHIN: Duration = Duration::from_secs(120);
/// A client that brought nothing for so long is replaced: librdkafka forgets every server when one that is just starting names
/// none, and asks none from then on (librdkafka #5301).
const SILENT: Duration = Duration::from_secs(20);

/// The next offset of each partition of each topic: what stands before it is in the record.
type Places = BTreeMap<(String, i32), i64>;

/// The reader, at work until it is dropped.
#[derive(Debug)]
pub struct KafkaLog {
    servers: String,
    places: Arc<Mutex<Places>>,
    is_over: Arc<AtomicBool>,
}

impl Drop for KafkaLog {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl KafkaLog {
    /// Reads topics of so many partitions, over every restart of a server.
    ///
    /// # Errors
    /// When the client cannot be made.
    pub fn follow(servers: &str, topics: &[&str], partitions: i32, recorder: &Arc<Recorder>) -> Fallible<Self> {
        let places = Arc::new(Mutex::new(beginnings(topics, partitions)));
        let is_over = Arc::new(AtomicBool::new(false));
        let reader = Reader {
            servers: servers.to_owned(),
            places: Arc::clone(&places),
            recorder: Arc::clone(recorder),
            is_over: Arc::clone(&is_over),
        };
        let consumer = reader.client()?;
        std::thread::Builder::new().name("kafka-log".to_owned()).spawn(move || reader.read_for_ever(consumer))?;
        Ok(Self { servers: servers.to_owned(), places, is_over })
    }

    /// Waits until everything is in the record.
    ///
    /// # Errors
    /// When it does not come to that.
    pub async fn read_to_end(&self) -> Fallible<()> {
        let until = Instant::now() + READ_WITHIN;
        let mut asker = Arc::new(settings(&self.servers).create::<BaseConsumer>()?);
        loop {
            let (asking, wanted) = (Arc::clone(&asker), open(&self.places).clone());
            let ends = tokio::task::spawn_blocking(move || ends(&asking, &wanted)).await?;
            let read = open(&self.places).clone();
            let is_read =
                ends.as_ref().is_some_and(|ends| ends.iter().all(|(place, end)| read.get(place) >= Some(end)));
            if is_read {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("the topics end at {ends:?}, and only these could be read: {read:?}").into());
            }
            if ends.is_none() {
                asker = Arc::new(settings(&self.servers).create()?);
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// The first offset of each partition of topics of so many.
fn beginnings(topics: &[&str], partitions: i32) -> Places {
    let of_topic = |topic: &&str| (0..partitions).map(|partition| ((*topic).to_owned(), partition)).collect::<Vec<_>>();
    topics.iter().flat_map(of_topic).map(|place| (place, 0)).collect()
}

/// Where each partition ends now; none when a server does not say so.
fn ends(consumer: &BaseConsumer, places: &Places) -> Option<Places> {
    let end = |topic: &str, partition| consumer.fetch_watermarks(topic, partition, PATIENCE).ok().map(|(_, end)| end);
    places.keys().map(|(topic, partition)| Some(((topic.clone(), *partition), end(topic, *partition)?))).collect()
}

/// Whether a group has read every topic to its end: its positions are where the partitions end.
///
/// # Errors
/// When the client cannot be made.
pub fn is_at_the_end(url: &str, group: &str) -> Fallible<bool> {
    let servers = url.trim_start_matches("kafka://");
    let asker: BaseConsumer = settings(servers).set("group.id", group).create()?;
    let Some(ends) = ends(&asker, &beginnings(&TOPICS, PARTITIONS)) else { return Ok(false) };
    let mut list = TopicPartitionList::new();
    for (topic, partition) in ends.keys() {
        list.add_partition(topic, *partition);
    }
    let Ok(read) = asker.committed_offsets(list, PATIENCE) else { return Ok(false) };
    let is_read = |((topic, partition), end): (&(String, i32), &i64)| {
        let position = read.find_partition(topic, *partition).map(|found| found.offset());
        *end == 0 || position == Some(Offset::Offset(*end))
    };
    Ok(ends.iter().all(is_read))
}

fn settings(servers: &str) -> ClientConfig {
    let mut settings = ClientConfig::new();
    settings
        .set("bootstrap.servers", servers)
        .set("group.id", "torture")
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        // What was acknowledged and is not there any more is not to be passed over in silence.
        .set("auto.offset.reset", "error")
        .set("fetch.wait.max.ms", "50")
        .set("reconnect.backoff.max.ms", "500");
    settings
}

fn open(places: &Mutex<Places>) -> std::sync::MutexGuard<'_, Places> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Reader {
    servers: String,
    places: Arc<Mutex<Places>>,
    recorder: Arc<Recorder>,
    is_over: Arc<AtomicBool>,
}

impl Reader {
    /// A client that goes on where it was read to.
    fn client(&self) -> Fallible<BaseConsumer> {
        let consumer: BaseConsumer = settings(&self.servers).create()?;
        let mut list = TopicPartitionList::new();
        for ((topic, partition), offset) in &*open(&self.places) {
            list.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
        }
        consumer.assign(&list)?;
        Ok(consumer)
    }

    fn read_for_ever(self, mut consumer: BaseConsumer) {
        let mut heard = Instant::now();
        while !self.is_over.load(Ordering::Relaxed) {
            match consumer.poll(POLL) {
                Some(Ok(record)) => {
                    heard = Instant::now();
                    self.take(&record);
                }
                Some(Err(KafkaError::MessageConsumption(RDKafkaErrorCode::AutoOffsetReset))) => {
                    self.recorder.wrong("I1", "a partition does not go on where it was read to".to_owned());
                }
                // While a server is away; the client goes on by itself.
                Some(Err(_)) | None => {}
            }
            if heard.elapsed() > SILENT {
                heard = Instant::now();
                // Where it can't be made, the one that is there goes on.
                consumer = self.client().unwrap_or(consumer);
            }
        }
    }

    fn take(&self, record: &BorrowedMessage<'_>) {
        let (topic, partition, offset) = (record.topic(), record.partition(), record.offset());
        let header = |name: &str| {
            let mut all = record.headers().into_iter().flat_map(|headers| headers.iter());
            let value = all.find(|header| header.key == name).and_then(|header| header.value);
            value.map(|value| String::from_utf8_lossy(value).into_owned()).unwrap_or_default()
        };
        let key = header("postrider-key");
        if record.key() != Some(key.as_bytes()) {
            self.recorder
                .wrong("I7", format!("{topic} {partition} at {offset}: the record's key is not the message's"));
        }
        // The server's own stamp, in milliseconds: its clock is that of this machine.
        let stamp = record.timestamp().to_millis().unwrap_or(0);
        let delivered = Delivered {
            id: header("postrider-id").parse().unwrap_or_default(),
            at: self.recorder.clock.of_wall(i128::from(stamp) * 1000),
            lane: header("postrider-lane").parse().unwrap_or(u16::MAX),
            term: header("postrider-term").parse().unwrap_or(-1),
            attempt: header("postrider-attempt").parse().unwrap_or(0),
            print: print(topic, &key, &header(NUMBER), record.payload().unwrap_or_default()),
        };
        self.recorder.open().delivered.push(delivered);
        let mut places = open(&self.places);
        let next = places.entry((topic.to_owned(), partition)).or_insert(0);
        if offset != *next {
            let told = format!("{topic} {partition}: offset {offset} came where {next} was to come");
            self.recorder.wrong("I1", told);
        }
        *next = offset + 1;
    }
}
