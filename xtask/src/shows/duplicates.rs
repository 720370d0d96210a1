//! Blocks of more than twelve lines that stand in two store folders: each needs a reason in `xtask/duplicates.toml`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::step::{Scene, Seen};
use crate::Result;

const STORES: &str = "crates/postrider-stores/src";
/// The shortest block that is listed.
const BLOCK: usize = 13;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Reasons {
    #[serde(default)]
    block: Vec<Reason>,
}

/// Why a block may stand twice.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    /// Two files, relative to the stores' source folder.
    files: [String; 2],
    reason: String,
}

/// A line that counts: blank ones and comments do not.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    number: usize,
    text: String,
}

/// The same lines in two files.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    first: usize,
    second: usize,
    lines: usize,
}

/// Lists the blocks.
pub fn look(scene: &Scene<'_>) -> Result<Seen> {
    let files = store_files(scene)?;
    let reasons = std::fs::read_to_string(scene.tree.root.join("xtask/duplicates.toml"))?;
    let reasons: Reasons = toml::from_str(&reasons).map_err(|error| format!("xtask/duplicates.toml: {error}"))?;
    let (mut said, mut unjustified, mut found) = (String::new(), 0, 0);
    for (at, (folder, one, lines)) in files.iter().enumerate() {
        for (_, other, others) in files[at + 1..].iter().filter(|(other, ..)| other != folder) {
            for block in common(lines, others) {
                found += 1;
                let fits = |reason: &&Reason| {
                    let names = [one.to_string_lossy(), other.to_string_lossy()];
                    names.iter().all(|name| reason.files.iter().any(|file| file == name))
                };
                let reason = reasons.block.iter().find(fits).map(|reason| reason.reason.as_str());
                unjustified += usize::from(reason.is_none());
                said += &format!(
                    "{} lines: {}:{} and {}:{}: {}\n",
                    block.lines,
                    one.display(),
                    block.first,
                    other.display(),
                    block.second,
                    reason.unwrap_or("NO REASON GIVEN")
                );
            }
        }
    }
    said += &format!("{} files, {found} blocks of {BLOCK} lines or more, {unjustified} without a reason", files.len());
    Ok(match (files.is_empty(), unjustified) {
        (true, _) => Seen::not_built("there is no store"),
        (false, 0) => Seen::well(said),
        _ => Seen::wrong(said),
    })
}

fn store_files(scene: &Scene<'_>) -> Result<Vec<(String, PathBuf, Vec<Line>)>> {
    let mut files = Vec::new();
    for file in scene.tree.files()? {
        let Ok(inside) = file.strip_prefix(STORES) else { continue };
        let code = inside.extension().is_some_and(|end| end == "rs" || end == "sql");
        let Some(folder) = inside.parent().and_then(|parent| parent.components().next()).filter(|_| code) else {
            continue;
        };
        let folder = folder.as_os_str().to_string_lossy().into_owned();
        files.push((folder, inside.to_owned(), meaningful(&scene.tree.lines(Path::new(&file))?)));
    }
    Ok(files)
}

fn meaningful(lines: &[String]) -> Vec<Line> {
    let lines = lines.iter().enumerate().map(|(at, line)| Line { number: at + 1, text: line.trim().to_owned() });
    lines.filter(|line| !line.text.is_empty() && !line.text.starts_with("//") && !line.text.starts_with("--")).collect()
}

/// The longest blocks that stand in both; each line of the first file is in one of them at most.
fn common(one: &[Line], other: &[Line]) -> Vec<Block> {
    let texts = |lines: &[Line]| lines.iter().map(|line| line.text.clone()).collect::<Vec<_>>();
    let mut starts: HashMap<Vec<String>, Vec<usize>> = HashMap::new();
    for (at, window) in other.windows(BLOCK).enumerate() {
        starts.entry(texts(window)).or_default().push(at);
    }
    let (mut blocks, mut at) = (Vec::new(), 0);
    while at + BLOCK <= one.len() {
        let length = |start: usize| one[at..].iter().zip(&other[start..]).take_while(|(a, b)| a.text == b.text).count();
        let same = starts.get(&texts(&one[at..at + BLOCK])).into_iter().flatten();
        match same.map(|start| (length(*start), *start)).max() {
            Some((lines, start)) => {
                blocks.push(Block { first: one[at].number, second: other[start].number, lines });
                at += lines;
            }
            None => at += 1,
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: impl IntoIterator<Item = String>) -> Vec<Line> {
        meaningful(&texts.into_iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_block_of_thirteen_is_found_at_full_length_and_one_of_twelve_is_not() {
        let numbered = |count: usize| (0..count).map(|n| format!("line {n};"));
        let other = lines(["other();".to_owned(), String::new()].into_iter().chain(numbered(20)));
        assert_eq!(common(&lines(numbered(12)), &other), []);
        let found = common(&lines(numbered(15).chain(["end".to_owned()])), &other);
        assert_eq!(found, [Block { first: 1, second: 3, lines: 15 }]);
    }
}
