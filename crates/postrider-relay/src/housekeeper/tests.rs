//! When house is kept, and what a store in trouble makes of it.

use std::sync::Mutex;

use postrider_core::{
    Attempt, ErrorKind, HeldLane, LaneCount, Measured, Message, Outcome, RelayId, Room, Settlement, Start, Term,
};
use postrider_stores::History;
use postrider_stores::memory::MemoryStore;
use postrider_testkit::troubled::{Trouble, TroubledStore};

use super::*;
use crate::archiving::tests::{AT_ONCE, Kept, failing_removals, past};

/// Of so many messages to be delivered, so many are tried again, not yet due, set aside, and held back.
fn of(pending: u64, [retrying, delayed, set_aside, held_back]: [u64; 4]) -> StoreStatus {
    let [pending, retrying, delayed, set_aside, held_back] =
        [pending, retrying, delayed, set_aside, held_back].map(Measured::Exact);
    StoreStatus { pending, retrying, delayed, set_aside, held_back, ..StoreStatus::default() }
}

fn since_a_second(status: StoreStatus) -> StoreStatus {
    StoreStatus { oldest_age: Some(Duration::from_secs(1)), ..status }
}

#[test]
fn nothing_is_left_where_all_that_is_there_waits_for_its_time_or_for_an_operator() {
    let delayed = of(4, [0, 4, 0, 0]);
    let held_back = since_a_second(of(3, [0, 0, 3, 3]));
    let both = since_a_second(of(7, [0, 4, 3, 3]));
    for status in [StoreStatus::default(), delayed, held_back, both] {
        assert_eq!(rest(&status), Rest::Nothing, "{status:?}");
    }
}

/// The numbers are of one look each, and no two of them are of the same moment: one that says so is enough.
#[test]
fn something_is_left_where_any_of_the_numbers_says_so() {
    let due = since_a_second(of(1, [0, 1, 0, 0]));
    let retrying = of(1, [1, 1, 0, 0]);
    let set_aside = of(1, [0, 1, 1, 0]);
    let behind_others = since_a_second(of(3, [0, 0, 3, 2]));
    let pending = of(2, [0, 1, 0, 0]);
    for status in [due, retrying, set_aside, behind_others, pending] {
        assert_ne!(rest(&status), Rest::Nothing, "{status:?}");
    }
}

#[test]
fn only_retries_are_left_where_all_else_waits_behind_them_or_for_its_time() {
    let status = |pending| since_a_second(of(pending, [2, 1, 3, 0]));
    assert_eq!([5, 6, 7].map(|pending| rest(&status(pending))), [Rest::Retrying(2), Rest::Retrying(2), Rest::More]);
}

#[test]
fn what_is_left_is_told_by_its_numbers() {
    let [delayed, dead, holding, held_back] = [1, 2, 3, 4].map(Measured::Exact);
    let status = StoreStatus { delayed, dead, holding, held_back, ..StoreStatus::default() };
    assert_eq!(left(&status), Left { delayed: 1, dead: 2, holding: 3, held_back: 4 });
}

#[test]
fn the_owner_of_the_first_lane_keeps_house_and_nobody_else() {
    let duties = [&[Lane(0)][..], &[Lane(0), Lane(1)], &[Lane(1)], &[]].map(Duty::of);
    assert_eq!(duties, [Duty::On, Duty::On, Duty::Off, Duty::Off]);
}

/// An outbox with a history of so many messages, delivered long ago.
pub(crate) async fn delivered(count: usize) -> MemoryStore {
    ended(&vec![Outcome::Delivered; count]).await
}

/// An outbox with a message of each of these ends, long ago.
pub(crate) async fn ended(ends: &[Outcome]) -> MemoryStore {
    let store = MemoryStore::new(LaneCount::ONE, History::Kept);
    store.enqueue_committed(&vec![Message::new("t", ""); ends.len()]);
    let me = RelayId(uuid::Uuid::from_u128(1));
    let (mut leases, mut source) = (store.leases().await.unwrap(), store.source().await.unwrap());
    leases.join(me, "before", Duration::from_secs(60)).await.unwrap();
    let lanes = leases.acquire(me, 1).await.unwrap();
    assert_eq!(lanes, [HeldLane { lane: Lane(0), term: Term(1), start: Start::Clean }]);
    let rows = source.read(&lanes, Room { rows: ends.len(), bytes: 1 << 20 }).await.unwrap().rows;
    let attempt = Attempt(1);
    let ends = rows.iter().zip(ends.iter().cloned());
    let settlements: Vec<_> = ends
        .map(|(row, outcome)| Settlement {
            row: row.id,
            message: row.message_id(),
            lane: row.lane,
            outcome,
            attempt,
            suspicion: 0,
        })
        .collect();
    store.settler().await.unwrap().settle(me, &lanes, &settlements).await.unwrap();
    store.advance(Duration::from_secs(3_600));
    store
}

/// The housekeeper of a store, and when it counted and pruned since its start, to the second.
struct House {
    duty: watch::Sender<Duty>,
    asks: mpsc::UnboundedSender<()>,
    signals: mpsc::UnboundedReceiver<Signal>,
    calls: Arc<Mutex<Vec<(&'static str, u64)>>>,
}

impl House {
    fn new(store: &MemoryStore, retention: Retention, trouble: Trouble) -> Self {
        Self::scripted(store, Keeping { retention, archive: None, inbox: None }, move |_| trouble)
    }

    /// On duty, with an archive.
    fn archiving(
        store: &MemoryStore,
        archive: &Arc<Kept>,
        trouble: impl Fn(&'static str) -> Trouble + Send + Sync + 'static,
    ) -> Self {
        let archive = Some(Arc::clone(archive) as Arc<dyn Archive>);
        Self::on_duty(store, Keeping { retention: AT_ONCE, archive, inbox: None }, trouble)
    }

    /// On duty, with an inbox that remembers so long.
    fn forgetting(
        store: &MemoryStore,
        keep: Duration,
        trouble: impl Fn(&'static str) -> Trouble + Send + Sync + 'static,
    ) -> Self {
        Self::on_duty(store, Keeping { retention: Retention::default(), archive: None, inbox: Some(keep) }, trouble)
    }

    fn on_duty(
        store: &MemoryStore,
        keeping: Keeping,
        trouble: impl Fn(&'static str) -> Trouble + Send + Sync + 'static,
    ) -> Self {
        let house = Self::scripted(store, keeping, trouble);
        house.duty.send_replace(Duty::On);
        house
    }

    fn scripted(
        store: &MemoryStore,
        keeping: Keeping,
        trouble: impl Fn(&'static str) -> Trouble + Send + Sync + 'static,
    ) -> Self {
        let (began, calls) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
        let script = Arc::clone(&calls);
        let store = TroubledStore::wrap(Arc::new(store.clone()), move |name| {
            script.lock().unwrap().push((name, began.elapsed().as_secs()));
            trouble(name)
        });
        let (duty, on_duty) = watch::channel(Duty::Off);
        let (asks, asked) = mpsc::unbounded_channel();
        let (tell, signals) = mpsc::unbounded_channel();
        tokio::spawn(keep_house(store, keeping, on_duty, asked, tell));
        Self { duty, asks, signals, calls }
    }

    fn moments(&self, name: &str) -> Vec<u64> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(call, _)| *call == name).map(|(_, second)| *second).collect()
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test(start_paused = true)]
async fn who_comes_to_the_duty_counts_at_once_and_then_every_round_and_prunes_nothing_that_is_kept() {
    let store = MemoryStore::new(LaneCount::ONE, History::Off);
    let house = House::new(&store, Retention::default(), Trouble::None);
    sleep(Duration::from_millis(15_500)).await;
    assert!(house.moments("status").is_empty(), "it is not on duty");
    house.duty.send_replace(Duty::On);
    sleep(Duration::from_secs(34)).await;
    assert_eq!((house.moments("status"), house.moments("prune")), (vec![15, 25, 35, 45], Vec::new()));
    house.duty.send_replace(Duty::Off);
    sleep(HOUR).await;
    assert_eq!(
        house.moments("status").len(),
        5,
        "one look more, whether the store answers: then another relay shows it"
    );
}

#[tokio::test(start_paused = true)]
async fn one_round_removes_all_that_is_past_its_time_batch_by_batch() {
    for (count, batches) in [(0, 1), (999, 1), (1_000, 2), (2_500, 3)] {
        let store = delivered(count).await;
        let retention = Retention { delivered: Some(Duration::from_secs(60)), dead: None };
        let house = House::new(&store, retention, Trouble::None);
        house.duty.send_replace(Duty::On);
        sleep(ROUND / 2).await;
        assert_eq!(house.moments("prune").len(), batches, "{count}");
        let pruned = store.operator().await.unwrap().prunable(&retention).await.unwrap();
        assert_eq!(pruned.delivered, 0);
    }
}

/// What makes counting slow can be just what is to be removed.
#[tokio::test(start_paused = true)]
async fn what_is_past_its_time_is_removed_also_while_counting_hangs_and_that_is_tried_seldom() {
    let store = delivered(3).await;
    let keeping = Keeping { retention: AT_ONCE, archive: None, inbox: None };
    let house = House::scripted(&store, keeping, |name| match name {
        "status" => Trouble::Late(HOUR),
        _ => Trouble::None,
    });
    house.duty.send_replace(Duty::On);
    sleep(DEADLINE + ROUND / 2).await;
    assert!(past(&store).await.is_empty());
    sleep(DEADLINE * 3).await;
    assert_eq!(house.moments("status"), [0, 30, 90]);
}

/// Until one of them finds nothing.
#[tokio::test(start_paused = true)]
async fn one_round_archives_and_removes_all_that_is_past_its_time_batch_by_batch() {
    for (count, batches) in [(0, 1), (1_000, 2), (2_500, 4)] {
        let (store, archive) = (delivered(count).await, Arc::new(Kept::default()));
        let house = House::archiving(&store, &archive, |_| Trouble::None);
        sleep(ROUND / 2).await;
        assert_eq!((house.moments("past").len(), past(&store).await.len()), (batches, 0), "{count}");
        assert_eq!(archive.rows.lock().unwrap().len(), count);
    }
}

#[tokio::test(start_paused = true)]
async fn dead_letters_alone_are_pruned_too() {
    let store = MemoryStore::new(LaneCount::ONE, History::Off);
    let retention = Retention { delivered: None, dead: Some(HOUR) };
    let house = House::new(&store, retention, Trouble::None);
    house.duty.send_replace(Duty::On);
    sleep(Duration::from_secs(15)).await;
    assert_eq!(house.moments("prune"), [0, 10]);
}

#[tokio::test(start_paused = true)]
async fn while_removing_fails_every_row_is_archived_once_and_it_is_removed_when_that_goes_again() {
    let store = delivered(3).await;
    let (archive, shown) = (Arc::new(Kept::default()), past(&store).await);
    let house = House::archiving(&store, &archive, failing_removals(3));
    sleep(Duration::from_secs(45)).await;
    assert_eq!(house.moments("remove_past"), [0, 10, 20, 30]);
    assert_eq!((past(&store).await, &*archive.rows.lock().unwrap()), (Vec::new(), &shown));
}

#[tokio::test(start_paused = true)]
async fn showing_keeping_and_removing_have_their_time_each() {
    let store = delivered(3).await;
    let takes = DEADLINE * 2 / 3;
    let archive = Arc::new(Kept { takes, ..Kept::default() });
    let house = House::archiving(&store, &archive, move |name| match name {
        "past" | "remove_past" => Trouble::Late(takes),
        _ => Trouble::None,
    });
    sleep(DEADLINE * 4).await;
    assert_eq!((house.moments("remove_past"), archive.rows.lock().unwrap().len()), (vec![40], 3));
}

#[tokio::test(start_paused = true)]
async fn an_archive_that_hangs_holds_up_no_count_and_nothing_is_removed() {
    let store = delivered(3).await;
    let archive = Arc::new(Kept { takes: HOUR, ..Kept::default() });
    let house = House::archiving(&store, &archive, |_| Trouble::None);
    sleep(Duration::from_secs(65)).await;
    assert_eq!((house.moments("status"), house.moments("remove_past")), (vec![0, 30, 60], Vec::new()));
    assert_eq!(past(&store).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_inbox_forgets_every_hundredth_of_what_it_keeps_within_bounds() {
    let days = 7 * 86_400;
    for (keep, moments) in [(60, [0, 10, 20]), (3_600, [0, 40, 80]), (days, [0, 600, 1_200])] {
        let store = MemoryStore::new(LaneCount::ONE, History::Off);
        let house = House::forgetting(&store, Duration::from_secs(keep), |_| Trouble::None);
        sleep(Duration::from_secs(moments[2]) + ROUND / 2).await;
        assert_eq!(house.moments("forget"), moments, "{keep}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_cannot_forget_holds_up_no_count_and_is_tried_again() {
    let store = MemoryStore::new(LaneCount::ONE, History::Off);
    let house = House::forgetting(&store, HOUR, |name| match name {
        "forget" => Trouble::Fail(ErrorKind::Config),
        _ => Trouble::None,
    });
    sleep(Duration::from_secs(125)).await;
    assert_eq!(house.moments("forget"), [0, 60, 120]);
    assert_eq!(house.moments("status").len(), 13);
}

#[tokio::test(start_paused = true)]
async fn who_comes_to_the_duty_forgets_at_once_and_who_left_it_does_not() {
    let store = MemoryStore::new(LaneCount::ONE, History::Off);
    let house = House::forgetting(&store, 24 * HOUR, |_| Trouble::None);
    sleep(Duration::from_secs(5)).await;
    house.duty.send_replace(Duty::Off);
    sleep(HOUR).await;
    assert_eq!(house.moments("forget"), [0]);
    house.duty.send_replace(Duty::On);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(house.moments("forget").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_off_duty_too_and_with_nothing_where_the_store_is_away() {
    let store = MemoryStore::new(LaneCount::ONE, History::Off);
    let mut house = House::new(&store, Retention::default(), Trouble::None);
    house.asks.send(()).unwrap();
    let answer = house.signals.recv().await.unwrap();
    assert!(matches!(answer, Signal::Counted(Some((Rest::Nothing, Left { delayed: 0, .. })))), "{answer:?}");
    let mut house = House::new(&store, Retention::default(), Trouble::Fail(ErrorKind::Unavailable));
    house.asks.send(()).unwrap();
    let answer = house.signals.recv().await.unwrap();
    assert!(matches!(answer, Signal::Counted(None)), "{answer:?}");
}

/// How many rounds after a count that took so many milliseconds, and one before it, the next one is.
fn rounds(before: u64, last: u64) -> u32 {
    let began = Instant::now();
    let mut counts = Counts::beginning(began);
    [before, last].into_iter().for_each(|millis| counts.counted(began, Duration::from_millis(millis)));
    (1..).find(|round| began + ROUND * *round >= counts.next).unwrap_or(0)
}

#[test]
fn a_slow_count_is_seldom_and_a_quick_one_is_of_every_round() {
    assert_eq!([0, 3, 100].map(|millis| rounds(millis, millis)), [1, 1, 1]);
    assert_eq!([200, 400, 600, 30_000].map(|millis| rounds(millis, millis)), [2, 4, 6, 6]);
}

#[test]
fn one_slow_count_between_quick_ones_delays_nothing() {
    assert_eq!((rounds(0, 30_000), rounds(30_000, 3), rounds(600, 200)), (1, 1, 2));
}
