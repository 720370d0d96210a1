//! Partitions that come and go, and what the client tells besides.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use postrider_core::ErrorKind;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{ClientContext, TopicPartitionList};

use super::committing::{self, Position};
use super::membership::Membership;
use super::record::Partition;
use super::refusals::{self, Heard};
use super::settings::Settings;
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
            true => vec![false; positions.len()],
            false => last_words(&self.membership.settings, consumer, &positions),
        };
        drop(gate);
        let mut recorded = recorded.into_iter();
        for left in left {
            match left.position.is_none() || recorded.next() == Some(true) {
                true => left.recorded(),
                false => left.fence(),
            }
        }
    }
}

/// Sends the last positions of partitions that go. Tells of each whether the broker has recorded it.
fn last_words(settings: &Settings, consumer: &BaseConsumer<Member>, positions: &[Position<'_>]) -> Vec<bool> {
    last_words_by(settings, positions, AGAIN, |some| committing::send(consumer, some))
}

/// The same with anybody who sends.
fn last_words_by(
    settings: &Settings,
    positions: &[Position<'_>],
    again: Duration,
    send: impl Fn(&[Position<'_>]) -> KafkaResult<()>,
) -> Vec<bool> {
    let mut recorded = vec![false; positions.len()];
    for attempt in 0..LAST_WORDS {
        let open: Vec<usize> = (0..positions.len()).filter(|n| !recorded[*n]).collect();
        if open.is_empty() {
            return recorded;
        }
        if attempt > 0 {
            std::thread::sleep(again);
        }
        let some: Vec<Position<'_>> = open.iter().map(|n| positions[*n]).collect();
        let Err(error) = send(&some) else { return vec![true; positions.len()] };
        tracing::debug!(%error, attempt, "recording the last positions of partitions that go");
        if some.len() > 1 && refusals::may_be_of_one(settings, error.rdkafka_error_code()) {
            open.iter().for_each(|n| recorded[*n] = send(&positions[*n..=*n]).is_ok());
        }
    }
    let left = recorded.iter().filter(|recorded| !**recorded).count();
    if left > 0 {
        tracing::warn!("the last positions of {left} partitions could not be recorded: some messages come again");
    }
    recorded
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
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_topic_that_was_deleted_takes_no_other_partitions_last_position_with_it() {
        let [gone, kept, also] =
            [("gone", 0), ("kept", 0), ("kept", 1)].map(|(topic, number)| Partition { topic: topic.into(), number });
        let positions = [&kept, &gone, &also].map(|partition| Position { partition, offset: 7 });
        let sent = RefCell::new(Vec::new());
        let send = |some: &[Position<'_>]| {
            sent.borrow_mut().push(some.len());
            match some.iter().any(|one| *one.partition == gone) {
                true => Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::UnknownTopicOrPartition)),
                false => Ok(()),
            }
        };
        let recorded = last_words_by(&Settings::test(), &positions, Duration::ZERO, send);
        assert_eq!((recorded, sent.into_inner()), (vec![true, false, true], vec![3, 1, 1, 1, 1, 1]));
        let lost = |_: &[Position<'_>]| Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::BrokerTransportFailure));
        assert_eq!(last_words_by(&Settings::test(), &positions, Duration::ZERO, lost), [false; 3]);
        assert_eq!(last_words_by(&Settings::test(), &[], Duration::ZERO, lost), [false; 0]);
    }

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
