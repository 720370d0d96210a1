//! Writing messages: one statement, whichever driver sends it.

use super::Names;
pub use crate::fields::Fields;

/// Messages that one statement takes: each needs ten of the 65,535 parameters that the protocol allows.
pub const ROWS_PER_STATEMENT: usize = 1_000;

/// Writes messages; numbers are drawn in the order of the rows.
const ENQUEUE: &str = "\
insert into {outbox}
  (message_id, topic, `key`, payload, content_type, headers, attributes, deliver_at, expires_at, retry)
values ";

const ROW: &str = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// The statement that writes `rows` messages, in their order, into the outbox of these names.
///
/// Its parameters are the values of each [`Fields`] in turn.
pub fn enqueue(names: &Names, rows: usize) -> String {
    let mut sql = names.fill(ENQUEUE);
    sql.push_str(&vec![ROW; rows].join(",\n"));
    sql
}
