//! JSON for `--json`.

use serde_json::Value;

use crate::failure::Outcome;

/// Prints a value over several lines.
pub(crate) fn print(value: &Value) -> Outcome<()> {
    super::print(&serde_json::to_string_pretty(value).unwrap_or_default())
}
