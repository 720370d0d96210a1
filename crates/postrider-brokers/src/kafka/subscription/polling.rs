//! The thread that asks the client for what came, and so stays in the group.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use postrider_core::{ErrorKind, Result};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;

use super::super::line::{LOST, refused};
use super::desk::Arrival;
use super::membership::{Consumer, Membership};
use super::rebalancing::Member;
use super::record::{Partition, Record};

/// How long the client is waited for at a time.
const WAIT: Duration = Duration::from_millis(100);
/// The same while it was told to stop: what was taken must soon be followed by more.
const BRIEF: Duration = Duration::from_millis(20);
/// How long the program may show no sign of life before the client is not asked any more. From then on the client counts the time
/// until it gives up the partitions.
const HANGS: Duration = Duration::from_secs(5);
/// How long until another client is made for one that failed.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a refusal stands before it is looked at anew, by a new client: this one tells each only once.
const OLD: Duration = Duration::from_secs(60);

/// Stays in the group until the member leaves, with as many clients as that takes.
pub(super) fn run(membership: &Arc<Membership>) {
    let _end = End(membership);
    let topics: Vec<Arc<str>> = membership.settings.topics.iter().map(|topic| topic.as_str().into()).collect();
    while !membership.is_leaving() {
        match join(membership) {
            Ok(consumer) => {
                serve(membership, &consumer, &topics);
                end(membership, consumer);
            }
            Err(error) => membership.refuse(error.kind(), error.story()),
        }
        membership.rest(AGAIN);
    }
}

/// The end of the thread, in good order or not: nobody waits for what nobody does.
struct End<'m>(&'m Membership);

impl Drop for End<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (broker, group) = (&self.0.settings.shown, &self.0.settings.group);
            tracing::error!(%broker, %group, "the thread that receives ended unexpectedly: nothing more is received");
            self.0.show(None);
            self.0.leave();
        }
        self.0.desk.leave_all();
        self.0.end();
    }
}

/// Makes a client that joins the group. Nothing is connected yet.
fn join(membership: &Arc<Membership>) -> Result<Arc<Consumer>> {
    let settings = &membership.settings;
    let member = Member { membership: Arc::clone(membership) };
    let refused = |error: KafkaError| refused("consumer", &settings.shown, &error);
    let consumer: Consumer = settings.native().create_with_context(member).map_err(refused)?;
    let topics: Vec<&str> = settings.topics.iter().map(String::as_str).collect();
    consumer.subscribe(&topics).map_err(refused)?;
    let consumer = Arc::new(consumer);
    membership.show(Some(Arc::clone(&consumer)));
    membership.is_let();
    membership.heard();
    Ok(consumer)
}

/// Takes in what comes, until the member leaves or the client can do no more.
fn serve(membership: &Membership, consumer: &Consumer, topics: &[Arc<str>]) {
    let mut brake = Brake::new(membership.settings.marks());
    while !membership.is_leaving() {
        if membership.silence() > HANGS {
            std::thread::sleep(WAIT);
            continue;
        }
        let wait = if brake.pull(membership, consumer) { BRIEF } else { WAIT };
        match consumer.poll(wait) {
            Some(Ok(found)) => {
                let topic = topics.iter().find(|topic| ***topic == *found.topic()).cloned();
                let partition =
                    Partition { topic: topic.unwrap_or_else(|| found.topic().into()), number: found.partition() };
                take_in(membership, Record::of(&found, partition));
                membership.is_let();
            }
            Some(Err(KafkaError::MessageConsumptionFatal(code))) => {
                let (broker, group) = (&membership.settings.shown, &membership.settings.group);
                tracing::warn!(%broker, %group, %code, "the consumer failed for good and is replaced");
                return;
            }
            None if consumer.client().fatal_error().is_some() => return,
            // Of an error its context has heard. While no server answers there is always one.
            Some(Err(_)) | None if is_stale(membership) => return,
            Some(Err(_)) | None => {}
        }
    }
}

/// Whether another client should take the place of this one, which gets nowhere. What is in hand would come again.
fn is_stale(membership: &Membership) -> bool {
    let is_old = membership.refused_for().is_some_and(|time| time > OLD);
    let is_lost = membership.unheard_for().is_some_and(|time| time > LOST);
    let is_stale = (is_old || is_lost) && membership.desk.is_empty();
    if is_stale {
        let (broker, group) = (&membership.settings.shown, &membership.settings.group);
        tracing::debug!(%broker, %group, is_old, is_lost, "the consumer is replaced");
    }
    is_stale
}

fn take_in(membership: &Membership, record: Record) {
    let (partition, offset) = (record.partition.clone(), record.offset);
    let arrival = membership.desk.arrived(record);
    if let Arrival::Back(next) = arrival {
        tracing::error!(
            broker = %membership.settings.shown, group = %membership.settings.group, topic = %partition.topic,
            partition = partition.number,
            "MESSAGES WERE TAKEN BACK: the topic lost its end (an unclean election, or a server that lost what it had not \
             written) or was made anew. What had been read of it from offset {offset} to {} is not in it any more; reading \
             goes on with what is there now",
            next.saturating_sub(1)
        );
    }
    if arrival != Arrival::Next {
        membership.wish();
    }
}

/// Ends a client: its last positions are recorded, and it leaves the group.
fn end(membership: &Membership, mut consumer: Arc<Consumer>) {
    membership.show(None);
    // Whoever records positions with it is done; whoever asks a question with it soon is. It must end here, where it may wait.
    drop(membership.gate());
    let consumer = loop {
        match Arc::try_unwrap(consumer) {
            Ok(consumer) => break consumer,
            Err(shared) => consumer = shared,
        }
        std::thread::sleep(BRIEF);
    };
    drop(consumer);
    membership.desk.leave_all();
    membership.is_full.store(false, Ordering::SeqCst);
}

/// What keeps the client from fetching more than is taken.
#[derive(Debug)]
struct Brake {
    /// Bytes at which the client is told to stop, and those at which it goes on.
    high: usize,
    low: usize,
    /// The partitions that the client was told to stop, each as it was given to us.
    stopped: BTreeSet<(Partition, u64)>,
}

impl Brake {
    fn new((high, low): (usize, usize)) -> Self {
        Self { high, low, stopped: BTreeSet::new() }
    }

    /// Stops and restarts the client, by what waits here. Whether it is stopped.
    fn pull(&mut self, membership: &Membership, consumer: &Consumer) -> bool {
        let weight = membership.desk.weight();
        let was = membership.is_full.load(Ordering::SeqCst);
        let is = if was { weight > self.low } else { weight >= self.high };
        if !was && !is {
            return false;
        }
        let ours = membership.desk.assignments();
        if is {
            // Those that were given to us in the meantime too.
            let new: Vec<&(Partition, u64)> = ours.iter().filter(|one| !self.stopped.contains(*one)).collect();
            if !new.is_empty() && told(consumer.pause(&list(&new)), "stopping") {
                self.stopped = ours;
            }
        } else {
            let stopped: Vec<&(Partition, u64)> = ours.intersection(&self.stopped).collect();
            if !stopped.is_empty() && !told(consumer.resume(&list(&stopped)), "restarting") {
                return true;
            }
            self.stopped.clear();
        }
        membership.is_full.store(is, Ordering::SeqCst);
        is
    }
}

fn told(result: std::result::Result<(), KafkaError>, doing: &str) -> bool {
    match result {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(%error, "{doing} partitions");
            false
        }
    }
}

fn list(partitions: &[&(Partition, u64)]) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for (partition, _) in partitions {
        list.add_partition(&partition.topic, partition.number);
    }
    list
}

/// Starts a thread of a member.
///
/// # Errors
/// `Unavailable` where there is none to be had.
pub(super) fn spawn(
    membership: &Arc<Membership>,
    name: &str,
    work: impl FnOnce(&Arc<Membership>) + Send + 'static,
) -> Result<()> {
    let shared = Arc::clone(membership);
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&shared));
    spawned.map(drop).map_err(|error| {
        let text = format!("starting a thread for the consumer of {}", membership.settings.shown);
        postrider_core::Error::new(ErrorKind::Unavailable, text).because(error)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;
    use crate::config::{BrokerConfig, SubscriptionConfig};
    use crate::kafka::subscription::settings::Settings;

    /// A member of a cluster that is away, which is served until the channel tells.
    fn served() -> (Arc<Membership>, mpsc::Receiver<()>) {
        let config = SubscriptionConfig::new(BrokerConfig::new("kafka://127.0.0.1:9"), "billing", "orders");
        let membership = Arc::new(Membership::new(Arc::new(Settings::parse(&config).unwrap())));
        let (over, is_over) = mpsc::channel();
        let shared = Arc::clone(&membership);
        std::thread::spawn(move || {
            let consumer = join(&shared).unwrap();
            over.send(()).unwrap();
            serve(&shared, &consumer, &["orders".into()]);
            over.send(()).unwrap();
        });
        is_over.recv().unwrap();
        (membership, is_over)
    }

    fn long_ago() -> Instant {
        Instant::now().checked_sub(LOST * 2).unwrap()
    }

    #[test]
    fn a_consumer_whose_questions_have_no_answer_for_long_is_replaced() {
        let (membership, is_over) = served();
        membership.unheard(Instant::now());
        assert!(is_over.recv_timeout(WAIT * 10).is_err(), "the cluster may be away for a moment");
        membership.heard();
        membership.unheard(long_ago());
        is_over.recv_timeout(Duration::from_secs(60)).unwrap();
        let next = join(&membership).unwrap();
        assert_eq!(membership.unheard_for(), None, "the next one has its time, too");
        end(&membership, next);
    }

    #[test]
    fn a_consumer_that_has_something_in_hand_is_not_replaced() {
        let (membership, is_over) = served();
        membership.desk.assigned(vec![Partition { topic: "orders".into(), number: 0 }]);
        membership.desk.arrived(Record::test("orders", 0, 7, None, None));
        let given = membership.desk.take(std::num::NonZeroUsize::MIN);
        membership.unheard(long_ago());
        assert!(is_over.recv_timeout(WAIT * 10).is_err(), "it would come again");
        drop(given);
        membership.leave();
        is_over.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}
