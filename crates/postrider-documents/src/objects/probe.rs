//! Whether a service heeds the conditions of a write. Some that speak the protocol of S3 do not, and answer as if they did.

use object_store::{ObjectStoreExt, TagSet};
use postrider_core::{Error, ErrorKind, Result, Revision, WriteError};
use uuid::Uuid;

use super::envelope::tombstone;
use super::store::ObjectDocuments;
use super::write::Condition;

const DOING: &str = "trying whether writes have conditions";

impl ObjectDocuments {
    /// Writes an object of its own twice in each way, where the second must be refused, and deletes it.
    pub(super) async fn probe(&self) -> Result<()> {
        let object = self.options.place.probe(&Uuid::new_v4().to_string());
        let tried = self.try_conditions(&object).await;
        let deleted = self.client.delete(&object).await;
        tried?;
        deleted.map_err(|error| super::classify::reading(DOING, &self.options, error))
    }

    async fn try_conditions(&self, object: &object_store::path::Path) -> Result<()> {
        let write = async |condition: Condition<'_>| {
            let revision = Revision(Uuid::new_v4());
            self.put(object, (revision, tombstone(revision)), condition, TagSet::default()).await
        };
        let first = write(Condition::Absent).await.map_err(|error| self.untried(error))?;
        self.must_conflict(write(Condition::Absent).await)?;
        write(Condition::Over(&first)).await.map_err(|error| self.untried(error))?;
        self.must_conflict(write(Condition::Over(&first)).await)
    }

    fn must_conflict<T>(&self, written: std::result::Result<T, WriteError>) -> Result<()> {
        match written {
            Err(WriteError::Conflict) => Ok(()),
            Err(error) => Err(self.untried(error)),
            Ok(_) => Err(self.ignored()),
        }
    }

    fn ignored(&self) -> Error {
        let text = format!("{DOING}: {} takes a write whose condition does not hold", self.options.shown());
        Error::new(ErrorKind::Config, text)
            .advise("use a service, or a newer version of it, that heeds If-None-Match and If-Match of a PUT")
    }

    fn untried(&self, error: WriteError) -> Error {
        match error {
            WriteError::Failed(error) if error.kind() != ErrorKind::Unknown => error,
            WriteError::Failed(error) => Error::new(ErrorKind::Unavailable, DOING).because(error),
            WriteError::Conflict | WriteError::TooLarge { .. } => self.ignored(),
        }
    }
}
