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
    /// Which era of its partition it is of.
    era: u64,
}

/// What became of a word that a message is over.
#[derive(Debug)]
pub(super) enum Noted {
    /// It is recorded at the broker already.
    Recorded,
    /// It is in the book; a message before it is not over yet, or nothing has come from where the client goes on, and its position
    /// is recorded together with that one.
    Later,
    /// Its position is to be recorded now; this tells when it is.
    Soon(oneshot::Receiver<Result<()>>),
}

/// A position that is to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) partition: Partition,
    pub(super) position: i64,
    era: u64,
}

/// How a record came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Behind the others, or it was not ours.
    Next,
    /// Where the client had said that it goes on: the position is to be recorded anew.
    Elsewhere,
    /// Before what had come, up to this offset, and nobody had said so: the same.
    Back(i64),
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

    /// Notes that the client goes on at another offset than it was at: in this partition, or in one of all. Until something has
    /// come from there, no position of it is recorded: in another log it would stand for messages that nobody has seen.
    pub(super) fn began_anew(&self, partition: Option<&Partition>) {
        let state = &mut *self.state();
        let moved = |of: &Partition| partition.is_none_or(|partition| partition == of);
        state.seats.iter_mut().filter(|(of, _)| moved(of)).for_each(|(_, seat)| seat.is_adrift = true);
    }

    /// Takes in a record. One of a partition that is not ours is dropped.
    ///
    /// The client gives every offset of an assignment once, in its order. One that is below what came is another message: the
    /// log lost its end, or is another one.
    pub(super) fn arrived(&self, record: Record) -> Arrival {
        let (weight, offset) = (record.weight(), record.offset);
        let state = &mut *self.state();
        let Some(seat) = state.seats.get_mut(&record.partition) else { return Arrival::Next };
        let mut arrival = if std::mem::take(&mut seat.is_adrift) { Arrival::Elsewhere } else { Arrival::Next };
        if let Some(next) = seat.book.next().filter(|next| offset < *next) {
            if arrival == Arrival::Next {
                arrival = Arrival::Back(next);
            }
            let had = seat.weight();
            state.given += 1;
            seat.begin_anew(&record.partition, offset, state.given);
            state.weight = state.weight.saturating_sub(had - seat.weight());
        }
        seat.book.enter(offset);
        if arrival != Arrival::Next {
            seat.book.doubt();
        }
        seat.waiting.insert(offset, Arc::new(record));
        state.weight += weight;
        self.arrived.notify_waiters();
        arrival
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
                taken.push(Given { record, era: seat.era });
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
        let seat = held(&mut state.seats, &given)?;
        let record = given.record;
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
        held(&mut self.state().seats, given).map(drop)
    }

    /// Notes that a message is over.
    ///
    /// # Errors
    /// `Fenced` where its partition is not ours any more.
    pub(super) fn over(&self, given: &Given) -> Result<Noted> {
        let offset = given.record.offset;
        let mut state = self.state();
        let seat = held(&mut state.seats, given)?;
        seat.book.over(offset);
        if seat.book.is_recorded(offset) {
            return Ok(Noted::Recorded);
        }
        if seat.is_adrift || seat.book.position().is_none_or(|position| offset >= position) {
            return Ok(Noted::Later);
        }
        Ok(Noted::Soon(seat.watch(offset)))
    }

    /// The positions that are not recorded yet, one of each partition.
    pub(super) fn due(&self) -> Vec<Due> {
        let state = self.state();
        let one = |(partition, seat): (&Partition, &Seat)| {
            let position = seat.unrecorded()?;
            Some(Due { partition: partition.clone(), position, era: seat.era })
        };
        state.seats.iter().filter_map(one).collect()
    }

    /// Notes that the broker recorded positions.
    pub(super) fn recorded(&self, due: &[Due]) {
        let state = &mut *self.state();
        for due in due {
            let Some(seat) = now(&mut state.seats, due) else { continue };
            seat.book.record(due.position);
            seat.tell(due.position, || Ok(()));
        }
    }

    /// Tells those who wait for positions that the broker refuses them. The positions stay due.
    pub(super) fn refused(&self, due: &[Due], error: impl Fn() -> Error) {
        let state = &mut *self.state();
        for due in due {
            if let Some(seat) = now(&mut state.seats, due) {
                seat.tell(due.position, || Err(error()));
            }
        }
    }
}

/// The partition of a message, where that is still ours.
fn held<'s>(seats: &'s mut BTreeMap<Partition, Seat>, given: &Given) -> Result<&'s mut Seat> {
    let Given { record, era } = given;
    let seat = seats.get_mut(&record.partition).filter(|seat| seat.has(*era, record.offset));
    seat.ok_or_else(|| fenced(&record.partition))
}

/// The partition of a position, where it is as it was then.
fn now<'s>(seats: &'s mut BTreeMap<Partition, Seat>, due: &Due) -> Option<&'s mut Seat> {
    seats.get_mut(&due.partition).filter(|seat| seat.era == due.era)
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
    fn what_is_not_ours_is_never_given() {
        let desk = desk(&[0], &[(0, 5), (3, 1)]);
        assert_eq!((places(&take(&desk, 9)), desk.weight()), (vec![(0, 5)], 0));
    }

    /// The client gives an offset twice only where its log is another one: to drop it would lose what lies there now.
    #[test]
    fn what_comes_below_what_came_is_given_and_takes_the_place_of_what_came() {
        let desk = desk(&[0], &[(0, 5), (0, 6), (0, 7), (0, 8)]);
        let mut old = take(&desk, 3);
        let Ok(Noted::Soon(mut first)) = desk.over(&old[0]) else { panic!("it stands at the front") };
        let (first_due, third) = (desk.due(), old.remove(2));
        assert!(matches!(desk.over(&third), Ok(Noted::Later)));
        let again = Record::test("orders", 0, 7, None, Some(b"new"));
        assert_eq!(desk.arrived(again), Arrival::Back(9));
        // An answer to what was sent before says nothing of this log.
        desk.recorded(&first_due);
        assert_eq!(desk.due().iter().map(|due| due.position).collect::<Vec<_>>(), [6]);
        desk.recorded(&desk.due());
        first.try_recv().unwrap().unwrap();
        // What lies before is in both logs, and does not come again.
        desk.holds(&old[1]).unwrap();
        assert_eq!(desk.holds(&third).unwrap_err().kind(), ErrorKind::Fenced);
        let new = take(&desk, 9);
        assert_eq!((places(&new), desk.weight()), (vec![(0, 7)], 0));
        assert_eq!(new[0].record.payload(), "new");
        assert!(matches!(desk.over(&new[0]), Ok(Noted::Later)));
        assert!(matches!(desk.over(&old[1]), Ok(Noted::Soon(_))));
        assert_eq!(desk.due().iter().map(|due| due.position).collect::<Vec<_>>(), [8]);
        assert_eq!(desk.arrived(Record::test("orders", 0, 8, None, None)), Arrival::Next);
    }

    #[test]
    fn a_position_that_lies_behind_where_the_log_goes_on_is_lowered_at_once() {
        let desk = desk(&[0], &[(0, 5), (0, 6), (0, 7)]);
        for given in take(&desk, 3) {
            desk.over(&given).unwrap();
        }
        desk.recorded(&desk.due());
        assert_eq!(desk.arrived(Record::test("orders", 0, 6, None, None)), Arrival::Back(8));
        assert_eq!(desk.due().iter().map(|due| due.position).collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn what_is_in_hand_from_before_the_log_went_back_twice_is_known_by_its_offset() {
        let desk = desk(&[0], &[(0, 3), (0, 5), (0, 6), (0, 7)]);
        let old = take(&desk, 4);
        desk.arrived(Record::test("orders", 0, 6, None, None));
        let middle = take(&desk, 1);
        desk.arrived(Record::test("orders", 0, 5, None, None));
        desk.arrived(Record::test("orders", 0, 6, None, None));
        desk.holds(&old[0]).unwrap();
        for gone in old[1..].iter().chain(&middle) {
            assert_eq!(desk.holds(gone).unwrap_err().kind(), ErrorKind::Fenced, "{gone:?}");
        }
        assert_eq!(places(&take(&desk, 9)), [(0, 5), (0, 6)]);
    }

    #[test]
    fn a_position_is_not_recorded_while_nobody_knows_where_the_log_goes_on() {
        let desk = desk(&[0, 1], &[(0, 5), (0, 6), (1, 5)]);
        let taken = take(&desk, 3);
        let Ok(Noted::Soon(mut waits)) = desk.over(&taken[0]) else { panic!("it stands at the front") };
        desk.began_anew(Some(&partition(0)));
        assert!(matches!(desk.over(&taken[2]), Ok(Noted::Later)));
        assert!(matches!(desk.over(&taken[1]), Ok(Noted::Soon(_))), "it is of another partition");
        let due = |desk: &Desk| desk.due().iter().map(|due| (due.partition.number, due.position)).collect::<Vec<_>>();
        assert_eq!(due(&desk), [(1, 6)]);
        // Kafka deleted what was to be read next: the log is the same, and what was over in it is.
        assert_eq!(desk.arrived(Record::test("orders", 0, 9, None, None)), Arrival::Elsewhere);
        assert_eq!(due(&desk), [(0, 9), (1, 6)]);
        desk.recorded(&desk.due());
        waits.try_recv().unwrap().unwrap();
    }

    #[test]
    fn who_waits_in_a_partition_that_goes_before_the_log_went_on_is_not_told_that_it_is_recorded() {
        let desk = desk(&[0], &[(0, 5)]);
        let taken = take(&desk, 1);
        let Ok(Noted::Soon(mut waits)) = desk.over(&taken[0]) else { panic!("it stands at the front") };
        desk.began_anew(None);
        let left = desk.left([partition(0)]).remove(0);
        assert_eq!(left.position, None);
        left.recorded();
        assert_eq!(waits.try_recv().unwrap().unwrap_err().kind(), ErrorKind::Fenced);
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
        desk.began_anew(Some(&partition(0)));
        let arrivals = [0, 1].map(|offset| desk.arrived(Record::test("orders", 0, offset, None, Some(b"new"))));
        assert_eq!(arrivals, [Arrival::Elsewhere, Arrival::Next]);
        assert_eq!(desk.due().iter().map(|due| due.position).collect::<Vec<_>>(), [0]);
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
