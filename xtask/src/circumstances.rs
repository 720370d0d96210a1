//! What a figure is worth nothing without: the commit and the machine.

use crate::Result;
use crate::tree::Tree;

/// The short name of HEAD, and whether the product differs from it.
pub fn commit(tree: &Tree) -> Result<String> {
    let changed = if is_changed(tree)? { " with changes" } else { "" };
    Ok(format!("{}{changed}", head(tree)?))
}

/// The same with the day of the commit, as the begin of a sentence.
pub fn dated(tree: &Tree) -> Result<String> {
    let day = tree.git(&["log", "-1", "--format=%cs"])?;
    let changed = if is_changed(tree)? { ", with changes" } else { "" };
    Ok(format!("Commit {} of {day}{changed}", head(tree)?))
}

/// Cores, memory and kernel.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or("unknown").trim().to_owned();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cores} cores, {memory} of memory, Linux {}", kernel.trim())
}

fn head(tree: &Tree) -> Result<String> {
    tree.git(&["rev-parse", "--short=12", "HEAD"])
}

/// Reports that were kept a moment ago are changes too, but not of the product.
fn is_changed(tree: &Tree) -> Result<bool> {
    Ok(!tree.git(&["status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs"])?.is_empty())
}
