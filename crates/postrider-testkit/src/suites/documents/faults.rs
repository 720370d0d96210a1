//! Faults.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use postrider_core::{DocumentStore, ErrorKind, Level, Timestamp, Version, WriteError};

use super::Harness;
use super::harness::{absent, collection, conflict, counted, draft, holds, key, loaded, number};

/// How often a call is polled at most before it is dropped.
const DEEPEST: usize = 24;
/// How long a client may take to find a store that is back.
const RETURN: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// Polls a call so often, each time when it is woken, and drops it; whether it ended before.
async fn dropped_after(polls: usize, call: impl Future) -> bool {
    let (mut call, mut polled) = (pin!(call), 0);
    poll_fn(|context| {
        polled += 1;
        match call.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if polled > polls => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Writes a number whatever is there, and whatever a call that was dropped still does.
async fn settle(store: &Arc<dyn DocumentStore>, n: usize) -> Version {
    for _ in 0..100 {
        let written = match store.load(&key("7")).await.expect("the document is read") {
            Some(stored) => store.replace(&key("7"), &stored.version, &number(n)).await,
            None => store.create(&key("7"), &number(n)).await,
        };
        match written {
            Ok(version) => return version,
            Err(WriteError::Conflict) => {}
            Err(other) => panic!("a write after a dropped call: {other:?}"),
        }
    }
    panic!("a call that was dropped goes on writing")
}

pub(super) async fn a_call_that_is_dropped_leaves_the_old_or_the_new(harness: Harness) {
    let (one, two, key) = (harness.client().await, harness.client().await, key("7"));
    for polls in 0..DEEPEST {
        let old = settle(&two, 1).await;
        let next = number(2);
        let mut ended = dropped_after(polls, one.replace(&key, &old, &next)).await;
        let found = counted(&loaded(&two, &key).await);
        assert!(found == 1 || found == 2, "after a dropped replace: {found}");

        let version = settle(&two, 3).await;
        ended &= dropped_after(polls, one.delete(&key, &version)).await;
        if let Some(found) = two.load(&key).await.expect("the document is read") {
            assert_eq!(counted(&found), 3, "after a dropped delete");
        }
        // Whether it happens is decided here: a delete is over this version or nothing.
        let version = settle(&two, 4).await;
        assert_eq!(counted(&loaded(&two, &key).await), 4, "a dropped delete took a later write");
        two.delete(&key, &version).await.expect("the delete");

        let created = number(5);
        ended &= dropped_after(polls, one.create(&key, &created)).await;
        if let Some(found) = two.load(&key).await.expect("the document is read") {
            assert_eq!(counted(&found), 5, "after a dropped create");
        }
        let version = settle(&two, 6).await;
        holds(&one, &key, &number(6), &version).await;
        if ended {
            return;
        }
    }
}

pub(super) async fn preparing_again_does_no_harm(harness: Harness) {
    let (one, two, key) = (harness.client().await, harness.client().await, key("7"));
    let version = one.create(&key, &number(1)).await.expect("the create");
    one.prepare().await.expect("preparing again");
    two.prepare().await.expect("preparing again from elsewhere");
    holds(&two, &key, &number(1), &version).await;
    two.replace(&key, &version, &number(2)).await.expect("the replace after that");
}

pub(super) async fn two_can_prepare_at_once(harness: Harness) {
    let (one, two) = (harness.unprepared().await, harness.unprepared().await);
    let (first, second) = tokio::join!(one.prepare(), two.prepare());
    first.expect("the first to prepare");
    second.expect("the second to prepare");
    let version = one.create(&key("7"), &number(1)).await.expect("the create after that");
    holds(&two, &key("7"), &number(1), &version).await;
}

pub(super) async fn check_is_content_with_a_prepared_store(harness: Harness) {
    let store = harness.client().await;
    let check = tokio::time::timeout(harness.deadline(), store.check());
    let findings = check.await.expect("check did not end").expect("check failed");
    assert!(!findings.is_empty(), "check says nothing of the store's durability");
    for finding in &findings {
        assert!(finding.level != Level::Failure, "{finding:?}");
        assert!(finding.level == Level::Good || !finding.advice.is_empty(), "no advice: {finding:?}");
    }
}

pub(super) async fn what_is_not_prepared_says_what_to_do(harness: Harness) {
    let store = harness.unprepared().await;
    let checked = store.check().await.expect_err("check is content with what is not prepared");
    let read = store.load(&key("7")).await.expect_err("a read of what is not prepared succeeded");
    let written = match store.create(&key("7"), &number(1)).await {
        Err(WriteError::Failed(error)) => error,
        other => panic!("expected a failure, found {other:?}"),
    };
    for error in [checked, read, written] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("prepare"), "it is not said what to do: {error}");
    }
    store.prepare().await.expect("preparing");
    store.check().await.expect("check after that");
    store.create(&key("7"), &number(1)).await.expect("the create after that");
}

/// The error of a write that must have failed, within the time.
async fn fails<T: std::fmt::Debug>(harness: &Harness, write: impl Future<Output = Result<T, WriteError>>) -> ErrorKind {
    let ended = tokio::time::timeout(harness.deadline(), write).await;
    match ended.expect("a write did not end within the store's own deadline") {
        Err(WriteError::Failed(error)) => error.kind(),
        other => panic!("expected a failure of a store that is away, found {other:?}"),
    }
}

pub(super) async fn a_store_that_is_away_writes_nothing_and_never_hangs(harness: Harness) {
    let (store, there) = (harness.client().await, key("there"));
    let version = store.create(&there, &number(1)).await.expect("the create");
    harness.stop().await;
    // Once while a connection stands, and again when it is known to be lost.
    for _ in 0..2 {
        let kinds = [
            fails(&harness, store.create(&key("new"), &number(2))).await,
            fails(&harness, store.replace(&there, &version, &number(2))).await,
            fails(&harness, store.delete(&there, &version)).await,
        ];
        for kind in kinds {
            assert!(matches!(kind, ErrorKind::Unavailable | ErrorKind::Unknown), "{kind}");
        }
    }
    let kind = fails(&harness, store.create(&key("never"), &number(2))).await;
    assert_eq!(kind, ErrorKind::Unavailable, "nothing was sent");
    harness.start().await;
    let until = Instant::now() + RETURN;
    while let Err(error) = store.load(&there).await {
        assert!(Instant::now() < until, "not read after its return: {error}");
        tokio::time::sleep(PAUSE).await;
    }
    absent(&store, &key("never")).await;
}

pub(super) async fn a_store_that_is_away_is_not_read(harness: Harness) {
    let store = harness.client().await;
    store.create(&key("7"), &number(1)).await.expect("the create");
    harness.stop().await;
    let carts = collection("carts");
    for _ in 0..2 {
        let read = tokio::time::timeout(harness.deadline(), store.load(&key("7"))).await.expect("a read did not end");
        let error = read.expect_err("a read of a store that is away succeeded");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let due = store.due(&carts, Timestamp(0), None, 10);
        let due = tokio::time::timeout(harness.deadline(), due).await.expect("asking what is due did not end");
        let error = due.expect_err("what is due was told by a store that is away");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

pub(super) async fn check_of_a_store_that_is_away_fails(harness: Harness) {
    let store = harness.client().await;
    harness.stop().await;
    let check = tokio::time::timeout(harness.deadline(), store.check());
    let error = check.await.expect("check did not end").expect_err("check of a store that is away succeeded");
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Config), "{error}");
}

pub(super) async fn it_goes_on_by_itself_when_the_store_is_back(harness: Harness) {
    let (store, key) = (harness.client().await, key("7"));
    let version = store.create(&key, &number(1)).await.expect("the create");
    harness.stop().await;
    fails(&harness, store.replace(&key, &version, &number(2))).await;
    harness.start().await;
    let until = Instant::now() + RETURN;
    // The write that failed may have happened all the same, or still happen.
    let mut over = version;
    loop {
        match store.replace(&key, &over, &number(3)).await {
            Ok(_) => break,
            Err(WriteError::Conflict) => over = loaded(&store, &key).await.version,
            Err(other) => assert!(Instant::now() < until, "not written after its return: {other:?}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
    assert_eq!(counted(&loaded(&store, &key).await), 3);
}

pub(super) async fn what_was_answered_survives_a_crash(harness: Harness) {
    let store = harness.client().await;
    let [kept, changed, gone] = ["kept", "changed", "gone"].map(key);
    let v_kept = store.create(&kept, &number(1)).await.expect("the create");
    let old = store.create(&changed, &number(2)).await.expect("the create");
    let v_gone = store.create(&gone, &number(3)).await.expect("the create");
    let v_changed = store.replace(&changed, &old, &number(4)).await.expect("the replace");
    store.delete(&gone, &v_gone).await.expect("the delete");
    harness.crash().await;
    let store = harness.client().await;
    holds(&store, &kept, &number(1), &v_kept).await;
    holds(&store, &changed, &number(4), &v_changed).await;
    absent(&store, &gone).await;
    conflict(store.replace(&changed, &old, &number(5)).await);
}

pub(super) async fn nothing_secret_is_shown(harness: Harness) {
    const CANARY: &str = "canary-in-the-document";
    let (store, key) = (harness.client().await, key("7"));
    let secret = draft(format!("{{\"a\": \"{CANARY}\", \"b\": \"\\u0000\"}}"));
    let broken = draft(format!("{{\"a\": {CANARY}"));
    let mut shown = format!("{store:?} {:?}", store.profile());
    for draft in [&secret, &broken] {
        shown.push_str(&format!("{:?}", store.create(&key, draft).await));
    }
    if let Some(limit) = store.profile().limit {
        let large = CANARY.repeat(usize::try_from(limit).expect("the limit is a size") / CANARY.len() + 1);
        shown.push_str(&format!("{:?}", store.create(&key, &draft(format!("\"{large}\""))).await));
    }
    shown.push_str(&format!("{:?}", harness.unprepared().await.check().await));
    harness.stop().await;
    shown.push_str(&format!("{:?}", store.create(&key, &secret).await));
    shown.push_str(&format!("{:?}", store.load(&key).await.map(|_| ())));
    if let Err(error) = store.check().await {
        shown.push_str(&format!("{error} {error:?}"));
    }
    assert!(!shown.contains(CANARY), "a document is shown: {shown}");
    if let Some(credential) = harness.secret() {
        assert!(!shown.contains(&credential), "a credential is shown");
    }
}
