//! sqlx with a database that takes the values of each message as parameters of their own.

use postrider_core::Message;
use postrider_stores::Fields;
use sqlx::database::HasStatementCache;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Database, Encode, Type};

/// The statement with the values of these messages.
pub(super) fn insert<'m, D>(sql: String, rows: &'m [Message]) -> Query<'m, D, D::Arguments>
where
    D: Database + HasStatementCache,
    String: Encode<'m, D> + Type<D>,
    &'m str: Encode<'m, D> + Type<D>,
    &'m [u8]: Encode<'m, D> + Type<D>,
    i64: Type<D>,
    Option<&'m str>: Encode<'m, D>,
    Option<String>: Encode<'m, D>,
    Option<i64>: Encode<'m, D>,
{
    // Cached for one message only: a statement per number of messages would fill the cache with long ones.
    let insert = sqlx::query(AssertSqlSafe(sql)).persistent(rows.len() == 1);
    rows.iter().map(Fields::of).fold(insert, |insert, row| {
        insert
            .bind(row.message_id)
            .bind(row.topic)
            .bind(row.key)
            .bind(row.payload)
            .bind(row.content_type)
            .bind(row.headers)
            .bind(row.attributes)
            .bind(row.deliver_at)
            .bind(row.expires_at)
            .bind(row.retry)
    })
}
