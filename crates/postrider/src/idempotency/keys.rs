//! Beginning, answering and forgetting requests, each inside the caller's transaction.

use std::time::Duration;

use postrider_core::Invalid;
use postrider_core::receiving::{Begun, Epoch, Fingerprint};
use postrider_stores::keys::{Answer, Begin, ForgetKey, ForgetKeys, Release, StoredAnswer};
use postrider_stores::received::Forgotten;

use uuid::Uuid;

use super::ScopedKey;
use crate::error::NameError;
use crate::inbox::{Inbox, InboxError};
use crate::outbox::Outbox;
#[cfg(feature = "http-idempotency")]
use crate::question::Response;
use crate::receive::Receive;

/// How many keys one round of [`IdempotencyKeys::forget`] removes.
const AT_ONCE: u32 = 5_000;
/// The largest answer unless another size is asked for.
const LARGEST: usize = 1024 * 1024;

/// Which requests an application has answered: the names of its tables, and nothing else.
///
/// A request that is sent again, because its answer was lost, has its effect once and gets the same answer. It holds no
/// connection and opens none. [`begin`](Self::begin) goes into a transaction of its own, committed before the work;
/// [`answer`](Self::answer) into the one that has the effect, so that answer and effect are there together or not at all.
/// The lease between the two only keeps two servers from working at once: one that takes longer is refused its answer, and
/// has no effect.
///
#[cfg_attr(feature = "rusqlite", doc = "```")]
#[cfg_attr(not(feature = "rusqlite"), doc = "```ignore")]
/// use std::time::Duration;
///
/// use postrider::{Begun, Fingerprint, IdempotencyKeys, ScopedKey, StoredAnswer};
/// use rusqlite::TransactionBehavior::Immediate;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let mut database = rusqlite::Connection::open(folder.path().join("shop.db"))?;
/// # postrider::migrate(&database)?;
/// # database.execute("create table orders (id integer primary key, item text)", ())?;
/// # let digest = [7; 32];
/// let keys = IdempotencyKeys::new();
/// let key = ScopedKey::new("alice", "POST /orders", "8e03978e")?;
/// for _request in 0..2 {
///     let tx = database.transaction_with_behavior(Immediate)?;
///     let begun = keys.begin(&tx, &key, Fingerprint(digest), Duration::from_secs(30))?; // a hash of what was asked for
///     tx.commit()?;
///     match begun {
///         Begun::Started(epoch) => {
///             let tx = database.transaction_with_behavior(Immediate)?;
///             tx.execute("insert into orders (item) values ('book')", ())?;
///             let created = StoredAnswer { status: 201, headers: Vec::new(), body: b"order 1".to_vec() };
///             keys.answer(&tx, &key, epoch, created)?;
///             tx.commit()?; // the order and its answer, or neither
///         }
///         Begun::Replay(answer) => assert_eq!(answer.body, b"order 1"),
///         Begun::InProgress { .. } | Begun::Mismatch => unreachable!("409 and 422"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKeys {
    tables: Inbox,
    largest: usize,
    first: Option<Epoch>,
}

/// An epoch that no key has had: 62 random bits, so that it and those that follow fit into what databases count with.
fn unused() -> Epoch {
    Epoch(Uuid::new_v4().as_u64_pair().1 & (u64::MAX >> 2))
}

impl Default for IdempotencyKeys {
    fn default() -> Self {
        Self { tables: Inbox::default(), largest: LARGEST, first: None }
    }
}

impl IdempotencyKeys {
    /// The keys with the default names of tables.
    pub fn new() -> Self {
        Self::default()
    }

    /// The keys beside an outbox, with its names.
    pub fn beside(outbox: &Outbox) -> Self {
        Self { tables: Inbox::beside(outbox), largest: LARGEST, first: None }
    }

    /// The same keys in a PostgreSQL schema; MySQL, MariaDB and SQLite, which have none inside a database, ignore it.
    ///
    /// # Errors
    /// As [`Outbox::schema`].
    pub fn schema(self, schema: &str) -> Result<Self, NameError> {
        Ok(Self { tables: self.tables.schema(schema)?, ..self })
    }

    /// The same keys with another prefix of their tables.
    ///
    /// # Errors
    /// As [`Outbox::prefix`].
    pub fn prefix(self, prefix: &str) -> Result<Self, NameError> {
        Ok(Self { tables: self.tables.prefix(prefix)?, ..self })
    }

    /// The same keys with another size of the largest answer, headers and body together: 1 MiB unless it is set.
    #[must_use]
    pub fn largest_answer(self, bytes: usize) -> Self {
        Self { largest: bytes, ..self }
    }

    /// The same keys with this epoch where nothing is known of a key, for tests that tell epochs apart. Without it that is a
    /// random one: where keys are forgotten, who worked on one before must not be taken for who works on it now.
    #[must_use]
    pub fn first_epoch(self, epoch: Epoch) -> Self {
        Self { first: Some(epoch), ..self }
    }

    /// Says inside `tx` what to do with a request, and takes it for `lease` where it is to be worked on.
    ///
    /// Commit `tx` before the work, so that others see who works. It does not wait for who has the effect and is about to
    /// commit its answer, except on SQLite, which has one writer, and on MySQL in a transaction that is SERIALIZABLE or whose
    /// snapshot is older than the key. Another request with the key, told by its `fingerprint`, is a [`Begun::Mismatch`]
    /// whatever became of the first. The lease is measured by the clock of the database, 7 days at most.
    ///
    /// # Errors
    /// [`Contended`](InboxError::Contended) when another one takes the key or answers it in this moment, or, on MySQL, is sent
    /// its answer: roll back, and begin again.
    pub fn begin<T: Receive>(
        &self,
        tx: T,
        key: &ScopedKey,
        fingerprint: Fingerprint,
        lease: Duration,
    ) -> T::Received<Begun<StoredAnswer>> {
        tx.ask(
            &self.tables,
            Ok(Begin { name: key.name(), fingerprint, lease, first: self.first.unwrap_or_else(unused) }),
        )
    }

    /// Stores inside `tx`, which has the effect, the answer that the request gets from then on, and hands it back.
    ///
    /// What is worth the same answer again: successes, and refusals that another try would meet too. An answer is refused
    /// when its status is none that ends a request (200 to 599), when a header's name is not a lower-case token or its value
    /// has control characters or spaces at its ends, and when it is [too large](Self::largest_answer).
    ///
    /// # Errors
    /// [`Superseded`](InboxError::Superseded) when the request is not this one's any more: roll back, so that it has no
    /// effect. [`Invalid`](InboxError::Invalid) before anything is written.
    pub fn answer<T: Receive>(
        &self,
        tx: T,
        key: &ScopedKey,
        epoch: Epoch,
        answer: StoredAnswer,
    ) -> T::Received<StoredAnswer> {
        let answer = self.checked(answer).map(|answer| Answer { name: key.name(), epoch, answer });
        tx.ask(&self.tables, answer.map_err(InboxError::from))
    }

    /// [`answer`](Self::answer), handed back as the response that it is.
    #[cfg(feature = "http-idempotency")]
    pub(super) fn answer_as_response<T: Receive>(
        &self,
        tx: T,
        key: &ScopedKey,
        epoch: Epoch,
        answer: Result<StoredAnswer, InboxError>,
    ) -> T::Received<http::Response<http_body_util::Full<bytes::Bytes>>> {
        let answer = answer.and_then(|answer| Ok(self.checked(answer)?));
        let response = |answer| Response(Answer { name: key.name(), epoch, answer });
        tx.ask(&self.tables, answer.map(response))
    }

    /// Lets the request begin again at once, inside `tx`: for a request whose effect is known to be rolled back.
    ///
    /// Where that is not known, such as after a commit whose answer was lost, the lease is to end by itself. It changes
    /// nothing where the request was answered, or is another one's, for whose work it does not wait. Where the rolled back
    /// transaction is still open, since its driver sends the rollback late, it waits for its end: 5 s at most on PostgreSQL,
    /// `innodb_lock_wait_timeout` on MySQL.
    ///
    /// # Errors
    /// As for any statement.
    pub fn release<T: Receive>(&self, tx: T, key: &ScopedKey, epoch: Epoch) -> T::Received<()> {
        tx.ask(&self.tables, Ok(Release { name: key.name(), epoch }))
    }

    /// Forgets inside `tx` a request that was answered, because its caller has the answer and will not ask again; says how
    /// many those were, 1 or 0.
    ///
    /// From then on the key may stand for another request. One that is worked on stays: who works on it would answer the
    /// next one.
    ///
    /// # Errors
    /// As for any statement.
    pub fn forget_key<T: Receive>(&self, tx: T, key: &ScopedKey) -> T::Received<u64> {
        tx.ask(&self.tables, Ok(ForgetKey(key.name())))
    }

    /// Forgets inside `tx` what was answered, or left behind, longer ago than `keep`, a batch at a time: again while it says
    /// that there is more.
    ///
    /// A request that is sent again after that has its effect again. Keep what the longest retry of a caller needs, a day or
    /// more, and longer than any request is worked on.
    ///
    /// # Errors
    /// As for any statement.
    pub fn forget<T: Receive>(&self, tx: T, keep: Duration) -> T::Received<Forgotten> {
        let keep_ms = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX).min(LONGEST_KEPT_MS);
        tx.ask(&self.tables, Ok(ForgetKeys { keep_ms, at_most: AT_ONCE }))
    }

    fn checked(&self, answer: StoredAnswer) -> Result<StoredAnswer, Invalid> {
        if !(200..600).contains(&answer.status) {
            let (found, expected) = (answer.status.to_string(), "expected 200 to 599, which end a request");
            return Err(Invalid::Grammar { what: "the status of the answer", found, expected });
        }
        for (name, value) in &answer.headers {
            if name.is_empty() || !name.chars().all(is_of_token) {
                let expected = "expected a token in lower case, such as content-type";
                return Err(Invalid::Grammar { what: "the header of the answer", found: name.clone(), expected });
            }
            if value.chars().any(char::is_control) || value.trim() != value {
                let expected = "expected a value without control characters, and without spaces at its ends";
                return Err(Invalid::Grammar { what: "the header of the answer", found: name.clone(), expected });
            }
        }
        let found = answer.header_lines().len() + answer.body.len();
        match found > self.largest {
            true => Err(Invalid::TooLong { what: "the answer".to_owned(), found, allowed: self.largest }),
            false => Ok(answer),
        }
    }
}

/// A century: what a database subtracts from its clock without leaving its calendar.
const LONGEST_KEPT_MS: i64 = 100 * 366 * 86_400 * 1_000;

fn is_of_token(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || "!#$%&'*+-.^_`|~".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, name: &str, value: &str) -> StoredAnswer {
        StoredAnswer { status, headers: vec![(name.to_owned(), value.to_owned())], body: vec![1; 10] }
    }

    #[test]
    fn an_answer_that_could_not_be_sent_again_as_it_is_is_refused() {
        let keys = IdempotencyKeys::new();
        assert!(keys.checked(answer(201, "location", "/orders/7")).is_ok());
        for (status, name, value) in [
            (100, "a", "b"),
            (600, "a", "b"),
            (200, "", "b"),
            (200, "Location", "b"),
            (200, "a: b", "c"),
            (200, "a", "b\nc"),
            (200, "a", "b "),
        ] {
            assert!(matches!(keys.checked(answer(status, name, value)), Err(Invalid::Grammar { .. })), "{name:?}");
        }
    }

    #[test]
    fn the_size_of_an_answer_is_that_of_its_headers_and_its_body() {
        let exact = answer(200, "a", "b");
        assert!(IdempotencyKeys::new().largest_answer(15).checked(exact.clone()).is_ok());
        let refused = IdempotencyKeys::new().largest_answer(14).checked(exact);
        assert!(matches!(refused, Err(Invalid::TooLong { found: 15, allowed: 14, .. })), "{refused:?}");
    }
}
