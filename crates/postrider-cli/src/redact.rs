//! Keeping secrets out of everything that is printed or logged.
//!
//! Two defences: addresses lose their passwords before they are shown, and every line that leaves the process is
//! searched for the secrets it was started with. One that is an ordinary word is masked only where it stands as a secret
//! ([`ordinary`]).

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::ordinary;

/// What stands in place of a secret.
pub(crate) const MASK: &str = "***";

/// Parameters of an address whose values are secrets.
const SECRET_PARAMETERS: [&str; 10] =
    ["password", "passwd", "pass", "token", "secret", "key", "sslpassword", "signing_secret", "auth", "credentials"];

/// A secret of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    secret: String,
    ordinary: bool,
}

static KNOWN: OnceLock<Vec<Known>> = OnceLock::new();

/// Makes the secrets of this process known, once, before anything is connected, beside the names of what is no secret.
pub(crate) fn remember(secrets: impl IntoIterator<Item = String>, names: &BTreeSet<String>) {
    let _ = KNOWN.set(known(secrets, names));
}

/// The longest first, so that none leaves the rest of a longer one.
fn known(secrets: impl IntoIterator<Item = String>, names: &BTreeSet<String>) -> Vec<Known> {
    let mut secrets: Vec<String> = secrets.into_iter().filter(|secret| !secret.is_empty()).collect();
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.dedup();
    let known = |secret: String| Known { ordinary: ordinary::is(&secret, names), secret };
    secrets.into_iter().map(known).collect()
}

/// The text without any secret of this process.
pub(crate) fn scrub(text: &str) -> String {
    match KNOWN.get() {
        Some(known) => scrub_of(known, text),
        None => text.to_owned(),
    }
}

fn scrub_of(known: &[Known], text: &str) -> String {
    known.iter().fold(text.to_owned(), |text, known| match known.ordinary {
        true => ordinary::masked(&text, &known.secret),
        false => text.replace(known.secret.as_str(), MASK),
    })
}

/// Whether the value of a parameter, setting or header of this name is a secret, whatever the case of its letters.
pub(crate) fn secret_name(name: &str) -> bool {
    SECRET_PARAMETERS.iter().any(|known| known.eq_ignore_ascii_case(name)) || secret_option(name)
}

/// An address without its password and without the values of secret parameters.
///
/// What does not look like an address is searched for `password=` all the same (`host=db password=x`).
pub(crate) fn address(text: &str) -> String {
    let mut shown = match authority(text) {
        Some((start, end)) => match text[start..end].split_once(':') {
            Some((user, _)) => format!("{}{user}:{MASK}{}", &text[..start], &text[end..]),
            None if !names_users(text) => format!("{}{MASK}{}", &text[..start], &text[end..]),
            None => text.to_owned(),
        },
        None => text.to_owned(),
    };
    for value in secret_values(text) {
        if !value.is_empty() {
            shown = shown.replace(&format!("={value}"), &format!("={MASK}"));
        }
    }
    shown
}

/// The secrets inside an address: as written, and percent-decoded.
pub(crate) fn secrets_of(text: &str) -> Vec<String> {
    let mut secrets: Vec<String> = secret_values(text).into_iter().map(str::to_owned).collect();
    if let Some((start, end)) = authority(text) {
        // Several servers, each with credentials of its own, are joined by commas.
        for credentials in std::iter::once(&text[start..end]).chain(text[start..end].split(',')) {
            match credentials.rsplit_once('@').map_or(credentials, |(first, _)| first).split_once(':') {
                Some((_, password)) => secrets.push(password.to_owned()),
                None if !names_users(text) => secrets.push(credentials.to_owned()),
                None => {}
            }
        }
        secrets.extend(text[start..end].split_once(':').map(|(_, password)| password.to_owned()));
    }
    // A creds file in a query has many lines, and each may stand alone in a message.
    let decoded: String = secrets.iter().map(|secret| percent_decoded(secret) + "\n").collect();
    secrets.extend(decoded.lines().map(str::to_owned));
    secrets.sort();
    secrets.dedup();
    secrets
}

/// Whether an option of a broker holds a secret, by its name; a name that ends in `_file` holds a path.
pub(crate) fn secret_option(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    !name.ends_with("_file")
        && !name.ends_with("_env")
        && [
            "password",
            "token",
            "secret",
            "credential",
            "creds",
            "signing",
            "api_key",
            "nkey",
            "seed",
            "authorization",
            "headers",
        ]
        .iter()
        .any(|part| name.contains(part))
}

/// Whether what stands alone before the `@` is a user; elsewhere (NATS) it is a token.
pub(crate) fn names_users(text: &str) -> bool {
    text.starts_with("postgres")
}

/// Where `user:password` stands, in bytes; the last `@` ends it, because people forget to encode theirs.
fn authority(text: &str) -> Option<(usize, usize)> {
    let Some(start) = text.find("://").map(|scheme| scheme + 3) else { return without_a_scheme(text) };
    let end = start + text[start..].find('?').unwrap_or(text.len() - start);
    let at = text[start..end].rfind('@')?;
    Some((start, start + at))
}

/// The same in an address whose scheme was forgotten, which may stand in a sentence: the word before the `@`, if it has a
/// colon in it and names no path.
fn without_a_scheme(text: &str) -> Option<(usize, usize)> {
    let at = text.rfind('@')?;
    let start = text[..at].rfind([' ', '\'', '"', '`', '=', '\n']).map_or(0, |before| before + 1);
    let word = &text[start..at];
    (word.contains(':') && !word.starts_with("file:") && !word.starts_with("sqlite:")).then_some((start, at))
}

fn secret_values(text: &str) -> Vec<&str> {
    text.split(['?', '&', ' '])
        .filter_map(|part| part.split_once('='))
        .filter(|(name, _)| secret_name(&percent_decoded(name.trim())))
        .map(|(_, value)| value)
        .collect()
}

/// A text of an address without its escapes; what is no UTF-8 then is replaced.
pub(crate) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match (first, hex.and_then(|pair| u8::from_str_radix(pair, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_leave_addresses() {
        for (from, to) in [
            ("postgres://u:s3cret@db/app", "postgres://u:***@db/app"),
            ("postgres://u:p@ss:w@db/app", "postgres://u:***@db/app"),
            ("postgres://u@db/app?password=s3cret&sslmode=require", "postgres://u@db/app?password=***&sslmode=require"),
            ("nats://:t0ken@host:4222", "nats://:***@host:4222"),
            ("nats://t0ken@host:4222", "nats://***@host:4222"),
            ("nats://a:s3cret@host1,b:s3cret2@host2", "nats://a:***@host2"),
            ("postgres://u@db/app", "postgres://u@db/app"),
            ("host=db user=u password=s3cret", "host=db user=u password=***"),
            ("nats://host:4222?nkey_seed=SUs3cret&stream=a", "nats://host:4222?nkey_seed=***&stream=a"),
            ("nats://host:4222?NKey%5fSeed=SUs3cret", "nats://host:4222?NKey%5fSeed=***"),
            ("nats://host:4222?CREDS=a%0As3cret&token_file=/run/t", "nats://host:4222?CREDS=***&token_file=/run/t"),
            ("kafka://host:9092?user=u&client_key_password=s3cret", "kafka://host:9092?user=u&client_key_password=***"),
            ("https://host/?Signing_Secret=s3cret#top", "https://host/?Signing_Secret=***"),
            ("sqlite:app.db", "sqlite:app.db"),
            ("nats://host:4222", "nats://host:4222"),
            ("u:s3cret@host:4222", "u:***@host:4222"),
            ("error: 'nats:u:s3cret@host' is not expected", "error: 'nats:***@host' is not expected"),
            ("the key 'me@home' is held", "the key 'me@home' is held"),
            ("file:/var/a:b@c.jsonl", "file:/var/a:b@c.jsonl"),
        ] {
            assert_eq!(address(from), to);
        }
    }

    #[test]
    fn every_server_of_a_list_keeps_its_secret() {
        let secrets = secrets_of("nats://a:s3cret@host1,b:other@host2");
        assert!(["s3cret", "other"].iter().all(|secret| secrets.iter().any(|known| known == secret)), "{secrets:?}");
    }

    #[test]
    fn an_encoded_password_is_known_in_both_forms() {
        assert_eq!(secrets_of("postgres://u:p%40ss@db/app"), ["p%40ss", "p@ss"]);
        let known = known(secrets_of("postgres://u:p%40ss@db"), &BTreeSet::new());
        assert_eq!(scrub_of(&known, "login with p@ss failed"), "login with *** failed");
    }

    #[test]
    fn each_line_of_a_secret_in_a_query_is_known_by_itself() {
        let known = known(secrets_of("nats://host?creds=---%0As3cret-jwt%0D%0A---%0ASUs3cret%0A"), &BTreeSet::new());
        assert_eq!(scrub_of(&known, "signed with SUs3cret, for s3cret-jwt"), "signed with ***, for ***");
    }

    #[test]
    fn a_secret_that_is_an_ordinary_word_leaves_the_words_of_messages() {
        let address = "postgres://postgres:postgres@localhost/shop";
        let names = ordinary::names_of(address).collect();
        let known = known(secrets_of(address).into_iter().chain(["x7-of-the-broker".to_owned()]), &names);
        for (text, shown) in [
            ("password authentication failed for user \"postgres\"", None),
            ("the PostgreSQL store postgres at localhost", None),
            ("postgres://postgres:postgres@localhost/shop", Some("postgres://postgres:***@localhost/shop")),
            ("refused x7-of-the-broker", Some("refused ***")),
        ] {
            assert_eq!(scrub_of(&known, text), shown.unwrap_or(text));
        }
    }
}
