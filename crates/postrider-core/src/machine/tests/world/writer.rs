//! What the application writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Happening, World};
use crate::machine::tests::table::Stored;
use crate::{Message, RowState};

impl World {
    /// A message as the application would write it; the row commits `after` microseconds from now.
    pub fn write(&mut self, message: Message, after: u64, change: impl FnOnce(&mut Stored)) -> i64 {
        self.last_id += 1;
        let id = self.last_id;
        let message = message.id(uuid::Uuid::from_u128(u128::try_from(id).unwrap()));
        self.ids.insert(message.id, id);
        self.keys.extend(message.key.clone().map(|key| (id, key)));
        let mut stored = Stored {
            lane: self.table.lane(id, &message),
            malformed: false,
            weight: message.weight(),
            state: RowState::Pending,
            deliver_at: message.deliver_at.map(|at| u64::try_from(at.0).unwrap()),
            created_at: self.now + after,
            expires_at: message.expires_at.map(|at| u64::try_from(at.0).unwrap()),
            next_attempt_at: None,
            attempts: 0,
            waiting_for: None,
            progress: BTreeMap::new(),
            suspicion: 0,
            version: 0,
            given_up: None,
            message: Arc::new(message),
        };
        change(&mut stored);
        self.heaviest = self.heaviest.max(stored.weight);
        if after == 0 {
            self.table.put(id, stored);
        } else {
            self.happens(after, Happening::Commit(id, Box::new(stored)));
        }
        id
    }

    /// A keyed message to every destination.
    pub fn keyed(&mut self, key: &str) -> i64 {
        self.write(Message::new("all", "x").key(key), 0, |_| ())
    }

    /// A message without a key to every destination.
    pub fn unkeyed(&mut self) -> i64 {
        self.write(Message::new("all", "x"), 0, |_| ())
    }
}
