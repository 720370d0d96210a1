//! Which versions of the tables a build works on.
//!
//! Beside their version the tables say the lowest version that a build must know to work on them. So a build goes on over
//! a migration that changes nothing which it relies on, and is refused clearly over one that does.

/// What the tables say of themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Versions {
    /// Their version.
    pub(crate) version: i64,
    /// The lowest version that a build must know; none where they do not say: then it is their own.
    pub(crate) compatible_from: Option<i64>,
}

/// How a build stands to the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// They have the version that it knows.
    Same,
    /// They are newer, and it may work on them as they are.
    NewerAndCompatible,
    /// They are newer, and it must know at least this version.
    TooNew(i64),
    /// They are older: a migration brings them up to date.
    Older,
}

impl Versions {
    /// How a build that knows versions up to this one stands to the tables.
    pub(crate) fn fit(self, known: i64) -> Fit {
        let needed = self.compatible_from.unwrap_or(self.version).min(self.version);
        match self.version.cmp(&known) {
            std::cmp::Ordering::Equal => Fit::Same,
            std::cmp::Ordering::Less => Fit::Older,
            std::cmp::Ordering::Greater if needed <= known => Fit::NewerAndCompatible,
            std::cmp::Ordering::Greater => Fit::TooNew(needed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(version: i64, compatible_from: Option<i64>) -> Fit {
        Versions { version, compatible_from }.fit(5)
    }

    #[test]
    fn a_build_works_on_newer_tables_when_these_say_so() {
        assert_eq!(fit(5, Some(2)), Fit::Same);
        assert_eq!(fit(6, Some(5)), Fit::NewerAndCompatible);
        assert_eq!(fit(9, Some(1)), Fit::NewerAndCompatible);
        assert_eq!(fit(6, Some(6)), Fit::TooNew(6));
        assert_eq!(fit(9, Some(7)), Fit::TooNew(7));
    }

    #[test]
    fn tables_that_do_not_say_need_their_own_version() {
        assert_eq!(fit(6, None), Fit::TooNew(6));
        assert_eq!(fit(5, None), Fit::Same);
    }

    #[test]
    fn older_tables_are_migrated_first_whatever_they_say() {
        assert_eq!(fit(4, Some(1)), Fit::Older);
        assert_eq!(fit(4, Some(9)), Fit::Older);
    }

    #[test]
    fn nonsense_from_a_foreign_hand_does_not_ask_for_more_than_the_version() {
        assert_eq!(fit(6, Some(99)), Fit::TooNew(6));
    }
}
