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
    let credentials = authority(text).and_then(|(start, end)| text[start..end].split_once(':'));
    secrets.extend(credentials.map(|(_, password)| password.to_owned()));
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
            ("host=db user=u password=s3cret", "host=db user=u password=***"),
            ("sqlite:app.db", "sqlite:app.db"),
            ("nats://host:4222", "nats://host:4222"),
        ] {
            assert_eq!(address(from), to);
        }
    }

    #[test]
    fn an_encoded_password_is_known_in_both_forms() {
        assert_eq!(secrets_of("postgres://u:p%40ss@db/app"), ["p%40ss", "p@ss"]);
        assert_eq!(scrub_of(&secrets_of("postgres://u:p%40ss@db"), "login with p@ss failed"), "login with *** failed");
    }
}
