//! Rows that stand close together in the table, as a bit and a message for each from the first to the last.

use uuid::Uuid;

/// So many rows at least: fewer are found one by one as fast.
const LEAST: usize = 64;
/// Of so many rows between the first and the last, one at least is meant: each of the others is looked at in vain, which
/// takes a third of what finding one by itself does.
const SPARSEST: u64 = 2;

/// Some of the rows between two.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: i64,
    pub(super) last: i64,
    /// As PostgreSQL's `get_bit` counts them: those of a byte from its lowest.
    pub(super) bits: Vec<u8>,
    /// How many rows are meant.
    pub(super) count: i64,
    /// Of each place the message, and where no row is meant none at all: of values without a gap PostgreSQL finds one at once.
    pub(super) messages: Vec<Uuid>,
}

impl Span {
    /// The span of these rows, each of which is named once with its message, where they stand close enough and each message is
    /// known.
    pub(super) fn of(ids: &[i64], of_each: &[Option<Uuid>]) -> Option<Self> {
        let (first, last) = (*ids.iter().min()?, *ids.iter().max()?);
        let length = last.abs_diff(first).checked_add(1)?;
        let count = u64::try_from(ids.len()).ok()?;
        if ids.len() < LEAST || length > count.checked_mul(SPARSEST)? {
            return None;
        }
        let mut bits = vec![0_u8; usize::try_from(length.div_ceil(8)).ok()?];
        let mut messages = vec![Uuid::nil(); usize::try_from(length).ok()?];
        for (id, message) in ids.iter().zip(of_each) {
            let place = usize::try_from(id.abs_diff(first)).ok()?;
            *bits.get_mut(place / 8)? |= 1 << (place % 8);
            *messages.get_mut(place)? = (*message)?;
        }
        Some(Self { first, last, bits, count: i64::try_from(count).ok()?, messages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows, each with the message of its number.
    fn span(ids: &[i64]) -> Option<Span> {
        let messages: Vec<_> = ids.iter().map(|id| Some(message(*id))).collect();
        Span::of(ids, &messages)
    }

    fn message(id: i64) -> Uuid {
        Uuid::from_u128(u128::from(id.unsigned_abs()))
    }

    #[test]
    fn rows_that_stand_close_together_have_a_bit_and_their_message_each() {
        let ids: Vec<i64> = (0..64).rev().map(|n| 100 + n * 2).collect();
        let span = span(&ids).unwrap();
        assert_eq!((span.first, span.last, span.count), (100, 226, 64));
        assert_eq!(span.bits, [0b0101_0101; 16]);
        let expected: Vec<Uuid> = (100..=226).map(|id| if id % 2 == 0 { message(id) } else { Uuid::nil() }).collect();
        assert_eq!(span.messages, expected);
    }

    #[test]
    fn a_row_whose_message_is_not_known_is_in_none() {
        let ids: Vec<i64> = (0..64).collect();
        let mut messages: Vec<_> = ids.iter().map(|id| Some(message(*id))).collect();
        messages[40] = None;
        assert_eq!(Span::of(&ids, &messages), None);
    }

    #[test]
    fn few_rows_and_rows_far_apart_have_none() {
        assert_eq!(span(&[]), None);
        assert_eq!(span(&(0..63).collect::<Vec<_>>()), None);
        assert_eq!(span(&(0..64).map(|n| n * 3).collect::<Vec<_>>()), None);
        let ends: Vec<i64> = (0..63).chain([i64::MAX]).collect();
        assert_eq!(span(&ends), None);
        assert_eq!(span(&(0..63).chain([i64::MIN]).collect::<Vec<_>>()), None);
    }
}
