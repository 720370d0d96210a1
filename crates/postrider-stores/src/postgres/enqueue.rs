//! Writing messages: one statement, whichever driver sends it.
//!
//! Parameters, in order, one array each, all of one length: message ids (`uuid[]`), topics, keys, payloads (`bytea[]`),
//! content types, headers, attributes (both JSON text), moments of delivery and of expiry (`bigint[]`, microseconds
//! since 1970 UTC; an expiry at the largest number is never) and retry settings (JSON text). [`Columns`] has them in
//! that order.

use postrider_core::{Message, RetryOverride};
use uuid::Uuid;

pub use crate::fields::Fields;

/// Writes messages in the order of the arrays; the table's quoted name stands for `{outbox}`.
///
/// Only columns that the writer role may fill, and no RETURNING, which would need SELECT. The `order by` is what makes
/// the identity column draw its numbers in the order of the arrays.
pub const ENQUEUE: &str = "\
insert into {outbox}
  (message_id, topic, key, payload, content_type, headers, attributes, deliver_at, expires_at, retry)
select m.message_id, m.topic, m.key, m.payload, m.content_type, m.headers::json, m.attributes::json,
       timestamptz 'epoch' + m.deliver_at * interval '1 microsecond',
       case when m.expires_at = 9223372036854775807 then timestamptz 'infinity'
            else timestamptz 'epoch' + m.expires_at * interval '1 microsecond' end,
       m.retry::json
from unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::bigint[],
            $9::bigint[], $10::text[])
     with ordinality as m (message_id, topic, key, payload, content_type, headers, attributes, deliver_at,
                           expires_at, retry, place)
order by m.place";

/// Messages that one statement of [`rows`] takes: each needs ten of the 65,535 parameters that the protocol allows.
pub const ROWS_PER_STATEMENT: usize = 1_000;

const ROWS: &str = "\
insert into {outbox}
  (message_id, topic, key, payload, content_type, headers, attributes, deliver_at, expires_at, retry)
values ";

/// The statement that writes `rows` messages, in their order, into a table given by its quoted name: for drivers whose
/// arrays have no nulls.
///
/// Its parameters are the values of each [`Fields`] in turn.
pub fn rows(outbox: &str, rows: usize) -> String {
    let values: Vec<String> = (0..rows).map(row).collect();
    ROWS.replace("{outbox}", outbox) + &values.join(",\n")
}

/// The parameters of one row of [`rows`].
fn row(place: usize) -> String {
    let [id, topic, key, payload, content_type, headers, attributes, deliver_at, expires_at, retry] =
        std::array::from_fn(|column| 10 * place + column + 1);
    format!(
        "(${id}::uuid, ${topic}::text, ${key}::text, ${payload}::bytea, ${content_type}::text, ${headers}::text::json, \
         ${attributes}::text::json,
  timestamptz 'epoch' + ${deliver_at}::bigint * interval '1 microsecond',
  case when ${expires_at}::bigint = 9223372036854775807 then timestamptz 'infinity'
       else timestamptz 'epoch' + ${expires_at}::bigint * interval '1 microsecond' end, ${retry}::text::json)"
    )
}

/// The parameters of [`ENQUEUE`] for some messages.
#[derive(Debug, Default)]
pub struct Columns<'m> {
    /// `$1`
    pub message_ids: Vec<Uuid>,
    /// `$2`
    pub topics: Vec<&'m str>,
    /// `$3`
    pub keys: Vec<Option<&'m str>>,
    /// `$4`
    pub payloads: Vec<&'m [u8]>,
    /// `$5`
    pub content_types: Vec<Option<&'m str>>,
    /// `$6`
    pub headers: Vec<Option<String>>,
    /// `$7`
    pub attributes: Vec<Option<String>>,
    /// `$8`
    pub deliver_at: Vec<Option<i64>>,
    /// `$9`
    pub expires_at: Vec<Option<i64>>,
    /// `$10`
    pub retries: Vec<Option<String>>,
}

impl<'m> Columns<'m> {
    /// The parameters for these messages, in their order.
    pub fn of(messages: &'m [Message]) -> Self {
        let mut columns = Self::default();
        for message in messages {
            columns.message_ids.push(message.id.0);
            columns.topics.push(message.topic.as_str());
            columns.keys.push(message.key.as_ref().map(postrider_core::Key::as_str));
            columns.payloads.push(&message.payload);
            columns.content_types.push(message.content_type.as_deref());
            columns.headers.push(message.headers.to_json());
            columns.attributes.push(message.attributes.to_json());
            columns.deliver_at.push(message.deliver_at.map(|at| at.0));
            columns.expires_at.push(message.expires_at.map(|at| at.0));
            columns.retries.push(message.retry.as_ref().map(RetryOverride::to_json));
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_ten_parameters_of_its_own() {
        let sql = rows("outbox", 12);
        for number in 1..=120 {
            let uses = sql.matches(&format!("${number}:")).count();
            assert_eq!(uses, if number % 10 == 9 { 2 } else { 1 }, "{number}");
        }
        assert!(!sql.contains("$121"));
    }
}
