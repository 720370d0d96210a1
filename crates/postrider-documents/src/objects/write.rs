//! One write on a condition, told with certainty or not at all.

use std::time::{Duration, Instant};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{PutMode, PutOptions, TagSet};
use postrider_core::{Error, ErrorKind, Revision, Version, WriteError};

use super::classify::{Verdict, failed, verdict};
use super::client::{update, version};
use super::envelope::Content;
use super::store::ObjectDocuments;
use super::witness::Witness;

/// How often a request is sent at most, and what is waited before each further one.
const PAUSES: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(50), Duration::from_millis(100), Duration::from_millis(200)];
const DOING: &str = "writing a document";

/// On what an object is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Condition<'a> {
    /// That there is none.
    Absent,
    /// That it has this version.
    Over(&'a Version),
}

impl ObjectDocuments {
    /// Writes an object on a condition. A conflict says that nothing was written, by no request of this call.
    pub(super) async fn put(
        &self,
        object: &Path,
        content: (Revision, Bytes),
        condition: Condition<'_>,
        tags: TagSet,
    ) -> Result<Version, WriteError> {
        let (revision, bytes) = content;
        let (began, service) = (Instant::now(), self.options.service);
        let mut doubt = None;
        let mut patience = None;
        for pause in PAUSES {
            if began.elapsed() > self.options.timeout / 2 {
                break;
            }
            tokio::time::sleep(pause).await;
            let witness = Witness::default();
            let mode = match condition {
                Condition::Absent => PutMode::Create,
                Condition::Over(over) => PutMode::Update(update(service, over)),
            };
            let options =
                PutOptions { mode, tags: tags.clone(), extensions: witness.extensions(), ..PutOptions::default() };
            let error = match self.client.put_opts(object, bytes.clone().into(), options).await {
                Ok(put) => return version(service, put.e_tag, put.version).ok_or_else(|| self.unnamed().into()),
                Err(error) => error,
            };
            match verdict(service, condition, witness.fate(), &error) {
                Verdict::Refused if doubt.is_none() => return Err(WriteError::Conflict),
                Verdict::Refused => return self.own(object, revision).await,
                Verdict::Again => patience = Some(error),
                Verdict::Doubtful => doubt = Some(error),
                Verdict::Unknown => return Err(failed(ErrorKind::Unknown, DOING, &self.options, error).into()),
                Verdict::Failed(kind) => {
                    let kind = if doubt.is_none() { kind } else { ErrorKind::Unknown };
                    return Err(failed(kind, DOING, &self.options, error).into());
                }
            }
        }
        Err(match (doubt, patience) {
            (Some(error), _) => failed(ErrorKind::Unknown, DOING, &self.options, error),
            (None, Some(error)) => failed(ErrorKind::Throttled, DOING, &self.options, error),
            (None, None) => self.unnamed(),
        }
        .into())
    }

    /// Whether the object that refused a write is this very write, by a request whose answer was lost. Where it is another, it
    /// may have been written over this one.
    async fn own(&self, object: &Path, revision: Revision) -> Result<Version, WriteError> {
        let cause = match self.look(object).await {
            Ok(Some((version, Content::Document(found, _) | Content::Tombstone(found)))) if found == revision => {
                return Ok(version);
            }
            Ok(_) => "another writer was there since".into(),
            Err(error) => Box::<dyn std::error::Error + Send + Sync>::from(error),
        };
        let text = format!("{DOING} in {}: a request had no answer", self.options.shown());
        Err(Error::new(ErrorKind::Unknown, text).because(cause).into())
    }

    fn unnamed(&self) -> Error {
        let text = format!("{DOING} in {}: the service gave no version of what it wrote", self.options.shown());
        Error::new(ErrorKind::Unknown, text).advise("use a service that answers a write with an ETag")
    }
}
