//! Kafka: a private server or three of them, topics of several partitions, and a reader that misses nothing.
//!
//! Every relay comes by listeners of its own, each behind a proxy whose port the server names for everything further:
//! otherwise a client would go on past the proxy.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use postrider_testkit::servers::kafka::{Behind, KafkaCluster, KafkaOptions, KafkaServer, VERSION};
use postrider_testkit::servers::process::{Signal, free_port};
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use super::broker::Health;
use super::kafka_log::KafkaLog;
use crate::Fallible;
use crate::record::Recorder;
use crate::ways::Ways;
use crate::writers::{HOLD, POISON, TOPIC};

/// What it has.
pub const TOPICS: [&str; 3] = [TOPIC, HOLD, POISON];
/// Of each topic.
pub const PARTITIONS: i32 = 6;
/// Bytes of the largest batch of the topic that refuses nothing.
const ROOMY: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(5);
/// Until every replica has what the others have.
const WHOLE_WITHIN: Duration = Duration::from_secs(90);
/// How long the topics may stay as they were told not to be any more.
const TOLD_WITHIN: Duration = Duration::from_secs(60);

/// The nodes and their reader.
pub struct KafkaPlace {
    nodes: Arc<Mutex<KafkaCluster>>,
    servers: String,
    count: usize,
    /// The node that is hurt, or was last.
    hurt: AtomicUsize,
    /// By slot.
    ways: Vec<Ways>,
    admin: Arc<AdminClient<DefaultClientContext>>,
    wanted: Mutex<Wanted>,
    log: KafkaLog,
}

/// How its topics should be.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    health: Health,
    accepts: bool,
}

impl fmt::Debug for KafkaPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaPlace").field("nodes", &self.nodes).field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

impl KafkaPlace {
    /// Starts so many nodes with topics, for the relays of so many slots.
    ///
    /// # Errors
    /// When Kafka is missing or does not start.
    pub async fn start(count: usize, slots: usize, recorder: &Arc<Recorder>) -> Fallible<Self> {
        let mut options =
            vec![KafkaOptions { heap: Some(if count > 1 { 192 } else { 320 }), ..KafkaOptions::default() }];
        options.resize(count, options[0].clone());
        let mut ways = Vec::new();
        for _ in 0..slots {
            let listening = (0..count).map(|_| free_port()).collect::<Result<Vec<u16>, _>>()?;
            let between = Ways::to(listening.iter().copied()).await?;
            for (options, (port, advertised)) in options.iter_mut().zip(listening.into_iter().zip(between.ports())) {
                options.behind.push(Behind { port, advertised });
            }
            ways.push(between);
        }
        let cluster = KafkaCluster::start(options).await?;
        let servers = cluster.addresses();
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", &servers).set("reconnect.backoff.max.ms", "500").create()?;
        create_topics(&admin, count).await?;
        let log = KafkaLog::follow(&servers, &TOPICS, PARTITIONS, recorder)?;
        let place = Self {
            nodes: Arc::new(Mutex::new(cluster)),
            servers,
            count,
            hurt: AtomicUsize::new(0),
            ways,
            admin: Arc::new(admin),
            wanted: Mutex::new(Wanted { health: Health::Usual, accepts: true }),
            log,
        };
        place.whole().await?;
        let wanted = *place.wanted.lock().await;
        place.tell(wanted).await?;
        Ok(place)
    }

    /// Its name and version.
    pub fn version(&self) -> String {
        let nodes = if self.count > 1 { format!(" ({} nodes)", self.count) } else { String::new() };
        format!("Kafka {VERSION}{nodes}")
    }

    /// Where receivers read, past every proxy.
    pub fn url(&self) -> String {
        format!("kafka://{}", self.servers)
    }

    /// What stands between it and the relay of a slot: a proxy for each node.
    pub fn ways(&self, slot: usize) -> Ways {
        self.ways.get(slot).cloned().unwrap_or_default()
    }

    /// Stops the next node in good order.
    pub async fn stop(&self) {
        self.end(KafkaServer::stop).await;
    }

    /// Ends the next node at once.
    pub async fn kill(&self) {
        self.end(KafkaServer::kill9).await;
    }

    /// Ending a process blocks until it has ended.
    async fn end(&self, how: fn(&mut KafkaServer)) {
        let (place, mut nodes) = (self.next(), Arc::clone(&self.nodes).lock_owned().await);
        let ended = spawn_blocking(move || {
            if let Some(node) = nodes.node(place) {
                how(node);
            }
        });
        let _ = ended.await;
    }

    /// Starts the node that was ended again, and waits until the others have one more like them.
    ///
    /// # Errors
    /// When it does not start, or does not catch up.
    pub async fn restart(&self) -> Fallible<()> {
        let mut nodes = self.nodes.lock().await;
        if let Some(node) = nodes.node(self.hurt.load(Ordering::SeqCst)) {
            node.restart().await?;
        }
        drop(nodes);
        self.whole().await
    }

    /// Lets the next node stand still.
    pub async fn freeze(&self) {
        let place = self.next();
        if let Some(node) = self.nodes.lock().await.node(place) {
            node.signal(Signal::Stop);
        }
    }

    /// Lets the node that stands still go on, and waits until it is one of the others again.
    pub async fn thaw(&self) {
        if let Some(node) = self.nodes.lock().await.node(self.hurt.load(Ordering::SeqCst)) {
            node.signal(Signal::Continue);
        }
        if let Err(error) = self.whole().await {
            eprintln!("after a node stood still: {error}");
        }
    }

    /// The node whose turn it is.
    fn next(&self) -> usize {
        let place = (self.hurt.load(Ordering::SeqCst) + 1) % self.count.max(1);
        self.hurt.store(place, Ordering::SeqCst);
        place
    }

    /// Waits until every partition has a leader and all of its replicas are in sync.
    async fn whole(&self) -> Fallible<()> {
        let until = Instant::now() + WHOLE_WITHIN;
        loop {
            let (admin, count) = (Arc::clone(&self.admin), self.count);
            if spawn_blocking(move || is_whole(&admin, count)).await? {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("not every replica is in sync after {WHOLE_WITHIN:?}").into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The topics ask for more replicas than there are.
    ///
    /// # Errors
    /// When the server can't be told.
    pub async fn refuse(&self) -> Fallible<()> {
        let mut wanted = self.wanted.lock().await;
        wanted.accepts = false;
        self.tell(*wanted).await
    }

    /// The topics ask for as many as before; tried until it is so.
    ///
    /// # Errors
    /// When the server can't be told for a long time.
    pub async fn accept(&self) -> Fallible<()> {
        let until = Instant::now() + TOLD_WITHIN;
        loop {
            let mut wanted = self.wanted.lock().await;
            wanted.accepts = true;
            match self.tell(*wanted).await {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }

    /// The topic of keys that can be held takes messages of this size.
    ///
    /// # Errors
    /// When the server can't be told.
    pub async fn set_health(&self, health: Health) -> Fallible<()> {
        let mut wanted = self.wanted.lock().await;
        wanted.health = health;
        self.tell(*wanted).await
    }

    /// What a topic is not told is as the server has it: every setting is told each time.
    async fn tell(&self, wanted: Wanted) -> Fallible<()> {
        let in_sync = if wanted.accepts { least_in_sync(self.count) } else { self.count + 1 }.to_string();
        let sizes = [
            (TOPIC, ROOMY.to_string()),
            (HOLD, wanted.health.most_bytes().to_string()),
            (POISON, Health::Healed.most_bytes().to_string()),
        ];
        let topics: Vec<AlterConfig<'_>> = sizes
            .iter()
            .map(|(topic, bytes)| {
                AlterConfig::new(ResourceSpecifier::Topic(topic))
                    .set("max.message.bytes", bytes)
                    .set("min.insync.replicas", &in_sync)
                    .set("message.timestamp.type", "LogAppendTime")
            })
            .collect();
        let options = AdminOptions::new().request_timeout(Some(PATIENCE));
        for told in self.admin.alter_configs(&topics, &options).await? {
            told.map_err(|(of, code)| format!("the settings of {of:?}: {code}"))?;
        }
        Ok(())
    }

    /// Waits until everything that stands in the topics is in the record.
    ///
    /// # Errors
    /// When it does not come to that.
    pub async fn read_to_end(&self) -> Fallible<()> {
        self.log.read_to_end().await
    }
}

/// Two of three, or the one that there is.
fn least_in_sync(nodes: usize) -> usize {
    nodes.min(2)
}

async fn create_topics(admin: &AdminClient<DefaultClientContext>, nodes: usize) -> Fallible<()> {
    let in_sync = least_in_sync(nodes).to_string();
    let topics = [TOPIC, HOLD, POISON].map(|name| {
        NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(i32::try_from(nodes).unwrap_or(1)))
            .set("min.insync.replicas", &in_sync)
            .set("message.timestamp.type", "LogAppendTime")
    });
    let options = AdminOptions::new().request_timeout(Some(PATIENCE * 6));
    for created in admin.create_topics(&topics, &options).await? {
        created.map_err(|(topic, code)| format!("the topic {topic}: {code}"))?;
    }
    Ok(())
}

fn is_whole(admin: &AdminClient<DefaultClientContext>, nodes: usize) -> bool {
    let Ok(metadata) = admin.inner().fetch_metadata(None, PATIENCE) else { return false };
    let ours = metadata.topics().iter().filter(|topic| [TOPIC, HOLD, POISON].contains(&topic.name()));
    let mut partitions = ours.flat_map(|topic| topic.partitions()).peekable();
    metadata.brokers().len() == nodes
        && partitions.peek().is_some()
        && partitions.all(|partition| partition.leader() >= 0 && partition.isr().len() == nodes)
}
