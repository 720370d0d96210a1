//! Sources that deliver in order: one number says which of their messages were handled.

/// The place of a message in its source: one more than that of the message before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

/// What a source promises of the numbers between two messages that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Numbering {
    /// They follow each other without a gap: the numbers of a ledger or a journal.
    Gapless,
    /// They rise, and numbers between them may never come: a log that is compacted, or in which marks of transactions take
    /// numbers of their own.
    Rising,
}

/// How a message stands to what was handled before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Advance {
    /// It is the next one, or the first of a source that nothing is known of.
    Next,
    /// It was handled.
    Repeat,
    /// Messages before it are missing. Handling it would make them repeats when they come.
    Gap {
        /// The first number that is missing.
        first: Sequence,
    },
}

/// Tells a repeat, the next message and a gap apart by the last number that was handled.
pub fn advance(last: Option<Sequence>, sequence: Sequence, numbering: Numbering) -> Advance {
    match last {
        None => Advance::Next,
        Some(last) if sequence <= last => Advance::Repeat,
        Some(Sequence(last)) if numbering == Numbering::Gapless && sequence.0 > last + 1 => {
            Advance::Gap { first: Sequence(last + 1) }
        }
        Some(_) => Advance::Next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_the_next_and_a_gap_are_told_apart() {
        let last = Some(Sequence(7));
        for numbering in [Numbering::Gapless, Numbering::Rising] {
            assert_eq!(advance(None, Sequence(7), numbering), Advance::Next);
            assert_eq!(advance(last, Sequence(6), numbering), Advance::Repeat);
            assert_eq!(advance(last, Sequence(7), numbering), Advance::Repeat);
            assert_eq!(advance(last, Sequence(8), numbering), Advance::Next);
        }
        assert_eq!(advance(last, Sequence(9), Numbering::Gapless), Advance::Gap { first: Sequence(8) });
        assert_eq!(advance(last, Sequence(9), Numbering::Rising), Advance::Next);
        let end = Some(Sequence(u64::MAX));
        assert_eq!(advance(end, Sequence(u64::MAX), Numbering::Gapless), Advance::Repeat);
    }
}
