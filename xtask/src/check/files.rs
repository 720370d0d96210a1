//! How long files are, and what they are called.

use std::path::Path;

use super::{Scene, Verdict, verdict};
use crate::Result;
use crate::tree::Tree;

/// Lines a Rust file may have.
pub const SIZE_CAP: usize = 600;
/// The relay's loop.
pub const LOOP_FILE: &str = "crates/postrider-relay/src/relay_loop.rs";
/// Lines the file of the relay's loop may have.
pub const LOOP_CAP: usize = 150;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 7] = ["util", "utils", "common", "helper", "helpers", "manager", "types"];

pub fn sizes(scene: &Scene<'_>) -> Result<Verdict> {
    let mut findings = Vec::new();
    let sizes = line_counts(scene.tree)?;
    for (file, lines) in sizes.iter().filter(|(_, lines)| *lines > SIZE_CAP) {
        findings.push(format!("{file}: {lines} lines, {SIZE_CAP} at most: give its second noun a file of its own"));
    }
    match sizes.iter().find(|(file, _)| file == LOOP_FILE) {
        Some((_, lines)) if *lines <= LOOP_CAP => {}
        Some((file, lines)) => findings.push(format!("{file}: {lines} lines, {LOOP_CAP} at most for the loop")),
        None => findings.push(format!("{LOOP_FILE}: the relay's loop is not there")),
    }
    let longest = sizes.iter().max_by_key(|(_, lines)| *lines);
    let longest = longest.map(|(file, lines)| format!("longest {file}: {lines}")).unwrap_or_default();
    Ok(verdict(&findings, format!("{} files, {longest}", sizes.len())))
}

/// Every Rust file with its number of lines.
pub fn line_counts(tree: &Tree) -> Result<Vec<(String, usize)>> {
    let mut counts = Vec::new();
    for file in tree.rust_files()? {
        let lines = tree.lines(&file)?.len();
        counts.push((file.to_string_lossy().into_owned(), lines));
    }
    Ok(counts)
}

pub fn names(scene: &Scene<'_>) -> Result<Verdict> {
    let mut findings = Vec::new();
    let files = scene.tree.rust_files()?;
    for file in &files {
        if let Some(name) = empty_name(file) {
            findings.push(format!("{}: {name:?} says nothing about what is inside", file.display()));
        }
        for (number, line) in scene.tree.lines(file)?.iter().enumerate() {
            let Some(name) = line.trim().split_once("mod ").and_then(|(_, rest)| rest.strip_suffix('{')) else {
                continue;
            };
            if EMPTY_NAMES.contains(&name.trim()) {
                findings.push(format!("{}:{}: mod {name}", file.display(), number + 1));
            }
        }
    }
    Ok(verdict(&findings, format!("{} files", files.len())))
}

fn empty_name(file: &Path) -> Option<String> {
    file.with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .find(|part| EMPTY_NAMES.contains(&part.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_meaning_is_found_as_file_and_as_folder() {
        assert_eq!(empty_name(Path::new("crates/a/src/util.rs")).as_deref(), Some("util"));
        assert_eq!(empty_name(Path::new("crates/a/src/common/mod.rs")).as_deref(), Some("common"));
        assert_eq!(empty_name(Path::new("crates/a/src/utility_room.rs")), None);
    }
}
