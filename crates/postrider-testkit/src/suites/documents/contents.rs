//! What a document may hold.

use postrider_core::{ErrorKind, WriteError};

use super::Harness;
use super::harness::{absent, draft, holds, key, loaded, number, value};

/// Values that are each the same in every text of JSON for them.
fn values() -> Vec<String> {
    let mut values: Vec<String> = [
        "{}",
        "[]",
        "null",
        "true",
        "false",
        "0",
        "\"\"",
        "\"text\"",
        "[[], {}, [[]], null]",
        "{\"\": 1, \" \": 2, \"a\": {\"a\": {\"a\": []}}}",
        "{\"z\": 1, \"a\": 2, \"B\": 3, \"\u{e9}\": 4, \"e\u{301}\": 5}",
        "[9007199254740993, 9223372036854775807, -9223372036854775808, 18446744073709551615]",
        "[0.1, -2.5, 1.5e-7, 1e21, 123456.789, 0.25]",
        "\"gr\u{fc}\u{df}e \u{2028} \u{1f600} \u{fffd}\"",
        "\"\\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u001f \\u00e9 \\ud83d\\ude00 \\u007f\"",
        "\"'; drop table postrider_document; -- %s %d $1 {0} ? :a\"",
        "  {\n\t\"white\" :\r\n \"space\" }  ",
    ]
    .map(str::to_owned)
    .into();
    values.push(format!("{}1{}", "[".repeat(60), "]".repeat(60)));
    values.push(format!("\"{}\"", "long \u{e9} ".repeat(12_000)));
    values
}

pub(super) async fn every_kind_of_value_comes_back(harness: Harness) {
    let (one, two) = (harness.client().await, harness.client().await);
    for (n, json) in values().into_iter().enumerate() {
        let (key, draft) = (key(&format!("{n}")), draft(json));
        let version = one.create(&key, &draft).await.unwrap_or_else(|error| panic!("value {n}: {error:?}"));
        holds(&two, &key, &draft, &version).await;
        // What was read can be written again, and is then still the same.
        let again = super::draft(loaded(&two, &key).await.json);
        let version = two.replace(&key, &version, &again).await.unwrap_or_else(|error| panic!("value {n}: {error:?}"));
        holds(&one, &key, &draft, &version).await;
    }
}

pub(super) async fn the_character_zero_is_kept_or_refused(harness: Harness) {
    let store = harness.client().await;
    for (n, json) in ["{\"text\": \"a\\u0000b\"}", "{\"a\\u0000b\": 1}"].into_iter().enumerate() {
        let (key, draft) = (key(&format!("{n}")), draft(json));
        match store.create(&key, &draft).await {
            Ok(version) => holds(&store, &key, &draft, &version).await,
            Err(WriteError::Failed(error)) if error.kind() == ErrorKind::Rejected => {
                assert!(error.to_string().contains("U+0000"), "what is wrong is not said: {error}");
                absent(&store, &key).await;
            }
            Err(other) => panic!("neither kept nor rejected: {other:?}"),
        }
    }
}

/// A text of JSON of so many bytes.
fn sized(bytes: u64) -> Vec<u8> {
    let mut json = vec![b'x'; usize::try_from(bytes).expect("the limit is a size")];
    let last = json.len() - 1;
    json[0] = b'"';
    json[last] = b'"';
    json
}

pub(super) async fn what_is_too_large_is_refused_and_not_stored(harness: Harness) {
    let (store, there, nowhere) = (harness.client().await, key("there"), key("nowhere"));
    let most = store.profile().limit.expect("the profile knows no limit: list the case as excluded");
    let refused = |written: Result<_, WriteError>| match written {
        Err(WriteError::TooLarge { limit, actual }) => assert_eq!((limit, actual > limit), (most, true)),
        other => panic!("expected it to be too large, found {other:?}"),
    };
    let small = number(1);
    let version = store.create(&there, &small).await.expect("the create");
    let large = draft(sized(most + 1));
    refused(store.create(&nowhere, &large).await);
    refused(store.replace(&there, &version, &large).await);
    absent(&store, &nowhere).await;
    holds(&store, &there, &small, &version).await;
}

pub(super) async fn a_document_of_the_largest_size_is_stored(harness: Harness) {
    let (store, key) = (harness.client().await, key("7"));
    let most = store.profile().limit.expect("the profile knows no limit: list the case as excluded");
    let largest = draft(sized(most));
    let version = store.create(&key, &largest).await.expect("a document of the largest size");
    let stored = loaded(&store, &key).await;
    assert!(value(&stored.json) == value(&largest.json) && stored.version == version, "it came back otherwise");
}
