//! What an item is.

use bytes::Bytes;
use postrider_core::{Collection, DocumentKey, Draft, Error, ErrorKind, Result, Stored, Version};
use serde_json::{Map, Value, json};

/// The key.
pub(super) const DOCUMENT: &str = "document";
pub(super) const REVISION: &str = "revision";
pub(super) const DUE: &str = "due";
pub(super) const SHARD: &str = "due_shard";
const JSON: &str = "json";
/// How many parts of the index a collection has. Another number would lose what is in the parts that are asked no more.
pub(super) const SHARDS: u32 = 4;

/// The key of a document, as text.
pub(super) fn name(key: &DocumentKey) -> String {
    // No collection has the mark.
    format!("{}/{}", key.collection(), key.name())
}

/// A text, as the service has it.
pub(super) fn text(text: &str) -> Value {
    json!({ "S": text })
}

/// A number, as the service has it.
pub(super) fn number(number: i64) -> Value {
    json!({ "N": number.to_string() })
}

/// Which item.
pub(super) fn key(name: &str) -> Value {
    json!({ DOCUMENT: text(name) })
}

/// The item of a document.
pub(super) fn item(document: &DocumentKey, draft: &Draft) -> Result<Value> {
    let name = name(document);
    let mut item = Map::new();
    if let Some(due) = draft.due {
        item.insert(DUE.to_owned(), number(due.0));
        item.insert(SHARD.to_owned(), text(&shard(document.collection(), part(document.name()))));
    }
    item.insert(JSON.to_owned(), text(draft.text()?));
    item.insert(REVISION.to_owned(), text(&draft.version().0));
    item.insert(DOCUMENT.to_owned(), text(&name));
    Ok(Value::Object(item))
}

/// A part of the index.
pub(super) fn shard(collection: &Collection, part: u32) -> String {
    format!("{collection} {part}")
}

/// The part of its collection in which a document is: the same for ever.
fn part(name: &str) -> u32 {
    // FNV-1a. The last bits of its product depend on the last bits of the bytes alone.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash >> 16) % SHARDS
}

/// What stands in an item.
///
/// # Errors
/// `Config` where somebody else wrote it.
pub(super) fn stored(item: &Value) -> Result<Stored> {
    match (said(item, JSON), revision(item)) {
        (Some(json), Some(revision)) => {
            Ok(Stored { json: Bytes::copy_from_slice(json.as_bytes()), version: Version(revision.to_owned()) })
        }
        _ => Err(Error::new(ErrorKind::Config, "reading a document: the item is no document of postrider")
            .advise("give the documents a table of their own, where nobody else writes")),
    }
}

/// The revision of an item.
pub(super) fn revision(item: &Value) -> Option<&str> {
    said(item, REVISION)
}

/// The text of an attribute.
pub(super) fn said<'v>(item: &'v Value, attribute: &str) -> Option<&'v str> {
    item.get(attribute)?.get("S")?.as_str()
}

#[cfg(test)]
mod tests {
    use postrider_core::{Revision, Timestamp};
    use uuid::Uuid;

    use super::*;
    use crate::dynamodb::LIMIT;

    fn keyed(collection: &str, name: &str) -> DocumentKey {
        DocumentKey::new(&Collection::new(collection).unwrap(), name).unwrap()
    }

    #[test]
    fn an_item_is_in_the_index_only_where_it_is_ever_due() {
        let draft = Draft { json: "{\"a\": 1}".into(), due: None, revision: Revision(Uuid::from_u128(7)) };
        let never = item(&keyed("carts", "a/b"), &draft).unwrap();
        assert_eq!((said(&never, DOCUMENT), never.get(DUE), never.get(SHARD)), (Some("carts/a/b"), None, None));
        assert_eq!(stored(&never).unwrap(), Stored { json: draft.json.clone(), version: draft.version() });
        let due = item(&keyed("carts", "a/b"), &Draft { due: Some(Timestamp(-7)), ..draft }).unwrap();
        assert_eq!(due[DUE]["N"], "-7");
        assert!(said(&due, SHARD).unwrap().starts_with("carts "));
        assert!(stored(&key("carts/a/b")).unwrap_err().advice().is_some());
    }

    #[test]
    fn no_item_is_larger_than_the_service_takes() {
        let longest = keyed(&"a".repeat(40), &"a".repeat(255));
        let limit = usize::try_from(LIMIT).unwrap();
        let draft =
            Draft { json: vec![b'1'; limit].into(), due: Some(Timestamp(i64::MIN)), revision: Revision(Uuid::max()) };
        let item = item(&longest, &draft).unwrap();
        let sizes = item.as_object().unwrap().iter().map(|(attribute, value)| {
            // A number has two digits a byte, and less than two bytes more; here each digit counts.
            let value = value.as_object().unwrap().values().next().unwrap();
            attribute.len() + value.as_str().unwrap().len()
        });
        assert!((limit..409_600 - 1_000).contains(&sizes.sum()));
    }

    #[test]
    fn the_parts_of_the_index_share_the_names() {
        let mut shares = [0; SHARDS as usize];
        for n in 0..1_000_u128 {
            shares[part(&Uuid::from_u128(n).to_string()) as usize] += 1;
        }
        assert!(shares.iter().all(|share| (150..350).contains(share)), "{shares:?}");
        // What is written stays where it is.
        assert_eq!(["", "a", "carts", "\u{1f600}"].map(part), [0, 0, 2, 2]);
    }
}
