//! The journal store passes the suite that Postrider publishes, and is as it was when it is opened again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use postrider_core::{Lane, LaneCount, Message, RelayId, Room, Store, Timestamp};
use postrider_testkit::suites::store::{LANES, StoreHarness};
use postrider_testkit::{one_order_suite, store_suite};
use sample_store::{Clock, Columns, JournalStore};
use tempfile::TempDir;
use uuid::Uuid;

struct Harness {
    store: JournalStore,
    /// Microseconds by which the store's clock is ahead.
    ahead: Arc<AtomicI64>,
    _home: TempDir,
}

fn clock(ahead: &Arc<AtomicI64>) -> Clock {
    let ahead = Arc::clone(ahead);
    Arc::new(move || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        Timestamp(i64::try_from(now).unwrap() + ahead.load(Ordering::SeqCst))
    })
}

fn open(path: &Path, lanes: u16) -> JournalStore {
    JournalStore::open(path, LaneCount::new(lanes).unwrap(), clock(&Arc::default())).unwrap()
}

impl Harness {
    fn new(lanes: u16) -> Self {
        let (home, ahead) = (tempfile::tempdir().unwrap(), Arc::<AtomicI64>::default());
        let lanes = LaneCount::new(lanes).unwrap();
        let store = JournalStore::open(&home.path().join("outbox.journal"), lanes, clock(&ahead)).unwrap();
        Self { store, ahead, _home: home }
    }
}

#[async_trait]
impl StoreHarness for Harness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn write(&self, messages: &[Message]) {
        self.store.enqueue(messages).unwrap();
    }

    async fn write_nonsense(&self) -> Vec<String> {
        let spoil: [(&str, fn(&mut Columns)); 3] = [
            ("headers", |row| row.headers = Some("nonsense".to_owned())),
            ("attributes", |row| row.attributes = Some("[1]".to_owned())),
            ("retry", |row| row.retry = Some("{\"attempts\": 3}".to_owned())),
        ];
        let rows = spoil.iter().map(|(name, spoil)| {
            let mut row = Columns::of(&Message::new("suite.topic", "x").key(format!("nonsense-{name}")));
            spoil(&mut row);
            row
        });
        self.store.enqueue_columns(rows.collect()).unwrap();
        spoil.iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    async fn pass(&self, time: Duration) {
        self.ahead.fetch_add(i64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
    }

    async fn steal(&self, lane: Lane) {
        self.store.steal(lane, RelayId(Uuid::now_v7())).unwrap();
    }
}

async fn start() -> Harness {
    Harness::new(LANES)
}

async fn start_of_one_lane() -> Harness {
    Harness::new(1)
}

store_suite!(start);
one_order_suite!(start_of_one_lane);

/// What a crash leaves: everything that was committed, nothing of a torn transaction, and lanes that start carefully.
#[tokio::test]
async fn a_journal_that_is_opened_again_has_what_was_committed_and_nothing_torn() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("outbox.journal");
    let me = RelayId(Uuid::now_v7());
    let message = Message::new("orders.placed", vec![0, 0xff]).key("ann").header("tenant", "blue");
    {
        let store = open(&path, 1);
        store.enqueue(std::slice::from_ref(&message)).unwrap();
        let mut leases = store.leases().await.unwrap();
        leases.join(me, "first", Duration::from_secs(60)).await.unwrap();
        assert_eq!(leases.acquire(me, 1).await.unwrap().len(), 1);
    }
    let mut text = std::fs::read(&path).unwrap();
    text.extend_from_slice(b"[{\"Gone\":1}");
    std::fs::write(&path, text).unwrap();
    let store = open(&path, 1);
    let mut leases = store.leases().await.unwrap();
    leases.join(RelayId(Uuid::now_v7()), "nobody", Duration::from_secs(60)).await.unwrap();
    let next = RelayId(Uuid::now_v7());
    leases.join(next, "second", Duration::from_secs(60)).await.unwrap();
    let held = leases.acquire(next, 1).await.unwrap();
    assert_eq!((held[0].term.0, held[0].start), (2, postrider_core::Start::Careful));
    let mut source = store.source().await.unwrap();
    let room = Room { rows: 10, bytes: 1 << 20 };
    let row = source.read(&held, room).await.unwrap().rows.remove(0);
    let found = source.load(&[row.id], room).await.unwrap().rows.remove(0);
    let postrider_core::Content::Message(found) = found.content else { panic!("{found:?}") };
    assert_eq!((found.id, &found.payload, &found.headers), (message.id, &message.payload, &message.headers));
}

#[test]
fn a_file_that_is_no_journal_and_one_that_another_process_works_on_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("outbox.journal");
    std::fs::write(&path, "this is no journal\n").unwrap();
    let lanes = LaneCount::new(1).unwrap();
    let error = JournalStore::open(&path, lanes, clock(&Arc::default())).unwrap_err();
    assert!(error.to_string().contains("is no journal, at byte 0"), "{error}");
    let path = home.path().join("other.journal");
    let _first = open(&path, 1);
    let error = JournalStore::open(&path, lanes, clock(&Arc::default())).unwrap_err();
    assert!(error.to_string().contains("another process"), "{error}");
}
