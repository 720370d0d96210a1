//! Rows by ascending number.

use std::collections::VecDeque;

use crate::row::RowId;

/// Rows by ascending number. The first one stands by itself: with many keys most have no other one in memory, and a queue
/// of one takes none.
#[derive(Debug, Default, Clone)]
pub(super) struct RowQueue {
    first: Option<RowId>,
    rest: VecDeque<RowId>,
}

impl RowQueue {
    /// Puts a row in its place, once.
    pub(super) fn insert(&mut self, row: RowId) {
        match self.first {
            None => self.first = Some(row),
            Some(first) if first == row => {}
            Some(first) if row < first => {
                self.rest.push_front(first);
                self.first = Some(row);
            }
            Some(_) => {
                let place = self.rest.partition_point(|known| *known < row);
                if self.rest.get(place) != Some(&row) {
                    self.rest.insert(place, row);
                }
            }
        }
    }

    pub(super) fn remove(&mut self, row: RowId) {
        if self.first == Some(row) {
            self.first = self.rest.pop_front();
        } else if let Ok(place) = self.rest.binary_search(&row) {
            self.rest.remove(place);
        }
    }

    pub(super) fn front(&self) -> Option<RowId> {
        self.first
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = RowId> {
        self.first.iter().chain(&self.rest).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_their_order_once_whatever_the_order_in_which_they_came() {
        let mut queue = RowQueue::default();
        for row in [5, 3, 9, 3, 1, 7, 9, 5] {
            queue.insert(RowId(row));
        }
        let rows = |queue: &RowQueue| queue.iter().map(|row| row.0).collect::<Vec<_>>();
        assert_eq!(rows(&queue), [1, 3, 5, 7, 9]);
        for (gone, left) in [(5, vec![1, 3, 7, 9]), (1, vec![3, 7, 9]), (2, vec![3, 7, 9]), (9, vec![3, 7])] {
            queue.remove(RowId(gone));
            assert_eq!(rows(&queue), left);
            assert_eq!(queue.front(), left.first().map(|row| RowId(*row)));
        }
        queue.remove(RowId(3));
        queue.remove(RowId(7));
        assert!(queue.is_empty() && queue.front().is_none());
        queue.remove(RowId(7));
        queue.insert(RowId(2));
        assert_eq!(rows(&queue), [2]);
    }
}
