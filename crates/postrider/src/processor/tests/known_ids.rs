//! What is known of ids, and what is not any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use postrider_core::receiving::Known;
use postrider_core::{DocumentStore, MessageId, Timestamp};
use postrider_testkit::troubled_documents::{Call, Trouble, TroubledDocuments};
use uuid::Uuid;

use super::places::Place;
use super::{Bench, DAY, NOON, ROUNDS, again, at, cases, held_up, made, until};
use crate::processor::keeping::Kept;
use crate::processor::known_ids::KnownIds;
use crate::processor::memory::Asked;

const KEEP: Duration = Duration::from_secs(7 * 86_400);
const NEW: Asked = Asked::Is(Known::New);
const HANDLED: Asked = Asked::Is(Known::Handled);

cases![
    an_id_that_nobody_handled_is_new,
    what_is_remembered_is_known_to_every_client_at_once,
    remembering_again_and_at_once_does_no_harm,
    an_id_is_known_to_its_consumer_and_in_its_collection_only,
    what_is_kept_is_known_until_its_time_is_over,
    below_the_floor_everything_is_refused_and_at_it_nothing,
    the_floor_never_falls,
    a_floor_that_is_written_late_lowers_none,
    the_floor_of_one_consumer_is_not_that_of_another,
    what_is_forgotten_by_two_at_once_is_refused,
    an_id_that_is_forgotten_while_it_is_asked_for_is_not_new,
];

fn both(bench: &Bench) -> [KnownIds; 2] {
    bench.clients.each_ref().map(|client| on(bench, client))
}

fn on(bench: &Bench, client: &Arc<dyn DocumentStore>) -> KnownIds {
    KnownIds::new(Arc::clone(client), KEEP).unwrap().collection(bench.collection("known"))
}

async fn ask(known: &KnownIds, id: MessageId) -> Asked {
    again(|| known.ask("carts", id)).await
}

async fn remember(known: &KnownIds, id: MessageId, now: Timestamp) {
    again(|| known.remember("carts", id, now)).await;
}

/// A round that succeeds.
async fn forget(known: &KnownIds, now: Timestamp) {
    let round = || async {
        let mut kept = Kept::default();
        known.forget("carts", now, &mut kept).await.map(|()| kept)
    };
    let kept = again(round).await;
    assert!(kept.stuck.is_empty(), "{kept:?}");
}

/// Rounds until this is known no more; until then it is handled.
async fn is_forgotten(known: &KnownIds, now: Timestamp, id: MessageId) {
    let round = || async {
        forget(known, now).await;
        let asked = ask(known, id).await;
        assert!(matches!(asked, HANDLED | Asked::TooOld), "{asked:?}");
        asked == Asked::TooOld
    };
    until(round).await;
}

async fn an_id_that_nobody_handled_is_new(bench: Bench) {
    let [one, two] = both(&bench);
    for id in [made(NOON), MessageId(Uuid::new_v4()), MessageId(Uuid::nil())] {
        assert_eq!((ask(&one, id).await, ask(&two, id).await), (NEW, NEW));
    }
}

async fn what_is_remembered_is_known_to_every_client_at_once(bench: Bench) {
    let [one, two] = both(&bench);
    for _ in 0..ROUNDS {
        for id in [made(NOON), MessageId(Uuid::new_v4())] {
            // Asked before, so that nobody answers by what was known then.
            assert_eq!(ask(&two, id).await, NEW);
            remember(&one, id, NOON).await;
            assert_eq!((ask(&two, id).await, ask(&one, id).await), (HANDLED, HANDLED));
        }
    }
}

async fn remembering_again_and_at_once_does_no_harm(bench: Bench) {
    let (clients, id) = (both(&bench), made(NOON));
    let [one, two] = &clients;
    let all_at_once = [one, two, one, two, one, two].map(|known| remember(known, id, at(DAY)));
    join_all(all_at_once).await;
    for known in &clients {
        remember(known, id, at(2 * DAY)).await;
        assert_eq!(ask(known, id).await, HANDLED);
    }
    // Since it was handled first.
    is_forgotten(&clients[0], at(DAY + KEEP + Duration::from_secs(1)), id).await;
    assert_eq!(ask(&clients[1], id).await, Asked::TooOld);
}

async fn an_id_is_known_to_its_consumer_and_in_its_collection_only(bench: Bench) {
    let ([one, two], id) = (both(&bench), made(NOON));
    remember(&one, id, NOON).await;
    assert_eq!(again(|| two.ask("totals", id)).await, NEW);
    let elsewhere = two.clone().collection(bench.collection("others"));
    assert_eq!(ask(&elsewhere, id).await, NEW);
    remember(&elsewhere, id, NOON).await;
    is_forgotten(&elsewhere, at(KEEP + DAY), id).await;
    assert_eq!((ask(&elsewhere, id).await, ask(&two, id).await), (Asked::TooOld, HANDLED));
}

async fn what_is_kept_is_known_until_its_time_is_over(bench: Bench) {
    let ([one, two], second) = (both(&bench), Duration::from_secs(1));
    let (old, late, timeless) = (made(NOON), made(NOON), MessageId(Uuid::new_v4()));
    remember(&one, old, NOON).await;
    remember(&one, late, at(DAY)).await;
    remember(&one, timeless, NOON).await;
    forget(&two, at(KEEP - second)).await;
    for id in [old, late, timeless] {
        assert_eq!(ask(&two, id).await, HANDLED);
    }
    is_forgotten(&two, at(KEEP + second), old).await;
    let round = || async {
        forget(&two, at(KEEP + second)).await;
        ask(&one, timeless).await == NEW
    };
    until(round).await;
    let asked = [ask(&one, old).await, ask(&one, late).await, ask(&one, timeless).await];
    assert_eq!(asked, [Asked::TooOld, HANDLED, NEW], "handled at noon, a day later, and without a time");
    is_forgotten(&one, at(DAY + KEEP + second), late).await;
    assert_eq!(ask(&two, late).await, Asked::TooOld);
}

async fn below_the_floor_everything_is_refused_and_at_it_nothing(bench: Bench) {
    let [one, two] = both(&bench);
    let (handled, beside) = (made(NOON), made(NOON));
    remember(&one, handled, NOON).await;
    is_forgotten(&one, at(KEEP + DAY), handled).await;
    for id in [handled, beside, made(Timestamp(at(DAY).0 - 1_000))] {
        assert_eq!(ask(&two, id).await, Asked::TooOld);
    }
    assert_eq!(ask(&two, made(at(DAY))).await, NEW);
}

async fn the_floor_never_falls(bench: Bench) {
    let ([one, two], id) = (both(&bench), made(NOON));
    forget(&one, at(KEEP + DAY)).await;
    // By a clock that is behind, and by one that keeps for longer.
    forget(&two, at(KEEP)).await;
    let longer = KnownIds::new(Arc::clone(&bench.clients[1]), 2 * KEEP).unwrap().collection(bench.collection("known"));
    forget(&longer, at(KEEP + DAY)).await;
    assert_eq!((ask(&one, id).await, ask(&two, id).await), (Asked::TooOld, Asked::TooOld));
}

/// It was lower, and none, when it was read.
async fn a_floor_that_is_written_late_lowers_none(bench: Bench) {
    let ([one, two], id) = (both(&bench), made(at(DAY)));
    for days in [1, 3] {
        let raise = |store| {
            let known = on(&bench, &store);
            async move { known.forget("carts", at(KEEP + days * DAY), &mut Kept::default()).await }
        };
        let is_written = |call: Call<'_>| matches!(call, Call::Create(..) | Call::Replace(..));
        held_up(&bench.clients[1], is_written, raise, forget(&one, at(KEEP + (days + 1) * DAY))).await;
        assert_eq!((ask(&one, id).await, ask(&two, id).await), (Asked::TooOld, Asked::TooOld));
        assert_eq!(ask(&two, made(Timestamp(at((days + 1) * DAY).0 - 1_000))).await, Asked::TooOld);
    }
}

async fn the_floor_of_one_consumer_is_not_that_of_another(bench: Bench) {
    let ([one, two], id) = (both(&bench), made(NOON));
    again(|| two.remember("totals", id, NOON)).await;
    remember(&one, id, NOON).await;
    is_forgotten(&one, at(KEEP + DAY), id).await;
    let of_totals = [again(|| two.ask("totals", id)).await, again(|| two.ask("totals", made(NOON))).await];
    assert_eq!((ask(&one, id).await, of_totals), (Asked::TooOld, [HANDLED, NEW]));
}

async fn what_is_forgotten_by_two_at_once_is_refused(bench: Bench) {
    let [one, two] = both(&bench);
    let ids: Vec<MessageId> = (0..20).map(|_| made(NOON)).collect();
    for id in &ids {
        remember(&one, *id, NOON).await;
    }
    let asking = async {
        for id in &ids {
            let asked = ask(&one, *id).await;
            assert!(matches!(asked, HANDLED | Asked::TooOld), "{asked:?}");
        }
    };
    tokio::join!(forget(&one, at(KEEP + DAY)), forget(&two, at(KEEP + 2 * DAY)), asking);
    for id in ids {
        is_forgotten(&two, at(KEEP + 2 * DAY), id).await;
    }
}

/// Its record is read before the floor: who reads the floor first may find neither.
async fn an_id_that_is_forgotten_while_it_is_asked_for_is_not_new(bench: Bench) {
    for reads in 0..2 {
        let ([one, _], id, asker) = (both(&bench), made(at(reads * DAY)), Arc::clone(&bench.clients[1]));
        remember(&one, id, at(reads * DAY)).await;
        let calls = AtomicU32::new(0);
        let slow = TroubledDocuments::new(asker, move |_| {
            let is_next = calls.fetch_add(1, Ordering::SeqCst) == reads;
            if is_next { Trouble::Held } else { Trouble::None }
        });
        let known = on(&bench, &(Arc::clone(&slow) as _));
        let mut asking = std::pin::pin!(known.ask("carts", id));
        tokio::select! {
            () = slow.held() => {
                is_forgotten(&one, at(KEEP + (reads + 1) * DAY), id).await;
                slow.release();
                if let Ok(asked) = asking.await {
                    assert_eq!(asked, Asked::TooOld, "held before read {reads}");
                }
            }
            asked = &mut asking => if let Ok(asked) = asked {
                assert_eq!(asked, HANDLED);
            },
        }
    }
}

#[tokio::test]
async fn a_store_whose_reads_are_behind_does_not_pass() {
    super::is_caught("known ids", CASES, "what_is_remembered_is_known_to_every_client_at_once").await;
}

async fn passes(place: &Place) {
    super::passes("known ids", CASES, place).await;
}

over_each_store!(passes);
