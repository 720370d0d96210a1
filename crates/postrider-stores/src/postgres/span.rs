//! Rows that stand close together in the table, as a bit for each from the first to the last.

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
}

impl Span {
    /// The span of these rows, each of which is named once, where they stand close enough.
    pub(super) fn of(ids: &[i64]) -> Option<Self> {
        let (first, last) = (*ids.iter().min()?, *ids.iter().max()?);
        let length = last.abs_diff(first).checked_add(1)?;
        let count = u64::try_from(ids.len()).ok()?;
        if ids.len() < LEAST || length > count.checked_mul(SPARSEST)? {
            return None;
        }
        let mut bits = vec![0_u8; usize::try_from(length.div_ceil(8)).ok()?];
        for id in ids {
            let place = usize::try_from(id.abs_diff(first)).ok()?;
            *bits.get_mut(place / 8)? |= 1 << (place % 8);
        }
        Some(Self { first, last, bits, count: i64::try_from(count).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_stand_close_together_have_a_bit_each() {
        let ids: Vec<i64> = (0..64).rev().map(|n| 100 + n * 2).collect();
        let span = Span::of(&ids).unwrap();
        assert_eq!((span.first, span.last, span.count), (100, 226, 64));
        assert_eq!(span.bits, [0b0101_0101; 16]);
    }

    #[test]
    fn few_rows_and_rows_far_apart_have_none() {
        assert_eq!(Span::of(&[]), None);
        assert_eq!(Span::of(&(0..63).collect::<Vec<_>>()), None);
        assert_eq!(Span::of(&(0..64).map(|n| n * 3).collect::<Vec<_>>()), None);
        let ends: Vec<i64> = (0..63).chain([i64::MAX]).collect();
        assert_eq!(Span::of(&ends), None);
        assert_eq!(Span::of(&(0..63).chain([i64::MIN]).collect::<Vec<_>>()), None);
    }
}
