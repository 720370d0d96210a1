//! Finding what is due.

use std::collections::BTreeSet;

use postrider_core::{Collection, DocumentKey, Error, ErrorKind, Result, Timestamp};
use serde_json::{Value, json};

use super::classify::reading;
use super::item::{DOCUMENT, DUE, SHARD, SHARDS, number, said, shard, text};
use super::service::QUERY;
use super::store::DynamoDocuments;
use super::table::INDEX;
use crate::found::named;

const DOING: &str = "finding what is due";

impl DynamoDocuments {
    /// The names of what is due, in order, from every part of the index. The index is in the order of when, so that everything
    /// that is due is looked at for each answer; no more names are kept than are asked for.
    pub(super) async fn named_as_due(
        &self,
        collection: &Collection,
        by: Timestamp,
        after: Option<&DocumentKey>,
        at_most: usize,
    ) -> Result<Vec<DocumentKey>> {
        let mut first = BTreeSet::new();
        for part in 0..SHARDS {
            let mut query = json!({
                "TableName": self.options.table,
                "IndexName": INDEX,
                "KeyConditionExpression": "#shard = :shard and #due <= :by",
                "ExpressionAttributeNames": { "#shard": SHARD, "#due": DUE },
                "ExpressionAttributeValues": { ":shard": text(&shard(collection, part)), ":by": number(by.0) },
            });
            loop {
                let page = self.service.ask(QUERY, &query).await;
                let mut page = page.map_err(|failure| reading(DOING, &self.options, failure))?;
                for item in page.get("Items").and_then(Value::as_array).into_iter().flatten() {
                    let key = key(collection, item)?;
                    if after.is_none_or(|after| key > *after) {
                        first.insert(key);
                    }
                    if first.len() > at_most {
                        first.pop_last();
                    }
                }
                match page.get_mut("LastEvaluatedKey").map(Value::take) {
                    Some(last @ Value::Object(_)) => query["ExclusiveStartKey"] = last,
                    _ => break,
                }
            }
        }
        Ok(first.into_iter().collect())
    }
}

/// The document of an entry of the index.
fn key(collection: &Collection, item: &Value) -> Result<DocumentKey> {
    let of = |name: &'_ str| name.strip_prefix(collection.as_str())?.strip_prefix('/').map(str::to_owned);
    let name = said(item, DOCUMENT).and_then(of).ok_or_else(|| {
        Error::new(ErrorKind::Config, format!("{DOING}: the index has an item that is no document of postrider"))
            .advise("give the documents a table of their own, where nobody else writes")
    })?;
    named(collection, &name)
}
