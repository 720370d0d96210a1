//! Which file, which tables, and what is kept.

use std::path::{Path, PathBuf};

use postrider_core::{Error, ErrorKind, Result};

use crate::History;

const LONGEST_PREFIX: usize = 48;

/// How to open an outbox in SQLite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqliteOptions {
    /// The database file.
    pub path: PathBuf,
    /// What the names of the tables begin with; `postrider_` by default.
    pub prefix: Prefix,
    /// Whether delivered messages are kept; off by default.
    pub history: History,
}

impl SqliteOptions {
    /// The options for a file, with every default.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), prefix: Prefix::default(), history: History::default() }
    }

    /// The options for a URL: `sqlite:///absolute/path.db`, or `sqlite:relative.db`.
    ///
    /// The path is taken as it stands, without decoding.
    ///
    /// # Errors
    /// `Config` when the URL has another scheme, no path, or parameters; a database in memory is refused because every
    /// connection would have one of its own.
    pub fn parse(url: &str) -> Result<Self> {
        let refuse = |why: &str| {
            Error::new(
                ErrorKind::Config,
                format!("the store's URL: {why}; expected sqlite:///absolute/path.db or sqlite:relative.db"),
            )
        };
        let rest = url.strip_prefix("sqlite:").ok_or_else(|| refuse("this is no SQLite URL"))?;
        let path = rest.strip_prefix("//").unwrap_or(rest);
        if path.is_empty() || path.ends_with('/') {
            return Err(refuse("there is no file name"));
        }
        if path.contains('?') {
            return Err(refuse("parameters are not known here"));
        }
        if path.contains(":memory:") {
            return Err(refuse("a database in memory cannot be shared with the application"));
        }
        Ok(Self::new(path))
    }

    /// The URL of these options, for messages to people.
    pub(super) fn url(&self) -> String {
        let separator = if self.path.is_absolute() { "//" } else { "" };
        format!("sqlite:{separator}{}", self.path.display())
    }

    pub(super) fn file(&self) -> &Path {
        &self.path
    }
}

/// What the names of the tables begin with: a lower-case letter, then lower-case letters, digits and `_`, at most 48.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(String);

impl Prefix {
    /// A prefix, such as `postrider_`.
    ///
    /// # Errors
    /// `Config` when it breaks the grammar.
    pub fn new(prefix: &str) -> Result<Self> {
        let first = prefix.starts_with(|c: char| c.is_ascii_lowercase());
        let rest = prefix.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        // SQLite keeps names that begin with sqlite_ for itself.
        if first && rest && prefix.len() <= LONGEST_PREFIX && !prefix.starts_with("sqlite_") {
            return Ok(Self(prefix.to_owned()));
        }
        let expected = "expected a lower-case letter, then at most 47 lower-case letters, digits and '_', not sqlite_";
        Err(Error::new(ErrorKind::Config, format!("the table prefix {prefix:?} is not valid: {expected}")))
    }

    /// A statement with this prefix in the place of `{p}`.
    pub(super) fn sql(&self, statement: &str) -> String {
        statement.replace("{p}", &self.0)
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self("postrider_".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_absolute_and_relative_files() {
        for (url, path) in [
            ("sqlite:///var/app.db", "/var/app.db"),
            ("sqlite:app.db", "app.db"),
            ("sqlite:/var/app.db", "/var/app.db"),
            ("sqlite://app.db", "app.db"),
            ("sqlite:///with space/ä.db", "/with space/ä.db"),
        ] {
            assert_eq!(SqliteOptions::parse(url).unwrap().path, Path::new(path), "{url}");
        }
    }

    #[test]
    fn other_urls_are_refused_with_what_is_expected() {
        for url in
            ["sqlite:", "sqlite://", "sqlite:///tmp/", "sqlite:a.db?mode=ro", "sqlite::memory:", "postgres://x/y"]
        {
            let error = SqliteOptions::parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains("sqlite:///absolute/path.db"), "{error}");
        }
    }

    #[test]
    fn a_prefix_is_an_identifier_and_nothing_else() {
        assert!(Prefix::new("app_outbox_").is_ok());
        for bad in ["", "1a", "A", "a\"", "a;drop", "a b", "sqlite_", &"a".repeat(49)] {
            assert!(Prefix::new(bad).is_err(), "{bad:?}");
        }
    }
}
