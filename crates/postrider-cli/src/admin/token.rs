//! Who may ask: a token, compared without telling by the time taken how much of it was right.

use axum::http::{HeaderMap, header};
use postrider_core::Secret;

/// Whether the headers carry the token, where one is asked for.
pub(super) fn permits(token: Option<&Secret>, headers: &HeaderMap) -> bool {
    let Some(token) = token else { return true };
    let presented = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let presented = presented.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    same(token.reveal().as_bytes(), presented.as_bytes())
}

/// Looks at every byte of what was presented, whatever the first ones are.
fn same(expected: &[u8], presented: &[u8]) -> bool {
    let mut difference = u8::from(expected.len() != presented.len() || expected.is_empty());
    for (place, byte) in presented.iter().enumerate() {
        difference |= byte ^ expected.get(place % expected.len().max(1)).copied().unwrap_or(0);
    }
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        headers
    }

    #[test]
    fn only_the_token_itself_opens() {
        let token = Secret::new("s3cret");
        assert!(permits(Some(&token), &with("Bearer s3cret")));
        for wrong in [
            "Bearer s3cre",
            "Bearer s3crets",
            "Bearer s3crett",
            "s3cret",
            "Basic s3cret",
            "Bearer ",
            "Bearer s3crets3cret",
        ] {
            assert!(!permits(Some(&token), &with(wrong)), "{wrong}");
        }
        assert!(!permits(Some(&token), &HeaderMap::new()));
        assert!(!permits(Some(&Secret::new("")), &with("Bearer ")));
        assert!(permits(None, &HeaderMap::new()));
    }
}
