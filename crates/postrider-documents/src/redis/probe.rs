//! Whether this user may do what documents need, and the server's scripts do as they say.

use postrider_core::{Error, ErrorKind, Result, Revision, Stored, Timestamp, WriteError};
use redis::pipe;
use uuid::Uuid;

use super::check::{Seen, kept};
use super::classify::misunderstood;
use super::keys::prepared;
use super::store::{Change, RedisDocuments};
use crate::doing::Doing;

/// No collection has such a name.
const COLLECTION: &str = "!probe";
const TRIED: &str = "trying whether documents can be written";
const TRYING: Doing = Doing::Reading(TRIED);
/// Done again it does no harm, so that a missing answer means as little as with a read.
const MARKING: Doing = Doing::Reading("marking that all is prepared");
const CONTENT: &[u8] = b"\"\0\xff\"";

impl RedisDocuments {
    /// Marks that documents are kept here, and tries to keep one.
    pub(super) async fn make_ready(&self) -> Result<()> {
        let mut lent = self.pool.lend().await?;
        kept(&Seen::by(&mut lent).await?, &self.pool.options)?;
        let mut asked = pipe();
        asked.cmd("SET").arg(prepared(&self.pool.options.prefix)).arg("1").arg("NX").ignore();
        let () = lent.ask(MARKING, &asked).await?;
        lent.give_back();
        self.probe().await
    }

    /// Writes a document of its own in each way, also where it must be refused, and deletes it.
    pub(super) async fn probe(&self) -> Result<()> {
        let (keys, name) = (self.keys(COLLECTION), Uuid::new_v4().to_string());
        let [first, second] = [Uuid::new_v4(), Uuid::new_v4()].map(Revision);
        let write = async |script, over: &str, revision: Revision, due| {
            let change = Change { over, revision: revision.0.to_string(), due, json: CONTENT };
            self.write(TRIED, script, (&keys, &name), &change).await
        };
        let (one, two) = (first.0.to_string(), second.0.to_string());
        self.must_succeed(write(&self.scripts.create, "", first, Some(Timestamp(0))).await)?;
        self.must_conflict(write(&self.scripts.create, "", second, None).await)?;
        self.must_succeed(write(&self.scripts.replace, &one, second, None).await)?;
        self.must_conflict(write(&self.scripts.replace, &one, first, None).await)?;
        let read = self.read(&keys, &name).await?;
        if !read.is_some_and(|Stored { json, version }| json == CONTENT && version.0 == two) {
            return Err(misunderstood(TRYING, &self.pool.options));
        }
        let deleted = self.write(TRIED, &self.scripts.delete, (&keys, &name), &Change::away(&two)).await;
        self.must_succeed(deleted)
    }

    fn must_succeed(&self, written: std::result::Result<(), WriteError>) -> Result<()> {
        written.map_err(|error| self.untried(error))
    }

    fn must_conflict(&self, written: std::result::Result<(), WriteError>) -> Result<()> {
        match written {
            Err(WriteError::Conflict) => Ok(()),
            Err(error) => Err(self.untried(error)),
            Ok(()) => Err(misunderstood(TRYING, &self.pool.options)),
        }
    }

    fn untried(&self, error: WriteError) -> Error {
        match error {
            WriteError::Failed(error) if error.kind() != ErrorKind::Unknown => error,
            WriteError::Failed(error) => Error::new(ErrorKind::Unavailable, TRYING.to_string()).because(error),
            WriteError::Conflict | WriteError::TooLarge { .. } => misunderstood(TRYING, &self.pool.options),
        }
    }
}
