//! One write on a condition, told with certainty or not at all.

use std::time::{Duration, Instant};

use postrider_core::{Error, ErrorKind, Version, WriteError};
use serde_json::{Value, json};

use super::classify::{Failure, Verdict, failed, verdict};
use super::item::{DOCUMENT, REVISION, key, revision, text};
use super::service::{Action, DELETE, PUT};
use super::store::DynamoDocuments;

/// How often a request is sent at most, and what is waited before each further one.
const PAUSES: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(50), Duration::from_millis(100), Duration::from_millis(200)];
const DOING: &str = "writing a document";

/// What is written, and over what.
#[derive(Debug)]
pub(super) enum Change<'a> {
    /// This item, where there is none.
    Create(&'a Value),
    /// This item, over the version.
    Replace(&'a Value, &'a Version),
    /// None, over the version.
    Delete(&'a str, &'a Version),
}

impl Change<'_> {
    fn action(&self) -> Action {
        match self {
            Self::Create(_) | Self::Replace(..) => PUT,
            Self::Delete(..) => DELETE,
        }
    }

    fn body(&self, table: &str) -> Value {
        match self {
            Self::Create(item) => json!({
                "TableName": table,
                "Item": item,
                "ConditionExpression": "attribute_not_exists(#key)",
                "ExpressionAttributeNames": { "#key": DOCUMENT },
            }),
            Self::Replace(item, over) => json!({
                "TableName": table,
                "Item": item,
                "ConditionExpression": "#revision = :over",
                "ExpressionAttributeNames": { "#revision": REVISION },
                "ExpressionAttributeValues": { ":over": text(&over.0) },
            }),
            Self::Delete(name, over) => json!({
                "TableName": table,
                "Key": key(name),
                "ConditionExpression": "#revision = :over",
                "ExpressionAttributeNames": { "#revision": REVISION },
                "ExpressionAttributeValues": { ":over": text(&over.0) },
            }),
        }
    }

    /// Whether an item is what this change writes. Of a delete there is nothing to see.
    fn is(&self, found: Option<&Value>) -> bool {
        match self {
            Self::Create(item) | Self::Replace(item, _) => {
                found.is_some_and(|found| revision(found).is_some() && revision(found) == revision(item))
            }
            Self::Delete(..) => false,
        }
    }
}

impl DynamoDocuments {
    /// Makes a change. A conflict says that nothing was changed, by no request of this call.
    pub(super) async fn change(&self, change: &Change<'_>) -> Result<(), WriteError> {
        let began = Instant::now();
        let mut body = change.body(&self.options.table);
        let (mut doubt, mut patience) = (None, None);
        for pause in PAUSES {
            if began.elapsed() > self.options.timeout / 2 {
                break;
            }
            tokio::time::sleep(pause).await;
            let Err(failure) = self.service.ask(change.action(), &body).await else { return Ok(()) };
            match (verdict(&failure), change) {
                (Verdict::Refused, _) if doubt.is_none() => return Err(WriteError::Conflict),
                (Verdict::Refused, _) if change.is(failure.item()) => return Ok(()),
                (Verdict::Refused, _) => return Err(self.overtaken()),
                (Verdict::Again, _) => patience = Some(failure),
                (Verdict::Doubtful, Change::Create(item)) => return self.look_for(change, item, failure).await,
                (Verdict::Doubtful, _) => {
                    // What refuses a further request is then seen.
                    body["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD".into();
                    doubt = Some(failure);
                }
                (Verdict::Unknown, _) => return Err(self.unwritten(ErrorKind::Unknown, failure)),
                (Verdict::Failed(kind), _) => {
                    let kind = if doubt.is_none() { kind } else { ErrorKind::Unknown };
                    return Err(self.unwritten(kind, failure));
                }
            }
        }
        Err(match (doubt, patience) {
            (Some(failure), _) => self.unwritten(ErrorKind::Unknown, failure),
            (None, Some(failure)) => self.unwritten(ErrorKind::Throttled, failure),
            (None, None) => self.overtaken(),
        })
    }

    /// Whether a create whose answer is lost is there. Where it is not, it may still come, or somebody deleted it since.
    async fn look_for(&self, change: &Change<'_>, item: &Value, failure: Failure) -> Result<(), WriteError> {
        match self.item(super::item::said(item, DOCUMENT).unwrap_or_default()).await {
            Ok(found) if change.is(found.as_ref()) => Ok(()),
            Ok(_) | Err(_) => Err(self.unwritten(ErrorKind::Unknown, failure)),
        }
    }

    fn unwritten(&self, kind: ErrorKind, failure: Failure) -> WriteError {
        failed(kind, DOING, &self.options, failure).into()
    }

    /// What refuses a further request may have been written over this change.
    fn overtaken(&self) -> WriteError {
        let text = format!("{DOING} in {}: a request had no answer", self.options.shown());
        Error::new(ErrorKind::Unknown, text).because("another writer was there since").into()
    }
}
