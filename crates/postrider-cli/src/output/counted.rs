//! Numbers of things in sentences.

/// So many of something: `1 message`, `2 messages`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The same with its verb: `1 message is`, `2 messages are`.
pub(crate) fn being(count: u64, noun: &str) -> String {
    format!("{} {}", counted(count, noun), if count == 1 { "is" } else { "are" })
}
