//! sqlx: statements with their values.

#[cfg(any(feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
use postrider_core::Message;
#[cfg(any(feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
use postrider_stores::Fields;
use postrider_stores::dialog::{Statement, Value};
use sqlx::database::HasStatementCache;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Database, Encode, Type};

/// The statement with the values of these messages, for a database that takes each as a parameter of its own.
#[cfg(any(feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
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

/// A statement of a dialog with its values.
pub(super) fn asked<'q, D>(statement: Statement) -> Query<'q, D, D::Arguments>
where
    D: Database + HasStatementCache,
    String: Encode<'q, D> + Type<D>,
    Option<String>: Encode<'q, D> + Type<D>,
    i64: Encode<'q, D> + Type<D>,
    Vec<u8>: Encode<'q, D> + Type<D>,
{
    statement.values.into_iter().fold(sqlx::query(AssertSqlSafe(statement.sql)), |query, value| match value {
        Value::Text(text) => query.bind(text),
        Value::Maybe(text) => query.bind(text),
        Value::Number(number) => query.bind(number),
        Value::Bytes(bytes) => query.bind(bytes),
    })
}

/// A dialog with an inbox in a transaction of sqlx: `$turn` begins it, `$refused` says what an error means.
macro_rules! receive_in {
    ($database:ty, $names:expr, $turn:ident, $refused:ident) => {
        impl<'t> Receive for &'t mut Transaction<'_, $database> {
            type Received<R: Send + 'static> = Answering<'t, R, InboxError>;

            fn ask<Q: Question>(self, inbox: &Inbox, question: Result<Q, InboxError>) -> Self::Received<Q::Answer> {
                let names = $names(&inbox.tables);
                Box::pin(async move {
                    let turn = question?.$turn(&names?);
                    let outcome = carry_out!(
                        turn,
                        |statement| asked::<$database>(statement)
                            .execute(&mut **self)
                            .await
                            .map_err($refused)?
                            .rows_affected(),
                        match asked::<$database>(statement).fetch_optional(&mut **self).await.map_err($refused)? {
                            Some(row) => sqlx::Row::try_get(&row, 0).map_err($refused)?,
                            None => None,
                        },
                        match asked::<$database>(statement).fetch_optional(&mut **self).await.map_err($refused)? {
                            Some(row) => Some(FoundKey::from(KeyColumns::from_row(&row).map_err($refused)?)),
                            None => None,
                        },
                    );
                    Q::answer(outcome)
                })
            }
        }
    };
}
pub(super) use receive_in;
