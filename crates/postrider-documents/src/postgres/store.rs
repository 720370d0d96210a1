//! The statements.

use async_trait::async_trait;
use bytes::Bytes;
use postrider_core::{
    Collection, DocumentKey, DocumentProfile, DocumentStore, Draft, DueIndex, Error, ErrorKind, Finding, Level, Result,
    Stored, Timestamp, Version, WriteError,
};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};
use uuid::Uuid;

use super::LIMIT;
use super::options::{Encryption, PostgresOptions};
use super::pool::{Parameter, Pool};
use crate::doing::Doing;
use crate::found::{found, named};

const LOAD: &str = "select json::text, revision from {table} where collection = $1 and name = $2";
const CREATE: &str = "\
insert into {table} (collection, name, json, due, revision) values ($1, $2, $3::jsonb, $4, $5)
on conflict (collection, name) do nothing";
const REPLACE: &str = "\
update {table} set json = $3::jsonb, due = $4, revision = $5 where collection = $1 and name = $2 and revision = $6";
const DELETE: &str = "delete from {table} where collection = $1 and name = $2 and revision = $3";
const DUE: &str = "\
select name from {table} where collection = $1 and due <= $2 and name > $3 order by name limit $4";
const IS_PREPARED: &str = "select to_regclass($1) is not null";
const PREPARE: &str = include_str!("prepare.sql");
const LOOK: &str = "select collection, name, json, due, revision from {table} limit 0";
/// The index is made last.
const INDEX: &str = "postrider_document_due";
const CHECK: &str = "\
select current_setting('server_version'), current_setting('synchronous_commit'),
       current_setting('fsync') = 'on' and current_setting('full_page_writes') = 'on',
       (select string_agg(wanted, ', ') from unnest(array['select', 'insert', 'update', 'delete']) wanted
         where not has_table_privilege($1, wanted))";

/// Documents in a table of PostgreSQL.
#[derive(Debug)]
pub struct PostgresDocuments {
    pool: Pool,
}

impl PostgresDocuments {
    /// A store that connects when it is first asked.
    ///
    /// # Errors
    /// `Config` when the certificates of its authorities cannot be read.
    pub fn new(options: PostgresOptions) -> Result<Self> {
        Ok(Self { pool: Pool::new(options)? })
    }

    fn sql(&self, statement: &str) -> String {
        statement.replace("{table}", &self.pool.options.table())
    }

    async fn is_prepared(&self) -> Result<bool> {
        let index = format!("\"{}\".{INDEX}", self.pool.options.schema);
        let rows =
            self.pool.query(Doing::Reading("looking for the table"), IS_PREPARED, &[(&index, Type::TEXT)]).await?;
        only(&rows, 0)
    }
}

/// The revision that a version stands for; a version of another store stands for none.
fn revision(version: &Version) -> std::result::Result<Uuid, WriteError> {
    Uuid::parse_str(&version.0).map_err(|_| WriteError::Conflict)
}

fn column<'r, T: FromSql<'r>>(row: &'r Row, place: usize) -> Result<T> {
    row.try_get(place).map_err(|error| {
        let what = "reading a document: the table postrider_document is not as prepare makes it";
        Error::new(ErrorKind::Config, what).because(error)
    })
}

fn only<'r, T: FromSql<'r>>(rows: &'r [Row], place: usize) -> Result<T> {
    let row = rows.first().ok_or_else(|| Error::new(ErrorKind::Config, "PostgreSQL answers without a row"))?;
    column(row, place)
}

#[async_trait]
impl DocumentStore for PostgresDocuments {
    fn profile(&self) -> DocumentProfile {
        DocumentProfile { name: "postgres", limit: Some(LIMIT), due: DueIndex::Indexed }
    }

    async fn load(&self, key: &DocumentKey) -> Result<Option<Stored>> {
        let parameters: [Parameter<'_>; 2] = [(&key.collection().as_str(), Type::TEXT), (&key.name(), Type::TEXT)];
        let rows = self.pool.query(Doing::Reading("reading a document"), &self.sql(LOAD), &parameters).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (json, revision): (String, Uuid) = (column(row, 0)?, column(row, 1)?);
        Ok(Some(Stored { json: Bytes::from(json), version: Version(revision.to_string()) }))
    }

    async fn create(&self, key: &DocumentKey, draft: &Draft) -> std::result::Result<Version, WriteError> {
        draft.fits(LIMIT)?;
        let (json, due) = (draft.text()?, draft.due.map(|due| due.0));
        let parameters: [Parameter<'_>; 5] = [
            (&key.collection().as_str(), Type::TEXT),
            (&key.name(), Type::TEXT),
            (&json, Type::TEXT),
            (&due, Type::INT8),
            (&draft.revision.0, Type::UUID),
        ];
        let written = self.pool.change(Doing::Writing("creating a document"), &self.sql(CREATE), &parameters).await?;
        written.then(|| draft.version()).ok_or(WriteError::Conflict)
    }

    async fn replace(
        &self,
        key: &DocumentKey,
        over: &Version,
        draft: &Draft,
    ) -> std::result::Result<Version, WriteError> {
        draft.fits(LIMIT)?;
        let (json, due, over) = (draft.text()?, draft.due.map(|due| due.0), revision(over)?);
        let parameters: [Parameter<'_>; 6] = [
            (&key.collection().as_str(), Type::TEXT),
            (&key.name(), Type::TEXT),
            (&json, Type::TEXT),
            (&due, Type::INT8),
            (&draft.revision.0, Type::UUID),
            (&over, Type::UUID),
        ];
        let written = self.pool.change(Doing::Writing("replacing a document"), &self.sql(REPLACE), &parameters).await?;
        written.then(|| draft.version()).ok_or(WriteError::Conflict)
    }

    async fn delete(&self, key: &DocumentKey, over: &Version) -> std::result::Result<(), WriteError> {
        let over = revision(over)?;
        let parameters: [Parameter<'_>; 3] =
            [(&key.collection().as_str(), Type::TEXT), (&key.name(), Type::TEXT), (&over, Type::UUID)];
        let deleted = self.pool.change(Doing::Writing("deleting a document"), &self.sql(DELETE), &parameters).await?;
        deleted.then_some(()).ok_or(WriteError::Conflict)
    }

    async fn due(
        &self,
        collection: &Collection,
        by: Timestamp,
        after: Option<&DocumentKey>,
        at_most: usize,
    ) -> Result<Vec<DocumentKey>> {
        // No name is empty.
        let (after, at_most) = (after.map_or("", DocumentKey::name), i64::try_from(at_most).unwrap_or(i64::MAX));
        let parameters: [Parameter<'_>; 4] =
            [(&collection.as_str(), Type::TEXT), (&by.0, Type::INT8), (&after, Type::TEXT), (&at_most, Type::INT8)];
        let rows = self.pool.query(Doing::Reading("finding what is due"), &self.sql(DUE), &parameters).await?;
        rows.iter().map(|row| named(collection, column(row, 0)?)).collect()
    }

    async fn prepare(&self) -> Result<()> {
        // Whoever may only write documents finds the table there, and needs no right to make one.
        if self.is_prepared().await? {
            return Ok(());
        }
        self.pool.script(Doing::Writing("making the table of documents"), &self.sql(PREPARE)).await
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        let looking = Doing::Reading("looking at the table");
        self.pool.query(looking, &self.sql(LOOK), &[]).await?;
        let table = self.pool.options.table();
        let rows = self.pool.query(looking, CHECK, &[(&table, Type::TEXT)]).await?;
        let (server, commit): (String, String) = (only(&rows, 0)?, only(&rows, 1)?);
        let (is_synced, lacking): (bool, Option<String>) = (only(&rows, 2)?, only(&rows, 3)?);
        let mut findings = vec![
            found(Level::Good, "documents", format!("PostgreSQL {server}, which takes writes"), ""),
            durability(&commit, is_synced),
            encryption(&self.pool.options),
        ];
        if let Some(lacking) = lacking {
            let advice = "grant select, insert, update and delete on the table to this role";
            findings.push(found(Level::Failure, "rights", format!("this role lacks: {lacking}"), advice));
        }
        if !self.is_prepared().await? {
            let advice = "call prepare as the owner of the table: finding what is due reads every document";
            findings.push(found(Level::Warning, "index", format!("there is no index {INDEX}"), advice));
        }
        Ok(findings)
    }
}

fn durability(commit: &str, is_synced: bool) -> Finding {
    match (commit, is_synced) {
        (_, false) => found(
            Level::Warning,
            "durability",
            "fsync or full_page_writes is off: a crash of the machine may lose or damage what was written".to_owned(),
            "switch both on",
        ),
        ("off", true) => found(
            Level::Warning,
            "durability",
            "synchronous_commit is off: a crash of the server may lose the last answered writes".to_owned(),
            "set it on for this role: `alter role NAME set synchronous_commit = on`",
        ),
        _ => found(
            Level::Good,
            "durability",
            format!("an answered write is on the disk (synchronous_commit = {commit})"),
            "",
        ),
    }
}

fn encryption(options: &PostgresOptions) -> Finding {
    match (&options.encryption, options.is_local) {
        (Encryption::Verified(_), _) => found(Level::Good, "encryption", "TLS, verified".to_owned(), ""),
        (Encryption::Disabled, true) => found(Level::Good, "encryption", "none, on this machine".to_owned(), ""),
        (Encryption::Disabled, false) => {
            found(Level::Warning, "encryption", "none".to_owned(), "use sslmode=verify-full outside this machine")
        }
    }
}
