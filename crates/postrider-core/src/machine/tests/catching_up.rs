//! A lane that another relay left behind, among rows that were committed late, which stand before those and may be many.

use std::collections::BTreeMap;

use super::by_hand::{Hand, aside, retrying, row, rows_of};
use crate::machine::{Answer, Event, Read, Wanted};
use crate::*;

/// A relay that gained a lane, and how many rows committed late it has read there.
struct Late {
    hand: Hand,
    rows: i64,
}

impl Late {
    fn gained() -> Self {
        let mut hand = Hand::new(1);
        hand.lose();
        hand.gain();
        Self { hand, rows: 0 }
    }

    /// The key `k` has exceptional rows there.
    fn gained_with_a_key() -> Self {
        let mut late = Self::gained();
        let walk = late.until(|wanted| matches!(wanted, Wanted::Walk(..)));
        late.hand.answer(walk, vec![aside(900, "k")], false);
        late
    }

    fn next(&mut self) -> Read {
        for _ in 0..100 {
            self.hand.act();
            match self.hand.read.take() {
                Some(read) => return read,
                None => self.hand.wait(),
            }
        }
        panic!("it does not read");
    }

    /// The next read of a kind; rows committed late come before it, and nothing else.
    fn until(&mut self, kind: impl Fn(&Wanted) -> bool) -> Read {
        for _ in 0..100 {
            match self.next() {
                read if kind(&read.wanted) => return read,
                read if read.wanted == Wanted::New => self.answer_with_a_late_row(read),
                read => self.hand.answer(read, Vec::new(), false),
            }
        }
        panic!("no such read");
    }

    fn look_finds(&mut self, rows: Vec<Row>) {
        let look = self.until(|wanted| matches!(wanted, Wanted::Key(..)));
        self.hand.answer(look, rows, false);
    }

    /// The next read for new rows, before which no key is looked at.
    fn new_rows(&mut self) -> Read {
        let read = self.until(|wanted| matches!(wanted, Wanted::New | Wanted::Key(..)));
        assert_eq!(read.wanted, Wanted::New, "nothing else that a look could find");
        read
    }

    fn answer_with_a_late_row(&mut self, read: Read) {
        self.rows += 1;
        self.answer_and_send(read, row(self.rows, None));
    }

    /// One row is read, sent and settled, and there are others.
    fn answer_and_send(&mut self, read: Read, row: Row) {
        let id = row.id.0;
        self.hand.answer(read, vec![row], true);
        let flight = self.hand.flight(id);
        self.hand.publish(flight, None);
        self.finish();
    }

    fn finish(&mut self) {
        while !self.hand.settles.is_empty() {
            let rows = rows_of(&self.hand.settle());
            self.hand.settled(&rows);
        }
    }
}

#[test]
fn a_row_that_was_set_aside_waits_until_the_reading_came_as_far_as_it() {
    let mut late = Late::gained_with_a_key();
    late.look_finds(vec![aside(900, "k")]);
    assert!(late.hand.flights.is_empty(), "rows before it may not have been read yet");
    for _ in 0..20 {
        let read = late.new_rows();
        late.answer_with_a_late_row(read);
    }
    // The first of its key, which the relay before had in memory.
    let read = late.new_rows();
    late.hand.answer(read, vec![row(800, Some("k"))], true);
    assert!(late.hand.flights.is_empty(), "behind what may stand in the table");
    late.finish();
    let read = late.new_rows();
    late.answer_and_send(read, row(901, None));
    late.look_finds(vec![aside(800, "k"), aside(900, "k")]);
    assert_eq!(late.hand.flights[0].2, [800, 900]);
}

#[test]
fn a_row_that_was_set_aside_goes_when_everything_is_read() {
    let mut late = Late::gained_with_a_key();
    late.look_finds(vec![aside(900, "k")]);
    assert!(late.hand.flights.is_empty());
    let read = late.new_rows();
    late.hand.answer(read, Vec::new(), false);
    late.look_finds(vec![aside(900, "k")]);
    late.hand.flight(900);
}

/// Its lane has no more new rows, and another one has many.
#[test]
fn a_row_that_was_set_aside_goes_when_the_source_says_that_its_lane_is_read_so_far() {
    for (reached, goes) in [(899, false), (900, true)] {
        let mut late = Late::gained_with_a_key();
        late.look_finds(vec![aside(900, "k")]);
        let read = late.new_rows();
        let page = Page { more: true, reached: BTreeMap::from([(Lane(0), RowId(reached))]), ..Page::EMPTY };
        late.hand.machine.on(late.hand.now, Event::Answered(read, Answer::Page(page)));
        let read = late.until(|wanted| matches!(wanted, Wanted::New | Wanted::Key(..)));
        assert_eq!(read.wanted != Wanted::New, goes, "{reached}: {:?}", read.wanted);
    }
}

#[test]
fn a_row_that_is_tried_again_waits_until_the_reading_came_as_far_as_it() {
    let mut late = Late::gained();
    let due = late.until(|wanted| matches!(wanted, Wanted::Due(_)));
    late.hand.answer(due, vec![retrying(900, "k")], false);
    assert!(late.hand.flights.is_empty(), "rows before it may not have been read yet");
    late.look_finds(vec![retrying(900, "k")]);
    assert!(late.hand.flights.is_empty(), "a look tells nothing of those");
    let read = late.new_rows();
    late.answer_and_send(read, row(901, None));
    late.look_finds(vec![retrying(900, "k")]);
    late.hand.flight(900);
}

#[test]
fn a_page_that_was_read_under_an_earlier_term_does_not_count() {
    let mut late = Late { hand: Hand::new(1), rows: 0 };
    let read = late.new_rows();
    late.hand.lose();
    late.hand.gain();
    let reached = BTreeMap::from([(Lane(0), RowId(901))]);
    let page = Page { rows: vec![row(901, None)], reached, ..Page::EMPTY };
    late.hand.machine.on(late.hand.now, Event::Answered(read, Answer::Page(page)));
    let walk = late.until(|wanted| matches!(wanted, Wanted::Walk(..)));
    late.hand.answer(walk, vec![aside(800, "k")], false);
    late.look_finds(vec![aside(800, "k")]);
    assert!(late.hand.flights.is_empty(), "what the earlier term read is read again");
}

#[test]
fn a_page_that_was_read_before_a_lane_came_back_under_the_same_term_does_not_count() {
    let mut late = Late { hand: Hand::new(1), rows: 0 };
    let read = late.new_rows();
    late.hand.lose();
    late.hand.gain_again(Start::Clean);
    late.hand.answer(read, vec![row(901, None)], false);
    assert_eq!(late.hand.machine.window().0, 0, "what stood before it was forgotten with the lane");
    let forgetting = late.new_rows();
    assert_eq!(forgetting.lanes, []);
    assert!(!late.hand.machine.is_idle(), "nothing of the lane is read");
}

#[test]
fn a_lane_that_comes_back_under_the_same_term_is_forgotten_by_the_source_before_it_is_read() {
    let mut late = Late { hand: Hand::new(1), rows: 0 };
    let read = late.new_rows();
    assert_eq!(read.lanes.len(), 1);
    late.hand.lose();
    late.hand.answer(read, vec![row(1, None)], false);
    late.hand.gain_again(Start::Clean);
    let forgetting = late.new_rows();
    assert_eq!(forgetting.lanes, [], "a source forgets what is missing");
    late.hand.answer(forgetting, Vec::new(), false);
    assert!(!late.hand.machine.is_idle(), "nothing of the lane is read");
    let now = late.hand.now;
    let anew = late.new_rows();
    assert_eq!((anew.lanes.len(), late.hand.now), (1, now), "it is read at once");
    late.answer_and_send(anew, row(1, None));
}
