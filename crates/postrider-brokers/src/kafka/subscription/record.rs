//! One record of Kafka, kept until it is over, and what it is as a message.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use postrider_core::{
    Error, ErrorKind, MAX_HEADER_NAME, MAX_HEADER_VALUE, Message, Place, Result, SourcePosition, Wire,
};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};

/// What a record costs beside its bytes.
const OVERHEAD: usize = 256;
/// What stands before a key that is no text.
const HEX: &str = "hex:";

/// Which partition. The topic's name is shared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Partition {
    pub(super) topic: Arc<str>,
    pub(super) number: i32,
}

/// A header as it came: a value is bytes, or null.
type RawHeader = (String, Option<Vec<u8>>);

/// A record as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) partition: Partition,
    pub(super) offset: i64,
    /// What the log has as its time, in milliseconds since 1970: that of its producer or of the broker.
    stored: Option<i64>,
    key: Option<Vec<u8>>,
    /// None is null.
    payload: Option<Bytes>,
    /// None where a name is no UTF-8.
    headers: Option<Vec<RawHeader>>,
}

impl Record {
    /// The record that the client gives, with the partition by which it is known here.
    pub(super) fn of(found: &BorrowedMessage<'_>, partition: Partition) -> Self {
        let read = || -> Vec<RawHeader> {
            let Some(headers) = found.headers() else { return Vec::new() };
            headers.iter().map(|one| (one.key.to_owned(), one.value.map(<[u8]>::to_vec))).collect()
        };
        Self {
            partition,
            offset: found.offset(),
            stored: found.timestamp().to_millis(),
            key: found.key().map(<[u8]>::to_vec),
            payload: found.payload().map(Bytes::copy_from_slice),
            // The client panics at a name that is no UTF-8, which anybody may send: it must not end the reading.
            headers: catch_unwind(AssertUnwindSafe(read)).ok(),
        }
    }

    /// Bytes that it occupies here.
    pub(super) fn weight(&self) -> usize {
        let headers = self.headers.iter().flatten();
        let headers: usize = headers.map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len)).sum();
        OVERHEAD + self.payload().len() + self.key.as_ref().map_or(0, Vec::len) + headers
    }

    /// Its bytes; none for a null.
    pub(super) fn payload(&self) -> Bytes {
        self.payload.clone().unwrap_or_default()
    }

    /// Where it lies.
    pub(super) fn place(&self) -> Place {
        Place::new(format!("{}[{}]@{}", self.partition.topic, self.partition.number, self.offset))
    }

    /// Where it stands in its partition. Neither number is below zero.
    pub(super) fn position(&self) -> Option<SourcePosition> {
        let (part, number) = (self.partition.number.try_into().ok()?, self.offset.try_into().ok()?);
        Some(SourcePosition { source: Arc::clone(&self.partition.topic), part, number })
    }

    /// The message in it.
    ///
    /// # Errors
    /// `Rejected` where there is none.
    pub(super) fn message(&self, place: &Place) -> Result<Message> {
        let Some(headers) = &self.headers else {
            return Err(unfit(place, "the name of a header is no UTF-8"));
        };
        let mut told: Vec<(String, String)> = Vec::with_capacity(headers.len());
        for (name, value) in headers {
            told.extend(header(name, value.as_deref().unwrap_or_default(), place)?);
        }
        let key = self.key.as_deref().map(key);
        // A topic that was deleted and made again counts from zero again; a log that lost its end, from there.
        let stored = self.stored.map(|at| at.to_string());
        Wire {
            headers: told.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
            payload: self.payload.clone(),
            topic: &self.partition.topic,
            key: key.as_deref(),
            place,
            stored: stored.as_deref(),
        }
        .read()
    }
}

/// A key as text. One that is none is written in hexadecimal digits: different keys stay different, and each keeps its order.
fn key(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && printable(text) => text.to_owned(),
        _ => format!("{HEX}{}", hex(bytes)),
    }
}

/// A header of a message; none where a message can't have it.
///
/// # Errors
/// `Rejected` where it is one of ours and can't be read: what it says decides what the message is.
fn header(name: &str, value: &[u8], place: &Place) -> Result<Option<(String, String)>> {
    let text = std::str::from_utf8(value).ok().filter(|text| printable(text));
    let ours = name.get(..10).is_some_and(|start| start.eq_ignore_ascii_case("postrider-"));
    let (name, value) = match text {
        Some(text) => (name.to_owned(), text.to_owned()),
        None if ours => return Err(unfit(place, &format!("the value of its header {name:?} is no text"))),
        None => (format!("{name}.hex"), hex(value)),
    };
    let of_a_name = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let fits = (1..=MAX_HEADER_NAME).contains(&name.len()) && name.bytes().all(of_a_name);
    Ok((ours || fits && value.len() <= MAX_HEADER_VALUE).then_some((name, value)))
}

fn unfit(place: &Place, why: &str) -> Error {
    Error::new(ErrorKind::Rejected, format!("what lies at {place} is no message that can be handled: {why}"))
}

fn printable(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() && c != '\t')
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
impl Record {
    /// A record of a topic, for tests.
    pub(super) fn test(topic: &str, number: i32, offset: i64, key: Option<&[u8]>, payload: Option<&[u8]>) -> Self {
        Self {
            partition: Partition { topic: topic.into(), number },
            offset,
            stored: Some(1_700_000_000_000),
            key: key.map(<[u8]>::to_vec),
            payload: payload.map(Bytes::copy_from_slice),
            headers: Some(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(record: &Record) -> Result<Message> {
        record.message(&record.place())
    }

    fn with(headers: &[(&str, Option<&[u8]>)]) -> Record {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.map(<[u8]>::to_vec))).collect();
        Record { headers: Some(headers), ..Record::test("orders", 3, 17, Some(b"7"), Some(b"{}")) }
    }

    #[test]
    fn a_record_without_headers_is_a_message_of_its_topic_and_key() {
        let record = Record::test("orders", 3, 17, Some(b"7"), Some(b"{}"));
        let message = read(&record).unwrap();
        assert_eq!(record.place().as_str(), "orders[3]@17");
        assert_eq!((message.topic.as_str(), &message.payload[..]), ("orders", &b"{}"[..]));
        assert_eq!(message.key.as_ref().map(postrider_core::Key::as_str), Some("7"));
        assert_eq!(message.id, read(&record).unwrap().id);
    }

    #[test]
    fn another_record_at_its_offset_is_another_message() {
        let record = Record::test("orders", 3, 17, Some(b"7"), Some(b"{}"));
        let ids = [Some(1), Some(2), None].map(|stored| read(&Record { stored, ..record.clone() }).unwrap().id);
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
    }

    #[test]
    fn a_tombstone_is_a_message_without_a_payload() {
        let message = read(&Record::test("orders", 0, 1, Some(b"7"), None)).unwrap();
        assert!(message.payload.is_empty());
    }

    #[test]
    fn keys_that_are_no_text_stay_different() {
        let key = |bytes: &[u8]| {
            let message = read(&Record::test("orders", 0, 1, Some(bytes), None)).unwrap();
            message.key.map(|key| key.as_str().to_owned()).unwrap()
        };
        assert_eq!(key(b"caf\xc3\xa9"), "caf\u{e9}");
        assert_eq!((key(b"\xff\x00"), key(b"\xff\x01")), ("hex:ff00".into(), "hex:ff01".into()));
        assert_eq!((key(b""), key(b"a\nb")), ("hex:".into(), "hex:610a62".into()));
        assert_eq!(read(&Record::test("orders", 0, 1, None, None)).unwrap().key, None);
    }

    #[test]
    fn headers_are_kept_where_a_message_can_have_them() {
        let long = vec![b'x'; MAX_HEADER_VALUE + 1];
        let record = with(&[
            ("Tenant", Some(b"blue")),
            ("trace", Some(b"\x00\xff")),
            ("null", None),
            ("a name", Some(b"x")),
            ("long", Some(&long)),
        ]);
        let message = read(&record).unwrap();
        let found: Vec<(&str, &str)> = message.headers.iter().collect();
        assert_eq!(found, [("Tenant", "blue"), ("trace.hex", "00ff"), ("null", "")]);
    }

    #[test]
    fn one_of_our_headers_that_cannot_be_read_makes_it_no_message() {
        let id = "0193e0a4-7d5e-7cc3-b3ae-4d2a5e5f7a10";
        assert_eq!(read(&with(&[("postrider-id", Some(id.as_bytes()))])).unwrap().id.to_string(), id);
        for bad in [&b"\xff"[..], b"7", b""] {
            let error = read(&with(&[("Postrider-Id", Some(bad))])).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected);
            assert!(error.to_string().contains("orders[3]@17"), "{error}");
        }
        let error = read(&Record { headers: None, ..with(&[]) }).unwrap_err();
        assert!(error.kind() == ErrorKind::Rejected && error.to_string().contains("no UTF-8"), "{error}");
    }

    #[test]
    fn a_record_weighs_at_least_its_bytes() {
        assert!(with(&[("name", Some(b"value"))]).weight() >= OVERHEAD + 2 + 1 + 9);
    }
}
