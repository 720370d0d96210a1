//! A set of keys in two mebibytes, however many there are, and in nothing while there are none: what was put in is always
//! found, and of the rest a few are too.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use postrider_core::Key;

/// A power of two, because places are cut from a hash.
const BITS: u32 = 1 << 24;
const WORD: u32 = u64::BITS;
/// Places of each key.
const PLACES: u32 = 4;
/// With more of them set, one key in sixteen would be found that was never put in.
const MOST: u32 = BITS / 2;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct KeyFilter {
    /// None before the first key.
    words: Vec<u64>,
    set: u32,
}

impl KeyFilter {
    pub(super) fn put(&mut self, key: &Key) {
        if self.words.is_empty() {
            self.words = vec![0; (BITS / WORD) as usize];
        }
        for (word, bit) in places(key) {
            if let Some(word) = self.words.get_mut(word) {
                self.set += u32::from(*word & bit == 0);
                *word |= bit;
            }
        }
    }

    /// Whether it may have been put in.
    pub(super) fn may_have(&self, key: &Key) -> bool {
        places(key).all(|(word, bit)| self.words.get(word).is_some_and(|word| word & bit != 0))
    }

    /// Whether so many keys are in it that it tells little.
    pub(super) const fn is_crowded(&self) -> bool {
        self.set > MOST
    }
}

/// The bits of a key, each by its word: two halves of one hash make as many as are wanted.
fn places(key: &Key) -> impl Iterator<Item = (usize, u64)> {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key).to_le_bytes();
    let [a, b, c, d, e, f, g, h] = hash;
    let (first, stride) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]) | 1);
    (0..PLACES).map(move |n| {
        let place = first.wrapping_add(stride.wrapping_mul(n)) % BITS;
        ((place / WORD) as usize, 1 << (place % WORD))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(kind: &str, number: u32) -> impl Iterator<Item = Key> {
        (0..number).map(move |n| Key::unchecked(format!("{kind}-{n}")))
    }

    #[test]
    fn what_was_put_in_is_always_found_and_hardly_anything_else() {
        let mut filter = KeyFilter::default();
        assert!(!keys("in", 1_000).any(|key| filter.may_have(&key)) && filter.words.is_empty());
        keys("in", 500_000).for_each(|key| filter.put(&key));
        assert!(keys("in", 500_000).all(|key| filter.may_have(&key)));
        let others = keys("out", 100_000).filter(|key| filter.may_have(key)).count();
        assert!(others < 300, "{others} of 100,000 others: 0.02% were expected");
        assert!(!filter.is_crowded());
    }

    #[test]
    fn it_is_crowded_when_half_of_it_is_taken_and_still_finds_what_it_has() {
        let mut filter = KeyFilter::default();
        let mut number = 0;
        for key in keys("in", 4_000_000) {
            filter.put(&key);
            number += 1;
            if filter.is_crowded() {
                break;
            }
        }
        assert!((2_800_000..3_000_000).contains(&number), "{number}");
        let ones: u32 = filter.words.iter().map(|word| word.count_ones()).sum();
        assert_eq!((ones, filter.words.len()), (filter.set, 1 << 18));
        assert!(keys("in", number).all(|key| filter.may_have(&key)));
    }
}
