//! Finding what is due.

use std::collections::BTreeMap;
use std::sync::Arc;

use postrider_core::{Collection, DocumentKey, DocumentStore, Draft, DueIndex, Timestamp};

use super::Harness;
use super::harness::{collection, key, number};

const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

fn due_at(n: usize, due: Option<i64>) -> Draft {
    Draft { due: due.map(Timestamp), ..number(n) }
}

/// Every page, demanding that they are pages: not larger than asked for, each name once, in the order of their bytes.
async fn named(store: &Arc<dyn DocumentStore>, within: &Collection, by: Timestamp, at_most: usize) -> Vec<DocumentKey> {
    let mut named: Vec<DocumentKey> = Vec::new();
    loop {
        let page = store.due(within, by, named.last(), at_most).await.expect("a page of what is due");
        assert!(page.len() <= at_most, "{} names where {at_most} were asked for", page.len());
        let is_last = page.len() < at_most;
        for key in page {
            assert!(key.collection() == within, "{key} is of another collection");
            assert!(named.last().is_none_or(|before| before < &key), "{key} comes after {:?}", named.last());
            named.push(key);
        }
        if is_last {
            return named;
        }
    }
}

/// Demands that these are named, and where the store has an index, no others.
async fn demand(store: &Arc<dyn DocumentStore>, within: &Collection, by: Timestamp, expected: &[DocumentKey]) {
    for at_most in [1, 2, 3, 7, 1000] {
        let named = named(store, within, by, at_most).await;
        match store.profile().due {
            DueIndex::Indexed => assert_eq!(named, expected, "what is due, {at_most} at a time"),
            DueIndex::Listed => {
                let missing: Vec<_> = expected.iter().filter(|key| !named.contains(key)).collect();
                assert!(missing.is_empty(), "due and not named, {at_most} at a time: {missing:?}");
            }
        }
    }
}

pub(super) async fn what_is_due_is_named_in_order_and_in_pages(harness: Harness) {
    let (one, two) = (harness.client().await, harness.client().await);
    let dues: BTreeMap<&str, Option<i64>> = [
        ("a", Some(NOW.0)),
        ("B", Some(NOW.0 - 1)),
        ("aa", Some(0)),
        ("a/b", Some(1)),
        ("a b", Some(NOW.0 + 1)),
        ("\u{e9}", Some(-5)),
        ("z", None),
        ("Z", Some(NOW.0 - 10)),
        ("z%2F", Some(NOW.0)),
        ("\u{ff21}", Some(3)),
        ("\u{1f600}", Some(4)),
        ("_", None),
        ("-", Some(i64::MAX)),
        ("0", Some(NOW.0)),
        ("10", Some(NOW.0)),
        ("9", Some(NOW.0)),
    ]
    .into();
    for (n, (name, due)) in dues.iter().enumerate() {
        one.create(&key(name), &due_at(n, *due)).await.expect("the create");
    }
    let other = DocumentKey::new(&collection("carts-2"), "a").expect("it is legal");
    one.create(&other, &due_at(0, Some(0))).await.expect("the create elsewhere");

    let carts = collection("carts");
    let by = |moment: i64| -> Vec<DocumentKey> {
        let due = dues.iter().filter(|(_, due)| due.is_some_and(|due| due <= moment));
        due.map(|(name, _)| key(name)).collect()
    };
    for moment in [-6, -5, 0, NOW.0 - 1, NOW.0, NOW.0 + 1] {
        demand(&two, &carts, Timestamp(moment), &by(moment)).await;
    }
    demand(&two, &collection("nothing"), NOW, &[]).await;
    demand(&two, other.collection(), NOW, std::slice::from_ref(&other)).await;
    // From behind a name that is not there, or there no more.
    let behind = two.due(&carts, NOW, Some(&key("a/")), 1000).await.expect("what is due behind a name");
    for expected in by(NOW.0).iter().filter(|due| **due > key("a/")) {
        assert!(behind.contains(expected), "due and not named: {expected}");
    }
    assert!(behind.iter().all(|named| *named > key("a/")), "named from behind a/: {behind:?}");
}

pub(super) async fn a_replace_moves_what_is_due_and_a_delete_takes_it_away(harness: Harness) {
    let (one, two, carts) = (harness.client().await, harness.client().await, collection("carts"));
    let (moved, gone, set) = (key("moved"), key("removed"), key("set"));
    let later = Timestamp(NOW.0 + 1_000_000);
    let v_moved = one.create(&moved, &due_at(1, Some(NOW.0))).await.expect("the create");
    let v_gone = one.create(&gone, &due_at(2, Some(NOW.0))).await.expect("the create");
    let v_set = one.create(&set, &due_at(3, None)).await.expect("the create");
    demand(&two, &carts, NOW, &[moved.clone(), gone.clone()]).await;

    let v_moved = two.replace(&moved, &v_moved, &due_at(1, Some(later.0))).await.expect("the replace");
    let v_set = two.replace(&set, &v_set, &due_at(3, Some(NOW.0))).await.expect("the replace");
    demand(&one, &carts, NOW, &[gone.clone(), set.clone()]).await;
    demand(&one, &carts, later, &[moved.clone(), gone.clone(), set.clone()]).await;

    one.delete(&gone, &v_gone).await.expect("the delete");
    one.replace(&set, &v_set, &due_at(4, None)).await.expect("the replace");
    demand(&two, &carts, later, std::slice::from_ref(&moved)).await;
    assert!(!named(&two, &carts, later, 2).await.contains(&gone), "what was deleted is named");
    one.replace(&moved, &v_moved, &due_at(5, Some(NOW.0))).await.expect("the replace");
    demand(&two, &carts, NOW, &[moved]).await;
}
