//! Where the tables live: schema and prefix, strictly checked and always quoted.

use postrider_core::{Error, ErrorKind, Result};

/// The longest schema name: PostgreSQL's own limit.
const MAX_SCHEMA: usize = 63;
/// The longest prefix, so that the name of every index stays below PostgreSQL's limit.
const MAX_PREFIX: usize = 30;

/// The schema of an outbox's tables, and what their names begin with; `public` and `postrider_` by default.
///
/// Both match `[a-z_][a-z0-9_]*`; the schema has at most 63 characters, the prefix at most 30.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    schema: String,
    prefix: String,
}

impl Default for Names {
    fn default() -> Self {
        Self { schema: "public".to_owned(), prefix: "postrider_".to_owned() }
    }
}

impl Names {
    /// Names a schema and a prefix.
    ///
    /// # Errors
    /// `Config` when one of them breaks the grammar.
    pub fn new(schema: &str, prefix: &str) -> Result<Self> {
        identifier("schema", schema, MAX_SCHEMA)?;
        identifier("table prefix", prefix, MAX_PREFIX)?;
        Ok(Self { schema: schema.to_owned(), prefix: prefix.to_owned() })
    }

    /// The schema, unquoted.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The prefix, unquoted.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The qualified, quoted name of a table or function, such as `"public"."postrider_outbox"` for `outbox`.
    pub fn qualified(&self, name: &str) -> String {
        format!("\"{}\".\"{}{name}\"", self.schema, self.prefix)
    }

    /// A statement with its names in place: `{outbox}` becomes the qualified name, `{.outbox_xid}` the bare one, and
    /// `{schema}` the schema.
    pub(crate) fn fill(&self, sql: &str) -> String {
        let mut text = String::with_capacity(sql.len() * 2);
        let mut rest = sql;
        while let Some((before, after)) = rest.split_once('{') {
            text.push_str(before);
            let Some((name, tail)) = after.split_once('}') else {
                text.push('{');
                rest = after;
                continue;
            };
            match name.strip_prefix('.') {
                Some(bare) => text.push_str(&format!("\"{}{bare}\"", self.prefix)),
                None if name == "schema" => text.push_str(&format!("\"{}\"", self.schema)),
                None => text.push_str(&self.qualified(name)),
            }
            rest = tail;
        }
        text.push_str(rest);
        text
    }
}

fn identifier(what: &str, name: &str, longest: usize) -> Result<()> {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_lowercase() || c == '_');
    let others = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if first && others && name.len() <= longest {
        return Ok(());
    }
    let found: String = name.chars().take(80).collect();
    Err(Error::new(
        ErrorKind::Config,
        format!(
            "the {what} {found:?} is not valid: expected lower-case letters, digits and '_', not beginning with a digit, \
             at most {longest} characters"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_put_in_place() {
        let names = Names::new("app", "box_").unwrap();
        assert_eq!(
            names.fill("select from {outbox} o join {lane}; create index {.outbox_xid} on {schema}"),
            "select from \"app\".\"box_outbox\" o join \"app\".\"box_lane\"; create index \"box_outbox_xid\" on \"app\""
        );
    }

    #[test]
    fn names_that_could_end_a_quote_are_refused() {
        for bad in ["", "1a", "A", "a\"b", "a;b", "a b", "a-b", "ä", &"a".repeat(64)] {
            assert_eq!(Names::new(bad, "p").unwrap_err().kind(), ErrorKind::Config, "{bad:?}");
            assert!(Names::new("s", bad).is_err(), "{bad:?}");
        }
        assert!(Names::new("s", &"a".repeat(31)).is_err());
    }
}
