//! Whether writes have conditions, and these credentials may make them. Some that speak the protocol are not DynamoDB.

use postrider_core::{Error, ErrorKind, Result, Version, WriteError};
use serde_json::{Value, json};
use uuid::Uuid;

use super::item::{DOCUMENT, REVISION, text};
use super::store::DynamoDocuments;
use super::write::Change;

const DOING: &str = "trying whether writes have conditions";

impl DynamoDocuments {
    /// Writes an item of its own twice in each way, where the second must be refused, and deletes it.
    pub(super) async fn probe(&self) -> Result<()> {
        // No collection begins with this mark.
        let name = format!("!probe/{}", Uuid::new_v4());
        let (first, second) = (Version(Uuid::new_v4().to_string()), Version(Uuid::new_v4().to_string()));
        let item = |version: &Version| -> Value { json!({ DOCUMENT: text(&name), REVISION: text(&version.0) }) };
        let (one, two) = (item(&first), item(&second));
        self.succeeds(&Change::Create(&one)).await?;
        let tried = async {
            self.conflicts(&Change::Create(&two)).await?;
            self.succeeds(&Change::Replace(&two, &first)).await?;
            self.conflicts(&Change::Replace(&one, &first)).await?;
            self.conflicts(&Change::Delete(&name, &first)).await
        };
        let tried = tried.await;
        let deleted = self.succeeds(&Change::Delete(&name, &second)).await;
        tried.and(deleted)
    }

    async fn succeeds(&self, change: &Change<'_>) -> Result<()> {
        self.change(change).await.map_err(|error| self.untried(error))
    }

    async fn conflicts(&self, change: &Change<'_>) -> Result<()> {
        match self.change(change).await {
            Err(WriteError::Conflict) => Ok(()),
            Err(error) => Err(self.untried(error)),
            Ok(()) => Err(self.ignored()),
        }
    }

    fn ignored(&self) -> Error {
        let text = format!("{DOING}: {} takes a write whose condition does not hold", self.options.shown());
        Error::new(ErrorKind::Config, text).advise("use a service that heeds ConditionExpression")
    }

    fn untried(&self, error: WriteError) -> Error {
        match error {
            WriteError::Failed(error) if error.kind() != ErrorKind::Unknown => error,
            WriteError::Failed(error) => Error::new(ErrorKind::Unavailable, DOING).because(error),
            WriteError::Conflict | WriteError::TooLarge { .. } => self.ignored(),
        }
    }
}
