//! The statement that reads an outbox, by its database.

use postrider_core::{Error, ErrorKind};

use crate::outbox::Outbox;

/// The messages in a table of SQLite; its quoted name stands for `{outbox}`. The columns are those of [`Parts`](super::parts::Parts).
#[cfg(feature = "_sqlite")]
const SQLITE: &str = "\
select message_id, topic, key, payload, content_type, headers, attributes, deliver_at, expires_at, retry
  from {outbox} order by id";

/// The messages in a table of PostgreSQL; its quoted name stands for `{outbox}`. The columns are those of [`Parts`](super::parts::Parts).
#[cfg(feature = "_postgres")]
const POSTGRES: &str = "\
select message_id::text, topic, key, payload, content_type, headers::text, attributes::text,
       (extract(epoch from deliver_at) * 1000000)::bigint as deliver_at,
       case when expires_at = 'infinity' then 9223372036854775807
            else (extract(epoch from expires_at) * 1000000)::bigint end as expires_at,
       retry::text
  from {outbox} order by id";

/// The messages in a table of MySQL or MariaDB; its quoted name stands for `{outbox}`. The columns are those of [`Parts`](super::parts::Parts).
#[cfg(feature = "_mysql")]
const MYSQL: &str = "\
select message_id, topic, `key`, payload, content_type, headers, attributes, deliver_at, expires_at, retry
  from {outbox} order by id";

/// What is read, and from which table.
pub(super) struct Reading {
    pub(super) sql: String,
    pub(super) table: String,
}

impl Reading {
    /// The outbox in a database of PostgreSQL.
    #[cfg(feature = "_postgres")]
    pub(super) fn postgres(outbox: &Outbox) -> Self {
        Self::of(POSTGRES, outbox.postgres_table())
    }

    /// The outbox in a database of MySQL or MariaDB.
    #[cfg(feature = "_mysql")]
    pub(super) fn mysql(outbox: &Outbox) -> Self {
        Self::of(MYSQL, outbox.mysql_table())
    }

    /// The outbox in a file of SQLite.
    #[cfg(feature = "_sqlite")]
    pub(super) fn sqlite(outbox: &Outbox) -> Self {
        Self::of(SQLITE, outbox.sqlite_table())
    }

    fn of(sql: &str, table: String) -> Self {
        Self { sql: sql.replace("{outbox}", &table), table }
    }

    /// The table could not be read.
    pub(super) fn failed(&self, kind: ErrorKind) -> Error {
        let table = &self.table;
        let text = format!("reading the outbox table {table}; call postrider::migrate at the beginning of the test");
        Error::new(kind, text)
    }
}
