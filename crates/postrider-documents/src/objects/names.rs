//! The keys of objects.
//!
//! Letters of ASCII, digits and `-` stand for themselves; every other byte is two hexadecimal digits behind a mark. Which mark
//! depends on where the byte stands among those that stand for themselves, so that objects are in the order of the names,
//! and a service that lists them in the order of their keys lists names in order.

use object_store::path::{Path, PathPart};
use postrider_core::{Collection, DocumentKey, Error, ErrorKind, Result};

/// Where documents are in a bucket.
#[derive(Debug, Clone)]
pub(super) struct Place {
    prefix: Path,
}

impl Place {
    /// Below a prefix, which may be empty.
    pub(super) fn below(prefix: &str) -> Result<Self> {
        let prefix = Path::parse(prefix).map_err(|_| {
            let text = "the prefix of the documents in the bucket cannot be read: expected names between single '/', and no '..'";
            Error::new(ErrorKind::Config, text)
        })?;
        Ok(Self { prefix })
    }

    /// Where a document is.
    pub(super) fn object(&self, key: &DocumentKey) -> Path {
        self.collection(key.collection()).join(part(&escaped(key.name())))
    }

    /// What the documents of a collection are below.
    pub(super) fn collection(&self, collection: &Collection) -> Path {
        self.prefix.clone().join(part(collection.as_str()))
    }

    /// Where no document is.
    pub(super) fn probe(&self, name: &str) -> Path {
        // No collection begins with this mark.
        self.prefix.clone().join(part("!probe")).join(part(name))
    }

    /// The document of an object below its collection; none where no document is called so.
    pub(super) fn document(&self, collection: &Collection, object: &Path) -> Option<DocumentKey> {
        let below = self.collection(collection);
        let mut parts = object.prefix_match(&below)?;
        let name = unescaped(parts.next()?.as_ref())?;
        match parts.next() {
            Some(_) => None,
            None => DocumentKey::new(collection, &name).ok(),
        }
    }
}

/// What has nothing to be escaped any more.
fn part(text: &str) -> PathPart<'_> {
    PathPart::parse(text).unwrap_or_else(|_| PathPart::from(text))
}

/// The mark of a byte; none where it stands for itself.
const fn mark(byte: u8) -> Option<char> {
    match byte {
        b'-' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => None,
        0..b'-' => Some('!'),
        b'.'..b'0' => Some('.'),
        b':'..b'A' => Some('='),
        b'['..b'a' => Some('_'),
        b'{'.. => Some('~'),
    }
}

fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        match mark(byte) {
            None => escaped.push(char::from(byte)),
            Some(mark) => escaped.push_str(&format!("{mark}{byte:02x}")),
        }
    }
    escaped
}

/// The name that is escaped like this; none where no name is.
fn unescaped(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&first, behind)) = rest.split_first() {
        if mark(first).is_none() {
            bytes.push(first);
            rest = behind;
        } else {
            let (digits, behind) = behind.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = behind;
        }
    }
    String::from_utf8(bytes).ok().filter(|name| escaped(name) == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carts() -> Collection {
        Collection::new("carts").unwrap()
    }

    #[test]
    fn every_name_comes_back_and_none_leaves_its_collection() {
        let place = Place::below("shop/docs").unwrap();
        let longest = "\u{e9}".repeat(127);
        for name in ["a", "..", ".", "/", "a/../b", "%2F", "a b", "\u{1f600}", "0192-7", "~", "_", "!", "=", &longest] {
            let key = DocumentKey::new(&carts(), name).unwrap();
            let object = place.object(&key);
            assert_eq!(object.parts().count(), 4, "{object}");
            assert!(object.as_ref().len() < 1024 - 200 && !object.as_ref().contains('%'), "{object}");
            assert_eq!(place.document(&carts(), &object), Some(key));
        }
    }

    #[test]
    fn keys_are_in_the_order_of_the_names() {
        let mut names: Vec<String> = (0x20..0x7f).map(|byte: u8| char::from(byte).to_string()).collect();
        names.extend(
            ["\u{80}", "\u{e9}", "\u{ff21}", "\u{1f600}", "a/b", "a-", "a", "aa", "a b", "Z", "a~", "a!"]
                .map(str::to_owned),
        );
        let pairs: Vec<(&String, String)> = names.iter().map(|name| (name, escaped(name))).collect();
        for (one, key) in &pairs {
            for (other, other_key) in &pairs {
                assert_eq!(one.as_bytes().cmp(other.as_bytes()), key.cmp(other_key), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn what_is_no_document_is_none() {
        let place = Place::below("").unwrap();
        for object in ["carts/a%2fb", "carts/a.2", "carts/a/b", "carts/!61", "carts/.2E", "other/a", "carts/~ff"] {
            let object = Path::parse(object).unwrap();
            assert_eq!(place.document(&carts(), &object), None, "{object}");
        }
        assert!(Place::below("a//b").is_err() && Place::below("a/../b").is_err());
    }
}
