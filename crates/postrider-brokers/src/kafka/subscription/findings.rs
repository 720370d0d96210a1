//! What to know about what a consumer reads, looked at without joining its group.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider_core::{Error, ErrorKind, Finding, Level, Result};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientContext, Offset, TopicPartitionList};

use super::super::findings::{unseen, warning};
use super::super::line::{CONNECT, refused};
use super::super::listener::Listener;
use super::super::topic_settings::{self, TopicSettings};
use super::probe::{self, Topic};
use super::refusals::{self, Heard};
use super::settings::Settings;

/// The most partitions whose positions are looked at.
const MOST: usize = 64;
const HOUR: u64 = 3_600_000;
/// Milliseconds that a message should be kept: long enough to find and repair what keeps it from being read.
const KEPT: u64 = 24 * HOUR;
/// Minutes that the position of a group that nobody is in should be kept.
const REMEMBERED: u64 = 24 * 60;

/// Messages that were deleted before they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Gap {
    partition: i32,
    lost: i64,
}

/// What the cluster told.
#[derive(Debug)]
struct Looked {
    topics: Vec<(Topic, Vec<Gap>)>,
}

/// Looks at the topics and at the positions of the group.
///
/// # Errors
/// `Unavailable`, or `Config` for a topic that is missing, and for a topic or a group that is forbidden.
pub(super) async fn look(settings: &Arc<Settings>) -> Result<Vec<Finding>> {
    let asked = Arc::clone(settings);
    let looked = tokio::task::spawn_blocking(move || ask(&asked)).await;
    let looked = looked.map_err(|error| {
        Error::new(ErrorKind::Unavailable, format!("looking at {}", settings.shown)).because(error)
    })??;
    let mut findings = Vec::new();
    if settings.security.shows_the_password() {
        let found = "the password travels readable (sasl = plain without TLS)".to_owned();
        findings.push(warning(&settings.shown, found, "use kafka+ssl://, or scram-sha-512"));
    }
    for (topic, gaps) in &looked.topics {
        match topic_settings::ask(&settings.bare(), &topic.name, topic.server).await {
            Ok(told) => judge(topic, gaps, &told, &mut findings),
            Err(why) => {
                judge(topic, gaps, &TopicSettings::default(), &mut findings);
                findings.push(unseen(&topic.name, &why));
            }
        }
    }
    Ok(findings)
}

/// Asks the cluster. It blocks.
fn ask(settings: &Settings) -> Result<Looked> {
    let witness = Witness::default();
    let (listener, heard) = (witness.listener.clone(), Arc::clone(&witness.heard));
    let made: std::result::Result<BaseConsumer<Witness>, _> = settings.native().create_with_context(witness);
    let consumer = made.map_err(|error| refused("consumer", &settings.shown, &error))?;
    let hear = || while consumer.poll(Duration::ZERO).is_some() {};
    let topics = probe::ask_for_topics(settings, &consumer, &listener, hear)?.topics()?;
    let mut list = TopicPartitionList::new();
    for topic in &topics {
        for partition in &topic.partitions {
            list.add_partition(&topic.name, *partition);
        }
    }
    let positions = consumer.committed_offsets(list, CONNECT).map_err(|error| {
        hear();
        let codes = heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let refusal = codes.into_iter().chain(error.rdkafka_error_code()).find_map(|code| {
            match refusals::heard(settings, code) {
                Heard::Refused(text) => Some(Error::new(ErrorKind::Config, text)),
                _ => None,
            }
        });
        refusal.unwrap_or_else(|| probe::away(settings, listener.trouble(), &error))
    })?;
    let mut looks = MOST;
    let mut one = |topic: Topic| {
        let mut gaps = Vec::new();
        for position in positions.elements_for_topic(&topic.name) {
            let Offset::Offset(next) = position.offset() else { continue };
            if looks == 0 {
                break;
            }
            looks -= 1;
            let oldest =
                consumer.fetch_watermarks(&topic.name, position.partition(), CONNECT).map(|(oldest, _)| oldest);
            if let Ok(lost) = oldest.map(|oldest| oldest - next)
                && lost > 0
            {
                gaps.push(Gap { partition: position.partition(), lost });
            }
        }
        (topic, gaps)
    };
    Ok(Looked { topics: topics.into_iter().map(&mut one).collect() })
}

fn judge(topic: &Topic, gaps: &[Gap], told: &TopicSettings, findings: &mut Vec<Finding>) {
    let subject = format!("topic {}", topic.name);
    let mut warn = |found: String, advice: &str| findings.push(warning(&subject, found, advice));
    for Gap { partition, lost } in gaps {
        warn(
            format!(
                "up to {lost} messages of its partition {partition} were deleted before they were read: they are lost"
            ),
            "raise its retention.ms and retention.bytes, and see why the consumer stays behind",
        );
    }
    if topic.leaderless > 0 {
        warn(
            format!("{} of its partitions have no leader now: nothing is read from them", topic.leaderless),
            "start their servers",
        );
    }
    if let Some(kept) = told.kept_ms.filter(|kept| *kept < KEPT) {
        warn(
            format!(
                "it deletes messages after {:.1} h, read or not: a consumer that is away for longer loses them",
                kept as f64 / HOUR as f64
            ),
            "raise its retention.ms to some days",
        );
    }
    if told.compacted {
        warn(
            "it is compacted: of several messages of a key that wait, only the last is sure to be read".to_owned(),
            "set cleanup.policy=delete where every message counts",
        );
    }
    if let Some(minutes) = told.position_kept_minutes.filter(|minutes| *minutes < REMEMBERED) {
        warn(
            format!("its server forgets a position {minutes} minutes after the last member left: all comes again then"),
            "raise the server's offsets.retention.minutes to a week",
        );
    }
    if told.creates_topics == Some(true) {
        warn(
            "its server creates topics by itself: what a mistyped producer sends is read by nobody".to_owned(),
            "set the server's auto.create.topics.enable=false",
        );
    }
    if topic.partitions.len() == 1 {
        findings.push(Finding {
            level: Level::Good,
            subject,
            found: "it has one partition: one process reads it at a time, the others wait".to_owned(),
            advice: String::new(),
        });
    }
}

/// What hears the client while it is asked.
#[derive(Debug, Default)]
struct Witness {
    listener: Listener,
    heard: Arc<Mutex<Vec<RDKafkaErrorCode>>>,
}

impl ClientContext for Witness {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        self.listener.log(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).extend(code);
        self.listener.error(error, reason);
    }
}

impl ConsumerContext for Witness {}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(partitions: &[i32], gaps: &[Gap], told: &TopicSettings) -> Vec<String> {
        let partitions = partitions.to_vec();
        let topic = Topic { name: "orders".to_owned(), partitions, leaderless: 0, server: None };
        let mut findings = Vec::new();
        judge(&topic, gaps, told, &mut findings);
        findings.into_iter().map(|finding| finding.found).collect()
    }

    #[test]
    fn a_topic_that_keeps_everything_long_enough_is_as_it_should_be() {
        let told = TopicSettings {
            kept_ms: Some(7 * KEPT),
            creates_topics: Some(false),
            position_kept_minutes: Some(10_080),
            ..TopicSettings::default()
        };
        assert_eq!(found(&[0, 1], &[], &told), Vec::<String>::new());
        assert_eq!(found(&[0, 1], &[], &TopicSettings::default()), Vec::<String>::new());
    }

    #[test]
    fn what_loses_messages_is_told() {
        let told = |told: TopicSettings| found(&[0, 1], &[], &told).join(" ");
        assert!(told(TopicSettings { kept_ms: Some(HOUR / 2), ..Default::default() }).contains("after 0.5 h"));
        assert!(told(TopicSettings { compacted: true, ..Default::default() }).contains("compacted"));
        assert!(told(TopicSettings { creates_topics: Some(true), ..Default::default() }).contains("mistyped"));
        assert!(told(TopicSettings { position_kept_minutes: Some(5), ..Default::default() }).contains("5 minutes"));
        let gaps = [Gap { partition: 3, lost: 17 }];
        assert!(found(&[0, 1], &gaps, &TopicSettings::default())[0].contains("17 messages of its partition 3"));
        assert!(found(&[0], &[], &TopicSettings::default())[0].contains("one partition"));
    }
}
