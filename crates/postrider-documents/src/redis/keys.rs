//! Under which keys a document and what leads to it stand, and how a moment stands in an index.
//!
//! Every member of an index has the same score, so that the members are in the order of their bytes. A moment is 16 digits
//! whose order is that of the moments, exact where a score would be rounded.

use postrider_core::Timestamp;

/// What stands between the name and the moment: before every other character of a name, and in none.
const BETWEEN: u8 = 0;
/// How many digits a moment has.
const DIGITS: usize = 16;

/// The keys of one collection.
#[derive(Debug)]
pub(super) struct Keys {
    within: String,
    /// What `prepare` makes, for all collections.
    pub(super) prepared: String,
    /// What will be due, by moment and name.
    pub(super) due: String,
    /// The same by name and moment.
    pub(super) names: String,
}

impl Keys {
    pub(super) fn of(prefix: &str, collection: &str) -> Self {
        let within = format!("{{{prefix}}}:{collection}");
        let (due, names) = (format!("{within}:due"), format!("{within}:names"));
        Self { within, prepared: prepared(prefix), due, names }
    }

    /// The hash of a document.
    pub(super) fn document(&self, name: &str) -> String {
        format!("{}:doc:{name}", self.within)
    }
}

/// What `prepare` makes. No collection has its name with a `:`.
pub(super) fn prepared(prefix: &str) -> String {
    format!("{{{prefix}}}:prepared")
}

/// The digits of a moment; of none, no digits.
pub(super) fn digits(due: Option<Timestamp>) -> String {
    due.map_or_else(String::new, |due| format!("{:016x}", due.0.cast_unsigned() ^ (1 << 63)))
}

/// The first member by moment that is later than this one, as the end of a range; where none can be, its very end.
pub(super) fn behind(by: Timestamp) -> String {
    match by.0.checked_add(1) {
        Some(next) => format!("({}", digits(Some(Timestamp(next)))),
        None => "+".to_owned(),
    }
}

/// The name of a member by moment; none where it is no such member.
pub(super) fn named_by_moment(member: &[u8]) -> Option<&str> {
    let (moment, name) = member.split_at_checked(DIGITS)?;
    (moment.is_ascii() && !name.is_empty()).then(|| std::str::from_utf8(name).ok())?
}

/// The name and the digits of the moment of a member by name; none where it is no such member.
pub(super) fn named_by_name(member: &[u8]) -> Option<(&str, &str)> {
    let (rest, moment) = member.split_at_checked(member.len().checked_sub(DIGITS)?)?;
    let (between, name) = rest.split_last()?;
    let (name, moment) = (std::str::from_utf8(name).ok()?, std::str::from_utf8(moment).ok()?);
    (*between == BETWEEN && !name.is_empty()).then_some((name, moment))
}

/// The first member by name of a name behind this one, as the beginning of a range.
pub(super) fn from_behind(name: &str) -> Vec<u8> {
    // No name has a control character: whatever goes on behind this one is another name.
    [b"[", name.as_bytes(), &[BETWEEN + 1]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_in_the_order_of_their_moments() {
        let moments = [i64::MIN, -6, -5, -1, 0, 1, 255, 256, 1_700_000_000_000_000, i64::MAX - 1, i64::MAX];
        let written = moments.map(|moment| digits(Some(Timestamp(moment))));
        assert!(written.is_sorted() && written.iter().all(|text| text.len() == DIGITS), "{written:?}");
        assert_eq!(behind(Timestamp(5)), format!("({}", digits(Some(Timestamp(6)))));
        assert_eq!((behind(Timestamp(i64::MAX)).as_str(), digits(None).as_str()), ("+", ""));
    }

    #[test]
    fn names_come_out_of_their_members_as_they_went_in() {
        let moment = digits(Some(Timestamp(7)));
        for name in ["a", "a/b", "0123456789abcdef0", "\u{1f600}", "{a}:doc:"] {
            assert_eq!(named_by_moment(format!("{moment}{name}").as_bytes()), Some(name));
            assert_eq!(named_by_name(format!("{name}\0{moment}").as_bytes()), Some((name, moment.as_str())));
        }
        assert_eq!((named_by_moment(b"short"), named_by_name(b"short")), (None, None));
        assert_eq!((named_by_moment(moment.as_bytes()), named_by_name(moment.as_bytes())), (None, None));
    }

    #[test]
    fn a_range_from_behind_a_name_begins_behind_each_of_its_members() {
        let range = from_behind("a");
        let member = |name: &str| format!("{name}\0{}", digits(Some(Timestamp(i64::MAX)))).into_bytes();
        assert!(member("a") < range[1..].to_vec() && range[1..].to_vec() < member("a ") && member("a ") < member("aa"));
    }

    #[test]
    fn every_key_of_a_store_is_in_one_slot() {
        let keys = Keys::of("shop", "carts");
        for key in [&keys.prepared, &keys.due, &keys.names, &keys.document("{x}")] {
            assert!(key.starts_with("{shop}:"), "{key}");
        }
        assert_ne!(keys.document("due"), keys.due);
    }
}
