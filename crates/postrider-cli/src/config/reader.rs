//! Typed access to layers.

use std::path::Path;
use std::time::Duration;

use postrider_core::Secret;

use super::layers::{Layers, Origin};
use super::values;
use crate::failure::{Failure, Outcome};

/// Typed access to layers whose values were checked when they were read.
pub(super) struct Reader<'a>(pub(super) &'a Layers);

impl Reader<'_> {
    pub(super) fn maybe(&self, path: &str) -> Option<String> {
        self.0.get(path)?.text()
    }

    /// A text that somebody set; none for the default.
    pub(super) fn chosen(&self, path: &str) -> Option<String> {
        self.0.get(path).filter(|setting| setting.origin != Origin::Default)?.text()
    }

    pub(super) fn text(&self, path: &str) -> String {
        self.maybe(path).unwrap_or_default()
    }

    /// A list of texts, where somebody set one.
    pub(super) fn texts(&self, path: &str) -> Option<Vec<String>> {
        self.0.get(path)?.texts()
    }

    pub(super) fn duration(&self, path: &str) -> Option<Duration> {
        values::duration(&self.maybe(path)?)
    }

    pub(super) fn count(&self, path: &str) -> Option<u64> {
        values::count(&self.maybe(path)?, 0, u64::MAX)
    }

    pub(super) fn refuse(&self, path: &str, what: &str, next: impl Into<String>) -> Failure {
        let origin = self.0.get(path).map(|setting| format!(" ({})", setting.origin)).unwrap_or_default();
        Failure::usage(format!("{path}{origin}: {what}"), next)
    }

    /// A secret: its own value, or all of the file that holds it but for the line breaks at its end, because a file may hold
    /// several.
    pub(super) fn secret(&self, path: &str) -> Outcome<Option<Secret>> {
        let file_path = format!("{path}_file");
        match (self.maybe(path), self.maybe(&file_path)) {
            (Some(_), Some(_)) => Err(self.refuse(
                path,
                "is set, and so is the file for it",
                format!("set {path} or {file_path}, not both"),
            )),
            (Some(value), None) => Ok(Some(Secret::new(value))),
            (None, Some(file)) => read_secret(Path::new(&file)).map(Some).map_err(|what| {
                self.refuse(&file_path, &what, "name a file that this user can read and that holds the secret alone")
            }),
            (None, None) => Ok(None),
        }
    }
}

fn read_secret(file: &Path) -> Result<Secret, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(format!("{} is empty", file.display())),
        secret => Ok(Secret::new(secret)),
    }
}
