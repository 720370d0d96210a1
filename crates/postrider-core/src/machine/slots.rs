//! Things in numbered places: whoever knows the place of one finds it without looking for it.

/// A place, and how often another thing has stood there before: a place that was given up finds nothing, whatever stands
/// there now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    place: u32,
    generation: u32,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

/// Things in numbered places. Places are used again.
#[derive(Debug)]
pub(super) struct Slots<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(super) fn insert(&mut self, value: T) -> Slot {
        let free = self.free.pop();
        if let Some((place, known)) =
            free.and_then(|free| self.places.get_mut(free as usize).map(|known| (free, known)))
        {
            known.value = Some(value);
            return Slot { place, generation: known.generation };
        }
        let place = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        self.places.push(Place { generation: 0, value: Some(value) });
        Slot { place, generation: 0 }
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&T> {
        let place = self.places.get(slot.place as usize).filter(|place| place.generation == slot.generation)?;
        place.value.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        let place = self.places.get_mut(slot.place as usize).filter(|place| place.generation == slot.generation)?;
        place.value.as_mut()
    }

    pub(super) fn remove(&mut self, slot: Slot) -> Option<T> {
        let place = self.places.get_mut(slot.place as usize).filter(|place| place.generation == slot.generation)?;
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(slot.place);
        Some(value)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.value.as_ref())
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|place| place.value.as_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_was_given_up_finds_nothing() {
        let mut slots = Slots::default();
        let (one, two) = (slots.insert(1), slots.insert(2));
        assert_eq!(slots.remove(one), Some(1));
        let three = slots.insert(3);
        assert_eq!((slots.get(one), slots.get(two), slots.get(three)), (None, Some(&2), Some(&3)));
        assert_eq!((slots.remove(one), slots.get_mut(one)), (None, None));
        assert_eq!(slots.places.len(), 2, "places are used again");
    }

    #[test]
    fn everything_that_stands_somewhere_can_be_changed_in_place() {
        let mut slots = Slots::default();
        let (one, two, three) = (slots.insert(1), slots.insert(2), slots.insert(3));
        slots.remove(two);
        slots.values_mut().for_each(|value| *value *= 10);
        assert_eq!((slots.get(one), slots.get(two), slots.get(three)), (Some(&10), None, Some(&30)));
    }
}
