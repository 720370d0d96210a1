//! Keys of requests: what a database is asked of them, and what it answers, whichever it is.
//!
//! What to do with a request is decided by [`receiving::begin`] from what is stored of its key, which no statement decides
//! anew. A statement only keeps two from deciding the same at once: a row is inserted once, and taken over once from each
//! epoch.

use std::time::Duration;

use postrider_core::receiving::{self, Begun, Epoch, Fingerprint, KeyRecord};
use postrider_core::{Forgotten, Timestamp};

use crate::dialog::{Turn, Value};

/// The longest lease: whoever works for longer than this is taken for dead.
pub const LONGEST_LEASE: Duration = Duration::from_secs(7 * 86_400);

/// A key, within the caller and the operation that it was sent for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyName {
    /// Whose key it is.
    pub caller: String,
    /// What was asked for.
    pub operation: String,
    /// The key itself.
    pub key: String,
}

impl KeyName {
    /// The caller, the operation and the key.
    pub fn values(&self) -> Vec<Value> {
        [&self.caller, &self.operation, &self.key].map(|text| Value::Text(text.clone())).to_vec()
    }

    fn values_with(&self, epoch: Epoch) -> Vec<Value> {
        let mut values = self.values();
        values.push(number(epoch));
        values
    }
}

/// The answer to a request, as it is stored and sent again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct StoredAnswer {
    /// The status, such as 201.
    pub status: u16,
    /// The headers that are sent again, in their order; a name may stand more than once.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl StoredAnswer {
    /// The headers as they are stored: a line for each, as HTTP has them.
    pub fn header_lines(&self) -> String {
        self.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
    }

    fn of(status: i64, headers: Option<&str>, body: Option<Vec<u8>>) -> Self {
        let lines = headers.unwrap_or_default().lines().filter_map(|line| line.split_once(": "));
        Self {
            status: u16::try_from(status).unwrap_or(0),
            headers: lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: body.unwrap_or_default(),
        }
    }
}

/// The columns of a key's row, in the order in which they are asked for: the fingerprint, the epoch, until when it is
/// leased and the moment of the database's clock, both in microseconds, and of the answer its status, headers and body.
pub type KeyColumns = (Vec<u8>, i64, i64, i64, Option<i64>, Option<String>, Option<Vec<u8>>);

/// What is stored of a key, beside the moment at which that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundKey {
    record: KeyRecord<StoredAnswer>,
    now: Timestamp,
}

impl From<KeyColumns> for FoundKey {
    fn from((fingerprint, epoch, leased_until, now, status, headers, body): KeyColumns) -> Self {
        let record = KeyRecord {
            // What is no fingerprint is none of a request.
            fingerprint: Fingerprint(fingerprint.try_into().unwrap_or_default()),
            epoch: Epoch(u64::try_from(epoch).unwrap_or(0)),
            leased_until: Timestamp(leased_until),
            answer: status.map(|status| StoredAnswer::of(status, headers.as_deref(), body)),
        };
        Self { record, now: Timestamp(now) }
    }
}

/// A request that wants to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// Its key.
    pub name: KeyName,
    /// What it asks for.
    pub fingerprint: Fingerprint,
    /// How long nobody else begins, [`LONGEST_LEASE`] at most.
    pub lease: Duration,
    /// The epoch of a key of which nothing is known: no one that it had before it was forgotten.
    pub first: Epoch,
}

impl Begin {
    fn decided(&self, found: Option<FoundKey>) -> Begun<StoredAnswer> {
        let now = found.as_ref().map_or(Timestamp(0), |found| found.now);
        receiving::begin(found.map(|found| found.record), self.fingerprint, now, self.first)
    }

    fn lease(&self) -> Value {
        Value::Number(i64::try_from(self.lease.min(LONGEST_LEASE).as_micros()).unwrap_or(i64::MAX))
    }

    fn inserted(&self, epoch: Epoch) -> Vec<Value> {
        let mut values = self.name.values();
        values.extend([Value::Bytes(self.fingerprint.0.to_vec()), number(epoch), self.lease()]);
        values
    }

    fn taken_over(&self, epoch: Epoch) -> Vec<Value> {
        let mut values = vec![number(epoch), self.lease()];
        values.extend(self.name.values_with(epoch));
        values
    }
}

/// What becomes of a request that wants to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beginning {
    /// What to do with it.
    By(Begun<StoredAnswer>),
    /// Somebody else was at the key in the same moment.
    Contended,
}

/// An answer that is to be stored beside the effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The key of the request.
    pub name: KeyName,
    /// Who answers.
    pub epoch: Epoch,
    /// The answer.
    pub answer: StoredAnswer,
}

impl Answer {
    /// The status, the headers and the body; the key; the epoch.
    pub fn values(&self) -> Vec<Value> {
        let mut values = vec![
            Value::Number(self.answer.status.into()),
            Value::Text(self.answer.header_lines()),
            Value::Bytes(self.answer.body.clone()),
        ];
        values.extend(self.name.values_with(self.epoch));
        values
    }

    /// The answer where its row was there to take it, none where the key is not the caller's any more.
    pub fn taken_by(self, rows: u64) -> Option<StoredAnswer> {
        (rows > 0).then_some(self.answer)
    }
}

/// A request whose effect did not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Its key.
    pub name: KeyName,
    /// Who gives it back.
    pub epoch: Epoch,
}

impl Release {
    /// The key, and the epoch.
    pub fn values(&self) -> Vec<Value> {
        self.name.values_with(self.epoch)
    }
}

/// A key whose answer nobody will ask for again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgetKey(pub KeyName);

/// A round of forgetting keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForgetKeys {
    /// What was answered, or left behind, longer ago than so many milliseconds.
    pub keep_ms: i64,
    /// So many at most.
    pub at_most: u32,
}

impl ForgetKeys {
    /// What came of a round that removed so many rows.
    pub fn done(self, rows: u64) -> Forgotten {
        Forgotten { records: rows, partitions: 0, more: rows >= u64::from(self.at_most) }
    }
}

/// How a database is asked whether a request may begin.
#[derive(Debug, Clone)]
pub struct Texts {
    /// Inserts the row where there is none.
    pub insert: Insert,
    /// What is stored, the last commit of others included.
    pub look: String,
    /// What is stored and committed, where nobody else holds the row, which is the caller's from then on; for a database where
    /// the first look may find what is not committed or is no more, and `take_over` would wait for who holds it.
    pub hold: Option<String>,
    /// The next epoch, where it is still the one before and there is no answer.
    pub take_over: String,
}

/// How a row is inserted, and how the statement tells whether it was.
#[derive(Debug, Clone)]
pub enum Insert {
    /// By the rows that it changed.
    Statement(String),
    /// By its answer, 1 or 0.
    Function(String),
}

/// Looks at a key with `first`, and goes on from what is there, or begins with it.
pub fn look(first: String, begin: Begin, texts: Texts) -> Turn<Beginning> {
    Turn::key(first, begin.name.values(), |found| match found {
        Some(found) => go_on(begin, texts, found),
        None => insert(begin, texts),
    })
}

/// Begins with a key of which nothing is known: its row is inserted, and looked at where there is one.
pub fn insert(begin: Begin, texts: Texts) -> Turn<Beginning> {
    let Begun::Started(epoch) = begin.decided(None) else { return Turn::Done(Beginning::Contended) };
    let values = begin.inserted(epoch);
    let insert = texts.insert.clone();
    let then = move |is_inserted| {
        if is_inserted {
            return Turn::Done(Beginning::By(Begun::Started(epoch)));
        }
        Turn::key(texts.look.clone(), begin.name.values(), move |found| match found {
            Some(found) => go_on(begin, texts, found),
            None => Turn::Done(Beginning::Contended),
        })
    };
    match insert {
        Insert::Statement(sql) => Turn::change(sql, values, move |inserted| then(inserted > 0)),
        Insert::Function(sql) => Turn::number(sql, values, move |inserted| then(inserted == Some(1))),
    }
}

/// Goes on from what is stored of a key.
///
/// A look that locks nothing may have found what is not committed, or is no more: what its row has when it is held decides.
/// Who is told that somebody works on it comes again, so that this needs no second look.
fn go_on(begin: Begin, mut texts: Texts, found: FoundKey) -> Turn<Beginning> {
    match (begin.decided(Some(found)), texts.hold.take()) {
        (Begun::Started(_) | Begun::Replay(_) | Begun::Mismatch, Some(hold)) => {
            Turn::key(hold, begin.name.values(), |held| match held {
                Some(found) => go_on(begin, texts, found),
                None => Turn::Done(Beginning::Contended),
            })
        }
        (Begun::Started(epoch), None) => {
            Turn::change(texts.take_over, begin.taken_over(epoch), move |taken| match taken {
                0 => Turn::key(texts.look, begin.name.values(), move |found| Turn::Done(lost(&begin, found))),
                _ => Turn::Done(Beginning::By(Begun::Started(epoch))),
            })
        }
        (begun, _) => Turn::Done(Beginning::By(begun)),
    }
}

/// Gives a key back by `change`, where a look that locks nothing finds it to be still who gives it back's.
///
/// It waits for nobody who works on the key now, but for the end of the transaction that is rolled back.
pub fn release(look: String, release: Release, change: String) -> Turn<()> {
    Turn::key(look, release.name.values(), move |found| match found {
        Some(found) if found.record.epoch == release.epoch => {
            Turn::change(change, release.values(), |_| Turn::Done(()))
        }
        _ => Turn::Done(()),
    })
}

/// Somebody else took the key over, or answers in this moment.
fn lost(begin: &Begin, found: Option<FoundKey>) -> Beginning {
    match begin.decided(found) {
        Begun::Started(_) => Beginning::Contended,
        begun => Beginning::By(begun),
    }
}

fn number(epoch: Epoch) -> Value {
    Value::Number(i64::try_from(epoch.0).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_stored_as_lines_and_read_back() {
        let headers = vec![("location".to_owned(), "/a: b".to_owned()), ("x".to_owned(), String::new())];
        let answer = StoredAnswer { status: 201, headers, body: vec![0] };
        let lines = answer.header_lines();
        assert_eq!(lines, "location: /a: b\nx: \n");
        assert_eq!(StoredAnswer::of(201, Some(&lines), Some(vec![0])), answer);
    }
}
