//! Sizes and repetition.

use std::path::Path;

use super::Show;
use super::duplicates;
use super::step::{Scene, Seen, Step};
use crate::Result;
use crate::check::{LOOP_CAP, LOOP_FILE, SIZE_CAP};

pub const SHOW: Show = Show {
    name: "main.8",
    says: "the loop on one screen, no long file, no repeated block between stores without a reason",
    steps: &[
        Step::Look { does: "the loop", look: the_loop },
        Step::Look { does: "the ten longest files", look: longest },
        Step::Look { does: "blocks that stand in two store folders", look: duplicates::look },
        Step::Look { does: "every file that ARCHITECTURE.md names is there", look: architecture },
    ],
};

fn the_loop(scene: &Scene<'_>) -> Result<Seen> {
    if !scene.tree.root.join(LOOP_FILE).exists() {
        return Ok(Seen::not_built(LOOP_FILE));
    }
    let lines = scene.tree.lines(Path::new(LOOP_FILE))?;
    let said = format!("{LOOP_FILE}: {} lines, {LOOP_CAP} at most", lines.len());
    Ok(if lines.len() <= LOOP_CAP { Seen::well(said) } else { Seen::wrong(said) })
}

fn longest(scene: &Scene<'_>) -> Result<Seen> {
    let mut counts = crate::check::line_counts(scene.tree)?;
    counts.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
    let over = counts.iter().filter(|(_, lines)| *lines > SIZE_CAP).count();
    let mut said = String::new();
    for (file, lines) in counts.iter().take(10.max(over)) {
        said += &format!("{lines:>5}  {file}\n");
    }
    let median = counts.get(counts.len() / 2).map_or(0, |(_, lines)| *lines);
    said += &format!("{} files, median {median}, {over} over {SIZE_CAP}", counts.len());
    Ok(if over == 0 { Seen::well(said) } else { Seen::wrong(said) })
}

/// A reader who has only that page must find what it points at.
fn architecture(scene: &Scene<'_>) -> Result<Seen> {
    let (mut said, mut absent) = (String::new(), 0);
    for line in scene.tree.lines(Path::new("ARCHITECTURE.md"))? {
        for name in
            line.split('`').skip(1).step_by(2).filter(|name| name.starts_with("crates/") || name.starts_with("docs/"))
        {
            if name.contains(['*', '<', ' ']) {
                continue;
            }
            if !scene.tree.root.join(name).exists() {
                absent += 1;
                said += &format!("{name}: not there\n");
            }
        }
    }
    Ok(if absent == 0 { Seen::well("all there") } else { Seen::wrong(said) })
}
