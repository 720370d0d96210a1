//! How much fits in a page.

use postrider_core::Room;

/// What is left of a page's room while it is filled.
///
/// The first row is admitted whatever it weighs, so that a large one travels alone; after it, only what fits.
#[derive(Debug)]
pub(crate) struct Filling {
    rows: usize,
    bytes: usize,
    empty: bool,
}

impl Filling {
    /// An empty page with this much room.
    pub(crate) fn new(room: Room) -> Self {
        Self { rows: room.rows, bytes: room.bytes, empty: true }
    }

    /// Takes a row of this weight into the page; false, and nothing changes, when it does not fit.
    pub(crate) fn admit(&mut self, weight: usize) -> bool {
        if self.rows == 0 || (!self.empty && weight > self.bytes) {
            return false;
        }
        self.rows -= 1;
        self.bytes = self.bytes.saturating_sub(weight);
        self.empty = false;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_row_comes_whatever_it_weighs_and_then_nothing_more_fits() {
        let mut page = Filling::new(Room { rows: 10, bytes: 100 });
        assert!(page.admit(5_000));
        assert!(!page.admit(1));
    }

    #[test]
    fn rows_and_bytes_both_bound_a_page() {
        let mut page = Filling::new(Room { rows: 2, bytes: 100 });
        assert!(page.admit(60));
        assert!(!page.admit(41));
        assert!(page.admit(40));
        assert!(!page.admit(0));
    }

    #[test]
    fn no_room_for_rows_is_no_room() {
        assert!(!Filling::new(Room { rows: 0, bytes: 100 }).admit(0));
    }
}
