//! Values that must never be printed.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// A value that shows itself as `***` in logs, errors and `config show`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one call that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_shown_to_nobody_who_does_not_ask_for_it() {
        let secret = Secret::new("p w");
        assert_eq!(secret.reveal(), "p w");
        assert_eq!((format!("{secret:?}"), secret.to_string()), ("***".to_owned(), "***".to_owned()));
        assert_eq!(serde_json::to_string(&secret).unwrap(), r#""***""#);
    }
}
