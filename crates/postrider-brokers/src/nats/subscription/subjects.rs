//! Subjects with wildcards: `*` stands for one word, `>` at the end for at least one.

/// Whether this is something that a consumer can read: words joined by single dots, without blanks, `*` and `>` only as
/// whole words, `>` only as the last.
pub(super) fn is_filter(text: &str) -> bool {
    let words: Vec<&str> = text.split('.').collect();
    words.iter().enumerate().all(|(n, word)| match *word {
        "" => false,
        "*" => true,
        ">" => n + 1 == words.len(),
        word => !word.contains(['*', '>']) && !word.contains(|c: char| c.is_whitespace() || c.is_control()),
    })
}

/// Whether there is a subject that both stand for.
pub(super) fn meet(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (one.split('.'), other.split('.'));
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some(">"), Some(_)) | (Some(_), Some(">")) => return true,
            (Some(a), Some(b)) if a == b || a == "*" || b == "*" => {}
            _ => return false,
        }
    }
}

/// Whether everything that `inner` stands for is also what `outer` stands for.
pub(super) fn covers(outer: &str, inner: &str) -> bool {
    let (mut outer, mut inner) = (outer.split('.'), inner.split('.'));
    loop {
        match (outer.next(), inner.next()) {
            (None, None) => return true,
            (Some(">"), Some(_)) => return true,
            (Some("*"), Some(word)) if word != ">" => {}
            (Some(a), Some(b)) if a == b => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_are_whole_words() {
        for good in
            ["orders", "orders.placed", "orders.*", "*", ">", "orders.>", "*.placed", "$KV.carts.>", "a-b_c:d/e"]
        {
            assert!(is_filter(good), "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a..b", "a b", "a\tb", "a*", "a.>.b", "a.>b", "a\r\nSUB"] {
            assert!(!is_filter(bad), "{bad:?}");
        }
    }

    #[test]
    fn what_has_a_subject_in_common_meets() {
        for (one, other) in
            [("a.b", "a.b"), ("a.*", "a.b"), (">", "a"), ("a.>", "a.*.c"), ("*.b", "a.*"), ("a.>", "*.b")]
        {
            assert!(meet(one, other) && meet(other, one), "{one} {other}");
        }
        for (one, other) in [("a.b", "a.c"), ("a.>", "a"), ("a.*", "a.b.c"), ("*", "a.b")] {
            assert!(!meet(one, other) && !meet(other, one), "{one} {other}");
        }
    }

    #[test]
    fn what_is_covered_has_nothing_beyond() {
        for (outer, inner) in
            [(">", "a.>"), ("a.>", "a.*"), ("a.*", "a.b"), ("a.b", "a.b"), ("a.>", "a.>"), ("*.>", "a.>")]
        {
            assert!(covers(outer, inner), "{outer} {inner}");
        }
        for (outer, inner) in [("a.*", "a.>"), ("a.b", "a.*"), ("a.>", "a"), ("a", "a.b"), ("a.*.c", "a.>")] {
            assert!(!covers(outer, inner), "{outer} {inner}");
        }
    }
}
