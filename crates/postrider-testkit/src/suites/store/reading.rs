//! New rows.

use std::collections::BTreeSet;

use bytes::Bytes;
use postrider_core::{
    Content, DeadReason, HeldLane, Message, MessageId, Outcome, RetryOverride, Room, RowId, Timestamp,
};
use uuid::Uuid;

use super::StoreHarness;
use super::bench::{Bench, ROOM, ids, keyed, message, settlement};

/// The main road.
pub async fn what_is_committed_is_read_and_settled(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    assert!(bench.read().await.is_empty());
    let message = keyed("k");
    harness.write(std::slice::from_ref(&message)).await;
    let rows = bench.read().await;
    assert_eq!(ids(&rows), [message.id]);
    let settled = bench.settle(&[settlement(&rows[0], Outcome::Delivered)]).await;
    assert_eq!((settled.rows, settled.lanes), (vec![rows[0].id], vec![rows[0].lane]));
}

/// Unsettled rows stay in the table and are not brought again.
pub async fn nothing_is_read_twice_in_steady_state(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let mut seen = BTreeSet::new();
    for round in 0..10 {
        let messages: Vec<Message> = (0..5).map(|n| keyed(&format!("k{}", (round + n) % 7))).collect();
        harness.write(&messages).await;
        let rows = bench.read().await;
        assert_eq!(rows.len(), 5, "round {round}");
        for row in &rows {
            assert!(seen.insert(row.id), "{:?} came twice", row.id);
        }
        let half: Vec<_> = rows.iter().step_by(2).map(|row| settlement(row, Outcome::Delivered)).collect();
        bench.settle(&half).await;
        assert!(bench.read().await.is_empty(), "a settle brings nothing");
    }
}

/// A lane lost and taken again, under another term, is new.
pub async fn a_lane_that_is_regained_is_read_from_its_beginning(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let row = bench.one(harness, keyed("k")).await;
    let held: Vec<_> = bench.lanes.iter().filter(|held| held.lane == row.lane).copied().collect();
    bench.leases.release(bench.me, &held).await.unwrap();
    bench.lanes.retain(|held| held.lane != row.lane);
    assert!(bench.read().await.is_empty());
    bench.lanes.extend(bench.leases.acquire(bench.me, u16::MAX).await.unwrap());
    let again = bench.read().await;
    assert_eq!(again.iter().map(|row| row.id).collect::<Vec<_>>(), [row.id]);
}

/// A lane that one call leaves out is forgotten, although it comes back under the same term: terms of tables that were put
/// in the place of others begin anew.
pub async fn a_lane_that_was_left_out_once_is_read_from_its_beginning(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let row = bench.one(harness, keyed("k")).await;
    let without: Vec<_> = bench.lanes.iter().filter(|held| held.lane != row.lane).copied().collect();
    for left_out in [without, Vec::new()] {
        assert!(bench.read_of(&left_out, ROOM).await.is_empty());
        assert_eq!(bench.read().await.iter().map(|row| row.id).collect::<Vec<_>>(), [row.id]);
    }
}

/// Each lane has its own place.
pub async fn a_lane_acquired_later_is_read_from_its_beginning_while_the_others_go_on(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let old: Vec<Message> = (0..40).map(|n| keyed(&format!("k{n}"))).collect();
    harness.write(&old).await;
    let all = bench.lanes.clone();
    let mut source = harness.store().source().await.unwrap();
    std::mem::swap(&mut bench.source, &mut source);
    let first = bench.read_of(&all[..1], ROOM).await;
    let new: Vec<Message> = (0..40).map(|n| keyed(&format!("k{n}"))).collect();
    harness.write(&new).await;
    // Pages smaller than what there is, so that the walk of the new lanes and the steady reading alternate.
    let second = bench.read_of(&all, Room { rows: 7, bytes: 1 << 20 }).await;
    let mut seen: Vec<RowId> = first.iter().chain(&second).map(|row| row.id).collect();
    let brought = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!((brought, seen.len()), (80, 80), "each row once");
}

/// Rows belong to the owner of their lane.
pub async fn a_row_of_a_lane_that_is_not_held_is_not_read(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let messages: Vec<Message> = (0..40).map(|n| keyed(&format!("k{n}"))).collect();
    harness.write(&messages).await;
    let lanes = bench.lanes.clone();
    let mut brought = 0;
    for held in &lanes {
        let rows = bench.read_of(std::slice::from_ref(held), ROOM).await;
        assert!(rows.iter().all(|row| row.lane == held.lane));
        brought += rows.len();
    }
    assert_eq!(brought, 40, "every row is of exactly one lane");
    assert!(bench.read_of(&[], ROOM).await.is_empty());
}

/// `Room::rows`, and `more` where there is more.
pub async fn a_page_is_bounded_by_rows(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    harness.write(&(0..10).map(|n| keyed(&format!("k{n}"))).collect::<Vec<_>>()).await;
    let page = bench.source.read(&bench.lanes, Room { rows: 4, bytes: 1 << 20 }).await.unwrap();
    assert_eq!((page.rows.len(), page.more), (4, true));
    let rest = bench.read_of(&bench.lanes.clone(), Room { rows: 4, bytes: 1 << 20 }).await;
    assert_eq!(rest.len(), 6);
}

/// `Room::bytes`, which the first row of a page may pass.
pub async fn a_page_is_bounded_by_bytes_and_an_oversized_row_travels_alone(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let weighing = |bytes: usize| Message::new("suite.topic", vec![7; bytes]).key("one");
    harness.write(&[weighing(400), weighing(400), weighing(5_000), weighing(400), weighing(400)]).await;
    let lanes: Vec<HeldLane> = bench.lanes.clone();
    let mut pages = Vec::new();
    while pages.iter().map(Vec::len).sum::<usize>() < 5 {
        assert!(pages.len() < 100, "the pages do not move on: {pages:?}");
        let page = bench.source.read(&lanes, Room { rows: 100, bytes: 1_000 }).await.unwrap();
        if !page.rows.is_empty() {
            pages.push(page.rows.iter().map(|row| message(row).payload.len()).collect::<Vec<_>>());
        }
    }
    assert_eq!(pages, [vec![400, 400], vec![5_000], vec![400, 400]]);
}

/// Characters of headers that hardly get smaller where they are compressed.
const NOISE: [char; 17] = ['a', 'Z', '0', '-', '9', 'q', 'B', '_', 'x', '5', 'k', '.', 'M', 'e', '7', 'u', 'R'];

/// Whether they come first, or behind rows that are light.
pub async fn a_page_is_bounded_by_the_bytes_of_headers_too(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let room = Room { rows: 100, bytes: 1 << 20 };
    let noise = |from: usize| -> String { (from..from + 8_000).map(|n| NOISE[n * n % 7_919 % NOISE.len()]).collect() };
    let message_of = |n: usize| {
        let plain = Message::new("suite.topic", "small").key(format!("k{n}"));
        (0..40).fold(plain, |message, header| message.header(format!("h{header}"), noise(n * 41 + header * 97)))
    };
    let heavy = || (0..12).map(message_of).collect::<Vec<_>>();
    for _ in 0..2 {
        harness.write(&heavy()).await;
        let mut left = 12;
        for read in 0.. {
            assert!(read < 100, "{left} rows do not come");
            let page = bench.source.read(&bench.lanes, room).await.unwrap();
            assert!(
                page.rows.len() <= 1 || page.weight() <= room.bytes,
                "{} rows of {}",
                page.rows.len(),
                page.weight()
            );
            left -= page.rows.len();
            if left == 0 {
                break;
            }
        }
        harness.write(&(0..300).map(|n| keyed(&format!("k{n}"))).collect::<Vec<_>>()).await;
        assert_eq!(bench.read_of(&bench.lanes.clone(), room).await.len(), 300);
    }
}

/// P3 begins here.
pub async fn rows_of_a_key_come_in_the_order_of_their_ids(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let messages: Vec<Message> = (0..30).map(|n| keyed(&format!("k{}", n % 3))).collect();
    harness.write(&messages).await;
    let rows = bench.read_of(&bench.lanes.clone(), Room { rows: 4, bytes: 1 << 20 }).await;
    for key in ["k0", "k1", "k2"] {
        let written = messages.iter().filter(|m| m.key.as_ref().is_some_and(|k| k.as_str() == key)).map(|m| m.id);
        let of_key = rows.iter().filter(|row| row.key().is_some_and(|k| k.as_str() == key));
        assert_eq!(of_key.map(super::bench::id).collect::<Vec<_>>(), written.collect::<Vec<_>>());
    }
}

/// Over all pages, and whatever the keys: how far a lane is read tells what may stand before a row of the table.
pub async fn a_lane_is_read_from_its_beginning_in_the_order_of_its_ids(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    harness.write(&(0..60).map(|n| keyed(&format!("k{}", n % 17))).collect::<Vec<_>>()).await;
    let rows = bench.read_of(&bench.lanes.clone(), Room { rows: 7, bytes: 1 << 20 }).await;
    assert_eq!(rows.len(), 60);
    for held in &bench.lanes {
        let ids: Vec<RowId> = rows.iter().filter(|row| row.lane == held.lane).map(|row| row.id).collect();
        assert!(ids.is_sorted(), "{:?}: {ids:?}", held.lane);
    }
}

/// Of lanes that have nothing new as well, so that what waits there in the table need not wait for the others.
pub async fn a_page_tells_how_far_every_lane_is_read(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    harness.write(&(0..30).map(|_| keyed("one")).collect::<Vec<_>>()).await;
    let (lanes, room) = (bench.lanes.clone(), Room { rows: 7, bytes: 1 << 20 });
    let mut read = RowId(0);
    for _ in 0..100 {
        let page = bench.source.read(&lanes, room).await.unwrap();
        read = page.rows.last().map_or(read, |row| row.id);
        for held in lanes.iter().filter(|_| page.more) {
            let reached = page.reached.get(&held.lane).copied();
            assert!(reached >= Some(read), "{:?} is read to {reached:?}, others to {read:?}", held.lane);
        }
        if !page.more {
            return;
        }
    }
    panic!("the reading does not end");
}

/// Bytes, header order, attributes, times and the retry settings; nothing re-encoded.
pub async fn everything_of_a_message_arrives_as_it_was_written(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let full = Message::new("orders.placed:v2", every_byte)
        .id(Uuid::from_u128(0x0192_aaaa_bbbb_7ccc_8ddd_eeee_ffff_0001))
        .key("clé/日本-☃")
        .content_type("application/octet-stream")
        .header("z-last-name", "first")
        .header("a-first-name", "zwei € \"quoted\" \\ tab\there")
        .header("m", "")
        .attribute("kafka.partition", "3")
        .attribute("http.path", "/a?b=c")
        .retry(RetryOverride {
            max_attempts: Some(3),
            initial_ms: Some(50),
            multiplier: Some(1.5),
            maximum_ms: None,
            max_age_ms: Some(5_000),
        });
    let mut expiring = keyed("expires");
    expiring.expires_at = Some(Timestamp(4_102_444_800_123_000));
    expiring.deliver_at = Some(Timestamp(1_000_000));
    let bare = Message::new("t", Bytes::new());
    let written = [full, expiring, bare];
    harness.write(&written).await;
    let rows = bench.read().await;
    assert_eq!(rows.len(), 3);
    for expected in written {
        let row = rows.iter().find(|row| super::bench::id(row) == expected.id).unwrap();
        let mut found = message(row).clone();
        assert!(found.created_at.take().is_some(), "the database says when it was written");
        assert_eq!(found, expected);
        let order: Vec<&str> = found.headers.iter().map(|(name, _)| name).collect();
        assert_eq!(order, expected.headers.iter().map(|(name, _)| name).collect::<Vec<_>>());
    }
}

/// A page never fails because of a row, and each bad row can be settled as dead.
pub async fn nonsense_in_any_nullable_column_is_one_malformed_row_and_costs_no_other(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let before = keyed("before");
    harness.write(std::slice::from_ref(&before)).await;
    let spoilt = harness.write_nonsense().await;
    let after = keyed("after");
    harness.write(std::slice::from_ref(&after)).await;
    let mut rows = bench.read().await;
    for row in bench.due().await {
        if rows.iter().all(|known| known.id != row.id) {
            rows.push(row);
        }
    }
    assert_eq!(rows.len(), spoilt.len() + 2, "spoilt: {spoilt:?}");
    let good: Vec<MessageId> = rows.iter().filter_map(readable).collect();
    assert!(good.contains(&before.id) && good.contains(&after.id));
    let bad: Vec<_> = rows.iter().filter(|row| matches!(row.content, Content::Malformed { .. })).collect();
    assert!(!bad.is_empty() || spoilt.is_empty(), "nothing was malformed of {spoilt:?}");
    let give_up = Outcome::Dead { reason: DeadReason::Malformed, attempts: 0, waiting_for: None, failures: vec![] };
    let batch: Vec<_> = bad.iter().map(|row| settlement(row, give_up.clone())).collect();
    assert_eq!(bench.settle(&batch).await.rows.len(), bad.len());
    let position = postrider_core::Position { after: RowId(i64::MIN), limit: 1_000 };
    let listed = bench.operator.dead(&postrider_core::DeadFilter::default(), position).await.unwrap();
    assert_eq!(listed.len(), bad.len(), "a person can look at each");
    assert!(listed.iter().all(|view| view.dead_reason == Some(DeadReason::Malformed)));
    assert!(bench.due().await.iter().all(|row| readable(row).is_some()));
}

fn readable(row: &postrider_core::Row) -> Option<MessageId> {
    match &row.content {
        Content::Message(message) => Some(message.id),
        Content::Malformed { .. } | Content::Head(_) => None,
    }
}

/// What the SDK refuses and a foreign hand wrote all the same.
pub async fn a_row_that_breaks_the_grammar_is_malformed(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let bad = [
        keyed("line\nbreak"),
        keyed("k").header("bad name", "v"),
        keyed("k").header("n", "line\r\nbreak"),
        Message::new("no spaces allowed", "x"),
        Message::new("suite.topic", "x").key("k".repeat(513)),
    ];
    harness.write(&bad).await;
    let rows = bench.read().await;
    assert_eq!(rows.len(), bad.len());
    for row in rows {
        assert!(matches!(row.content, Content::Malformed { id: Some(_), .. }), "{row:?}");
    }
}

/// The sweep walks lanes that are read up to date, by the caller's position.
pub async fn the_sweep_finds_what_is_pending_and_nothing_else(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    harness.write(&(0..20).map(|n| keyed(&format!("k{n}"))).collect::<Vec<_>>()).await;
    let rows = bench.read().await;
    let (gone, left) = rows.split_at(5);
    let batch: Vec<_> = gone.iter().map(|row| settlement(row, Outcome::Delivered)).collect();
    bench.settle(&batch).await;
    bench.settle(&[settlement(&left[0], super::bench::dead()), settlement(&left[1], super::bench::SET_ASIDE)]).await;
    let mut swept = BTreeSet::new();
    let lanes = bench.lanes.split_off(1);
    let mut after = RowId(i64::MIN);
    while after.0 < i64::MAX {
        let page = bench.source.sweep(&lanes, after, Room { rows: 2, bytes: 1 << 20 }).await.unwrap();
        assert_eq!(
            page.reached.keys().copied().collect::<Vec<_>>(),
            lanes.iter().map(|held| held.lane).collect::<Vec<_>>()
        );
        let reached = *page.reached.values().next().unwrap();
        assert!(reached > after && page.reached.values().all(|each| *each == reached), "{:?}", page.reached);
        for row in &page.rows {
            assert!(row.id > after && row.id <= reached && swept.insert(row.id));
        }
        after = reached;
    }
    let wanted = left[2..].iter().filter(|row| lanes.iter().any(|held| held.lane == row.lane));
    assert_eq!(swept, wanted.map(|row| row.id).collect::<BTreeSet<_>>());
    let mut anew = harness.store().source().await.unwrap();
    let page = anew.sweep(&lanes, RowId(0), Room { rows: 2, bytes: 1 << 20 }).await.unwrap();
    assert_eq!((page.rows.len(), page.reached.len()), (0, 0), "nothing is read up to date");
}

/// The pages of a backlog join without a gap and without an overlap.
pub async fn many_rows_in_small_pages_are_each_read_once(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    for _ in 0..5 {
        harness.write(&(0..500).map(|n| keyed(&format!("k{n}"))).collect::<Vec<_>>()).await;
    }
    let rows = bench.read_of(&bench.lanes.clone(), Room { rows: 97, bytes: 1 << 20 }).await;
    let distinct: BTreeSet<RowId> = rows.iter().map(|row| row.id).collect();
    assert_eq!((rows.len(), distinct.len()), (2_500, 2_500));
}

/// What is delayed waits for the end of a reading, and does not starve where more is written than goes.
pub async fn a_reading_ends_however_much_is_written_meanwhile(harness: &dyn StoreHarness) {
    let mut bench = Bench::new(harness).await;
    let lanes = bench.lanes.clone();
    let of_one_key = |count: usize| std::iter::repeat_with(|| keyed("k")).take(count).collect::<Vec<_>>();
    let mut read = 0;
    for reading in 0..3 {
        harness.write(&of_one_key(6)).await;
        let mut pages = 0;
        loop {
            let page = bench.source.read(&lanes, Room { rows: 2, bytes: 1 << 20 }).await.unwrap();
            (read, pages) = (read + page.rows.len(), pages + 1);
            if !page.more {
                break;
            }
            assert!(pages < 60, "reading {reading} does not end");
            harness.write(&of_one_key(2)).await;
        }
    }
    let rest = bench.read().await.len();
    assert!(read >= 18 && rest > 0, "{read} and {rest}: nothing was written meanwhile");
}
