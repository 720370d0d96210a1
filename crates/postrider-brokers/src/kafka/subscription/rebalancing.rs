//! Partitions that come and go, and what the client tells besides.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use postrider_core::ErrorKind;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientContext, TopicPartitionList};

use super::committing::{self, Position};
use super::membership::Membership;
use super::record::Partition;
use super::refusals::{self, Heard};
use super::unreadable;

/// How often the last positions of partitions that go are sent.
const LAST_WORDS: usize = 3;
/// How long until they are sent again.
const AGAIN: Duration = Duration::from_millis(100);

/// What the client reports to. Partitions come and go in the thread that polls.
pub(super) struct Member {
    pub(super) membership: Arc<Membership>,
}

impl ClientContext for Member {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        if is_loss(level, facility, text) {
            tracing::error!(
                broker = %self.membership.settings.shown, group = %self.membership.settings.group,
                "MESSAGES WERE LOST: what this consumer was to read next is not in the topic any more. Kafka deleted it before it \
                 was read (raise retention.ms and retention.bytes, or read faster), or the topic was made anew or lost its \
                 end. Reading goes on with the oldest that is there ({text})"
            );
            self.membership.desk.began_anew(place(text).as_ref());
        }
        self.membership.listener.log(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let Some(code) = error.rdkafka_error_code() else { return };
        if let Some(advice) = unreadable::advice(code) {
            let text = unreadable::text(&self.membership.settings, reason, advice);
            if self.membership.unreadable().note(code, text.clone(), Instant::now()) {
                let (broker, group) = (&self.membership.settings.shown, &self.membership.settings.group);
                tracing::error!(%broker, %group, %error, "{text}");
            }
            return;
        }
        match refusals::heard(&self.membership.settings, code) {
            Heard::Refused(text) => {
                tracing::debug!(%error, "librdkafka: {reason}");
                self.membership.refuse(ErrorKind::Config, text);
            }
            Heard::Passing if code == RDKafkaErrorCode::PollExceeded => tracing::warn!(
                broker = %self.membership.settings.shown, group = %self.membership.settings.group,
                "this program hung, and its messages go to other members of the consumer ({reason})"
            ),
            Heard::Passing => tracing::debug!(%error, "librdkafka: {reason}"),
            Heard::Connection => self.membership.listener.error(error, reason),
        }
    }
}

impl ConsumerContext for Member {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => {
                let partitions = partitions(list);
                tracing::debug!(group = %self.membership.settings.group, ?partitions, "given");
                self.membership.desk.assigned(partitions);
                self.membership.is_let();
                self.membership.listener.well();
            }
            Rebalance::Revoke(list) => self.give_away(consumer, list),
            Rebalance::Error(error) => tracing::warn!(%error, "rebalancing failed"),
        }
    }
}

impl Member {
    /// Gives partitions away: nothing of them can be acknowledged from here on, and what is over is recorded before another
    /// member begins.
    fn give_away(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) {
        let left = self.membership.desk.left(partitions(list));
        if self.membership.is_full.load(Ordering::SeqCst) {
            // The client remembers for a partition that it was told to stop, whoever has it in the meantime.
            if let Err(error) = consumer.resume(list) {
                tracing::debug!(%error, "resuming partitions that go");
            }
        }
        // What is on its way to the broker arrives before anybody else's.
        let gate = self.membership.gate();
        let lost = consumer.assignment_lost();
        tracing::debug!(group = %self.membership.settings.group, lost, partitions = ?partitions(list), "given away");
        let positions: Vec<Position<'_>> = left
            .iter()
            .filter_map(|left| Some(Position { partition: &left.partition, offset: left.position? }))
            .collect();
        let recorded = match lost {
            // Somebody else may have them already.
            true => false,
            false => last_words(consumer, &positions),
        };
        drop(gate);
        left.into_iter().for_each(|left| if recorded { left.recorded() } else { left.fence() });
    }
}

fn last_words(consumer: &BaseConsumer<Member>, positions: &[Position<'_>]) -> bool {
    if positions.is_empty() {
        return true;
    }
    for attempt in 1..=LAST_WORDS {
        match committing::send(consumer, positions) {
            Ok(()) => return true,
            Err(error) => tracing::debug!(%error, attempt, "recording the last positions of partitions that go"),
        }
        if attempt < LAST_WORDS {
            std::thread::sleep(AGAIN);
        }
    }
    tracing::warn!(
        "the last positions of {} partitions could not be recorded: some messages come again",
        positions.len()
    );
    false
}

fn partitions(list: &TopicPartitionList) -> Vec<Partition> {
    let one = |element: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| Partition {
        topic: element.topic().into(),
        number: element.partition(),
    };
    list.elements().iter().map(one).collect()
}

/// Whether the client says that messages were gone before they were read: it tells so only in its log.
fn is_loss(level: RDKafkaLogLevel, facility: &str, text: &str) -> bool {
    matches!(level, RDKafkaLogLevel::Warning) && facility == "OFFSET" && text.contains("offset reset")
}

/// The partition that a line of the client's log about an offset names.
fn place(text: &str) -> Option<Partition> {
    let (topic, number) = text.split_once("]: offset reset")?.0.rsplit_once(" [")?;
    let topic = topic.rsplit(' ').next()?;
    Some(Partition { topic: topic.into(), number: number.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_that_is_gone_is_told_from_the_beginning_of_a_new_reader() {
        let gone = "[thrd:main]: orders [0]: offset reset (at offset 7 (leader epoch 0), broker 1) to cached BEGINNING offset \
                    19: fetch failed due to requested offset not available on the broker: Broker: Offset out of range";
        assert!(is_loss(RDKafkaLogLevel::Warning, "OFFSET", gone));
        assert_eq!(place(gone), Some(Partition { topic: "orders".into(), number: 0 }));
        assert_eq!(place("a line of another version: offset reset"), None);
        assert!(!is_loss(RDKafkaLogLevel::Debug, "OFFSET", gone));
        assert!(!is_loss(RDKafkaLogLevel::Warning, "FAIL", "connect failed"));
    }
}
