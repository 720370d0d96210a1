//! What weakens an acknowledgement: the topics and their servers, looked at without sending a message.

use postrider_core::{Destination, Error, ErrorKind, Finding, Level, Result};
use rdkafka::metadata::Metadata;

use super::client::{self, Use};
use super::link::Link;
use super::place::Place;
use super::settings::Settings;
use super::topic_settings::{self, TopicSettings};
use super::way::Way;
use super::wire;

/// Bytes of a full request, where the option `producer.batch.size` says nothing else.
const BATCH: u64 = 1_000_000;
/// The fewest replicas with which one can be lost while another is restarted.
const SAFE: usize = 3;

/// A topic's replicas, the fewest that any of its partitions has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Replicas {
    all: usize,
    in_sync: usize,
    leaderless: usize,
}

/// Looks at the servers, and at the topic of each destination.
///
/// # Errors
/// `Unavailable`, or `Config` for a topic that is missing, forbidden or can't take a message.
pub(super) async fn look(settings: &Settings, link: &Link, destinations: &[Destination]) -> Result<Vec<Finding>> {
    let line = link.line(Way::Batched)?;
    let mut findings = Vec::new();
    if settings.security.shows_the_password() {
        let found = "the password travels readable (sasl = plain without TLS)".to_owned();
        findings.push(warning(&settings.shown, found, "use kafka+ssl://, or scram-sha-512"));
    }
    if destinations.is_empty() {
        line.metadata(None).await?;
    }
    let mut seen: Vec<&str> = Vec::new();
    for destination in destinations {
        let topic = wire::topic(destination).map_err(|error| Error::new(ErrorKind::Config, error.story()))?;
        if seen.contains(&topic) {
            continue;
        }
        seen.push(topic);
        let metadata = line.metadata(Some(topic)).await?;
        let place = Place::in_metadata(&settings.shown, topic, &metadata);
        place.partitions().map_err(|error| match error.advice() {
            Some(_) => error,
            None => error.advise("see to the topic, or correct the route that leads to it"),
        })?;
        one(settings, topic, &metadata, &mut findings).await?;
    }
    Ok(findings)
}

/// Looks at a topic that is there.
///
/// # Errors
/// `Config` when it asks for more replicas in sync than it has.
pub(super) async fn one(
    settings: &Settings,
    topic: &str,
    metadata: &Metadata,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let replicas = Replicas::of(topic, metadata);
    let server = metadata.brokers().first().map(|server| server.id());
    let mut native = client::config(settings, Use::Batches);
    // An admin client is a producer that sends nothing: what belongs to sending would only be complained of.
    native.remove("enable.idempotence");
    match topic_settings::ask(&native, topic, server).await {
        Ok(told) => {
            if let Some(needed) = told.min_in_sync.filter(|needed| *needed as usize > replicas.all) {
                let text = format!(
                    "the topic {topic:?} at {} asks for {needed} replicas in sync (min.insync.replicas) and has {}: \
                     Kafka before 3.7 refuses every message, and later versions ask for no more than there are",
                    settings.shown, replicas.all
                );
                let step = format!(
                    "give it more replicas (kafka-reassign-partitions.sh), or let it ask for fewer: kafka-configs.sh --alter \
                     --topic {topic} --add-config min.insync.replicas={} --bootstrap-server {}",
                    replicas.all, settings.servers
                );
                return Err(Error::new(ErrorKind::Config, text).advise(step));
            }
            judge(settings, topic, replicas, &told, findings);
        }
        Err(why) => {
            judge(settings, topic, replicas, &TopicSettings::default(), findings);
            findings.push(unseen(topic, &why));
        }
    }
    Ok(())
}

impl Replicas {
    fn of(topic: &str, metadata: &Metadata) -> Self {
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        let partitions = found.map_or(&[][..], |found| found.partitions());
        let fewest = |count: fn(&rdkafka::metadata::MetadataPartition) -> usize| partitions.iter().map(count).min();
        Self {
            all: fewest(|partition| partition.replicas().len()).unwrap_or_default(),
            in_sync: fewest(|partition| partition.isr().len()).unwrap_or_default(),
            leaderless: partitions.iter().filter(|partition| partition.leader() < 0).count(),
        }
    }
}

fn judge(settings: &Settings, topic: &str, replicas: Replicas, told: &TopicSettings, findings: &mut Vec<Finding>) {
    let subject = format!("topic {topic}");
    let mut warn = |found: String, advice: &str| findings.push(warning(&subject, found, advice));
    if replicas.leaderless > 0 {
        warn(format!("{} of its partitions have no leader now", replicas.leaderless), "start their servers");
    }
    if replicas.all < SAFE {
        warn(
            format!("it has {} replica(s): an acknowledged message is lost with them", replicas.all),
            "give it 3 replicas and min.insync.replicas=2",
        );
    }
    if let Some(needed) = told.min_in_sync {
        let needed = needed as usize;
        if needed < 2 && replicas.all > 1 {
            warn(
                "it acknowledges what one replica alone holds (min.insync.replicas=1)".to_owned(),
                "set min.insync.replicas=2",
            );
        }
        if needed > 1 && needed == replicas.all {
            warn(
                format!("it refuses messages as soon as one of its {needed} replicas is away"),
                "give it one replica more than min.insync.replicas",
            );
        }
        if replicas.in_sync < needed {
            warn(
                format!("{} of its replicas are in sync, and it asks for {needed}: messages wait", replicas.in_sync),
                "start the servers of its replicas",
            );
        }
    }
    if told.unclean_election == Some(true) {
        warn(
            "a replica that lacks messages may become its leader: acknowledged ones are lost then".to_owned(),
            "set unclean.leader.election.enable=false",
        );
    }
    let batch = settings.producer.iter().find(|(name, _)| name == "batch.size");
    let batch = batch.and_then(|(_, value)| value.parse().ok()).unwrap_or(BATCH);
    if let Some(most) = told.max_message.filter(|most| *most < batch) {
        let server = told.server_max_message.map(|most| format!(", its server {most}")).unwrap_or_default();
        warn(
            format!("it takes batches of at most {most} bytes{server}: larger ones are refused and sent one by one"),
            "raise its max.message.bytes, or lower the option producer.batch.size",
        );
    }
    if told.compacted {
        findings.push(Finding {
            level: Level::Good,
            subject,
            found: "it is compacted: it keeps the last message of a key, and refuses those without one".to_owned(),
            advice: String::new(),
        });
    }
}

pub(super) fn warning(subject: &str, found: String, advice: &str) -> Finding {
    Finding { level: Level::Warning, subject: subject.to_owned(), found, advice: advice.to_owned() }
}

pub(super) fn unseen(topic: &str, why: &str) -> Finding {
    let advice =
        "give the relay's user the permission DescribeConfigs on the topic and on the cluster, so that check can help";
    warning(&format!("topic {topic}"), format!("its settings could not be looked at: {why}"), advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BrokerConfig;

    fn found(replicas: Replicas, told: &TopicSettings) -> Vec<String> {
        let settings = Settings::parse(&BrokerConfig::new("kafka://a?producer.batch.size=2000")).unwrap();
        let mut findings = Vec::new();
        judge(&settings, "orders", replicas, told, &mut findings);
        findings.into_iter().map(|finding| finding.found).collect()
    }

    #[test]
    fn three_replicas_of_which_two_acknowledge_are_as_they_should_be() {
        let replicas = Replicas { all: 3, in_sync: 3, leaderless: 0 };
        let sound = TopicSettings {
            min_in_sync: Some(2),
            unclean_election: Some(false),
            max_message: Some(2_000),
            ..TopicSettings::default()
        };
        assert_eq!(found(replicas, &sound), Vec::<String>::new());
    }

    #[test]
    fn what_weakens_an_acknowledgement_or_stops_it_is_told() {
        let replicas = |all, in_sync, leaderless| Replicas { all, in_sync, leaderless };
        let least = |min_in_sync| TopicSettings { min_in_sync: Some(min_in_sync), ..TopicSettings::default() };
        for (replicas, told, expected) in [
            (replicas(3, 3, 0), least(1), "one replica alone"),
            (replicas(3, 3, 0), least(3), "one of its 3 replicas is away"),
            (replicas(3, 1, 0), least(2), "1 of its replicas are in sync"),
            (replicas(2, 2, 0), least(2), "2 replica(s)"),
            (replicas(3, 3, 2), least(2), "2 of its partitions have no leader"),
        ] {
            let found = found(replicas, &told);
            assert!(found.iter().any(|found| found.contains(expected)), "{expected}: {found:?}");
        }
        let narrow = TopicSettings { max_message: Some(1_999), ..least(2) };
        assert!(found(replicas(3, 3, 0), &narrow)[0].contains("at most 1999 bytes"));
    }
}
