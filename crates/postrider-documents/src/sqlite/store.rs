//! The statements.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use postrider_core::{
    Collection, DocumentKey, DocumentProfile, DocumentStore, Draft, DueIndex, Error, ErrorKind, Finding, Level, Result,
    Stored, Timestamp, Version, WriteError,
};
use rusqlite::{OptionalExtension, params};

use super::LIMIT;
use super::file::{File, Missing, switch_to_wal};
use crate::found::{found, named};

const LOAD: &str = "select json, revision from postrider_document where collection = ?1 and name = ?2";
const CREATE: &str = "\
insert into postrider_document (collection, name, json, due, revision) values (?1, ?2, ?3, ?4, ?5)
on conflict (collection, name) do nothing";
const REPLACE: &str = "\
update postrider_document set json = ?3, due = ?4, revision = ?5 where collection = ?1 and name = ?2 and revision = ?6";
const DELETE: &str = "delete from postrider_document where collection = ?1 and name = ?2 and revision = ?3";
const DUE: &str = "\
select name from postrider_document where collection = ?1 and due <= ?2 and name > ?3 order by name limit ?4";
const PREPARE: &str = include_str!("prepare.sql");
const LOOK: &str = "select collection, name, json, due, revision from postrider_document limit 0";
const INDEX: &str = "select count(*) from sqlite_schema where type = 'index' and name = 'postrider_document_due'";

/// Documents in a file of SQLite.
#[derive(Debug)]
pub struct SqliteDocuments {
    file: Arc<File>,
}

impl SqliteDocuments {
    /// A store that opens its file when it is first asked.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { file: Arc::new(File::new(path.into())) }
    }
}

#[async_trait]
impl DocumentStore for SqliteDocuments {
    fn profile(&self) -> DocumentProfile {
        DocumentProfile { name: "sqlite", limit: Some(LIMIT), due: DueIndex::Indexed }
    }

    async fn load(&self, key: &DocumentKey) -> Result<Option<Stored>> {
        let key = key.clone();
        let loaded = self.file.run("reading a document", move |connection| {
            let mut statement = connection.prepare_cached(LOAD)?;
            let read = statement.query_row(params![key.collection().as_str(), key.name()], |row| {
                let (json, revision): (String, String) = (row.get(0)?, row.get(1)?);
                Ok(Stored { json: Bytes::from(json), version: Version(revision) })
            });
            read.optional()
        });
        loaded.await.map_err(nothing_changed)
    }

    async fn create(&self, key: &DocumentKey, draft: &Draft) -> std::result::Result<Version, WriteError> {
        draft.fits(LIMIT)?;
        let (json, due) = (draft.text()?.to_owned(), draft.due.map(|due| due.0));
        let (key, version) = (key.clone(), draft.version());
        let revision = version.0.clone();
        let created = self.file.run("creating a document", move |connection| {
            let values = params![key.collection().as_str(), key.name(), json, due, revision];
            connection.prepare_cached(CREATE)?.execute(values)
        });
        if created.await? == 1 { Ok(version) } else { Err(WriteError::Conflict) }
    }

    async fn replace(
        &self,
        key: &DocumentKey,
        over: &Version,
        draft: &Draft,
    ) -> std::result::Result<Version, WriteError> {
        draft.fits(LIMIT)?;
        let (json, due) = (draft.text()?.to_owned(), draft.due.map(|due| due.0));
        let (key, version) = (key.clone(), draft.version());
        let (revision, over) = (version.0.clone(), over.0.clone());
        let replaced = self.file.run("replacing a document", move |connection| {
            let values = params![key.collection().as_str(), key.name(), json, due, revision, over];
            connection.prepare_cached(REPLACE)?.execute(values)
        });
        if replaced.await? == 1 { Ok(version) } else { Err(WriteError::Conflict) }
    }

    async fn delete(&self, key: &DocumentKey, over: &Version) -> std::result::Result<(), WriteError> {
        let (key, over) = (key.clone(), over.0.clone());
        let deleted = self.file.run("deleting a document", move |connection| {
            connection.prepare_cached(DELETE)?.execute(params![key.collection().as_str(), key.name(), over])
        });
        if deleted.await? == 1 { Ok(()) } else { Err(WriteError::Conflict) }
    }

    async fn due(
        &self,
        collection: &Collection,
        by: Timestamp,
        after: Option<&DocumentKey>,
        at_most: usize,
    ) -> Result<Vec<DocumentKey>> {
        // No name is empty.
        let after = after.map_or("", DocumentKey::name).to_owned();
        let (within, at_most) = (collection.clone(), i64::try_from(at_most).unwrap_or(i64::MAX));
        let names = self.file.run("finding what is due", move |connection| {
            let mut statement = connection.prepare_cached(DUE)?;
            let names = statement.query_map(params![within.as_str(), by.0, after, at_most], |row| row.get(0))?;
            names.collect::<rusqlite::Result<Vec<String>>>()
        });
        names.await.map_err(nothing_changed)?.iter().map(|name| named(collection, name)).collect()
    }

    async fn prepare(&self) -> Result<()> {
        let prepared = self.file.run_on(Missing::Made, "making the table of documents", |connection| {
            switch_to_wal(connection)?;
            connection.execute_batch("begin immediate")?;
            let made = connection.execute_batch(PREPARE);
            connection.execute_batch(if made.is_ok() { "commit" } else { "rollback" })?;
            made
        });
        prepared.await
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        let looked = self.file.run("looking at the table", |connection| {
            connection.prepare(LOOK)?;
            let journal: String = connection.query_row("pragma journal_mode", [], |row| row.get(0))?;
            let indexes: i64 = connection.query_row(INDEX, [], |row| row.get(0))?;
            Ok((journal, indexes, connection.is_readonly(rusqlite::MAIN_DB)?))
        });
        let (journal, indexes, is_readonly) = looked.await.map_err(nothing_changed)?;
        let library = format!("SQLite {} at {}", rusqlite::version(), self.file.path().display());
        let mut findings = vec![
            found(Level::Good, "documents", library, ""),
            found(Level::Good, "durability", "an answered write is on the disk of this machine".to_owned(), ""),
        ];
        if journal != "wal" {
            let advice = "call prepare while nobody else has the file open";
            findings.push(found(Level::Warning, "journal", format!("{journal}: readers and the writer wait"), advice));
        }
        if indexes == 0 {
            let advice = "call prepare: finding what is due reads every document";
            findings.push(found(
                Level::Warning,
                "index",
                "there is no index postrider_document_due".to_owned(),
                advice,
            ));
        }
        if is_readonly {
            let advice = "give this process write permission on the file and on its folder";
            findings.push(found(Level::Failure, "rights", "the file can only be read".to_owned(), advice));
        }
        Ok(findings)
    }
}

/// A read that failed is known to have changed nothing.
fn nothing_changed(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unknown => Error::new(ErrorKind::Unavailable, error.to_string()),
        _ => error,
    }
}
