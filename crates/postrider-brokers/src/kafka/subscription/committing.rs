//! How positions are recorded: all that are due in one word to the broker, one word at a time, in a thread of its own.
//!
//! Whatever becomes due while a word is on its way goes with the next one. So many acknowledgements at once share one
//! round trip, and one alone waits for nobody.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Error, ErrorKind};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use super::desk::Due;
use super::membership::{Consumer, Membership};
use super::rebalancing::Member;
use super::record::Partition;
use super::refusals;

/// How long until a position is sent again that was not recorded, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A position of a partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position<'p> {
    pub(super) partition: &'p Partition,
    pub(super) offset: i64,
}

/// Records what is due whenever somebody wishes it, until the member leaves.
pub(super) fn run(membership: &Arc<Membership>) {
    let mut pause = FIRST_PAUSE;
    while membership.is_wished() {
        match round(membership) {
            true => pause = FIRST_PAUSE,
            false => {
                membership.rest(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
                membership.wish();
            }
        }
    }
}

/// Sends what is due. False where something of it must be sent again.
fn round(membership: &Membership) -> bool {
    let _gate = membership.gate();
    let due = membership.desk.due();
    if due.is_empty() {
        return true;
    }
    let Some(consumer) = membership.consumer() else { return false };
    // Out of the group, it would speak as nobody, which a group without members believes: the position of an owner in between
    // would be gone. Whoever gives the partitions away tells those who wait.
    if consumer.assignment_lost() {
        return false;
    }
    match deliver(membership, &consumer, &due) {
        Ok(()) => true,
        // One that is refused, or of a topic that was deleted, must not hold back the others.
        Err(error) if due.len() > 1 && refusals::may_be_of_one(&membership.settings, error.rdkafka_error_code()) => {
            let mut all = true;
            for one in &due {
                all &= deliver(membership, &consumer, std::slice::from_ref(one)).is_ok();
            }
            all
        }
        Err(_) => false,
    }
}

fn deliver(membership: &Membership, consumer: &Consumer, due: &[Due]) -> KafkaResult<()> {
    let positions: Vec<Position<'_>> =
        due.iter().map(|due| Position { partition: &due.partition, offset: due.position }).collect();
    match send(consumer, &positions) {
        Ok(()) => {
            membership.desk.recorded(due);
            Ok(())
        }
        Err(error) => {
            let group = &membership.settings.group;
            tracing::debug!(%error, %group, "recording positions");
            match refusals::commit(&membership.settings, error.rdkafka_error_code()) {
                // Several at once are told apart by sending them one by one.
                Some((kind, text)) if due.len() == 1 => {
                    membership.desk.refused(due, || Error::new(kind, text.clone()));
                }
                _ => {}
            }
            Err(error)
        }
    }
}

/// Sends positions and waits until the broker has recorded them all.
pub(super) fn send(consumer: &BaseConsumer<Member>, positions: &[Position<'_>]) -> KafkaResult<()> {
    let mut list = TopicPartitionList::with_capacity(positions.len());
    for Position { partition, offset } in positions {
        list.add_partition_offset(&partition.topic, partition.number, Offset::Offset(*offset))?;
    }
    consumer.commit(&list, CommitMode::Sync)
}

/// What a word that was not recorded in time means.
pub(super) fn not_in_time(membership: &Membership) -> Error {
    let text = format!(
        "recording at {} that a message is over: no answer within {:?}; it may come again",
        membership.settings.shown, membership.settings.timeout
    );
    match membership.listener.trouble() {
        Some((kind, why)) => Error::new(kind, text).because(why),
        None => Error::new(ErrorKind::Unknown, text),
    }
}
