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
            does: "known ids and tokens over each store, asked directly",
            words: &["test", "--package", "postrider", "--all-features", "--lib", "--", "--nocapture", "over_"],
            prints: &[
                "known ids over memory: 11 cases passed, undisturbed and with 4 faults",
                "known ids over SQLite: 11 cases passed, undisturbed and with 4 faults",
                "known ids over PostgreSQL: 11 cases passed, undisturbed and with 4 faults",
                "known ids over Redis: 11 cases passed, undisturbed and with 4 faults",
                "known ids over S3 (moto): 11 cases passed, undisturbed and with 4 faults",
                "known ids over DynamoDB (moto): 11 cases passed, undisturbed and with 4 faults",
                "known ids over Azure (azurite): 11 cases passed, undisturbed and with 4 faults",
                "tokens over memory: 11 cases passed, undisturbed and with 4 faults",
                "tokens over SQLite: 11 cases passed, undisturbed and with 4 faults",
                "tokens over PostgreSQL: 11 cases passed, undisturbed and with 4 faults",
                "tokens over Redis: 11 cases passed, undisturbed and with 4 faults",
                "tokens over S3 (moto): 11 cases passed, undisturbed and with 4 faults",
                "tokens over DynamoDB (moto): 11 cases passed, undisturbed and with 4 faults",
                "tokens over Azure (azurite): 11 cases passed, undisturbed and with 4 faults",
            ],
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
                "processor over memory, InDocument: 9 cases passed",
                "processor over memory, KnownIds: 9 cases passed",
                "processor over memory, Tokens: 9 cases passed",
                "processor over SQLite, InDocument: 9 cases passed",
                "processor over SQLite, KnownIds: 9 cases passed",
                "processor over SQLite, Tokens: 9 cases passed",
                "processor over PostgreSQL, InDocument: 9 cases passed",
                "processor over PostgreSQL, KnownIds: 9 cases passed",
                "processor over PostgreSQL, Tokens: 9 cases passed",
                "processor over Redis, InDocument: 9 cases passed",
                "processor over Redis, KnownIds: 9 cases passed",
                "processor over Redis, Tokens: 9 cases passed",
                "processor over S3 (moto), InDocument: 9 cases passed",
                "processor over S3 (moto), KnownIds: 9 cases passed",
                "processor over S3 (moto), Tokens: 9 cases passed",
                "processor over DynamoDB (moto), InDocument: 9 cases passed",
                "processor over DynamoDB (moto), KnownIds: 9 cases passed",
                "processor over DynamoDB (moto), Tokens: 9 cases passed",
                "processor over Azure (azurite), InDocument: 9 cases passed",
                "processor over Azure (azurite), KnownIds: 9 cases passed",
                "processor over Azure (azurite), Tokens: 9 cases passed",
            ],
        },
        Step::Look {
            does: "inbox, cursor, tokens and keys of requests through every driver, on each database",
            look: ways::look,
        },
    ],
};
