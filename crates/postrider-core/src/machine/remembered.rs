//! Keys that are remembered for what waits in the table for a paused destination.
//!
//! A read tells of a few rows only what those before a row still owe. Where more wait, the row may have to wait for any of
//! its destinations, and nothing but a look at all of them tells that it need not. So that each key is looked at once in a
//! pause and not for each of its rows, it stays in memory without any, as long as it is known that nothing of it waits
//! elsewhere.

use super::destinations::Destinations;
use super::keys::{KeyRecord, KeySlot, Keys};

/// The most keys that are remembered; of more, those are forgotten first that were remembered first.
const MOST: usize = 8_192;

impl KeyRecord {
    /// A walk met the key: where its rows wait is to be looked at, wherever that may be. A key of which that is known, and
    /// which is looked at until nothing of it waits, is looked at after the walk in any case.
    pub(super) fn walked(&mut self, everywhere: Destinations, paused: Destinations) {
        // What could not go when it was looked at may go since another pause ended, whatever else of the key is in memory.
        self.resting = false;
        let is_looked_at = self.looking || self.members > 0;
        if self.knows && is_looked_at && !self.aside.without(paused).without(self.scheduled).is_empty() {
            return;
        }
        self.aside = everywhere;
        self.scheduled = Destinations::NONE;
        self.peek = true;
    }
}

impl Keys {
    pub(super) fn remember(&mut self, key: KeySlot, mark: u64, read_before_mark: bool) {
        let Some(record) = self.get_mut(key).filter(|record| !record.remembered) else { return };
        record.remembered = true;
        self.remembered.push_back(key);
        while self.remembered.len() > MOST {
            let Some(longest) = self.remembered.pop_front() else { break };
            self.let_go(longest, mark, read_before_mark);
        }
    }

    fn let_go(&mut self, key: KeySlot, mark: u64, read_before_mark: bool) {
        let Some(record) = self.get_mut(key) else { return };
        record.remembered = false;
        if record.is_idle() {
            self.leave(key, mark, read_before_mark);
        }
    }

    /// A destination goes on: those keys are remembered on of which something waits for one of these, which still pause. The
    /// others are looked at, and are known until all that waited has gone: forgotten now, they would keep the messages of
    /// the other destinations in the table for as long.
    pub(super) fn goes_on(&mut self, mark: u64, read_before_mark: bool, paused: Destinations) {
        for key in std::mem::take(&mut self.remembered) {
            let Some(record) = self.get_mut(key) else { continue };
            if record.aside.both(paused).is_empty() {
                record.remembered = false;
                self.review(key, mark, read_before_mark, paused);
            } else {
                self.remembered.push_back(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::destinations::DestinationIndex;
    use super::super::ordering::Ordering;
    use super::*;
    use crate::lane::Lane;
    use crate::message::Key;

    fn at(place: usize) -> Destinations {
        Destinations::one(DestinationIndex::new(place))
    }

    fn is_known(keys: &Keys, key: &str) -> bool {
        keys.find(&Key::unchecked(key)).is_some()
    }

    /// A look has seen that rows of the key wait there and nowhere else, and none is in memory.
    fn looked_at(keys: &mut Keys, key: &str, place: usize, paused: Destinations) {
        let slot = keys.place(Key::unchecked(key), Lane(0));
        keys.get_mut(slot).unwrap().saw(at(place));
        keys.review(slot, 1, false, paused);
    }

    #[test]
    fn keys_are_remembered_up_to_a_bound_and_the_first_are_forgotten_first() {
        let mut keys = Keys::new(2, Ordering::Key);
        for n in 0..=MOST {
            looked_at(&mut keys, &n.to_string(), 1, at(1));
        }
        assert!(!is_known(&keys, "0") && is_known(&keys, "1") && is_known(&keys, &MOST.to_string()));
        assert_eq!(keys.remembered.len(), MOST);
    }

    #[test]
    fn a_key_that_is_forgotten_lingers_while_a_read_is_under_way_that_may_bring_its_rows() {
        let mut keys = Keys::new(2, Ordering::Key);
        for n in 0..MOST {
            looked_at(&mut keys, &n.to_string(), 1, at(1));
        }
        let slot = keys.place(Key::unchecked("k"), Lane(0));
        keys.get_mut(slot).unwrap().saw(at(1));
        keys.review(slot, 7, true, at(1));
        assert!(is_known(&keys, "0"));
        keys.expire(|mark| mark > 7);
        assert!(!is_known(&keys, "0") && is_known(&keys, "1"));
    }

    #[test]
    fn when_one_destination_goes_on_what_waits_there_is_looked_at_and_what_waits_for_another_one_is_remembered() {
        let mut keys = Keys::new(2, Ordering::Key);
        let both = at(0).with(at(1));
        looked_at(&mut keys, "first", 0, both);
        looked_at(&mut keys, "second", 1, both);
        keys.goes_on(1, false, at(1));
        assert_eq!(keys.pop_look(), keys.find(&Key::unchecked("first")));
        assert_eq!((keys.pop_look(), keys.remembered.len()), (None, 1));
        assert!(is_known(&keys, "first") && is_known(&keys, "second"), "they are known until all of them has gone");
    }

    #[test]
    fn a_key_that_no_look_has_seen_is_not_remembered() {
        let mut keys = Keys::new(2, Ordering::Key);
        let slot = keys.place(Key::unchecked("k"), Lane(0));
        keys.get_mut(slot).unwrap().aside = at(1);
        keys.review(slot, 1, false, at(1));
        assert!(!is_known(&keys, "k"));
    }

    /// It is remembered anew when its rows have left again.
    #[test]
    fn a_remembered_key_with_rows_in_memory_is_not_forgotten_with_the_pause() {
        let mut keys = Keys::new(2, Ordering::Key);
        looked_at(&mut keys, "k", 1, at(1));
        let slot = keys.find(&Key::unchecked("k")).unwrap();
        keys.get_mut(slot).unwrap().members = 1;
        keys.goes_on(1, false, Destinations::NONE);
        assert!(is_known(&keys, "k") && keys.remembered.is_empty());
        let record = keys.get_mut(slot).unwrap();
        (record.members, record.looking) = (0, false);
        keys.review(slot, 1, false, at(1));
        assert_eq!(keys.remembered.len(), 1);
    }
}
