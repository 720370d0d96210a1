//! Writing messages: one statement, whichever driver sends it.

pub use crate::fields::Fields;

/// Messages that one statement takes: each needs ten of the 32,766 parameters that SQLite allows.
pub const ROWS_PER_STATEMENT: usize = 3_000;

/// Writes one message; the table's quoted name stands for `{outbox}`. [`enqueue`] repeats its row for several.
const ENQUEUE: &str = "\
insert into {outbox}
  (message_id, topic, key, payload, content_type, headers, attributes, deliver_at, expires_at, retry)
values ";

const ROW: &str = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// The statement that writes `rows` messages, in their order, into a table given by its quoted name.
///
/// Its parameters are the values of each [`Fields`] in turn.
pub fn enqueue(outbox: &str, rows: usize) -> String {
    let mut sql = ENQUEUE.replace("{outbox}", outbox);
    sql.push_str(&vec![ROW; rows].join(",\n"));
    sql
}
