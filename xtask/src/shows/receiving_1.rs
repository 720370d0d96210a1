//! The ways to receive, over each store.

use super::step::Step;
use super::{Show, ways};

pub const SHOW: Show = Show {
    name: "receiving.1",
    says: "each way to remember over each store: the cases that pass, every call of the store failing once; real servers, by \
           name",
    steps: &[
        Step::Cargo {
            does: "the suite that every store of documents passes",
            words: &["test", "--package", "postrider-documents", "--all-features", "--", "--nocapture"],
            prints: &["test result: ok"],
        },
        Step::Cargo {
            does: "processors over each store",
            words: &[
                "test",
                "--package",
                "postrider",
                "--all-features",
                "--test",
                "processor",
                "--",
                "--nocapture",
                "over_",
            ],
            prints: &[
                "processor over memory, InDocument: 5 cases passed",
                "processor over memory, KnownIds: 5 cases passed",
                "processor over memory, Tokens: 5 cases passed",
                "processor over SQLite, InDocument: 5 cases passed",
                "processor over SQLite, KnownIds: 5 cases passed",
                "processor over SQLite, Tokens: 5 cases passed",
                "processor over PostgreSQL, InDocument: 5 cases passed",
                "processor over PostgreSQL, KnownIds: 5 cases passed",
                "processor over PostgreSQL, Tokens: 5 cases passed",
                "processor over Redis, InDocument: 5 cases passed",
                "processor over Redis, KnownIds: 5 cases passed",
                "processor over Redis, Tokens: 5 cases passed",
                "processor over S3 (moto), InDocument: 5 cases passed",
                "processor over S3 (moto), KnownIds: 5 cases passed",
                "processor over S3 (moto), Tokens: 5 cases passed",
                "processor over DynamoDB (moto), InDocument: 5 cases passed",
                "processor over DynamoDB (moto), KnownIds: 5 cases passed",
                "processor over DynamoDB (moto), Tokens: 5 cases passed",
                "processor over Azure (azurite), InDocument: 5 cases passed",
                "processor over Azure (azurite), KnownIds: 5 cases passed",
                "processor over Azure (azurite), Tokens: 5 cases passed",
            ],
        },
        Step::Look {
            does: "inbox, cursor, tokens and keys of requests through every driver, on each database",
            look: ways::look,
        },
    ],
};
