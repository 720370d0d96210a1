//! How many programs a verb runs at once.

/// One per core.
pub fn per_core() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The number that follows `--jobs`.
pub fn read<'w>(words: &mut impl Iterator<Item = &'w String>) -> Result<usize, String> {
    let number = words.next().and_then(|number| number.parse().ok()).filter(|number| *number > 0);
    number.ok_or_else(|| "--jobs takes a number from 1".to_owned())
}
