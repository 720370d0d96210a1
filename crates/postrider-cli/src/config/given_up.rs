//! What becomes of messages that are given up.

use postrider_core::{OnDead, TopicPattern};

use super::reader::Reader;
use super::routing::pattern;
use crate::failure::Outcome;

/// What applies to which topics; the last entry is for every topic.
pub(super) fn on_dead(read: &Reader<'_>) -> Outcome<Vec<(TopicPattern, OnDead)>> {
    let mut entries = Vec::new();
    for place in 0.. {
        let prefix = format!("retry.topic[{place}]");
        if !read.0.any_below(&format!("{prefix}.")) {
            break;
        }
        // The first entry that matches decides, also by what it leaves unsaid.
        let word = read.maybe(&format!("{prefix}.on_dead")).unwrap_or_else(|| read.text("retry.on_dead"));
        entries.push((pattern(read, &format!("{prefix}.pattern"), None)?, named(&word)));
    }
    entries.push((TopicPattern::every(), named(&read.text("retry.on_dead"))));
    Ok(entries)
}

/// The table of settings has refused every other word.
fn named(word: &str) -> OnDead {
    match word {
        "hold" => OnDead::Hold,
        _ => OnDead::Skip,
    }
}
