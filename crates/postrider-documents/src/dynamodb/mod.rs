//! DynamoDB: each document is an item, written on the condition that it has the revision that its writer read.
//!
//! | attribute | what it is |
//! |---|---|
//! | `document` | the key: collection, `/` and name, as they are |
//! | `json` | the JSON, as text |
//! | `revision` | that of its last write, by which a version is known |
//! | `due`, `due_shard` | only where it is ever due: when, in microseconds, and its part of the index |
//!
//! Every read of a document is consistent (`ConsistentRead`). The URL is `dynamodb://table`, with these options behind `?`:
//!
//! | option | meaning | default |
//! |---|---|---|
//! | `region` | where the table is | as `AWS_REGION` or `AWS_DEFAULT_REGION` says |
//! | `endpoint` | where the service is reached, `https://host:port` | as `AWS_ENDPOINT_URL_DYNAMODB` or `AWS_ENDPOINT_URL` says, or the region's own |
//! | `timeout` | the seconds that one request may take, 1 to 600 | 10 |
//!
//! Credentials are the service's own variables of the environment, `AWS_`, as of documents in S3.
//!
//! **What is due** is in a sparse index, `postrider_document_due`: only documents that are ever due are in it, ordered by when,
//! so that finding them reads what is due and nothing else. A query of the table itself would be consistent, and read every
//! document. The index follows the table after a moment, and says of a document what was true then: who asks loads each,
//! and one that was not named yet is named the next time. A collection is four parts of the index, because one part
//! takes 1,000 writes a second, and a part that takes no more holds up the writes of the table.
//!
//! **Requests** are made here, with the signature and the credentials that documents in S3 have: the service's own kit is 26
//! crates more to build, for eight kinds of requests. What happened to each request is known. One that was not taken is
//! repeated. A replace or a delete without an answer is repeated too, which can not happen twice, as its version never comes
//! back; where it is then refused, the item that refused it shows whether it was this very write. A create without an
//! answer is looked for and not repeated: it would succeed again after somebody's delete.

mod classify;
mod due;
mod item;
mod options;
mod probe;
mod service;
mod store;
mod table;
mod write;

use std::sync::Arc;

use postrider_core::{DocumentStore, Result};

pub use options::DynamoOptions;
pub use store::DynamoDocuments;

/// The most bytes of the JSON of one document. An item has at most 409,600, with the names of its attributes, its key, and
/// when it is due: less than 500 here.
pub const LIMIT: u64 = 400_000;

/// Opens the store of a URL, with what the environment says. Nothing is sent before the first call.
///
/// # Errors
/// `Config` when the URL cannot be read, or neither it nor the environment says the region.
pub async fn open(url: &str) -> Result<Arc<dyn DocumentStore>> {
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Ok(Arc::new(DynamoDocuments::new(DynamoOptions::new(url, variables)?)?))
}
