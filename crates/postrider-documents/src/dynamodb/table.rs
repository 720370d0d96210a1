//! The table and its index.

use std::time::Duration;

use postrider_core::{Error, ErrorKind, Finding, Level, Result};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::classify::{Failure, reading};
use super::item::{DOCUMENT, DUE, SHARD};
use super::service::{Action, CREATE_TABLE, DESCRIBE_BACKUPS, DESCRIBE_TABLE, UPDATE_TABLE};
use super::store::DynamoDocuments;
use crate::found::found;

/// The index of what is due.
pub(super) const INDEX: &str = "postrider_document_due";
/// How long the service may take to make them. A table takes some seconds; an index of one that is full may take longer.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(500);
const LOOKING: &str = "looking at the table";
const MAKING: &str = "making the table of documents";

impl DynamoDocuments {
    /// What the service says of the table; none where there is none.
    pub(super) async fn described(&self) -> Result<Option<Value>> {
        match self.service.ask(DESCRIBE_TABLE, &json!({ "TableName": self.options.table })).await {
            Ok(mut answer) => Ok(answer.get_mut("Table").map(Value::take)),
            Err(failure) if failure.is_table_missing() => Ok(None),
            Err(failure) => Err(reading(LOOKING, &self.options, failure)),
        }
    }

    /// Makes the table, or the index of one that has none, and waits until both are there.
    pub(super) async fn make(&self) -> Result<()> {
        // Whoever may only write documents finds the table there, and needs no right to make one.
        match self.described().await? {
            None => self.begin(CREATE_TABLE, &self.definition()).await?,
            Some(table) if !has_key(&table) => return Err(self.misshapen()),
            Some(table) if index(&table).is_none() => self.begin(UPDATE_TABLE, &self.further_index()).await?,
            Some(_) => {}
        }
        let until = Instant::now() + PATIENCE;
        loop {
            // For a moment after its making it may not be seen yet.
            let table = self.described().await?.unwrap_or_default();
            if serves(&table) && index(&table).is_some_and(is_active) {
                return if has_shape(&table) { Ok(()) } else { Err(self.misshapen()) };
            }
            if Instant::now() > until {
                let text = format!("{MAKING} in {}: it is not there after {PATIENCE:?}", self.options.shown());
                return Err(Error::new(ErrorKind::Unavailable, text)
                    .advise("call prepare again: the service goes on by itself, and takes longer for a large table"));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Asks for the table or the index, which somebody else may have done meanwhile.
    async fn begin(&self, action: Action, body: &Value) -> Result<()> {
        match self.service.ask(action, body).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.is("ResourceInUseException") => Ok(()),
            Err(failure) => Err(reading(MAKING, &self.options, failure)),
        }
    }

    fn definition(&self) -> Value {
        json!({
            "TableName": self.options.table,
            "BillingMode": "PAY_PER_REQUEST",
            "DeletionProtectionEnabled": true,
            "AttributeDefinitions": attributes(),
            "KeySchema": [{ "AttributeName": DOCUMENT, "KeyType": "HASH" }],
            "GlobalSecondaryIndexes": [definition_of_index()],
        })
    }

    fn further_index(&self) -> Value {
        json!({
            "TableName": self.options.table,
            "AttributeDefinitions": attributes(),
            "GlobalSecondaryIndexUpdates": [{ "Create": definition_of_index() }],
        })
    }

    /// What to know about the table.
    ///
    /// # Errors
    /// `Config` where it is not there, or is not as `prepare` makes it.
    pub(super) async fn look(&self) -> Result<Vec<Finding>> {
        let Some(table) = self.described().await? else {
            let text = format!("{LOOKING}: there is no table in {}", self.options.shown());
            return Err(Error::new(ErrorKind::Config, text)
                .advise("call prepare once, or correct its name or the region in the URL"));
        };
        if !has_shape(&table) || !serves(&table) {
            return Err(self.misshapen());
        }
        Ok(vec![replication(&table), self.backups().await?, deletion(&table), building(&table)])
    }

    fn misshapen(&self) -> Error {
        let text = format!("{LOOKING}: {} is not as prepare makes it, or not there yet", self.options.shown());
        Error::new(ErrorKind::Config, text).advise("call prepare, or give the documents a table of their own")
    }

    async fn backups(&self) -> Result<Finding> {
        let advice = "switch point-in-time recovery on: `aws dynamodb update-continuous-backups`";
        let asked = self.service.ask(DESCRIBE_BACKUPS, &json!({ "TableName": self.options.table })).await;
        match asked {
            Ok(answer) => {
                let status = "/ContinuousBackupsDescription/PointInTimeRecoveryDescription/PointInTimeRecoveryStatus";
                Ok(if answer.pointer(status).and_then(Value::as_str) == Some("ENABLED") {
                    found(Level::Good, "backups", "the table can be had back as it was at any second".to_owned(), "")
                } else {
                    let text = "point-in-time recovery is off: what is deleted or overwritten by mistake is lost";
                    found(Level::Warning, "backups", text.to_owned(), advice)
                })
            }
            Err(Failure::Refused(_)) => {
                let text = "these credentials may not see whether point-in-time recovery is on";
                let advice = "allow them DescribeContinuousBackups, or look yourself";
                Ok(found(Level::Warning, "backups", text.to_owned(), advice))
            }
            Err(failure) => Err(reading(LOOKING, &self.options, failure)),
        }
    }
}

fn attributes() -> Value {
    json!([
        { "AttributeName": DOCUMENT, "AttributeType": "S" },
        { "AttributeName": SHARD, "AttributeType": "S" },
        { "AttributeName": DUE, "AttributeType": "N" },
    ])
}

fn definition_of_index() -> Value {
    json!({
        "IndexName": INDEX,
        "KeySchema": [
            { "AttributeName": SHARD, "KeyType": "HASH" },
            { "AttributeName": DUE, "KeyType": "RANGE" },
        ],
        "Projection": { "ProjectionType": "KEYS_ONLY" },
    })
}

fn index(table: &Value) -> Option<&Value> {
    table.get("GlobalSecondaryIndexes")?.as_array()?.iter().find(|index| index["IndexName"] == INDEX)
}

fn is_active(index: &Value) -> bool {
    index["IndexStatus"] == "ACTIVE"
}

/// Whether documents are read and written, also while something else about the table is changed.
fn serves(table: &Value) -> bool {
    table["TableStatus"] == "ACTIVE" || table["TableStatus"] == "UPDATING"
}

fn has_key(table: &Value) -> bool {
    keys(table) == [(DOCUMENT, "HASH")]
}

fn has_shape(table: &Value) -> bool {
    has_key(table) && index(table).is_some_and(|index| keys(index) == [(SHARD, "HASH"), (DUE, "RANGE")])
}

fn keys(of: &Value) -> Vec<(&str, &str)> {
    let schema = of.get("KeySchema").and_then(Value::as_array);
    let keys = schema
        .into_iter()
        .flatten()
        .map(|part| (part["AttributeName"].as_str().unwrap_or_default(), part["KeyType"].as_str().unwrap_or_default()));
    keys.collect()
}

/// Between regions the last writer wins, whatever its condition was, unless the table is strongly consistent in all of them.
fn replication(table: &Value) -> Finding {
    let replicas = table.get("Replicas").and_then(Value::as_array).map_or(0, Vec::len);
    // Of an older kind of global tables the replicas are not told.
    let is_global = replicas > 0 || table.get("GlobalTableVersion").is_some_and(Value::is_string);
    match table.get("MultiRegionConsistency").and_then(Value::as_str) {
        _ if !is_global => {
            found(Level::Good, "consistency", "one region, and reads see every answered write".to_owned(), "")
        }
        Some("STRONG") => found(Level::Good, "consistency", "strong, in several regions".to_owned(), ""),
        _ => found(
            Level::Failure,
            "consistency",
            "a global table: of two regions the last write wins, whatever its condition was, and another is lost"
                .to_owned(),
            "use a table of one region, or a global table with multi-Region strong consistency",
        ),
    }
}

fn deletion(table: &Value) -> Finding {
    if table["DeletionProtectionEnabled"] == true {
        return found(Level::Good, "deletion", "the table is protected against it".to_owned(), "");
    }
    found(
        Level::Warning,
        "deletion",
        "the table is not protected against it".to_owned(),
        "switch it on: `aws dynamodb update-table --deletion-protection-enabled`",
    )
}

fn building(table: &Value) -> Finding {
    if index(table).is_some_and(is_active) {
        return found(
            Level::Good,
            "index",
            "what is due is found by an index, a moment after it is written".to_owned(),
            "",
        );
    }
    found(
        Level::Warning,
        "index",
        format!("the index {INDEX} is being made: what is due is not found yet"),
        "wait: the service goes on by itself",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_in_which_the_last_writer_wins_is_a_failure() {
        let replicas = json!([{ "RegionName": "eu-central-1" }, { "RegionName": "us-east-1" }]);
        for (table, expected) in [
            (json!({}), Level::Good),
            (json!({ "Replicas": [] }), Level::Good),
            (json!({ "Replicas": replicas }), Level::Failure),
            (json!({ "GlobalTableVersion": "2017.11.29" }), Level::Failure),
            (json!({ "Replicas": replicas, "MultiRegionConsistency": "EVENTUAL" }), Level::Failure),
            (json!({ "Replicas": replicas, "MultiRegionConsistency": "STRONG" }), Level::Good),
        ] {
            let finding = replication(&table);
            assert_eq!(finding.level, expected, "{table}");
            assert!(expected == Level::Good || finding.advice.contains("strong consistency"), "{finding:?}");
        }
    }

    #[test]
    fn a_table_of_somebody_else_has_not_the_shape() {
        let ours = json!({
            "KeySchema": [{ "AttributeName": "document", "KeyType": "HASH" }],
            "GlobalSecondaryIndexes": [definition_of_index()],
        });
        assert!(has_shape(&ours));
        let sorted =
            json!([{ "AttributeName": "document", "KeyType": "HASH" }, { "AttributeName": "b", "KeyType": "RANGE" }]);
        for (name, value) in [("KeySchema", sorted), ("GlobalSecondaryIndexes", json!([]))] {
            let mut other = ours.clone();
            other[name] = value;
            assert!(!has_shape(&other), "{other}");
        }
    }

    #[test]
    fn an_index_that_is_being_made_is_said() {
        let table = |status: &str| json!({ "GlobalSecondaryIndexes": [{ "IndexName": INDEX, "IndexStatus": status }] });
        assert_eq!(building(&table("CREATING")).level, Level::Warning);
        assert_eq!(building(&table("ACTIVE")).level, Level::Good);
        assert_eq!(deletion(&json!({})).level, Level::Warning);
    }
}
