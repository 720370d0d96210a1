//! The store in memory against the suite of stores.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by a panic")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Lane, LaneCount, Message, Store};
use postrider_stores::History;
use postrider_stores::memory::MemoryStore;
use postrider_testkit::suites::store::{LANES, StoreHarness};
use postrider_testkit::{one_order_suite, store_suite};

struct Memory(MemoryStore);

#[async_trait]
impl StoreHarness for Memory {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.0.clone())
    }

    async fn write(&self, messages: &[Message]) {
        self.0.enqueue_committed(messages);
    }

    async fn write_nonsense(&self) -> Vec<String> {
        self.0.enqueue_malformed(&Message::new("suite.topic", "x").key("nonsense"), "headers: expected a JSON object");
        vec!["headers".to_owned()]
    }

    async fn pass(&self, time: Duration) {
        self.0.advance(time);
    }

    async fn steal(&self, lane: Lane) {
        self.0.steal(lane);
    }
}

async fn start() -> Memory {
    Memory(MemoryStore::new(LaneCount::new(LANES).unwrap(), History::Kept))
}

async fn start_of_one_lane() -> Memory {
    Memory(MemoryStore::new(LaneCount::ONE, History::Kept))
}

store_suite!(start);
one_order_suite!(start_of_one_lane);
