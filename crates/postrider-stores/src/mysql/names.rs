//! Where the tables live: their prefix, strictly checked and always quoted.

use postrider_core::{Error, ErrorKind, Result};

/// The longest prefix, so that every name stays below the limit of 64 characters.
const MAX_PREFIX: usize = 40;

/// What the names of an outbox's tables begin with; `postrider_` by default. The database is that of the connection.
///
/// A prefix matches `[a-z_][a-z0-9_]*` and has at most 40 characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    prefix: String,
}

impl Default for Names {
    fn default() -> Self {
        Self { prefix: "postrider_".to_owned() }
    }
}

impl Names {
    /// Names a prefix.
    ///
    /// # Errors
    /// `Config` when it breaks the grammar.
    pub fn new(prefix: &str) -> Result<Self> {
        let first = prefix.chars().next().is_some_and(|c| c.is_ascii_lowercase() || c == '_');
        let others = prefix.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if first && others && prefix.len() <= MAX_PREFIX {
            return Ok(Self { prefix: prefix.to_owned() });
        }
        let found: String = prefix.chars().take(80).collect();
        let what = format!(
            "the table prefix {found:?} is not valid: expected lower-case letters, digits and '_', not beginning with a \
             digit, at most {MAX_PREFIX} characters"
        );
        Err(Error::new(ErrorKind::Config, what))
    }

    /// The prefix, unquoted.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The name of a table or procedure without quotes, such as `postrider_outbox` for `outbox`.
    pub(crate) fn bare(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A statement with its names in place: `{outbox}` becomes the quoted name.
    pub(crate) fn fill(&self, sql: &str) -> String {
        let mut text = String::with_capacity(sql.len() * 2);
        let mut rest = sql;
        while let Some((before, after)) = rest.split_once('{') {
            text.push_str(before);
            // Braces stand in patterns too, around numbers.
            let is_name = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            match after.split_once('}').filter(|(name, _)| is_name(name)) {
                Some((name, tail)) => {
                    text.push_str(&format!("`{}{name}`", self.prefix));
                    rest = tail;
                }
                None => {
                    text.push('{');
                    rest = after;
                }
            }
        }
        text.push_str(rest);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_put_in_place() {
        let names = Names::new("box_").unwrap();
        assert_eq!(names.fill("select 1 from {outbox} o, {lane}"), "select 1 from `box_outbox` o, `box_lane`");
        assert_eq!(names.fill("'^[0-9]{8}$' {"), "'^[0-9]{8}$' {");
    }

    #[test]
    fn names_that_could_end_a_quote_are_refused() {
        for bad in ["", "1a", "A", "a`b", "a;b", "a b", "a-b", "ä", "a.b", &"a".repeat(41)] {
            assert_eq!(Names::new(bad).unwrap_err().kind(), ErrorKind::Config, "{bad:?}");
        }
    }
}
