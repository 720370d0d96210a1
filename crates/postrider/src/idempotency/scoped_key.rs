//! The key of a request, within the caller and the operation that it belongs to.

use postrider_core::Invalid;
use postrider_stores::keys::KeyName;

use crate::inbox::{InboxError, name};

/// The longest key.
const LONGEST: usize = 255;
const SYNTAX: &str = "expected 1 to 255 printable ASCII characters that neither begin nor end with a space, bare or in double \
                      quotes, such as \"8e03978e-40d5-43e8-bc93-6894a57f9324\"";

/// A key as its sender chose it, within who sent it and what was asked for.
///
/// Two callers that choose the same key never meet, nor do two operations.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ScopedKey(KeyName);

impl ScopedKey {
    /// A key, as the header `Idempotency-Key` has it: a string in double quotes, or the same text without them.
    ///
    /// `caller` is who sent it, as the service knows them, such as a tenant's or a user's id: never something that another
    /// caller could send. `operation` is what was asked for, such as `POST /orders`. Each has 1 to 255 bytes.
    ///
    /// # Errors
    /// [`Invalid`](InboxError::Invalid) says what breaks which limit.
    pub fn new(caller: &str, operation: &str, key: &str) -> Result<Self, InboxError> {
        Scope::new(caller, operation)?.key(key)
    }

    /// The key, without quotes.
    pub fn key(&self) -> &str {
        &self.0.key
    }

    pub(super) fn name(&self) -> KeyName {
        self.0.clone()
    }
}

/// A caller and an operation, within which keys count.
#[derive(Debug)]
pub(super) struct Scope {
    caller: String,
    operation: String,
}

impl Scope {
    pub(super) fn new(caller: &str, operation: &str) -> Result<Self, InboxError> {
        Ok(Self { caller: name("the caller", caller)?, operation: name("the operation", operation)? })
    }

    /// The key that is sent as this text.
    pub(super) fn key(self, sent: &str) -> Result<ScopedKey, InboxError> {
        let Self { caller, operation } = self;
        Ok(ScopedKey(KeyName { caller, operation, key: unquoted(sent)? }))
    }
}

fn unquoted(sent: &str) -> Result<String, Invalid> {
    let sent = sent.trim_matches([' ', '\t']);
    let key = match sent.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"').and_then(unescaped),
        None => (!sent.contains(['"', '\\'])).then(|| sent.to_owned()),
    };
    key.filter(|key| is_key(key)).ok_or_else(|| Invalid::Grammar {
        what: "the idempotency key",
        found: sent.chars().take(60).collect(),
        expected: SYNTAX,
    })
}

/// What stands between the quotes of a structured field's string.
fn unescaped(quoted: &str) -> Option<String> {
    let mut text = String::with_capacity(quoted.len());
    let mut chars = quoted.chars();
    while let Some(next) = chars.next() {
        match next {
            '\\' => text.push(chars.next().filter(|escaped| matches!(escaped, '"' | '\\'))?),
            '"' => return None,
            other => text.push(other),
        }
    }
    Some(text)
}

/// Databases compare what ends with spaces each in its own way.
fn is_key(key: &str) -> bool {
    (1..=LONGEST).contains(&key.len()) && key.trim() == key && key.chars().all(|c| matches!(c, ' '..='~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(sent: &str) -> Option<String> {
        ScopedKey::new("alice", "POST /orders", sent).ok().map(|scoped| scoped.key().to_owned())
    }

    #[test]
    fn a_key_is_the_same_with_and_without_quotes() {
        for (sent, meant) in
            [("abc", "abc"), ("\"abc\"", "abc"), (" \"a b\" ", "a b"), (r#""a\"\\b""#, r#"a"\b"#), ("a;b=1", "a;b=1")]
        {
            assert_eq!(key(sent).as_deref(), Some(meant), "{sent}");
        }
        assert_eq!(key(&"k".repeat(255)).map(|key| key.len()), Some(255));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let long = "k".repeat(256);
        for bad in ["", "\"\"", "\"", "\"a", "a\"", "\"a\"b\"", r#""a\b""#, r#""a\""#, "ä", "a\nb", "\" a\"", &long] {
            assert_eq!(key(bad), None, "{bad:?}");
        }
        for (caller, operation) in [("", "POST /"), ("a", ""), ("a\n", "b"), (long.as_str(), "b")] {
            assert!(matches!(ScopedKey::new(caller, operation, "k"), Err(InboxError::Invalid(_))));
        }
    }
}
