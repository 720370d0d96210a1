//! Keeping secrets out of everything that is printed or logged.
//!
//! Two defences: addresses lose their passwords before they are shown, and every line that leaves the process is
//! searched for the secrets it was started with.

use std::sync::OnceLock;

/// What stands in place of a secret.
pub(crate) const MASK: &str = "***";

/// Shorter ones are not searched for: they would blank half of every line.
const SHORTEST: usize = 4;

/// Parameters of an address whose values are secrets.
const SECRET_PARAMETERS: [&str; 10] =
    ["password", "passwd", "pass", "token", "secret", "key", "sslpassword", "signing_secret", "auth", "credentials"];

static KNOWN: OnceLock<Vec<String>> = OnceLock::new();

/// Makes the secrets of this process known, once, before anything is connected.
pub(crate) fn remember(secrets: impl IntoIterator<Item = String>) {
    let mut known: Vec<String> = secrets.into_iter().filter(|secret| secret.len() >= SHORTEST).collect();
    known.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    known.dedup();
    let _ = KNOWN.set(known);
}

/// The text without any secret of this process.
pub(crate) fn scrub(text: &str) -> String {
    match KNOWN.get() {
        Some(known) => scrub_of(known, text),
        None => text.to_owned(),
    }
}

fn scrub_of(known: &[String], text: &str) -> String {
    known.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), MASK))
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
    let decoded: Vec<String> = secrets.iter().map(|secret| percent_decoded(secret)).collect();
    secrets.extend(decoded);
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
fn names_users(text: &str) -> bool {
    text.starts_with("postgres")
}

/// Where `user:password` stands, in bytes; the last `@` ends it, because people forget to encode theirs.
fn authority(text: &str) -> Option<(usize, usize)> {
    let start = text.find("://")? + 3;
    let end = start + text[start..].find('?').unwrap_or(text.len() - start);
    let at = text[start..end].rfind('@')?;
    Some((start, start + at))
}

fn secret_values(text: &str) -> Vec<&str> {
    text.split(['?', '&', ' '])
        .filter_map(|part| part.split_once('='))
        .filter(|(name, _)| SECRET_PARAMETERS.contains(&name.trim().to_ascii_lowercase().as_str()))
        .map(|(_, value)| value)
        .collect()
}

fn percent_decoded(text: &str) -> String {
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
            ("sqlite:app.db", "sqlite:app.db"),
            ("nats://host:4222", "nats://host:4222"),
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
        assert_eq!(scrub_of(&secrets_of("postgres://u:p%40ss@db"), "login with p@ss failed"), "login with *** failed");
    }
}
