//! Which errors of the server are its own trouble, whatever the statement was.
//! <https://dev.mysql.com/doc/mysql-errors/en/server-error-reference.html>

/// Whether its disk, its memory or a table's room is exhausted, or its disk fails.
pub const fn is_out_of_something(number: u16) -> bool {
    matches!(number, 1021 | 1026 | 1030 | 1037 | 1038 | 1041 | 1114)
}

/// Whether it stops, or ended the connection.
pub const fn goes_away(number: u16) -> bool {
    matches!(number, 1053 | 1152 | 1158..=1161 | 1927)
}
