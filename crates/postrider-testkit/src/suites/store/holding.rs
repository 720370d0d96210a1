//! Dead letters that hold their key, and what opens it.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider_core::{
    Closed, Content, DeadFilter, DeadReason, DestinationName, HeldLane, Key, Message, MessageId, Outcome, Position,
    Retention, Row, RowId, RowState, Start,
};

use super::StoreHarness;
use super::bench::{Bench, ROOM, SET_ASIDE, dead, failure, holding, id, ids, keyed, settlement};

const EVERY: Position = Position { after: RowId(i64::MIN), limit: 1_000 };

/// Four rows of a key, of which the first holds it and the others are set aside; and one of another key.
async fn held(bench: &mut Bench, harness: &dyn StoreHarness) -> Vec<Row> {
    harness.write(&(0..4).map(|_| keyed("k")).chain([keyed("other")]).collect::<Vec<_>>()).await;
    let rows = bench.read().await;
    let rows: Vec<Row> = rows.into_iter().filter(|row| row.key().is_some_and(|key| key.as_str() == "k")).collect();
    let aside = rows[1..].iter().map(|row| settlement(row, SET_ASIDE));
    let batch: Vec<_> = [settlement(&rows[0], holding())].into_iter().chain(aside).collect();
    assert_eq!(bench.settle(&batch).await.rows.len(), 4);
    rows
}

fn named(row: &Row) -> DeadFilter {
    DeadFilter { ids: vec![id(row)], ..DeadFilter::default() }
}

async fn states(bench: &mut Bench, row: &Row) -> Vec<(MessageId, RowState)> {
    let lane = bench.held(row.lane);
    let page = bench.source.key(lane, row.key().unwrap(), ROOM).await.unwrap();
    page.rows.iter().map(|row| (id(row), row.state)).collect()
}

/// Seen by an operator and by whoever reads a row behind it; found by no one who looks for work.
pub async fn a_row_that_holds_its_key_is_a_dead_letter_that_closes_it(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let rows = held(&mut bench, harness).await;
    assert!(bench.due().await.is_empty());
    harness.write(&[keyed("k"), keyed("free")]).await;
    let found = bench.read().await;
    let closed = |key: &str| {
        let row = found.iter().find(|row| row.key().is_some_and(|k| k.as_str() == key)).unwrap();
        row.closed.clone()
    };
    assert_eq!((closed("k"), closed("free")), (Closed::ForAll, Closed::Open));
    let lane = bench.held(rows[0].lane);
    let page = bench.source.key(lane, rows[0].key().unwrap(), ROOM).await.unwrap();
    assert_eq!((page.rows[0].id, page.rows[0].state), (rows[0].id, RowState::Holding));
    assert_eq!(page.rows[0].given_up, None, "it is nobody's to forward");
    assert_eq!(page.rows[0].waiting_for, Some(vec![DestinationName::new("d")]));
    let keys = bench.source.exceptional_keys(rows[0].lane, None, 10).await.unwrap();
    assert_eq!(keys, [Key::unchecked("k")]);
    let status = bench.operator.status(100).await.unwrap();
    assert_eq!([status.dead, status.holding, status.set_aside].map(|n| n.value()), [1, 1, 3]);
    let listed = bench.operator.dead(&DeadFilter::default(), EVERY).await.unwrap();
    assert_eq!((listed.len(), listed[0].state), (1, Some(RowState::Holding)));
    assert!(listed[0].dead_at.is_some() && listed[0].errors.as_ref().is_some_and(|text| text.contains("never")));
}

/// What an operator has not decided, no relay decides.
pub async fn a_row_that_holds_its_key_is_no_longer_settled(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let rows = held(&mut bench, harness).await;
    for outcome in [Outcome::Delivered, SET_ASIDE, dead(), holding()] {
        let settled = bench.settle(&[settlement(&rows[0], outcome)]).await;
        assert_eq!((settled.rows.len(), settled.lanes.len()), (0, 1));
    }
    assert_eq!(states(&mut bench, &rows[0]).await[0], (id(&rows[0]), RowState::Holding));
}

/// The due query brings the head; a look at the key then brings the others.
pub async fn a_replayed_head_is_due_and_its_successors_stay_behind_it(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let rows = held(&mut bench, harness).await;
    assert_eq!(bench.operator.replay(&named(&rows[0]), 10).await.unwrap(), [id(&rows[0])]);
    let due = bench.due().await;
    assert_eq!((ids(&due), due[0].attempts), (vec![id(&rows[0])], 0));
    assert_eq!(due[0].waiting_for, Some(vec![DestinationName::new("d")]), "what accepted it gets no repeat");
    let expected: Vec<_> = rows.iter().map(id).collect();
    assert_eq!(states(&mut bench, &rows[0]).await.iter().map(|(id, _)| *id).collect::<Vec<_>>(), expected);
    assert_eq!(bench.operator.status(100).await.unwrap().holding.value(), 0);
}

/// Without it nothing would look at the key.
pub async fn a_discarded_head_makes_the_first_row_behind_it_due(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let rows = held(&mut bench, harness).await;
    assert_eq!(bench.operator.discard(&named(&rows[0]), 10).await.unwrap(), [id(&rows[0])]);
    assert_eq!(ids(&bench.due().await), [id(&rows[1])]);
    let left = states(&mut bench, &rows[0]).await;
    let states: Vec<RowState> = left.iter().map(|(_, state)| *state).collect();
    assert_eq!(states, [RowState::Pending, RowState::SetAside, RowState::SetAside]);
}

/// A message whose own moment comes when a later one of its key holds it is set aside, and stands before the head.
pub async fn a_discarded_head_frees_what_stands_before_it_too(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    harness.write(&(0..3).map(|_| keyed("k")).collect::<Vec<_>>()).await;
    let rows = bench.read().await;
    let batch = [settlement(&rows[0], SET_ASIDE), settlement(&rows[1], holding()), settlement(&rows[2], SET_ASIDE)];
    assert_eq!(bench.settle(&batch).await.rows.len(), 3);
    assert_eq!(bench.operator.discard(&named(&rows[1]), 10).await.unwrap(), [id(&rows[1])]);
    assert_eq!(ids(&bench.due().await), [id(&rows[0])]);
}

/// Its key is like any other.
pub async fn a_discarded_head_with_nothing_behind_it_is_gone(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let head = bench.one(harness, keyed("k")).await;
    bench.settle(&[settlement(&head, holding())]).await;
    assert_eq!(bench.operator.discard(&named(&head), 10).await.unwrap(), [id(&head)]);
    assert!(bench.due().await.is_empty());
    assert_eq!(bench.one(harness, keyed("k")).await.closed, Closed::Open);
}

/// An operator asked for the retention.
pub async fn a_head_past_its_retention_opens_its_key(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let rows = held(&mut bench, harness).await;
    harness.pass(Duration::from_millis(20)).await;
    let retention = Retention { delivered: None, dead: Some(Duration::ZERO) };
    assert_eq!(bench.operator.prune(&retention, 100).await.unwrap().dead, 1);
    assert_eq!(ids(&bench.due().await), [id(&rows[1])]);
}

/// In the order of the table, whether they hold or not.
pub async fn a_key_with_several_dead_letters_is_replayed_whole(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let messages: Vec<Message> = (0..5).map(|_| keyed("k")).chain([keyed("other")]).collect();
    harness.write(&messages).await;
    let rows = bench.read().await;
    let outcome = |row: &Row| {
        let place = messages.iter().position(|message| message.id == id(row)).unwrap();
        [dead(), holding(), dead(), SET_ASIDE, holding(), dead()][place].clone()
    };
    let batch: Vec<_> = rows.iter().map(|row| settlement(row, outcome(row))).collect();
    bench.settle(&batch).await;
    let filter = DeadFilter { key: Some(Key::unchecked("k")), ..DeadFilter::default() };
    let replayed = bench.operator.replay(&filter, 100).await.unwrap();
    let expected: Vec<MessageId> = [0, 1, 2, 4].map(|place: usize| messages[place].id).to_vec();
    assert_eq!(replayed, expected);
    assert_eq!(ids(&bench.due().await), expected, "and they are due in that order");
    assert!(bench.operator.replay(&filter, 100).await.unwrap().is_empty());
}

/// Pending and owed to the destination of dead letters alone, through retries and while it is set aside.
pub async fn a_row_to_be_forwarded_keeps_its_reason_and_holds_back_nothing(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let (d, letters) = (DestinationName::new("d"), DestinationName::new("dead-letters"));
    let row = bench.one(harness, keyed("k")).await;
    let forward = |after| Outcome::Forward {
        reason: DeadReason::Expired,
        after,
        attempts: 7,
        waiting_for: Some(vec![letters.clone()]),
        progress: BTreeMap::from([(d.clone(), 7)]),
        failures: vec![failure("never")],
    };
    bench.settle(&[settlement(&row, forward(Duration::from_secs(60)))]).await;
    let behind = bench.one(harness, keyed("k")).await;
    assert_eq!(behind.closed, Closed::For(vec![letters.clone()]), "nothing else waits");
    bench.settle(&[settlement(&row, Outcome::SetAside { waiting_for: Some(vec![letters.clone()]) })]).await;
    let lane = bench.held(row.lane);
    let page = bench.source.key(lane, row.key().unwrap(), ROOM).await.unwrap();
    let given_up = page.rows[0].given_up.clone().unwrap();
    assert_eq!((given_up.reason, given_up.attempts), (DeadReason::Expired, 7));
    assert!(given_up.error.contains("d: never"), "{given_up:?}");
    let after_a_death = HeldLane { start: Start::Careful, ..lane };
    let page = bench.source.key(after_a_death, row.key().unwrap(), ROOM).await.unwrap();
    assert!(matches!(page.rows[0].content, Content::Head(_)), "{:?}", page.rows[0]);
    assert_eq!(page.rows[0].given_up.as_ref(), Some(&given_up), "its head tells why too");
    bench.settle(&[settlement(&row, forward(Duration::ZERO))]).await;
    let due = bench.due().await;
    assert_eq!((due[0].id, &due[0].waiting_for), (row.id, &Some(vec![letters])));
    assert_eq!((due[0].given_up.as_ref(), &due[0].progress), (Some(&given_up), &BTreeMap::from([(d, 7)])));
    assert!(
        bench.operator.dead(&DeadFilter::default(), EVERY).await.unwrap().is_empty(),
        "it is not yet a dead letter"
    );
    bench.settle(&[settlement(&row, dead())]).await;
    assert_eq!(bench.operator.replay(&DeadFilter::default(), 10).await.unwrap(), [id(&row)]);
    assert_eq!(bench.due().await[0].given_up, None, "a replay begins anew");
}

/// `state` of the filter.
pub async fn dead_letters_are_told_apart_by_whether_they_hold(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let rows = held(&mut bench, harness).await;
    let other = bench.one_dead(harness, keyed("skipped")).await;
    let by = |state| DeadFilter { state, ..DeadFilter::default() };
    for (state, expected) in [
        (Some(RowState::Holding), vec![id(&rows[0])]),
        (Some(RowState::Dead), vec![id(&other)]),
        (None, vec![id(&rows[0]), id(&other)]),
    ] {
        let listed = bench.operator.dead(&by(state), EVERY).await.unwrap();
        assert_eq!(listed.iter().map(|view| view.message.id).collect::<Vec<_>>(), expected, "{state:?}");
    }
    let groups = bench.operator.dead_groups(&by(Some(RowState::Holding))).await.unwrap();
    assert_eq!(groups.iter().map(|group| group.count).sum::<u64>(), 1);
    assert_eq!(bench.operator.replay(&by(Some(RowState::Dead)), 10).await.unwrap(), [id(&other)]);
    assert_eq!(bench.operator.discard(&by(Some(RowState::Holding)), 10).await.unwrap(), [id(&rows[0])]);
}
