//! What this member has of its partitions: what came and waits, what is in hand, and what is over.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postrider_core::{Error, Result};
use tokio::sync::{Notify, oneshot};

use super::record::{Partition, Record};
use super::seat::{Left, Seat, fenced};

/// The partitions that are ours. Nothing here waits for anything.
#[derive(Debug, Default)]
pub(super) struct Desk {
    state: Mutex<State>,
    /// Told when something can be taken.
    arrived: Notify,
}

#[derive(Debug, Default)]
struct State {
    seats: BTreeMap<Partition, Seat>,
    /// How many partitions were ever given to us: no two have the same number.
    given: u64,
    /// Bytes of what waits.
    weight: usize,
    /// Which partition is the first at the next taking.
    turn: usize,
}

/// A message in somebody's hands.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) record: Arc<Record>,
    /// Which assignment of its partition it is of.
    pub(super) assignment: u64,
}

/// What became of a word that a message is over.
#[derive(Debug)]
pub(super) enum Noted {
    /// It is recorded at the broker already.
    Recorded,
    /// It is in the book; a message before it is not over yet, and its position is recorded together with that one.
    Later,
    /// Its position is to be recorded now; this tells when it is.
    Soon(oneshot::Receiver<Result<()>>),
}

/// A position that is to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) partition: Partition,
    pub(super) position: i64,
    assignment: u64,
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something may be there to be taken. To be made before looking.
    pub(super) fn arrival(&self) -> tokio::sync::futures::Notified<'_> {
        self.arrived.notified()
    }

    /// Takes in partitions that are ours from now on.
    pub(super) fn assigned(&self, partitions: impl IntoIterator<Item = Partition>) {
        let state = &mut *self.state();
        for partition in partitions {
            state.given += 1;
            if let Some(old) = state.seats.insert(partition.clone(), Seat::new(state.given)) {
                state.weight = state.weight.saturating_sub(old.weight());
                old.leave(partition).fence();
            }
        }
    }

    /// Gives away partitions: what waits of them is dropped, and nothing in hand can be acknowledged from now on.
    pub(super) fn left(&self, partitions: impl IntoIterator<Item = Partition>) -> Vec<Left> {
        let state = &mut *self.state();
        let mut all = Vec::new();
        for partition in partitions {
            let Some(seat) = state.seats.remove(&partition) else { continue };
            state.weight = state.weight.saturating_sub(seat.weight());
            all.push(seat.leave(partition));
        }
        all
    }

    /// Gives away everything, without a last word to the broker.
    pub(super) fn leave_all(&self) {
        let all = self.assignments().into_iter().map(|(partition, _)| partition);
        self.left(all).into_iter().for_each(Left::fence);
    }

    /// The partitions that are ours, each with the number of its assignment.
    pub(super) fn assignments(&self) -> BTreeSet<(Partition, u64)> {
        self.state().seats.iter().map(|(partition, seat)| (partition.clone(), seat.assignment)).collect()
    }

    /// Whether a partition of a topic is ours.
    pub(super) fn has(&self, topic: &str) -> bool {
        self.state().seats.keys().any(|partition| *partition.topic == *topic)
    }

    /// Notes that the client went on at another offset than it was at, in some partition.
    pub(super) fn began_anew(&self) {
        self.state().seats.values_mut().for_each(|seat| seat.may_begin_anew = true);
    }

    /// Takes in a record. One of a partition that is not ours, or that was here before, is dropped.
    pub(super) fn arrived(&self, record: Record) {
        let weight = record.weight();
        let state = &mut *self.state();
        let Some(seat) = state.seats.get_mut(&record.partition) else { return };
        if !seat.book.enter(record.offset) {
            if !seat.may_begin_anew {
                return;
            }
            // The log is another one than it was: what is in hand of the old one has no position in it.
            state.given += 1;
            let old = std::mem::replace(seat, Seat::new(state.given));
            state.weight = state.weight.saturating_sub(old.weight());
            old.leave(record.partition.clone()).fence();
            seat.book.enter(record.offset);
        }
        seat.waiting.insert(record.offset, Arc::new(record));
        state.weight += weight;
        self.arrived.notify_waiters();
    }

    /// Bytes of what waits.
    pub(super) fn weight(&self) -> usize {
        self.state().weight
    }

    /// Whether nothing waits and nothing is in hand.
    pub(super) fn is_empty(&self) -> bool {
        self.state().seats.values().all(|seat| seat.book.open() == 0)
    }

    /// Hands out messages: of each partition the first ones that are in nobody's hands, one after the other, and a little of
    /// each partition.
    pub(super) fn take(&self, at_most: NonZeroUsize) -> Vec<Given> {
        let state = &mut *self.state();
        let mut seats: Vec<&mut Seat> = state.seats.values_mut().filter(|seat| !seat.waiting.is_empty()).collect();
        let mut taken = Vec::new();
        if seats.is_empty() {
            return taken;
        }
        let first = state.turn % seats.len();
        seats.rotate_left(first);
        state.turn = state.turn.wrapping_add(1);
        while taken.len() < at_most.get() {
            let before = taken.len();
            for seat in &mut seats {
                if taken.len() == at_most.get() {
                    break;
                }
                let Some((_, record)) = seat.waiting.pop_first() else { continue };
                state.weight = state.weight.saturating_sub(record.weight());
                taken.push(Given { record, assignment: seat.assignment });
            }
            if taken.len() == before {
                break;
            }
        }
        taken
    }

    /// Takes a message back: it is given again, in its place.
    ///
    /// # Errors
    /// `Fenced` where its partition is not ours any more.
    pub(super) fn back(&self, given: Given) -> Result<()> {
        let state = &mut *self.state();
        let Given { record, assignment } = given;
        let seat = ours(&mut state.seats, &record.partition, assignment)?;
        if seat.book.is_open(record.offset) {
            state.weight += record.weight();
            seat.waiting.insert(record.offset, record);
        }
        self.arrived.notify_waiters();
        Ok(())
    }

    /// Whether a message is still ours.
    ///
    /// # Errors
    /// `Fenced` where it is not.
    pub(super) fn holds(&self, given: &Given) -> Result<()> {
        ours(&mut self.state().seats, &given.record.partition, given.assignment).map(drop)
    }

    /// Notes that a message is over.
    ///
    /// # Errors
    /// `Fenced` where its partition is not ours any more.
    pub(super) fn over(&self, given: &Given) -> Result<Noted> {
        let offset = given.record.offset;
        let mut state = self.state();
        let seat = ours(&mut state.seats, &given.record.partition, given.assignment)?;
        seat.book.over(offset);
        if seat.book.is_recorded(offset) {
            return Ok(Noted::Recorded);
        }
        if seat.book.position().is_none_or(|position| offset >= position) {
            return Ok(Noted::Later);
        }
        Ok(Noted::Soon(seat.watch(offset)))
    }

    /// The positions that are not recorded yet, one of each partition.
    pub(super) fn due(&self) -> Vec<Due> {
        let state = self.state();
        let one = |(partition, seat): (&Partition, &Seat)| {
            let position = seat.book.unrecorded()?;
            Some(Due { partition: partition.clone(), position, assignment: seat.assignment })
        };
        state.seats.iter().filter_map(one).collect()
    }

    /// Notes that the broker recorded positions.
    pub(super) fn recorded(&self, due: &[Due]) {
        let state = &mut *self.state();
        for due in due {
            let Ok(seat) = ours(&mut state.seats, &due.partition, due.assignment) else { continue };
            seat.book.record(due.position);
            seat.tell(due.position, || Ok(()));
        }
    }

    /// Tells those who wait for positions that the broker refuses them. The positions stay due.
    pub(super) fn refused(&self, due: &[Due], error: impl Fn() -> Error) {
        let state = &mut *self.state();
        for due in due {
            if let Ok(seat) = ours(&mut state.seats, &due.partition, due.assignment) {
                seat.tell(due.position, || Err(error()));
            }
        }
    }
}

/// A partition, where it is still given to us as it was.
fn ours<'s>(seats: &'s mut BTreeMap<Partition, Seat>, partition: &Partition, assignment: u64) -> Result<&'s mut Seat> {
    let seat = seats.get_mut(partition).filter(|seat| seat.assignment == assignment);
    seat.ok_or_else(|| fenced(partition))
}

#[cfg(test)]
mod tests {
    use postrider_core::ErrorKind;

    use super::*;

    fn partition(number: i32) -> Partition {
        Partition { topic: "orders".into(), number }
    }

    fn desk(partitions: &[i32], records: &[(i32, i64)]) -> Desk {
        let desk = Desk::default();
        desk.assigned(partitions.iter().copied().map(partition));
        for (number, offset) in records {
            desk.arrived(Record::test("orders", *number, *offset, None, Some(b"x")));
        }
        desk
    }

    fn take(desk: &Desk, at_most: usize) -> Vec<Given> {
        desk.take(NonZeroUsize::new(at_most).unwrap())
    }

    fn places(given: &[Given]) -> Vec<(i32, i64)> {
        given.iter().map(|given| (given.record.partition.number, given.record.offset)).collect()
    }

    #[test]
    fn partitions_take_turns_and_each_keeps_its_order() {
        let desk = desk(&[0, 1], &[(0, 5), (0, 6), (0, 7), (1, 1), (1, 2)]);
        assert_eq!(places(&take(&desk, 3)), [(0, 5), (1, 1), (0, 6)]);
        assert_eq!(places(&take(&desk, 9)), [(1, 2), (0, 7)]);
        assert_eq!((places(&take(&desk, 9)), desk.weight()), (vec![], 0));
        assert!(!desk.is_empty());
    }

    #[test]
    fn what_is_given_back_comes_again_in_its_place() {
        let desk = desk(&[0], &[(0, 5), (0, 6), (0, 7)]);
        let weight = desk.weight();
        let mut taken = take(&desk, 2);
        desk.back(taken.remove(0)).unwrap();
        desk.back(taken.remove(0)).unwrap();
        assert_eq!(desk.weight(), weight);
        assert_eq!(places(&take(&desk, 9)), [(0, 5), (0, 6), (0, 7)]);
    }

    #[test]
    fn what_came_twice_is_given_once_and_what_is_not_ours_never() {
        let desk = desk(&[0], &[(0, 5), (0, 6), (0, 5), (3, 1)]);
        assert_eq!(places(&take(&desk, 9)), [(0, 5), (0, 6)]);
        desk.arrived(Record::test("orders", 0, 6, None, None));
        assert_eq!((places(&take(&desk, 9)), desk.weight()), (vec![], 0));
    }

    #[test]
    fn a_word_is_heard_when_everything_before_it_is_over() {
        let desk = desk(&[0], &[(0, 5), (0, 6), (0, 7)]);
        let taken = take(&desk, 3);
        assert!(matches!(desk.over(&taken[1]), Ok(Noted::Later)));
        assert_eq!(desk.due(), []);
        let Ok(Noted::Soon(mut heard)) = desk.over(&taken[0]) else { panic!("it stands at the front") };
        let due = desk.due();
        assert_eq!(due.iter().map(|due| due.position).collect::<Vec<_>>(), [7]);
        assert!(heard.try_recv().is_err());
        desk.recorded(&due);
        heard.try_recv().unwrap().unwrap();
        assert_eq!(desk.due(), []);
        assert!(matches!(desk.over(&taken[1]), Ok(Noted::Recorded)));
    }

    #[test]
    fn a_refusal_is_told_and_the_position_stays_due() {
        let desk = desk(&[0], &[(0, 5)]);
        let taken = take(&desk, 1);
        let Ok(Noted::Soon(mut heard)) = desk.over(&taken[0]) else { panic!("it stands at the front") };
        let due = desk.due();
        desk.refused(&due, || Error::new(ErrorKind::Config, "no"));
        assert_eq!(heard.try_recv().unwrap().unwrap_err().kind(), ErrorKind::Config);
        assert_eq!(desk.due(), due);
    }

    #[test]
    fn a_partition_that_came_back_is_another_one() {
        let desk = desk(&[0], &[(0, 5), (0, 6)]);
        let mut old = take(&desk, 2);
        assert!(matches!(desk.over(&old[0]), Ok(Noted::Soon(_))));
        let stale = desk.due();
        let left = desk.left([partition(0)]);
        assert_eq!(left.iter().map(|left| left.position).collect::<Vec<_>>(), [Some(6)]);
        desk.assigned([partition(0)]);
        desk.arrived(Record::test("orders", 0, 6, None, None));
        desk.recorded(&stale);
        assert_eq!(desk.due(), []);
        let fenced = |result: Result<()>| result.unwrap_err().kind() == ErrorKind::Fenced;
        assert!(fenced(desk.holds(&old[1])) && fenced(desk.over(&old[1]).map(drop)));
        assert!(fenced(desk.back(old.remove(1))));
        assert_eq!(places(&take(&desk, 9)), [(0, 6)]);
    }

    #[test]
    fn a_log_that_begins_anew_is_read_from_its_beginning() {
        let desk = desk(&[0], &[(0, 5), (0, 6), (0, 7)]);
        let old = take(&desk, 2);
        desk.began_anew();
        for offset in [0, 1] {
            desk.arrived(Record::test("orders", 0, offset, None, Some(b"new")));
        }
        let fenced = desk.over(&old[0]).unwrap_err();
        assert_eq!(fenced.kind(), ErrorKind::Fenced);
        let new = take(&desk, 9);
        assert_eq!((places(&new), desk.weight()), (vec![(0, 0), (0, 1)], 0));
        assert!(matches!(desk.over(&new[0]), Ok(Noted::Soon(_))));
        assert_eq!(desk.due().iter().map(|due| due.position).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn who_waits_when_a_partition_goes_hears_what_became_of_it() {
        let desk = desk(&[0, 1], &[(0, 5), (1, 5)]);
        let taken = take(&desk, 2);
        let mut heard: Vec<_> = taken
            .iter()
            .map(|given| match desk.over(given) {
                Ok(Noted::Soon(heard)) => heard,
                other => panic!("{other:?}"),
            })
            .collect();
        let mut left = desk.left([partition(0), partition(1)]);
        left.remove(0).recorded();
        left.remove(0).fence();
        heard.remove(0).try_recv().unwrap().unwrap();
        assert_eq!(heard.remove(0).try_recv().unwrap().unwrap_err().kind(), ErrorKind::Fenced);
    }
}
