//! What the machine remembers of a key while it has rows of it in memory, or owes it a look at the table.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use smallvec::{SmallVec, smallvec};

use super::destinations::{DestinationIndex, Destinations};
use super::ordering::Ordering;
use super::queue::Queue;
use super::slots::{Slot, Slots};
use crate::lane::Lane;
use crate::message::Key;
use crate::row::RowId;
use crate::seams::Room;

/// Where the record of a key is: looked for when a row comes in, and known from there on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct KeySlot(Slot);

/// One key.
#[derive(Debug)]
pub(super) struct KeyRecord {
    pub(super) key: Key,
    pub(super) lane: Lane,
    /// By destination; of one, as most relays have it, here.
    pub(super) queues: SmallVec<[Queue; 1]>,
    /// Where exceptional rows of this key may stand in the table: later rows must not overtake them.
    pub(super) aside: Destinations,
    /// Where the head is scheduled in the table, so that the due query will bring it: no need to look.
    pub(super) scheduled: Destinations,
    /// The lowest row that is known to be scheduled: it stands before whatever else the due query brings behind it.
    pub(super) head: Option<RowId>,
    /// The last look brought nothing that could go: no other one before a row of the key leaves the window.
    pub(super) resting: bool,
    /// Something was set aside, or arrived closed, since the last look at the table was sent.
    pub(super) look_again: bool,
    /// A look at the table is asked for or under way.
    pub(super) looking: bool,
    /// How much the next look must ask for at least, to see beyond rows that cannot go.
    pub(super) look: Room,
    /// The lowest row that was held back since the look under way was sent: what it brings after this row is stale.
    pub(super) held_back_from: Option<RowId>,
    /// Rows of this key in the window.
    pub(super) members: usize,
    /// Where a row failed whose retry is not settled yet.
    pub(super) failing: Destinations,
    /// Rows in the window that failed somewhere.
    pub(super) failures: usize,
    /// Rows given up, dropped or over whose end is not settled yet: their successors wait for that in memory, because a
    /// crash would bring the row back.
    pub(super) burying: usize,
    /// The head was given up here, and the key is held.
    pub(super) held: bool,
    /// The next look is the first one: it asks for a few rows, because the head may hold the key.
    pub(super) peek: bool,
    /// A look has seen everything of the key that the table has, and what came there since went through this record: there
    /// is nothing but what `aside` says, however much it is.
    pub(super) knows: bool,
    /// It is kept without rows in memory for what it knows.
    pub(super) remembered: bool,
    /// The last read that may contradict this record, while it lingers without rows in memory.
    lingers_until: u64,
}

impl KeyRecord {
    fn new(key: Key, lane: Lane, destinations: usize) -> Self {
        Self {
            key,
            lane,
            queues: smallvec![Queue::default(); destinations],
            aside: Destinations::NONE,
            scheduled: Destinations::NONE,
            head: None,
            resting: false,
            look_again: false,
            looking: false,
            look: Room::NONE,
            held_back_from: None,
            members: 0,
            failing: Destinations::NONE,
            failures: 0,
            burying: 0,
            held: false,
            peek: true,
            knows: false,
            remembered: false,
            lingers_until: 0,
        }
    }

    /// Whether the exceptional rows in the table are to be looked at now: nothing of the key is on its way to one of the
    /// destinations they wait for, and nothing about to be written. Where something is, they are looked at again after it.
    ///
    /// What is held back is written when it was answered elsewhere. A destination that is silent may keep it from that for
    /// long, and what waits in the table may stand before it: then nothing is waited for.
    pub(super) fn can_look(&self, paused: Destinations) -> bool {
        let wanted = self.aside.without(paused).without(self.scheduled);
        let waits = self.queues.iter().any(Queue::is_going);
        let closed = self.places(|queue| if waits { queue.is_going() } else { !queue.is_idle() });
        !self.resting && !wanted.without(closed).is_empty()
    }

    /// Where rows of the key are in memory.
    pub(super) fn busy(&self) -> Destinations {
        self.places(|queue| !queue.is_idle())
    }

    /// The destinations whose queues are like this.
    pub(super) fn places(&self, are: impl Fn(&Queue) -> bool) -> Destinations {
        let such = self.queues.iter().enumerate().filter(|(_, queue)| are(queue));
        such.map(|(place, _)| DestinationIndex::new(place)).collect()
    }

    /// A row in the window must wait in the table for this destination, or failed there.
    pub(super) fn hold_back(&mut self, row: RowId, destination: DestinationIndex) {
        self.aside = self.aside.with(Destinations::one(destination));
        if self.looking {
            self.held_back_from = Some(self.held_back_from.map_or(row, |lowest| lowest.min(row)));
        }
        if let Some(queue) = self.queues.get_mut(destination.get()) {
            queue.held_back.insert(row);
        }
    }

    /// A row is scheduled in the table, so that the due query will bring it.
    pub(super) fn schedule(&mut self, row: RowId, destinations: Destinations) {
        self.head = self.head.filter(|_| !self.scheduled.is_empty()).map_or(Some(row), |head| Some(head.min(row)));
        self.scheduled = self.scheduled.with(destinations);
    }

    /// Whether something that is not in the queue may stand before a row that comes from the table.
    pub(super) fn may_stand_before(&self, row: RowId, destination: DestinationIndex) -> bool {
        let held_back = self.queues.get(destination.get()).and_then(|queue| queue.held_back.first());
        let is_behind_the_head = || self.scheduled.contains(destination) && self.head.is_some_and(|head| head < row);
        held_back.is_some_and(|first| *first < row)
            || self.aside.without(self.scheduled).contains(destination)
            || is_behind_the_head()
    }

    /// The table is to be looked at for what must go first there.
    pub(super) fn look_at(&mut self, destinations: Destinations) {
        self.aside = self.aside.with(destinations);
        self.scheduled = self.scheduled.without(destinations);
        self.resting = false;
    }

    /// A row left the window that had been held back here.
    pub(super) fn let_go(&mut self, row: RowId, held_back: Destinations, failed: Destinations) {
        for destination in held_back.iter() {
            if let Some(queue) = self.queues.get_mut(destination.get()) {
                queue.held_back.remove(&row);
            }
        }
        self.resting = false;
        if !failed.is_empty() {
            self.failures = self.failures.saturating_sub(1);
        }
        if self.failures == 0 {
            self.failing = Destinations::NONE;
        }
    }

    /// The last row of a held key left memory, but for those that wait for the end of a pause. An operator who opened the key
    /// before that may have found no row to make due, or one that was in memory; nothing but a look brings the others back then.
    pub(super) fn stop_relying_on_its_head(&mut self, paused: Destinations) {
        let rests = |place: usize| paused.contains(DestinationIndex::new(place));
        let mut queues = self.queues.iter().enumerate();
        if self.held && queues.all(|(place, queue)| queue.is_idle() || rests(place)) {
            self.held = false;
            self.scheduled = Destinations::NONE;
        }
    }

    /// A look saw everything that the table has: later rows need not wait but for these.
    pub(super) fn saw(&mut self, owed: Destinations) {
        self.aside = self.held_back().with(owed);
        self.knows = true;
    }

    /// Where rows in the window were held back that are not settled yet.
    pub(super) fn held_back(&self) -> Destinations {
        self.places(|queue| !queue.held_back.is_empty())
    }

    /// Whether a row that did not go there must wait in the table instead of in memory.
    pub(super) fn is_closed(&self, destination: DestinationIndex) -> bool {
        self.failing.with(self.scheduled.both(self.aside)).contains(destination)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.members == 0 && !self.looking
    }
}

/// Every key that the machine knows of.
#[derive(Debug)]
pub(super) struct Keys {
    /// By the hash of the key, which its record knows.
    slots: HashTable<KeySlot>,
    records: Slots<KeyRecord>,
    destinations: usize,
    ordering: Ordering,
    /// Closed keys without rows in memory, kept while a read is under way that was sent before they closed.
    lingering: VecDeque<(u64, KeySlot)>,
    /// Keys that are remembered, the longest first; some may have rows in memory again.
    pub(super) remembered: VecDeque<KeySlot>,
    /// Keys whose exceptional rows are to be looked at, in order.
    looks: VecDeque<KeySlot>,
    /// Keys that are looked at again when their lane is read as far as this row.
    unread: BTreeMap<(Lane, RowId), KeySlot>,
}

impl Keys {
    pub(super) fn new(destinations: usize, ordering: Ordering) -> Self {
        Self {
            slots: HashTable::new(),
            records: Slots::default(),
            destinations,
            ordering,
            lingering: VecDeque::new(),
            remembered: VecDeque::new(),
            looks: VecDeque::new(),
            unread: BTreeMap::new(),
        }
    }

    /// Where the record of a key is, if there is one.
    pub(super) fn find(&self, key: &Key) -> Option<KeySlot> {
        self.slots.find(key.hash_code(), |slot| self.get(*slot).is_some_and(|record| record.key == *key)).copied()
    }

    pub(super) fn get(&self, key: KeySlot) -> Option<&KeyRecord> {
        self.records.get(key.0)
    }

    pub(super) fn get_mut(&mut self, key: KeySlot) -> Option<&mut KeyRecord> {
        self.records.get_mut(key.0)
    }

    /// Where the record of a key is, which is made if there is none.
    pub(super) fn place(&mut self, key: Key, lane: Lane) -> KeySlot {
        let records = &mut self.records;
        let is_it = |slot: &KeySlot| records.get(slot.0).is_some_and(|record| record.key == key);
        let hash_of = |slot: &KeySlot| records.get(slot.0).map_or(0, |record| record.key.hash_code());
        match self.slots.entry(key.hash_code(), is_it, hash_of) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(vacant) => {
                let slot = KeySlot(records.insert(KeyRecord::new(key, lane, self.destinations)));
                *vacant.insert(slot).get()
            }
        }
    }

    fn forget(&mut self, key: KeySlot) {
        let Some(record) = self.records.get(key.0) else { return };
        if let Ok(known) = self.slots.find_entry(record.key.hash_code(), |slot| *slot == key) {
            known.remove();
        }
        self.records.remove(key.0);
    }

    pub(super) fn queue(&mut self, key: KeySlot, destination: DestinationIndex) -> Option<&mut Queue> {
        self.get_mut(key)?.queues.get_mut(destination.get())
    }

    /// Asks for a look at the table if the key wants one, and forgets the key when nothing keeps it.
    ///
    /// Returns the lane that is to be walked when the pause is over: nobody looks for what waits for a paused
    /// destination.
    pub(super) fn review(
        &mut self,
        key: KeySlot,
        mark: u64,
        read_before_mark: bool,
        paused: Destinations,
    ) -> Option<Lane> {
        let record = self.records.get_mut(key.0)?;
        let missed = (!record.aside.both(paused).is_empty()).then_some(record.lane);
        if record.looking {
            return missed;
        }
        if record.can_look(paused) {
            record.looking = true;
            self.looks.push_back(key);
        } else if record.is_idle() && (self.ordering != Ordering::Everything || record.aside.is_empty()) {
            if record.knows && missed.is_some() {
                self.remember(key, mark, read_before_mark);
            } else {
                self.leave(key, mark, read_before_mark);
            }
        }
        missed
    }

    /// Nothing keeps the key but reads under way that were sent before it closed.
    pub(super) fn leave(&mut self, key: KeySlot, mark: u64, read_before_mark: bool) {
        match self.records.get_mut(key.0) {
            Some(record) if !record.aside.is_empty() && read_before_mark => {
                record.lingers_until = mark;
                self.lingering.push_back((mark, key));
            }
            _ => self.forget(key),
        }
    }

    /// The next key that asked for a look.
    pub(super) fn pop_look(&mut self) -> Option<KeySlot> {
        self.looks.pop_front()
    }

    /// Rows that are not read yet may stand before this one: the key is looked at again when they are.
    pub(super) fn wait_for(&mut self, lane: Lane, row: RowId, key: KeySlot) {
        self.unread.insert((lane, row), key);
    }

    /// A lane is read as far as this row: the looks that waited for it go on.
    pub(super) fn reached(&mut self, lane: Lane, row: RowId) {
        while let Some(((of, waits_for), _)) = self.unread.range((lane, RowId(i64::MIN))..).next() {
            let place = (*of, *waits_for);
            if *of != lane || *waits_for > row {
                break;
            }
            self.looks.extend(self.unread.remove(&place));
        }
    }

    /// Whether a look waits for rows that are not read yet.
    pub(super) fn waits_for_rows(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Rows beyond each key's share of the window that wait for this destination, in order.
    pub(super) fn beyond_share(&self, destination: DestinationIndex, share: usize) -> Vec<RowId> {
        let queues = self.records.values().filter_map(|record| record.queues.get(destination.get()));
        let mut rows: Vec<_> = queues.flat_map(|queue| queue.waiting.iter().skip(share)).collect();
        rows.sort_unstable();
        rows
    }

    /// The destination's line was cleared.
    pub(super) fn leave_line(&mut self, destination: DestinationIndex) {
        for record in self.records.values_mut() {
            if let Some(queue) = record.queues.get_mut(destination.get()) {
                queue.in_line = false;
            }
        }
    }

    pub(super) fn looks_waiting(&self) -> usize {
        self.looks.len() + self.unread.len()
    }

    /// Forgets closed keys that no read under way can contradict any more.
    pub(super) fn expire(&mut self, any_before: impl Fn(u64) -> bool) {
        while let Some((mark, _)) = self.lingering.front() {
            if any_before(*mark) {
                break;
            }
            let Some((mark, key)) = self.lingering.pop_front() else { break };
            let is_over = |record: &KeyRecord| record.is_idle() && !record.remembered && record.lingers_until <= mark;
            if self.get(key).is_some_and(is_over) {
                self.forget(key);
            }
        }
    }

    pub(super) fn forget_lane(&mut self, lane: Lane) {
        let records = &mut self.records;
        self.slots.retain(|slot| {
            let stays = records.get(slot.0).is_some_and(|record| record.lane != lane);
            if !stays {
                records.remove(slot.0);
            }
            stays
        });
        self.looks.retain(|key| records.get(key.0).is_some());
        self.remembered.retain(|key| records.get(key.0).is_some());
        self.unread.retain(|(of, _), _| *of != lane);
    }

    /// The lanes in which exceptional rows may stand that are not looked at yet.
    pub(super) fn lanes_with_exceptions(&self) -> BTreeSet<Lane> {
        let is_seen = |record: &KeyRecord| record.aside.is_empty() || record.remembered && record.is_idle();
        let unseen = self.records.values().filter(|record| record.looking || !is_seen(record));
        unseen.map(|record| record.lane).collect()
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.looks_waiting() == 0 && self.records.values().all(|record| !record.looking)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: DestinationIndex = DestinationIndex::new(0);
    const THERE: DestinationIndex = DestinationIndex::new(1);

    fn keys() -> Keys {
        Keys::new(2, Ordering::Key)
    }

    fn place(keys: &mut Keys, key: &str, lane: u16) -> KeySlot {
        keys.place(Key::unchecked(key), Lane(lane))
    }

    /// The head is to be tried again, and nothing of the key is in memory.
    fn place_closed(keys: &mut Keys, key: &str, lane: u16) -> KeySlot {
        let slot = place(keys, key, lane);
        let record = keys.get_mut(slot).unwrap();
        record.aside = Destinations::one(HERE);
        record.scheduled = Destinations::one(HERE);
        slot
    }

    fn review(keys: &mut Keys, slot: KeySlot, mark: u64, read_before_mark: bool) {
        assert_eq!(keys.review(slot, mark, read_before_mark, Destinations::NONE), None, "nothing pauses");
    }

    fn is_known(keys: &Keys, key: &str) -> bool {
        keys.find(&Key::unchecked(key)).is_some()
    }

    #[test]
    fn before_a_row_may_stand_what_was_held_back_earlier_and_what_the_table_has_unscheduled() {
        let mut record = KeyRecord::new(Key::unchecked("k"), Lane(0), 2);
        assert!(!record.may_stand_before(RowId(6), HERE));
        record.hold_back(RowId(5), HERE);
        record.scheduled = Destinations::one(HERE);
        let before = |record: &KeyRecord, destination| {
            (4..=6).filter(|row| record.may_stand_before(RowId(*row), destination)).collect::<Vec<_>>()
        };
        assert_eq!(before(&record, HERE), [6], "nothing stands before itself");
        assert_eq!(before(&record, THERE), [0; 0]);
        record.scheduled = Destinations::NONE;
        assert_eq!(before(&record, HERE), [4, 5, 6], "it is not known what stands in the table");
    }

    #[test]
    fn what_is_scheduled_stands_before_what_follows_it() {
        let mut record = KeyRecord::new(Key::unchecked("k"), Lane(0), 2);
        record.schedule(RowId(5), Destinations::one(HERE));
        let before = |record: &KeyRecord, destination| {
            (4..=6).filter(|row| record.may_stand_before(RowId(*row), destination)).collect::<Vec<_>>()
        };
        assert_eq!(before(&record, HERE), [6], "the due query may bring that one first");
        assert_eq!(before(&record, THERE), [0; 0]);
        record.schedule(RowId(7), Destinations::one(HERE));
        assert_eq!(before(&record, HERE), [6], "the lowest counts");
        record.scheduled = Destinations::NONE;
        record.schedule(RowId(7), Destinations::one(HERE));
        assert_eq!(before(&record, HERE), [0; 0], "what was scheduled once is not any more");
    }

    #[test]
    fn a_key_stays_closed_until_the_row_that_failed_has_left_whatever_leaves_before_it() {
        let (here, mut record) = (Destinations::one(HERE), KeyRecord::new(Key::unchecked("k"), Lane(0), 2));
        (record.failing, record.failures) = (here, 1);
        record.hold_back(RowId(1), HERE);
        record.hold_back(RowId(2), HERE);
        record.let_go(RowId(2), here, Destinations::NONE);
        assert!(record.is_closed(HERE));
        record.let_go(RowId(1), here, here);
        assert!(!record.is_closed(HERE));
    }

    #[test]
    fn a_key_that_nothing_keeps_leaves_nothing_behind_and_the_others_stay() {
        let mut keys = keys();
        let names: Vec<String> = (0..50).map(|n| format!("k{n}")).collect();
        let slots: Vec<KeySlot> = names.iter().map(|name| place(&mut keys, name, 0)).collect();
        keys.get_mut(slots[7]).unwrap().members = 1;
        for slot in slots {
            review(&mut keys, slot, 1, true);
        }
        let known: Vec<&String> = names.iter().filter(|name| is_known(&keys, name)).collect();
        assert_eq!(known, ["k7"]);
        assert_eq!((keys.slots.len(), keys.records.values().count(), keys.lingering.len()), (1, 1, 0));
    }

    /// It may bring a successor that it saw as an ordinary row.
    #[test]
    fn a_closed_key_is_remembered_while_a_read_is_under_way_that_was_sent_before() {
        let mut keys = keys();
        let slot = place_closed(&mut keys, "read", 0);
        review(&mut keys, slot, 1, true);
        let slot = place_closed(&mut keys, "unread", 0);
        review(&mut keys, slot, 1, false);
        assert!(is_known(&keys, "read") && !is_known(&keys, "unread"));
        keys.expire(|_| true);
        assert!(is_known(&keys, "read"));
        keys.expire(|_| false);
        assert!(!is_known(&keys, "read"));
        assert!(keys.slots.is_empty() && keys.lingering.is_empty());
    }

    #[test]
    fn a_closed_key_outlives_the_read_it_lingered_for_where_something_else_keeps_it() {
        let mut keys = keys();
        let used = place_closed(&mut keys, "used", 0);
        let closed_anew = place_closed(&mut keys, "closed anew", 0);
        review(&mut keys, used, 1, true);
        review(&mut keys, closed_anew, 1, true);
        keys.get_mut(used).unwrap().members = 1;
        review(&mut keys, closed_anew, 2, true);
        keys.expire(|mark| mark > 1);
        assert!(is_known(&keys, "used") && is_known(&keys, "closed anew"));
        keys.expire(|_| false);
        assert!(is_known(&keys, "used") && !is_known(&keys, "closed anew"));
    }

    #[test]
    fn of_a_lane_that_is_lost_nothing_is_remembered_and_of_the_others_everything() {
        let mut keys = keys();
        for (key, lane) in [("lost", 0), ("kept", 1)] {
            let slot = place(&mut keys, key, lane);
            keys.get_mut(slot).unwrap().aside = Destinations::one(HERE);
            review(&mut keys, slot, 1, false);
            let slot = place(&mut keys, &format!("{key} unread"), lane);
            keys.get_mut(slot).unwrap().looking = true;
            keys.wait_for(Lane(lane), RowId(5), slot);
        }
        assert_eq!(keys.looks_waiting(), 4);
        keys.forget_lane(Lane(0));
        let known = ["lost", "lost unread", "kept", "kept unread"].map(|key| is_known(&keys, key));
        assert_eq!(known, [false, false, true, true]);
        assert_eq!((keys.slots.len(), keys.records.values().count()), (2, 2));
        assert_eq!(keys.looks_waiting(), 2);
        keys.reached(Lane(1), RowId(5));
        for key in ["kept", "kept unread"] {
            assert_eq!(keys.pop_look(), keys.find(&Key::unchecked(key)));
        }
    }

    #[test]
    fn a_look_is_counted_until_it_is_sent_and_nothing_is_quiet_until_it_is_answered() {
        let mut keys = keys();
        assert!(keys.is_quiet() && !keys.waits_for_rows());
        let (wanted, unread) = (place(&mut keys, "wanted", 0), place(&mut keys, "unread", 1));
        keys.get_mut(wanted).unwrap().aside = Destinations::one(HERE);
        review(&mut keys, wanted, 1, false);
        assert!(!keys.waits_for_rows());
        keys.get_mut(unread).unwrap().looking = true;
        keys.wait_for(Lane(1), RowId(9), unread);
        assert!(keys.waits_for_rows() && !keys.is_quiet());
        assert_eq!(keys.looks_waiting(), 2);
        assert_eq!(keys.pop_look(), Some(wanted));
        keys.reached(Lane(1), RowId(8));
        assert!(keys.waits_for_rows() && keys.looks_waiting() == 1);
        keys.reached(Lane(1), RowId(9));
        assert!(!keys.waits_for_rows() && keys.looks_waiting() == 1);
        assert_eq!(keys.pop_look(), Some(unread));
        assert_eq!(keys.looks_waiting(), 0);
        for slot in [wanted, unread] {
            assert!(!keys.is_quiet(), "a look is under way");
            keys.get_mut(slot).unwrap().looking = false;
        }
        assert!(keys.is_quiet());
    }

    #[test]
    fn a_lane_has_exceptions_while_one_of_its_keys_has_any_or_is_looked_at() {
        let mut keys = keys();
        for lane in 0..3 {
            let slot = place(&mut keys, &format!("k{lane}"), lane);
            let record = keys.get_mut(slot).unwrap();
            record.members = 1;
            record.looking = lane == 0;
            record.aside = if lane == 1 { Destinations::one(HERE) } else { Destinations::NONE };
        }
        assert_eq!(keys.lanes_with_exceptions(), BTreeSet::from([Lane(0), Lane(1)]));
    }

    #[test]
    fn beyond_the_share_of_its_key_is_what_stands_behind_the_first_rows_of_it() {
        let mut keys = keys();
        for (key, row) in [("a", 1), ("b", 2), ("b", 3), ("a", 4), ("a", 5)] {
            let slot = place(&mut keys, key, 0);
            keys.queue(slot, HERE).unwrap().waiting.insert(RowId(row));
        }
        assert_eq!(keys.beyond_share(HERE, 1), [3, 4, 5].map(RowId));
        assert_eq!(keys.beyond_share(HERE, 2), [RowId(5)]);
        assert!(keys.beyond_share(HERE, 3).is_empty() && keys.beyond_share(THERE, 1).is_empty());
    }

    #[test]
    fn a_key_leaves_the_line_of_one_destination_and_of_no_other() {
        let mut keys = keys();
        let slot = place(&mut keys, "k", 0);
        for destination in [HERE, THERE] {
            keys.queue(slot, destination).unwrap().in_line = true;
        }
        keys.leave_line(HERE);
        assert_eq!([HERE, THERE].map(|destination| keys.queue(slot, destination).unwrap().in_line), [false, true]);
    }
}
