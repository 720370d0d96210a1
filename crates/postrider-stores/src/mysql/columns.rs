//! The columns of a row by their places, however the server sent them: as text or as numbers.

use mysql_async::{Row, Value};

/// A row whose columns are taken out one by one.
pub(super) struct Columns(Row);

impl Columns {
    pub(super) fn new(row: Row) -> Self {
        Self(row)
    }

    /// The number in a column; none for null and for what is no number.
    pub(super) fn integer(&self, place: usize) -> Option<i64> {
        match self.0.as_ref(place)? {
            Value::Int(number) => Some(*number),
            Value::UInt(number) => Some(i64::try_from(*number).unwrap_or(i64::MAX)),
            Value::Bytes(text) => number(text),
            Value::NULL | Value::Float(_) | Value::Double(_) | Value::Date(..) | Value::Time(..) => None,
        }
    }

    /// The bytes of a column; none for null and for numbers.
    pub(super) fn bytes(&self, place: usize) -> Option<&[u8]> {
        match self.0.as_ref(place)? {
            Value::Bytes(bytes) => Some(bytes),
            Value::NULL
            | Value::Int(_)
            | Value::UInt(_)
            | Value::Float(_)
            | Value::Double(_)
            | Value::Date(..)
            | Value::Time(..) => None,
        }
    }

    /// The bytes of a column, taken out of the row.
    pub(super) fn take_bytes(&mut self, place: usize) -> Option<Vec<u8>> {
        match self.0.take::<Value, usize>(place)? {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The text of a column; none for null and for what is not UTF-8.
    pub(super) fn text(&self, place: usize) -> Option<&str> {
        std::str::from_utf8(self.bytes(place)?).ok()
    }

    /// Whether a number is there and not zero.
    pub(super) fn is_true(&self, place: usize) -> bool {
        self.integer(place).is_some_and(|number| number != 0)
    }
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_one_however_it_was_sent() {
        assert_eq!(
            [number(b"-7"), number(b"9223372036854775807"), number(b"x"), number(b"")],
            [Some(-7), Some(i64::MAX), None, None]
        );
    }
}
