//! Names.

use std::collections::BTreeSet;

use postrider_core::DocumentKey;

use super::Harness;
use super::harness::{absent, collection, counted, key, loaded, number};

/// Names that a store could mistake for one another, or for something of its own.
fn unusual() -> BTreeSet<String> {
    let short = [
        " ",
        "  ",
        " a",
        "a ",
        "a",
        "aa",
        "A",
        "aA",
        ".",
        "..",
        "...",
        "a.",
        "/",
        "//",
        "a/",
        "/a",
        "a/b",
        "a//b",
        "a/../b",
        "./a",
        "%",
        "%2F",
        "%2f",
        "a%2Fb",
        "%25",
        "\\",
        "a\\b",
        "'",
        "\"",
        "''",
        "`",
        "?",
        "a?b=c",
        "#",
        "a#b",
        "&",
        "*",
        "a*",
        "[a]",
        "{a}",
        "{0}",
        "$1",
        "_",
        "a_",
        "-",
        "--",
        ";",
        ":",
        "a:b",
        "::",
        "|",
        "<a>",
        "@",
        "!",
        "+",
        "a+b",
        "=",
        "~",
        "^",
        ",",
        "null",
        "NULL",
        "true",
        "0",
        "00",
        "-1",
        "json",
        "CON",
        "nul.txt",
        "\u{e9}",
        "e\u{301}",
        "E\u{301}",
        "\u{c9}",
        "\u{df}",
        "ss",
        "I",
        "i",
        "\u{130}",
        "\u{131}",
        "\u{1f600}",
        "\u{2028}",
        "\u{feff}a",
        "a\u{200b}",
        "\u{fffd}",
        "\u{ff21}",
        "\u{10ffff}",
    ];
    let long =
        ["a".repeat(255), "a".repeat(254), "A".repeat(255), "/".repeat(255), "%".repeat(255), "\u{e9}".repeat(127)];
    short.into_iter().map(str::to_owned).chain(long).collect()
}

pub(super) async fn unusual_names_stay_apart(harness: Harness) {
    let (one, two) = (harness.client().await, harness.client().await);
    for (n, name) in unusual().iter().enumerate() {
        absent(&one, &key(name)).await;
        one.create(&key(name), &number(n)).await.unwrap_or_else(|error| panic!("the name {name:?}: {error:?}"));
    }
    for (n, name) in unusual().iter().enumerate() {
        let stored = loaded(&two, &key(name)).await;
        assert_eq!(counted(&stored), n, "the name {name:?}");
        if n % 2 == 0 {
            two.delete(&key(name), &stored.version)
                .await
                .unwrap_or_else(|error| panic!("the name {name:?}: {error:?}"));
        }
    }
    for (n, name) in unusual().iter().enumerate() {
        if n % 2 == 0 {
            absent(&one, &key(name)).await;
        } else {
            assert_eq!(counted(&loaded(&one, &key(name)).await), n, "the name {name:?}");
        }
    }
}

pub(super) async fn a_name_means_another_document_in_another_collection(harness: Harness) {
    let store = harness.client().await;
    // Joined by any of these marks, two of these keys would be one.
    let collections = ["a", "a-a", "a_a", "aa", "a-", "carts"];
    let names = ["a", "a-a", "a_a", "/a", "-a", "_a", ":a", "a/a"];
    let mut keys = Vec::new();
    for collection in collections.map(collection) {
        keys.extend(names.map(|name| DocumentKey::new(&collection, name).expect("it is legal")));
    }
    for (n, key) in keys.iter().enumerate() {
        absent(&store, key).await;
        store.create(key, &number(n)).await.unwrap_or_else(|error| panic!("{key}: {error:?}"));
    }
    for (n, key) in keys.iter().enumerate() {
        assert_eq!(counted(&loaded(&store, key).await), n, "{key}");
    }
}
