//! What a dead letter keeps of a header that a broker lets no message set.

/// The name under which a dead letter has such a header.
pub(crate) fn kept_as(name: &str) -> String {
    format!("dead-letter-{}", name.to_ascii_lowercase())
}
