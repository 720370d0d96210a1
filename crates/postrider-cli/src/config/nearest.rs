//! The nearest valid name to a wrong one.

/// The candidate with the fewest edits, if it is near enough to be meant.
pub(crate) fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&wrong, &candidate.to_ascii_lowercase()), candidate))
        .min_by_key(|(edits, _)| *edits)
        .filter(|(edits, candidate)| *edits <= (candidate.len().max(wrong.len()) / 3).max(2))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_mistakes_find_their_name() {
        let names = ["retry.max_attempts", "retry.maximum", "relay.lease", "log.level"];
        assert_eq!(nearest("retry.max_attempt", names), Some("retry.max_attempts"));
        assert_eq!(nearest("relay.laese", names), Some("relay.lease"));
        assert_eq!(nearest("log.lvl", names), Some("log.level"));
        assert_eq!(nearest("something.else.entirely", names), None);
    }
}
