//! Secrets that are ordinary words: a password `postgres` must not blank every message about PostgreSQL.
//!
//! Such a secret is masked where it stands as a secret, and spared where the same word means something else.

use std::collections::BTreeSet;

use crate::redact::{self, MASK};

/// Shorter ones stand in the middle of other words.
const SHORTEST: usize = 4;

/// Words of the product's own text that people take for passwords, in lower case.
const WORDS: [&str; 49] = [
    "admin",
    "broker",
    "config",
    "data",
    "database",
    "dead",
    "default",
    "delivered",
    "destination",
    "error",
    "failed",
    "file",
    "headers",
    "host",
    "http",
    "idle",
    "inbox",
    "info",
    "lane",
    "lanes",
    "localhost",
    "login",
    "memory",
    "message",
    "messages",
    "nats",
    "next",
    "outbox",
    "password",
    "pending",
    "postgres",
    "postgresql",
    "postrider",
    "public",
    "relay",
    "route",
    "secret",
    "server",
    "sqlite",
    "status",
    "stdout",
    "store",
    "stream",
    "table",
    "tables",
    "token",
    "topic",
    "user",
    "wrong",
];

/// What stands directly before a secret without a sign between.
const SCHEMES: [&str; 2] = ["bearer", "basic"];

/// Whether a secret is masked only where it stands as one: it is too short to be told from parts of other words, is a
/// word of the product's own text, or is also the name of something that is no secret.
pub(crate) fn is(secret: &str, names: &BTreeSet<String>) -> bool {
    let word = secret.to_ascii_lowercase();
    secret.len() < SHORTEST || WORDS.contains(&word.as_str()) || names.contains(&word)
}

/// The words of an address that are no secrets, in lower case: its user, its host, its database.
pub(crate) fn names_of(address: &str) -> impl Iterator<Item = String> {
    let shown = redact::address(address);
    let shown = shown.split(['?', '#']).next().unwrap_or_default();
    let words = shown.split(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_'));
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().into_iter()
}

/// The text without this secret where it stands as one: between `:` and `@` of an address, alone before the `@` where no
/// user stands there, as the value of a setting, parameter or header whose name says so, and behind `Bearer`.
pub(crate) fn masked(text: &str, secret: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = 0;
    for (at, _) in text.match_indices(secret) {
        if at >= rest && stands_as_secret(&text[..at], &text[at + secret.len()..]) {
            shown.push_str(&text[rest..at]);
            shown.push_str(MASK);
            rest = at + secret.len();
        }
    }
    shown.push_str(&text[rest..]);
    shown
}

fn stands_as_secret(before: &str, after: &str) -> bool {
    if after.starts_with('@') {
        let scheme = before.strip_suffix("://");
        return scheme.map_or(before.ends_with([':', ',']), |scheme| !redact::names_users(last_word(scheme)));
    }
    let sign = |c: char| matches!(c, '=' | ':');
    let name = before.trim_end_matches(|c: char| sign(c) || matches!(c, '"' | '\'' | '\\' | ' '));
    let word = last_word(name).to_ascii_lowercase().replace('-', "_");
    let between = &before[name.len()..];
    if between.contains(sign) { redact::secret_name(&word) } else { between == " " && SCHEMES.contains(&word.as_str()) }
}

fn last_word(text: &str) -> &str {
    text.rsplit(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_')).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_secret_is_masked_where_it_stands_as_one_and_nowhere_else() {
        for (text, shown) in [
            ("postgres://postgres:postgres@postgres/postgres", "postgres://postgres:***@postgres/postgres"),
            ("postgres://postgres@db/postgres", "postgres://postgres@db/postgres"),
            ("nats://postgres@db", "nats://***@db"),
            ("nats://a:b@h1,postgres@h2", "nats://a:b@h1,***@h2"),
            ("X-Api-Key: postgres", "X-Api-Key: ***"),
            (
                "host=db user=postgres password=postgres dbname=postgres",
                "host=db user=postgres password=*** dbname=postgres",
            ),
            ("postgres://u@db/postgres?password=postgres&x=1", "postgres://u@db/postgres?password=***&x=1"),
            (
                "{\"user\":\"postgres\",\"store_password\":\"postgres\"}",
                "{\"user\":\"postgres\",\"store_password\":\"***\"}",
            ),
            ("store_password = 'postgres'", "store_password = '***'"),
            ("authorization: postgres", "authorization: ***"),
            ("Authorization: Bearer postgres", "Authorization: Bearer ***"),
            (
                "password authentication failed for user \"postgres\"",
                "password authentication failed for user \"postgres\"",
            ),
            ("a user of PostgreSQL (postgres): postgres", "a user of PostgreSQL (postgres): postgres"),
        ] {
            assert_eq!(masked(text, "postgres"), shown);
        }
    }

    #[test]
    fn words_of_the_product_and_names_of_the_address_are_ordinary_and_nothing_else_is() {
        let names: BTreeSet<String> = names_of("postgres://ann:s3cret-word@db.example.com/shop").collect();
        for word in ["Postgres", "password", "wrong", "ann", "shop", "example", "abc"] {
            assert!(is(word, &names), "{word}");
        }
        for secret in ["s3cret-word", "canary", "hunter2", "postgres1", "correct horse"] {
            assert!(!is(secret, &names), "{secret}");
        }
    }
}
