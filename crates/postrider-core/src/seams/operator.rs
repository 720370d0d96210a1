//! What people need: status, explanations, dead letters, retention, and enqueue from the shell.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::lane::{Lane, Term};
use crate::message::{Key, Message, MessageId, Timestamp};
use crate::row::{RowId, RowState};
use crate::seams::inbox::{Forgotten, InboxStatus, RefusedFilter, RefusedGroup, RefusedView};
use crate::seams::settler::DeadReason;
use crate::seams::source::Room;

/// A number that was counted, or estimated because counting would have been too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measured {
    /// Counted.
    Exact(u64),
    /// At least the bound of the count; the number is the database's own estimate.
    Estimated(u64),
}

impl Default for Measured {
    fn default() -> Self {
        Self::Exact(0)
    }
}

impl Measured {
    /// The number, whichever it is.
    pub const fn value(self) -> u64 {
        match self {
            Self::Exact(n) | Self::Estimated(n) => n,
        }
    }
}

/// A relay that shares the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its id.
    pub id: Uuid,
    /// Its label.
    pub name: String,
    /// How much of its lease is left; zero when it has expired.
    pub lease_left: Duration,
}

/// A lane and who has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneStatus {
    /// The lane.
    pub lane: Lane,
    /// Its owner, if any.
    pub owner: Option<Uuid>,
    /// Its term.
    pub term: Term,
}

/// A key that a dead letter holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldKey {
    /// The key.
    pub key: Key,
    /// The message that holds it.
    pub by: MessageId,
    /// How long ago that was given up.
    pub since: Duration,
    /// The messages that wait behind it.
    pub waiting: Measured,
}

/// The outbox in numbers, without counting the table. The default is an empty one without relays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreStatus {
    /// Messages to be delivered: pending and set aside.
    pub pending: Measured,
    /// Of these, those that were tried and will be again.
    pub retrying: Measured,
    /// Of these, those that are not yet due by their own `deliver_at`.
    pub delayed: Measured,
    /// Of these, those that wait behind their key's head.
    pub set_aside: Measured,
    /// Dead letters.
    pub dead: Measured,
    /// Of these, those whose key waits for an operator.
    pub holding: Measured,
    /// Of the set aside, those that wait behind a dead letter which holds their key.
    pub held_back: Measured,
    /// The keys that were held first, at most five.
    pub held: Vec<HeldKey>,
    /// The age of the oldest message to be delivered that is due.
    pub oldest_age: Option<Duration>,
    /// The last failures of retrying messages, newest first, at most five: destination and text.
    pub recent_errors: Vec<String>,
    /// Topics of retrying messages whose last attempt found no route, at most five; of very many retrying messages some
    /// are looked at.
    pub unrouted: Vec<String>,
    /// The members.
    pub members: Vec<MemberStatus>,
    /// The lanes.
    pub lanes: Vec<LaneStatus>,
}

/// What to explain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// One message.
    Id(MessageId),
    /// Everything of one key.
    Key(Key),
}

/// A row for people to look at.
#[derive(Debug, Clone, PartialEq)]
pub struct RowView {
    /// Its number.
    pub row: RowId,
    /// Its lane.
    pub lane: Lane,
    /// Its state; none when a foreign hand wrote a number that means nothing.
    pub state: Option<RowState>,
    /// The message; fields that could not be read are empty.
    pub message: Message,
    /// Charged attempts.
    pub attempts: u32,
    /// When it was last tried.
    pub last_attempt_at: Option<Timestamp>,
    /// When it will be tried next.
    pub next_attempt_at: Option<Timestamp>,
    /// The destinations still owed.
    pub waiting_for: Option<Vec<String>>,
    /// The last failed attempts as the JSON array of the column.
    pub errors: Option<String>,
    /// When it was given up.
    pub dead_at: Option<Timestamp>,
    /// Why it was given up.
    pub dead_reason: Option<DeadReason>,
}

/// Where a message is.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// In the outbox.
    Outbox(Box<RowView>),
    /// Delivered, as the history tells.
    Delivered {
        /// Its number.
        row: RowId,
        /// Its id.
        id: MessageId,
        /// Its key.
        key: Option<Key>,
        /// Its topic.
        topic: String,
        /// When it was settled.
        settled_at: Timestamp,
    },
}

/// What keeps a row from going, in the order of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The row in front of it.
    pub behind: RowId,
    /// That row's message.
    pub id: MessageId,
    /// That row's state: [`RowState::Holding`] when only an operator lets the others pass.
    pub state: RowState,
}

/// An explanation of one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    /// Where it is.
    pub standing: Standing,
    /// The exceptional row of its key that it stands behind, if any.
    pub held: Option<Held>,
    /// The member that owns its lane, if any.
    pub owner: Option<MemberStatus>,
    /// By the database's clock, now.
    pub now: Timestamp,
}

/// Which dead letters are meant; every condition that is set must hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeadFilter {
    /// These message ids.
    pub ids: Vec<MessageId>,
    /// This topic.
    pub topic: Option<String>,
    /// This key.
    pub key: Option<Key>,
    /// This reason.
    pub reason: Option<DeadReason>,
    /// Given up at least this long ago.
    pub older_than: Option<Duration>,
    /// In this state: [`RowState::Dead`] for those whose key went on, [`RowState::Holding`] for those that hold it.
    pub state: Option<RowState>,
}

/// A page of a list: rows after a row, at most so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Only rows after this one.
    pub after: RowId,
    /// At most so many.
    pub limit: u32,
}

/// Dead letters of one topic and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadGroup {
    /// The topic.
    pub topic: String,
    /// The reason.
    pub reason: Option<DeadReason>,
    /// How many.
    pub count: u64,
    /// The age of the oldest.
    pub oldest: Duration,
}

/// How long what is settled is kept; none means for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Rows of the history.
    pub delivered: Option<Duration>,
    /// Dead letters.
    pub dead: Option<Duration>,
}

/// Where something is that retention may remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Remains {
    /// In the history of what was delivered.
    History,
    /// In the outbox, in this state.
    Outbox(RowState),
}

impl Retention {
    /// Whether what was delivered or given up `age` ago is removed. What is still to be delivered never is, however
    /// old.
    pub fn removes(&self, what: Remains, age: Duration) -> bool {
        let kept = match what {
            Remains::History => self.delivered,
            Remains::Outbox(RowState::Dead | RowState::Holding) => self.dead,
            Remains::Outbox(RowState::Pending | RowState::SetAside) => None,
        };
        kept.is_some_and(|kept| age >= kept)
    }
}

/// A message of the history of what was delivered.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveredView {
    /// The number of its row, which it had in the outbox too.
    pub row: RowId,
    /// The message; fields that could not be read are empty.
    pub message: Message,
    /// Attempts that had failed and were charged to it before.
    pub attempts: u32,
    /// When its delivery was recorded.
    pub settled_at: Timestamp,
}

/// A row that is past its retention, whole.
#[derive(Debug, Clone, PartialEq)]
pub enum PastRow {
    /// Of the history.
    Delivered(Box<DeliveredView>),
    /// A dead letter.
    Dead(Box<RowView>),
}

impl PastRow {
    /// What it takes of a [`Room`], in bytes: its message with headers and attributes, and the errors of a dead letter. A
    /// store may weigh their texts as they stand in its tables, which is a little more.
    pub fn weight(&self) -> usize {
        match self {
            Self::Delivered(view) => view.message.weight(),
            Self::Dead(view) => view.message.weight() + view.errors.as_ref().map_or(0, String::len),
        }
    }
}

/// What retention removed, or would remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Rows of the history.
    pub delivered: u64,
    /// Dead letters.
    pub dead: u64,
}

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Good,
    /// A promise is weaker than it could be.
    Warning,
    /// The relay cannot work like this.
    Failure,
}

/// One finding of `check`: what was looked at, what was found, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How serious it is.
    pub level: Level,
    /// What was looked at.
    pub subject: String,
    /// What was found.
    pub found: String,
    /// What to do about it; empty when nothing is.
    pub advice: String,
}

fn no_archive() -> Error {
    let text = "this store cannot show what it removes, so nothing of it can be archived; take the archive away from the \
                configuration";
    Error::new(ErrorKind::Config, text)
}

fn no_inbox() -> Error {
    Error::new(ErrorKind::Config, "this store keeps no inbox; take inbox.keep away from the configuration")
}

/// The numbers of the rows of each kind: of the history, and of the dead letters.
pub fn past_ids(rows: &[PastRow]) -> (Vec<RowId>, Vec<RowId>) {
    let delivered =
        rows.iter().filter_map(|row| if let PastRow::Delivered(view) = row { Some(view.row) } else { None });
    let dead = rows.iter().filter_map(|row| if let PastRow::Dead(view) = row { Some(view.row) } else { None });
    (delivered.collect(), dead.collect())
}

/// The operator's side of a store.
#[async_trait]
pub trait Operator: Send + Debug {
    /// The outbox in numbers: exact up to `bound` rows each, estimated above.
    async fn status(&mut self, bound: u32) -> Result<StoreStatus>;

    /// Topics of messages to be delivered, in order, at most a hundred: of very many messages those that were written last
    /// are looked at. What cannot be told is empty.
    async fn topics(&mut self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Where a message, or every message of a key, is and why: a scan, ended by the database after `timeout`. At
    /// most 100 rows.
    async fn explain(&mut self, subject: &Subject, timeout: Duration) -> Result<Vec<Explained>>;

    /// Dead letters by ascending row.
    async fn dead(&mut self, filter: &DeadFilter, position: Position) -> Result<Vec<RowView>>;

    /// How many dead letters match, and in which groups.
    async fn dead_groups(&mut self, filter: &DeadFilter) -> Result<Vec<DeadGroup>>;

    /// Makes up to `limit` dead letters pending again, oldest row first, with the same id, no attempts and due now.
    /// Returns their ids; a second replay of the same ones finds nothing. A row that held its key goes first, and those
    /// behind it follow in order.
    async fn replay(&mut self, filter: &DeadFilter, limit: u32) -> Result<Vec<MessageId>>;

    /// Removes up to `limit` dead letters for good and returns their ids. A key that one of them held goes on.
    async fn discard(&mut self, filter: &DeadFilter, limit: u32) -> Result<Vec<MessageId>>;

    /// Removes what is past its retention, up to `limit` rows of each kind; a key that one of them held goes on.
    async fn prune(&mut self, retention: &Retention, limit: u32) -> Result<Pruned>;

    /// The rows that [`prune`](Self::prune) would remove next, whole, so that they can be kept elsewhere first: of each kind
    /// the oldest, as many as there is room for by their [weight](PastRow::weight); the first of a kind comes whatever it
    /// weighs. Changes nothing.
    ///
    /// # Errors
    /// `Config` from a store that does not have this: with an archive nothing is removed from it then.
    async fn past(&mut self, retention: &Retention, room: Room) -> Result<Vec<PastRow>> {
        let _ = (retention, room);
        Err(no_archive())
    }

    /// Removes these rows, each as far as it is still what it was when it was [shown](Self::past): there, of that kind,
    /// and past its retention. What was replayed, or became a dead letter anew, stays; a key that one of them held goes on.
    ///
    /// # Errors
    /// As [`past`](Self::past).
    async fn remove_past(&mut self, retention: &Retention, rows: &[PastRow]) -> Result<Pruned> {
        let _ = (retention, rows);
        Err(no_archive())
    }

    /// What [`prune`](Self::prune) would remove in all.
    async fn prunable(&mut self, retention: &Retention) -> Result<Pruned>;

    /// Writes messages in one transaction of its own, in the order given.
    async fn enqueue(&mut self, messages: &[Message]) -> Result<()>;

    /// The doctor's findings about the database: schema, privileges, settings that weaken a promise.
    async fn check(&mut self) -> Result<Vec<Finding>>;

    /// Forgets what the inbox remembers of messages that were handled longer ago than `keep`, and nothing else: up to
    /// `limit` records of each kind; where it drops partitions as a whole, of messages whose ids were made longer ago.
    ///
    /// # Errors
    /// `Config` from a store that keeps no inbox, and where a right is missing.
    async fn forget(&mut self, keep: Duration, limit: u32) -> Result<Forgotten> {
        let _ = (keep, limit);
        Err(no_inbox())
    }

    /// The inbox in numbers: exact where it remembers fewer than `bound` messages, of its newest ones where there are more.
    ///
    /// # Errors
    /// As [`forget`](Self::forget).
    async fn inbox(&mut self, bound: u32) -> Result<InboxStatus> {
        let _ = bound;
        Err(no_inbox())
    }

    /// Up to `limit` refused messages, by ascending id.
    ///
    /// # Errors
    /// As [`forget`](Self::forget).
    async fn refused(&mut self, filter: &RefusedFilter, limit: u32) -> Result<Vec<RefusedView>> {
        let _ = (filter, limit);
        Err(no_inbox())
    }

    /// How many refused messages match, and in which groups.
    ///
    /// # Errors
    /// As [`forget`](Self::forget).
    async fn refused_groups(&mut self, filter: &RefusedFilter) -> Result<Vec<RefusedGroup>> {
        let _ = filter;
        Err(no_inbox())
    }

    /// Removes up to `limit` refused messages for good and returns their ids.
    ///
    /// # Errors
    /// As [`forget`](Self::forget).
    async fn discard_refused(&mut self, filter: &RefusedFilter, limit: u32) -> Result<Vec<MessageId>> {
        let _ = (filter, limit);
        Err(no_inbox())
    }

    /// The doctor's findings about the inbox, for who keeps it.
    async fn check_inbox(&mut self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_number_is_the_number_that_was_measured() {
        assert_eq!([Measured::Exact(7), Measured::Estimated(8)].map(Measured::value), [7, 8]);
    }

    #[test]
    fn what_is_archived_weighs_its_texts_beside_its_payload_and_a_dead_letter_its_errors() {
        let message = Message::new("abc", "12345").key("k1").header("name", "value").attribute("http.path", "/x");
        let (whole, row) = (5 + 3 + 2 + 9 + 11, RowId(7));
        let settled_at = Timestamp(0);
        let delivered = DeliveredView { row, message: message.clone(), attempts: 0, settled_at };
        assert_eq!(PastRow::Delivered(Box::new(delivered)).weight(), whole);
        let dead = RowView {
            row,
            lane: Lane(0),
            state: Some(RowState::Dead),
            message,
            attempts: 1,
            last_attempt_at: None,
            next_attempt_at: None,
            waiting_for: None,
            errors: Some("[{}]".to_owned()),
            dead_at: Some(settled_at),
            dead_reason: Some(DeadReason::Attempts),
        };
        assert_eq!(PastRow::Dead(Box::new(dead)).weight(), whole + 4);
    }

    #[test]
    fn what_is_as_old_as_its_retention_is_removed_and_what_waits_never_is() {
        let (day, second) = (Duration::from_secs(86_400), Duration::from_secs(1));
        let retention = Retention { delivered: Some(day), dead: Some(2 * day) };
        let dead = [RowState::Dead, RowState::Holding].map(Remains::Outbox);
        assert!(retention.removes(Remains::History, day) && !retention.removes(Remains::History, day - second));
        assert!(dead.iter().all(|dead| retention.removes(*dead, 2 * day) && !retention.removes(*dead, day)));
        let waits = [RowState::Pending, RowState::SetAside].map(Remains::Outbox);
        assert!(waits.iter().all(|waits| !retention.removes(*waits, 1_000 * day)));
        assert!(!Retention { delivered: None, ..retention }.removes(Remains::History, 1_000 * day));
    }
}
