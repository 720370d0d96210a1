//! Progress of long work: a bar on standard error, on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for so many steps; nothing is drawn when standard error is no terminal.
pub(crate) fn bar(steps: u64, doing: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} ({per_sec}, {eta} left)") {
        bar.set_style(style);
    }
    bar.set_message(doing);
    bar
}
