//! The calls.

use async_trait::async_trait;
use bytes::Bytes;
use postrider_core::{
    Collection, DocumentKey, DocumentProfile, DocumentStore, Draft, DueIndex, Finding, Result, Stored, Timestamp,
    Version, WriteError,
};
use redis::{Pipeline, pipe};

use super::LIMIT;
use super::classify::{is_forgotten, misunderstood, unprepared, working};
use super::keys::{Keys, digits};
use super::options::RedisOptions;
use super::pool::Pool;
use super::scripts::{Named, Scripts, Written};
use crate::doing::Doing;

/// Documents in hashes of Redis.
#[derive(Debug)]
pub struct RedisDocuments {
    pub(super) pool: Pool,
    pub(super) scripts: Scripts,
}

/// What a script is called with beside its keys.
pub(super) struct Change<'a> {
    /// The revision that was read; empty where there is to be none.
    pub(super) over: &'a str,
    /// The new revision.
    pub(super) revision: String,
    pub(super) due: Option<Timestamp>,
    pub(super) json: &'a [u8],
}

impl<'a> Change<'a> {
    fn to(over: &'a str, draft: &'a Draft) -> Self {
        Self { over, revision: draft.revision.0.to_string(), due: draft.due, json: &draft.json }
    }

    pub(super) fn away(over: &'a str) -> Self {
        Self { over, revision: String::new(), due: None, json: b"" }
    }
}

impl RedisDocuments {
    /// A store that connects when it is first asked.
    ///
    /// # Errors
    /// `Config` when the certificates of its authorities cannot be read.
    pub fn new(options: RedisOptions) -> Result<Self> {
        Ok(Self { pool: Pool::new(options)?, scripts: Scripts::new() })
    }

    pub(super) fn keys(&self, collection: &str) -> Keys {
        Keys::of(&self.pool.options.prefix, collection)
    }

    /// The hash of a document as it is, with what a replica refuses.
    pub(super) async fn read(&self, keys: &Keys, name: &str) -> Result<Option<Stored>> {
        let doing = Doing::Reading("reading a document");
        let mut asked = pipe();
        asked.cmd("HMGET").arg(keys.document(name)).arg("revision").arg("json");
        at_a_primary(&mut asked, keys);
        let mut lent = self.pool.lend().await?;
        type Found = (Option<String>, Option<Vec<u8>>);
        let ((revision, json), is_prepared, _): (Found, bool, i64) = lent.ask(doing, &asked).await?;
        lent.give_back();
        match (revision, json) {
            (Some(revision), Some(json)) => Ok(Some(Stored { json: Bytes::from(json), version: Version(revision) })),
            (None, None) if is_prepared => Ok(None),
            (None, None) => Err(unprepared(doing, &self.pool.options)),
            _ => Err(misunderstood(doing, &self.pool.options)),
        }
    }

    /// Runs a script: by its hash, and with its text where the server does not know it.
    pub(super) async fn write(
        &self,
        doing: &'static str,
        script: &Named,
        (keys, name): (&Keys, &str),
        change: &Change<'_>,
    ) -> std::result::Result<(), WriteError> {
        let doing = Doing::Writing(doing);
        let called = |command: &str, script: &str| {
            let mut asked = pipe();
            asked.cmd(command).arg(script).arg(4);
            asked.arg(&keys.prepared).arg(keys.document(name)).arg(&keys.due).arg(&keys.names);
            asked.arg(change.over).arg(&change.revision).arg(name).arg(digits(change.due)).arg(change.json);
            asked
        };
        let mut lent = self.pool.lend().await?;
        let (written,): (i64,) = match lent.answer(doing, &called("EVALSHA", &script.hash)).await? {
            Ok(written) => written,
            Err(error) if is_forgotten(&error) => lent.ask(doing, &called("EVAL", script.text)).await?,
            Err(error) => return Err(working(doing, &self.pool.options, &error).into()),
        };
        lent.give_back();
        match Written::meant(written) {
            Some(Written::Yes) => Ok(()),
            Some(Written::Conflict) => Err(WriteError::Conflict),
            Some(Written::Unprepared) => Err(unprepared(doing, &self.pool.options).into()),
            None => Err(misunderstood(doing, &self.pool.options).into()),
        }
    }
}

/// Asks also whether all is prepared, and takes from an index what is never there: a server that is no primary any more
/// refuses that, and its answer to the rest is of the past.
pub(super) fn at_a_primary(asked: &mut Pipeline, keys: &Keys) {
    asked.cmd("EXISTS").arg(&keys.prepared);
    asked.cmd("ZREM").arg(&keys.due).arg("");
}

#[async_trait]
impl DocumentStore for RedisDocuments {
    fn profile(&self) -> DocumentProfile {
        DocumentProfile { name: "redis", limit: Some(LIMIT), due: DueIndex::Indexed }
    }

    async fn load(&self, key: &DocumentKey) -> Result<Option<Stored>> {
        self.read(&self.keys(key.collection().as_str()), key.name()).await
    }

    async fn create(&self, key: &DocumentKey, draft: &Draft) -> std::result::Result<Version, WriteError> {
        draft.fits(LIMIT)?;
        let (keys, change) = (self.keys(key.collection().as_str()), Change::to("", draft));
        self.write("creating a document", &self.scripts.create, (&keys, key.name()), &change).await?;
        Ok(draft.version())
    }

    async fn replace(
        &self,
        key: &DocumentKey,
        over: &Version,
        draft: &Draft,
    ) -> std::result::Result<Version, WriteError> {
        draft.fits(LIMIT)?;
        let (keys, change) = (self.keys(key.collection().as_str()), Change::to(&over.0, draft));
        self.write("replacing a document", &self.scripts.replace, (&keys, key.name()), &change).await?;
        Ok(draft.version())
    }

    async fn delete(&self, key: &DocumentKey, over: &Version) -> std::result::Result<(), WriteError> {
        let (keys, change) = (self.keys(key.collection().as_str()), Change::away(&over.0));
        self.write("deleting a document", &self.scripts.delete, (&keys, key.name()), &change).await
    }

    async fn due(
        &self,
        collection: &Collection,
        by: Timestamp,
        after: Option<&DocumentKey>,
        at_most: usize,
    ) -> Result<Vec<DocumentKey>> {
        self.find_due(collection, by, after.map_or("", DocumentKey::name), at_most).await
    }

    async fn prepare(&self) -> Result<()> {
        self.make_ready().await
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.look().await
    }
}
