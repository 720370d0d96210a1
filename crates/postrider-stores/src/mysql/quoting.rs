//! Which errors of the server quote what was to be written.

/// Errors whose text can quote a value, or a piece of a statement with one.
const QUOTING: [u16; 10] = [1062, 1064, 1292, 1366, 1367, 1411, 1525, 3140, 3141, 4038];

/// Whether the text of an error may quote a value, such as a key, which has no place in a log.
pub fn quotes_values(number: u16) -> bool {
    QUOTING.contains(&number)
}
