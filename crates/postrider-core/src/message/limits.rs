//! What a message may be, checked when it is enqueued, so that a broker's limits surface in the application.

use thiserror::Error;

use super::{Message, TOKEN_HEADER};

/// Bytes of a payload: 64 MiB. A broker's own limit is usually lower and is checked by the relay.
pub const MAX_PAYLOAD: usize = 64 << 20;
/// Bytes of a topic: 255.
pub const MAX_TOPIC: usize = 255;
/// Bytes of a key: 512.
pub const MAX_KEY: usize = 512;
/// Bytes of a content type: 255.
pub const MAX_CONTENT_TYPE: usize = 255;
/// Headers of a message: 64.
pub const MAX_HEADERS: usize = 64;
/// Bytes of a header's name: 128.
pub const MAX_HEADER_NAME: usize = 128;
/// Bytes of a header's value: 8 KiB.
pub const MAX_HEADER_VALUE: usize = 8 << 10;
/// Attributes of a message: 32.
pub const MAX_ATTRIBUTES: usize = 32;

/// A message that may not be enqueued, with what was found and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Invalid {
    /// Something is longer than allowed.
    #[error("{what} is {found} bytes long; at most {allowed} are allowed")]
    TooLong {
        /// What is too long.
        what: String,
        /// Its length in bytes.
        found: usize,
        /// The longest allowed.
        allowed: usize,
    },
    /// There are more of something than allowed.
    #[error("the message has {found} {what}; at most {allowed} are allowed")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// The most allowed.
        allowed: usize,
    },
    /// A text breaks its grammar.
    #[error("{what} {found:?} is not valid: {expected}")]
    Grammar {
        /// What is wrong.
        what: &'static str,
        /// The text found, shortened.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
}

const TOPIC_GRAMMAR: &str =
    "expected words of letters, digits, '_', '-', ':' or '/' joined by single dots, such as orders.placed";
const KEY_GRAMMAR: &str = "expected text without NUL, carriage return, line feed or other control characters";
const KEY_LENGTH: &str = "expected 1 to 512 bytes; a message without a key has no order";
const NAME_GRAMMAR: &str = "expected letters, digits and the characters ! # $ % & ' * + - . ^ _ ` | ~ (an HTTP token)";
const VALUE_GRAMMAR: &str = "expected text without NUL, carriage return, line feed or other control characters";
const RESERVED: &str =
    "expected postrider-token, or a name that does not begin with postrider-, which the relay uses itself";
const ATTRIBUTE_GRAMMAR: &str =
    "expected prefix.name of lower-case letters, digits, '_' and '-', such as kafka.partition";

pub(super) fn validate(message: &Message) -> Result<(), Invalid> {
    length("payload", message.payload.len(), MAX_PAYLOAD)?;
    topic(message.topic.as_str())?;
    if let Some(key) = &message.key {
        length("key", key.as_str().len(), MAX_KEY)?;
        grammar("key", key.as_str(), KEY_LENGTH, |text| !text.is_empty())?;
        grammar("key", key.as_str(), KEY_GRAMMAR, printable)?;
    }
    if let Some(content_type) = &message.content_type {
        length("content type", content_type.len(), MAX_CONTENT_TYPE)?;
        grammar("content type", content_type, "expected a media type such as application/json", |text| {
            text.contains('/') && text.is_ascii() && printable(text)
        })?;
    }
    many("headers", message.headers.len(), MAX_HEADERS)?;
    for (name, value) in message.headers.iter() {
        length("header name", name.len(), MAX_HEADER_NAME)?;
        grammar("header name", name, NAME_GRAMMAR, token)?;
        grammar("header name", name, RESERVED, |text| text == TOKEN_HEADER || !is_reserved(text))?;
        length(&format!("value of header {name:?}"), value.len(), MAX_HEADER_VALUE)?;
        grammar("header value", value, VALUE_GRAMMAR, printable)?;
    }
    many("attributes", message.attributes.len(), MAX_ATTRIBUTES)?;
    for (name, value) in message.attributes.iter() {
        length("attribute name", name.len(), MAX_HEADER_NAME)?;
        grammar("attribute name", name, ATTRIBUTE_GRAMMAR, attribute)?;
        length(&format!("value of attribute {name:?}"), value.len(), MAX_HEADER_VALUE)?;
        grammar("attribute value", value, VALUE_GRAMMAR, printable)?;
    }
    Ok(())
}

fn topic(topic: &str) -> Result<(), Invalid> {
    length("topic", topic.len(), MAX_TOPIC)?;
    grammar("topic", topic, TOPIC_GRAMMAR, |text| {
        let of_a_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b':' | b'/');
        text.as_bytes().split(|b| *b == b'.').all(|word| !word.is_empty() && word.iter().all(of_a_word))
    })
}

fn is_reserved(text: &str) -> bool {
    text.to_ascii_lowercase().starts_with("postrider-")
}

fn token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

fn attribute(text: &str) -> bool {
    let word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-'))
    };
    text.split_once('.').is_some_and(|(prefix, name)| word(prefix) && name.split('.').all(word))
}

fn printable(text: &str) -> bool {
    let is_plain = text.bytes().all(|b| matches!(b, b' '..=b'~'));
    is_plain || !text.chars().any(|c| c.is_control() && c != '\t')
}

fn length(what: &str, found: usize, allowed: usize) -> Result<(), Invalid> {
    if found > allowed { Err(Invalid::TooLong { what: what.to_owned(), found, allowed }) } else { Ok(()) }
}

fn many(what: &'static str, found: usize, allowed: usize) -> Result<(), Invalid> {
    if found > allowed { Err(Invalid::TooMany { what, found, allowed }) } else { Ok(()) }
}

fn grammar(
    what: &'static str,
    text: &str,
    expected: &'static str,
    holds: impl Fn(&str) -> bool,
) -> Result<(), Invalid> {
    if holds(text) { Ok(()) } else { Err(Invalid::Grammar { what, found: text.chars().take(60).collect(), expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid() -> Message {
        Message::new("orders.placed", "x").key("k").header("tenant", "blue").attribute("kafka.partition", "3")
    }

    #[test]
    fn an_ordinary_message_is_valid() {
        assert_eq!(valid().validate(), Ok(()));
    }

    #[test]
    fn one_byte_over_each_limit_is_refused_and_the_limit_itself_is_not() {
        for (at, over) in [
            (Message::new("t", vec![0; MAX_PAYLOAD]), Message::new("t", vec![0; MAX_PAYLOAD + 1])),
            (Message::new("t".repeat(MAX_TOPIC), ""), Message::new("t".repeat(MAX_TOPIC + 1), "")),
            (valid().key("k".repeat(MAX_KEY)), valid().key("k".repeat(MAX_KEY + 1))),
            (valid().header("n".repeat(MAX_HEADER_NAME), "v"), valid().header("n".repeat(MAX_HEADER_NAME + 1), "v")),
            (valid().header("n", "v".repeat(MAX_HEADER_VALUE)), valid().header("n", "v".repeat(MAX_HEADER_VALUE + 1))),
        ] {
            assert_eq!(at.validate(), Ok(()));
            assert!(matches!(over.validate(), Err(Invalid::TooLong { .. })));
        }
    }

    #[test]
    fn an_empty_key_is_told_how_long_a_key_is() {
        let error = valid().key("").validate().unwrap_err().to_string();
        assert!(error.contains(&format!("1 to {MAX_KEY} bytes")), "{error}");
    }

    #[test]
    fn too_many_headers_are_refused() {
        let mut message = valid();
        for n in 0..=MAX_HEADERS {
            message = message.header(format!("h{n}"), "v");
        }
        assert!(matches!(message.validate(), Err(Invalid::TooMany { what: "headers", .. })));
    }

    #[test]
    fn nul_and_line_breaks_are_refused_in_keys_and_headers() {
        for bad in ["a\0b", "a\rb", "a\nb", "a\u{7f}b"] {
            assert!(valid().key(bad).validate().is_err(), "key {bad:?}");
            assert!(valid().header("h", bad).validate().is_err(), "value {bad:?}");
            assert!(valid().header(bad, "v").validate().is_err(), "name {bad:?}");
            assert!(Message::new(bad, "").validate().is_err(), "topic {bad:?}");
        }
    }

    #[test]
    fn topics_keep_their_grammar() {
        for bad in ["", ".", "a.", ".a", "a..b", "a b", "a*", "a>"] {
            assert!(Message::new(bad, "").validate().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_relays_own_headers_are_reserved() {
        for bad in ["Postrider-Id", "postrider-lane", "Postrider-Token"] {
            let error = valid().header(bad, "x").validate().unwrap_err();
            assert!(error.to_string().contains("postrider-"));
        }
        assert_eq!(valid().header(TOKEN_HEADER, "x").validate(), Ok(()), "the sender makes it");
    }

    #[test]
    fn attributes_have_a_prefix_a_name_and_a_printable_value() {
        for good in ["kafka.partition", "amqp.x-delay", "http.path", "mqtt.a.b"] {
            assert_eq!(Message::new("t", "").attribute(good, "v").validate(), Ok(()), "{good:?}");
        }
        for bad in ["", "path", ".path", "http.", "http..path", "HTTP.path", "http.pa th", "http.p\0"] {
            assert!(Message::new("t", "").attribute(bad, "v").validate().is_err(), "{bad:?}");
        }
        assert!(valid().attribute("http.path", "a\nb").validate().is_err());
        let many = (0..=MAX_ATTRIBUTES).fold(valid(), |message, n| message.attribute(format!("x.n{n}"), "v"));
        assert!(matches!(many.validate(), Err(Invalid::TooMany { what: "attributes", .. })));
    }

    #[test]
    fn a_content_type_is_a_media_type_in_plain_characters() {
        for bad in ["json", "text/pl\u{e4}in", "text/plain\r\n"] {
            assert!(valid().content_type(bad).validate().is_err(), "{bad:?}");
        }
        assert_eq!(valid().content_type("text/plain; charset=utf-8").validate(), Ok(()));
    }

    #[test]
    fn every_language_and_the_tab_are_printable() {
        assert_eq!(valid().key("Gr\u{fc}\u{df}e\t\u{4f60}").validate(), Ok(()));
    }

    #[test]
    fn as_many_headers_as_are_allowed_are_allowed() {
        let full = (0..MAX_HEADERS).fold(Message::new("t", ""), |message, n| message.header(format!("h{n}"), "v"));
        assert_eq!(full.validate(), Ok(()));
    }
}
