//! Telling a message from its repeats inside the caller's transaction.

use std::time::Duration;

use postrider_core::receiving::{Advance, Numbering};
use postrider_core::{Error, Invalid, Message, MessageId};
use postrider_stores::received::{Claim, Forget, Forgotten, IssueToken, Place, Refused, TakeToken};

use crate::error::NameError;
use crate::outbox::Outbox;
use crate::receive::Receive;

/// How many records one round of [`Inbox::forget`] deletes of either kind.
const AT_ONCE: u32 = 5_000;
/// The longest name of a consumer, of a source, and of a consumer with its tenant, in bytes.
const LONGEST: usize = 255;

/// Which messages an application has handled: the names of its tables, and nothing else.
///
/// It holds no connection and opens none: a message is recorded through the transaction that the caller hands in, so that
/// the record is committed, or rolled back, together with the effect of the message. Cheap to clone; make one at start. The
/// tables are those of [`migrate`](crate::migrate), beside the outbox of the same names.
///
#[cfg_attr(feature = "rusqlite", doc = "```")]
#[cfg_attr(not(feature = "rusqlite"), doc = "```ignore")]
/// use postrider::{Inbox, MessageId, Seen};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let mut database = rusqlite::Connection::open(folder.path().join("billing.db"))?;
/// # postrider::migrate(&database)?;
/// # database.execute("create table invoices (id integer primary key, item text)", ())?;
/// # let id = MessageId::fresh();
/// let inbox = Inbox::new();
/// for _delivery in 0..2 {
///     let tx = database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
///     // The id that the message came with: the header `postrider-id`.
///     if inbox.first_seen(&tx, "billing", id)? == Seen::First {
///         tx.execute("insert into invoices (item) values ('book')", ())?;
///     }
///     tx.commit()?; // the invoice and the record, or neither; now the message is acknowledged
/// }
/// let invoices: i64 = database.query_row("select count(*) from invoices", (), |row| row.get(0))?;
/// assert_eq!(invoices, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inbox {
    pub(crate) tables: Outbox,
    tenant: Option<String>,
}

/// Whether a message was handled before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a repeat that is handled has its effect twice"]
pub enum Seen {
    /// It was not: handle it in this transaction.
    First,
    /// It was: do nothing, and acknowledge it.
    Repeat,
}

/// Why an inbox, or the keys of requests, gave no answer. The message or request is not handled: roll the transaction back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    /// A name breaks a limit. Nothing was written, and the transaction can go on.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// What was handled in the time of the message is forgotten: nobody can tell whether it is a repeat.
    #[error(
        "the message is older than everything that the inbox remembers, and may be a repeat: roll back, keep it with \
         Inbox::refuse in another transaction, and acknowledge it"
    )]
    TooOld,
    /// The id of the message has a time that has not come (PostgreSQL).
    #[error(
        "the message has a time that has not come, beyond the partitions of the inbox: check the clock of its sender; roll \
         back, and let it come again"
    )]
    Future,
    /// Another one works on the request, or answered it, or its key was forgotten: the lease of this one had ended.
    #[error(
        "the request is not this one's to answer any more: its lease ended and another one began, or its key was forgotten; roll \
         back, so that it has no effect, and let it be sent again"
    )]
    Superseded,
    /// Somebody else is at the same message, source or key, or the transaction is older than what they committed.
    #[error("somebody else is at the same message, source or key: roll back, and try again after a moment")]
    Contended(#[source] Option<Error>),
    /// No transaction is open, or not any more. Nothing was written.
    #[error(
        "no transaction is open: none was begun, or it has ended already (a commit or rollback was sent as SQL, or a \
         failed statement rolled it back); ask in the transaction that has the effect"
    )]
    OutsideTransaction,
    /// The database refused a statement, or its connection was lost.
    #[error("{0}")]
    Database(#[from] Error),
}

impl Inbox {
    /// The inbox with the default names.
    pub fn new() -> Self {
        Self::default()
    }

    /// The inbox beside an outbox, with its names.
    pub fn beside(outbox: &Outbox) -> Self {
        Self { tables: outbox.clone(), tenant: None }
    }

    /// The same inbox in a PostgreSQL schema; MySQL, MariaDB and SQLite, which have none inside a database, ignore it.
    ///
    /// # Errors
    /// As [`Outbox::schema`].
    pub fn schema(self, schema: &str) -> Result<Self, NameError> {
        Ok(Self { tables: self.tables.schema(schema)?, ..self })
    }

    /// The same inbox with another prefix of its tables.
    ///
    /// # Errors
    /// As [`Outbox::prefix`].
    pub fn prefix(self, prefix: &str) -> Result<Self, NameError> {
        Ok(Self { tables: self.tables.prefix(prefix)?, ..self })
    }

    /// The same inbox for one of several tenants, each of which sees every message once.
    ///
    /// Records have the name `consumer@tenant`, which is why a consumer has no `@` in its name.
    #[must_use]
    pub fn tenant(self, tenant: &str) -> Self {
        Self { tenant: Some(tenant.to_owned()), ..self }
    }

    /// Records inside `tx` that `consumer` handles this message, and says whether it did before.
    ///
    /// Ask first, then write the effect, and what is to be sent through [`Outbox::enqueue`], into the same transaction;
    /// commit; then acknowledge. The record counts when `tx` is committed, and leaves nothing when it is rolled back. A
    /// repeat ends no transaction. While another transaction that recorded the same message is open, this waits: 5 s at most
    /// on PostgreSQL, as long as `innodb_lock_wait_timeout` on MySQL and MariaDB, as long as the busy timeout on SQLite.
    ///
    /// With tokio-postgres it is sent when the future is first polled, so that it can share a round trip with the effect:
    /// `tokio::join! { biased; inbox.first_seen(..), async { tx.execute(..).await } }`, and a rollback where it was a repeat
    /// (tokio 1.46 and later; `docs/exactly-once.md`).
    ///
    /// `consumer` is a stable name of what is done with the message, such as `billing`: each consumer sees every message
    /// once. It has 1 to 255 bytes, its tenant included, no control characters, no `@`, and no space at its ends.
    ///
    /// # Errors
    /// [`Invalid`](InboxError::Invalid) before anything is written; [`TooOld`](InboxError::TooOld) and
    /// [`Future`](InboxError::Future) where the id's time says that it cannot be told from a repeat;
    /// [`Contended`](InboxError::Contended) when the wait was too long or the transaction's snapshot is too old (under
    /// REPEATABLE READ: 40001 on PostgreSQL, 1020 on MariaDB 11.6 and later): run it again.
    pub fn first_seen<T: Receive>(&self, tx: T, consumer: &str, id: MessageId) -> T::Received<Seen> {
        tx.ask(self, self.named(consumer).map(|consumer| Claim { consumer, message: id }))
    }

    /// Lets `consumer` handle this message once, inside the transaction `tx` of its sender, which shares the database.
    ///
    /// Issue it beside [`Outbox::enqueue`], in the same transaction and for the id that it gave, and for each consumer once:
    /// a token that is issued again after it was taken has the effect again. The consumer asks [`take_token`](Self::take_token)
    /// in the place of [`first_seen`](Self::first_seen). Nothing is kept of a message that was handled, and nothing forgotten
    /// by time: a token that stays is a message that was sent and not handled.
    ///
    /// # Errors
    /// [`Invalid`](InboxError::Invalid) before anything is written, and as for any statement.
    pub fn issue_token<T: Receive>(&self, tx: T, consumer: &str, id: MessageId) -> T::Received<()> {
        tx.ask(self, self.named(consumer).map(|consumer| IssueToken(Claim { consumer, message: id })))
    }

    /// Takes the token of a message inside `tx`, which has its effect, and says whether it was there.
    ///
    /// [`Seen::First`]: handle it in this transaction; rolled back, the token is there again. [`Seen::Repeat`]: it was
    /// handled, or no token was ever issued to this consumer. While another transaction that took it is open, this waits as
    /// long as the database lets a statement wait for a lock.
    ///
    /// # Errors
    /// As [`first_seen`](Self::first_seen), but for ages.
    pub fn take_token<T: Receive>(&self, tx: T, consumer: &str, id: MessageId) -> T::Received<Seen> {
        tx.ask(self, self.named(consumer).map(|consumer| TakeToken(Claim { consumer, message: id })))
    }

    /// Records inside `tx` that `consumer` handles message number `sequence` of a source that delivers in order without gaps,
    /// and says how it stands to the one before.
    ///
    /// One row for each consumer, source and part, however many messages come: nothing has to be forgotten. The first
    /// number of a source may be any. [`Advance::Next`] is to be handled in this transaction; [`Advance::Repeat`] was;
    /// behind an [`Advance::Gap`] messages are missing: handled now, those would be taken for repeats.
    ///
    /// # Errors
    /// As [`first_seen`](Self::first_seen), but for ages; and [`Invalid`](InboxError::Invalid) for numbers of 2^63 and more.
    pub fn advance<T: Receive>(
        &self,
        tx: T,
        consumer: &str,
        source: &str,
        part: u32,
        sequence: u64,
    ) -> T::Received<Advance> {
        tx.ask(self, self.place(consumer, source, part, sequence, Numbering::Gapless))
    }

    /// [`advance`](Self::advance) for a source whose numbers rise and may leave some out: the offsets of a Kafka partition,
    /// where compaction and marks of transactions leave gaps.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub fn advance_rising<T: Receive>(
        &self,
        tx: T,
        consumer: &str,
        source: &str,
        part: u32,
        sequence: u64,
    ) -> T::Received<Advance> {
        tx.ask(self, self.place(consumer, source, part, sequence, Numbering::Rising))
    }

    /// Keeps a message inside `tx` that was not handled because nobody can tell whether it was before, for a person to look
    /// at; then it can be acknowledged. The same message again is counted.
    ///
    /// # Errors
    /// [`Invalid`](InboxError::Invalid) for a consumer's name, and as for any statement.
    pub fn refuse<T: Receive>(&self, tx: T, consumer: &str, message: Message, reason: &str) -> T::Received<()> {
        let refused = |consumer| Refused { consumer, message, reason: reason.to_owned() };
        tx.ask(self, self.named(consumer).map(refused))
    }

    /// Forgets inside `tx` what was handled longer ago than `keep`, a batch at a time: again while it says that there is
    /// more. PostgreSQL forgets messages whose ids were made longer ago, whenever they were handled.
    ///
    /// From then on a message with an older UUIDv7 is refused as [`TooOld`](InboxError::TooOld), unless it is still recorded;
    /// one whose id has no time is taken for a first one, when `keep` has passed since it was handled, on PostgreSQL too. Keep
    /// what the longest repeat needs: the broker's retention, a replay, a restored backup; and more than anything that holds a
    /// message up: the longest `deliver_at`, the longest outage, the age of a dead letter that is replayed.
    /// PostgreSQL drops whole partitions, each of a seventh of `keep`: what is forgotten costs the same whatever was in it.
    ///
    /// Where a relay runs on the database it does this by itself (`inbox.keep`, `RelayBuilder::inbox`).
    ///
    /// Where a server has them, a round waits for claims that are open, and new ones queue behind it: on PostgreSQL for a second
    /// at most; on MySQL and MariaDB say `set session innodb_lock_wait_timeout = 1` on its connection first.
    ///
    /// # Errors
    /// As for any statement, and [`InboxError::Contended`] where some claim was open all the time: roll back, and run it again
    /// later. `keep` is a second or more on PostgreSQL.
    pub fn forget<T: Receive>(&self, tx: T, keep: Duration) -> T::Received<Forgotten> {
        tx.ask(self, Ok(Forget::after(keep, AT_ONCE)))
    }

    fn place(
        &self,
        consumer: &str,
        source: &str,
        part: u32,
        sequence: u64,
        numbering: Numbering,
    ) -> Result<Place, InboxError> {
        let number = i64::try_from(sequence).map_err(|_| Invalid::Grammar {
            what: "the sequence",
            found: sequence.to_string(),
            expected: "expected a number below 2^63",
        })?;
        let source = name("the source", source)?;
        Ok(Place { consumer: self.named(consumer)?, source, part: part.into(), sequence: number, numbering })
    }

    /// The name under which a consumer's records are kept.
    fn named(&self, consumer: &str) -> Result<String, InboxError> {
        let consumer = name("the consumer", consumer)?;
        if consumer.contains('@') {
            let expected = "expected no '@', which stands before a tenant";
            return Err(Invalid::Grammar { what: "the consumer", found: consumer, expected }.into());
        }
        let Some(tenant) = &self.tenant else { return Ok(consumer) };
        name("the consumer with its tenant", &format!("{consumer}@{}", name("the tenant", tenant)?))
    }
}

pub(crate) fn name(what: &'static str, name: &str) -> Result<String, InboxError> {
    let fits = (1..=LONGEST).contains(&name.len()) && name.trim() == name && !name.chars().any(char::is_control);
    if fits {
        return Ok(name.to_owned());
    }
    let expected = "expected 1 to 255 bytes without control characters, and no space at the ends";
    Err(Invalid::Grammar { what, found: name.chars().take(60).collect(), expected }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_part_of_the_name_and_no_name_can_stand_for_two() {
        let inbox = Inbox::new();
        assert_eq!(inbox.named("billing").unwrap(), "billing");
        assert!(inbox.named("a@b").is_err());
        let inbox = inbox.tenant("acme");
        assert_eq!(inbox.named("billing").unwrap(), "billing@acme");
        assert!(inbox.named("a@b").is_err());
    }

    #[test]
    fn names_that_a_database_would_cut_or_compare_otherwise_are_refused() {
        for bad in ["", " a", "a ", "a\n", &"a".repeat(256)] {
            assert!(matches!(Inbox::new().named(bad), Err(InboxError::Invalid(_))), "{bad:?}");
            assert!(Inbox::new().tenant(bad).named("a").is_err(), "{bad:?}");
        }
        assert!(Inbox::new().named(&"a".repeat(255)).is_ok());
    }
}
