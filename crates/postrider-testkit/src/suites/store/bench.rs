//! A relay's connections to a store, driven by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider_core::{
    Attempt, Content, DeadReason, DestinationName, ErrorKind, FailedAttempt, HeldLane, Lane, Leases, Message,
    MessageId, Operator, Outcome, Page, RelayId, Room, Row, Settled, Settlement, Settler, Source,
};
use uuid::Uuid;

use super::StoreHarness;

/// Room enough for every page of the suite.
pub const ROOM: Room = Room { rows: 1_000, bytes: 16 << 20 };

/// A lease that outlives every case.
pub const LONG: Duration = Duration::from_secs(300);

/// A member that holds every free lane.
#[derive(Debug)]
pub struct Bench {
    /// Who it is.
    pub me: RelayId,
    /// What it holds.
    pub lanes: Vec<HeldLane>,
    /// Its reader.
    pub source: Box<dyn Source>,
    /// Its writer of outcomes.
    pub settler: Box<dyn Settler>,
    /// Its keeper of lanes.
    pub leases: Box<dyn Leases>,
    /// The operator beside it.
    pub operator: Box<dyn Operator>,
}

impl Bench {
    /// Joins and takes every free lane.
    pub async fn new(harness: &dyn StoreHarness) -> Self {
        let store = harness.store();
        let me = RelayId(Uuid::now_v7());
        let mut leases = store.leases().await.unwrap();
        leases.join(me, "bench", LONG).await.unwrap();
        let lanes = leases.acquire(me, u16::MAX).await.unwrap();
        Self {
            me,
            lanes,
            source: store.source().await.unwrap(),
            settler: store.settler().await.unwrap(),
            leases,
            operator: store.operator().await.unwrap(),
        }
    }

    /// Reads new rows until there is nothing more.
    pub async fn read(&mut self) -> Vec<Row> {
        let lanes = self.lanes.clone();
        self.read_of(&lanes, ROOM).await
    }

    /// Reads new rows of some lanes, in pages, until there is nothing more.
    pub async fn read_of(&mut self, lanes: &[HeldLane], room: Room) -> Vec<Row> {
        let mut rows = Vec::new();
        for _ in 0..10_000 {
            let page = self.source.read(lanes, room).await.unwrap();
            assert!(page.rows.len() <= room.rows, "a page of {} rows for {}", page.rows.len(), room.rows);
            rows.extend(page.rows);
            if !page.more {
                return rows;
            }
        }
        panic!("the reading does not end");
    }

    /// The lane of this number as it is held.
    pub fn held(&self, lane: Lane) -> HeldLane {
        *self.lanes.iter().find(|held| held.lane == lane).expect("the lane is held")
    }

    /// Due rows of every lane held.
    pub async fn due(&mut self) -> Vec<Row> {
        let lanes = self.lanes.clone();
        self.due_of(&lanes).await.rows
    }

    /// Due rows of some lanes.
    pub async fn due_of(&mut self, lanes: &[HeldLane]) -> Page {
        self.source.due(lanes, ROOM, &[]).await.unwrap()
    }

    /// Settles under the leases held.
    pub async fn settle(&mut self, batch: &[Settlement]) -> Settled {
        self.settler.settle(self.me, &self.lanes, batch).await.unwrap()
    }

    /// Writes one message and reads it back.
    pub async fn one(&mut self, harness: &dyn StoreHarness, message: Message) -> Row {
        harness.write(&[message]).await;
        let mut rows = self.read().await;
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.remove(0)
    }

    /// Writes one message and gives it up.
    pub async fn one_dead(&mut self, harness: &dyn StoreHarness, message: Message) -> Row {
        let row = self.one(harness, message).await;
        let settled = self.settle(&[settlement(&row, dead())]).await;
        assert_eq!(settled.rows, [row.id]);
        row
    }
}

/// A message of a key, with that text as its payload too.
pub fn keyed(key: &str) -> Message {
    Message::new("suite.topic", key.to_owned()).key(key)
}

/// The ids of rows that are messages.
pub fn ids(rows: &[Row]) -> Vec<MessageId> {
    rows.iter().map(id).collect()
}

/// The id of a row that is a message.
pub fn id(row: &Row) -> MessageId {
    message(row).id
}

/// The message of a row that is one.
pub fn message(row: &Row) -> &Message {
    match &row.content {
        Content::Message(message) => message,
        Content::Malformed { reason, .. } => panic!("row {:?} is malformed: {reason}", row.id),
        Content::Head(_) => panic!("row {:?} is a head only", row.id),
    }
}

/// An outcome of a row, after its first attempt.
pub fn settlement(row: &Row, outcome: Outcome) -> Settlement {
    Settlement { row: row.id, message: row.message_id(), lane: row.lane, outcome, attempt: Attempt(1), suspicion: 0 }
}

/// One failure at the destination `d`.
pub fn failure(text: &str) -> FailedAttempt {
    FailedAttempt {
        destination: DestinationName::new("d"),
        kind: ErrorKind::Rejected,
        text: text.to_owned(),
        moment: 1,
    }
}

/// To be tried again after a while, one attempt charged at the destination `d`.
pub fn retry(after: Duration) -> Outcome {
    Outcome::Retry {
        after,
        attempts: 1,
        waiting_for: Some(vec![DestinationName::new("d")]),
        progress: BTreeMap::from([(DestinationName::new("d"), 1)]),
        failures: vec![failure("no")],
    }
}

/// Given up after one attempt.
pub fn dead() -> Outcome {
    Outcome::Dead { reason: DeadReason::Attempts, attempts: 1, waiting_for: None, failures: vec![failure("never")] }
}

/// Given up after one attempt at the destination `d`, holding its key there.
pub fn holding() -> Outcome {
    let waiting_for = Some(vec![DestinationName::new("d")]);
    Outcome::Holding { reason: DeadReason::Attempts, attempts: 1, waiting_for, failures: vec![failure("never")] }
}

/// Waits behind its key's head.
pub const SET_ASIDE: Outcome = Outcome::SetAside { waiting_for: None };
