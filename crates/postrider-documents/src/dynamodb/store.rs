//! The calls.

use async_trait::async_trait;
use postrider_core::{
    Collection, DocumentKey, DocumentProfile, DocumentStore, Draft, DueIndex, Finding, Level, Result, Stored,
    Timestamp, Version, WriteError,
};
use serde_json::{Value, json};

use super::LIMIT;
use super::classify::reading;
use super::item::{item, key, name, stored};
use super::options::DynamoOptions;
use super::service::{GET, Service};
use super::write::Change;
use crate::found::found;

const READING: &str = "reading a document";

/// Documents in a table of DynamoDB.
#[derive(Debug)]
pub struct DynamoDocuments {
    pub(super) options: DynamoOptions,
    pub(super) service: Service,
}

impl DynamoDocuments {
    /// A store that connects when it is first asked.
    ///
    /// # Errors
    /// `Config` where the variables name half of a credential.
    pub fn new(options: DynamoOptions) -> Result<Self> {
        let service = Service::new(&options)?;
        Ok(Self { options, service })
    }

    /// An item as every answered write left it; none where there is none.
    pub(super) async fn item(&self, name: &str) -> Result<Option<Value>> {
        let body = json!({ "TableName": self.options.table, "Key": key(name), "ConsistentRead": true });
        let answer = self.service.ask(GET, &body).await;
        let mut answer = answer.map_err(|failure| reading(READING, &self.options, failure))?;
        Ok(answer.get_mut("Item").map(Value::take))
    }
}

#[async_trait]
impl DocumentStore for DynamoDocuments {
    fn profile(&self) -> DocumentProfile {
        DocumentProfile { name: "dynamodb", limit: Some(LIMIT), due: DueIndex::Indexed }
    }

    async fn load(&self, key: &DocumentKey) -> Result<Option<Stored>> {
        self.item(&name(key)).await?.as_ref().map(stored).transpose()
    }

    async fn create(&self, key: &DocumentKey, draft: &Draft) -> std::result::Result<Version, WriteError> {
        draft.fits(LIMIT)?;
        self.change(&Change::Create(&item(key, draft)?)).await?;
        Ok(draft.version())
    }

    async fn replace(
        &self,
        key: &DocumentKey,
        over: &Version,
        draft: &Draft,
    ) -> std::result::Result<Version, WriteError> {
        draft.fits(LIMIT)?;
        self.change(&Change::Replace(&item(key, draft)?, over)).await?;
        Ok(draft.version())
    }

    async fn delete(&self, key: &DocumentKey, over: &Version) -> std::result::Result<(), WriteError> {
        self.change(&Change::Delete(&name(key), over)).await
    }

    async fn due(
        &self,
        collection: &Collection,
        by: Timestamp,
        after: Option<&DocumentKey>,
        at_most: usize,
    ) -> Result<Vec<DocumentKey>> {
        self.named_as_due(collection, by, after, at_most).await
    }

    async fn prepare(&self) -> Result<()> {
        self.make().await?;
        self.probe().await
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        let mut findings = self.look().await?;
        self.probe().await?;
        let text = format!("in {}; a write whose condition does not hold is refused", self.options.shown());
        let durability = "an answered write is as durable as the service says of an item";
        findings.insert(0, found(Level::Good, "documents", text, ""));
        findings.insert(1, found(Level::Good, "durability", durability.to_owned(), ""));
        Ok(findings)
    }
}
