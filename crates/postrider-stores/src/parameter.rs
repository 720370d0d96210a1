//! Parameters of a database's URL.

/// What an error calls a parameter that this store does not know: by its name, so that whoever took the URL from another
/// program finds it, and only where it is a name. A password with a `?` in it goes on where the parameters begin.
pub(crate) fn called(pair: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    match pair.split_once('=') {
        Some((name, _)) if !name.is_empty() && name.chars().all(is_part) && !pair.contains('@') => {
            format!("the parameter {name:?}")
        }
        _ => "a parameter".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::called;

    #[test]
    fn a_parameter_is_named_and_what_may_be_half_a_password_is_not() {
        assert_eq!(called("statement-cache-capacity=0"), "the parameter \"statement-cache-capacity\"");
        for pair in ["word@localhost/shop", "word=x@localhost/shop", "schema", "=public", "a b=c", ""] {
            assert_eq!(called(pair), "a parameter", "{pair:?}");
        }
    }
}
