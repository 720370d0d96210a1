//! The readers of a store, who must know of every key whose rows its settlers made exceptional.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use postrider_core::Key;

use super::exceptions::Exceptions;

/// What one reader knows of exceptional keys, which it shares with those who tell it.
#[derive(Debug, Clone, Default)]
pub(super) struct Shared(Arc<Mutex<Exceptions>>);

impl Shared {
    pub(super) fn get(&self) -> MutexGuard<'_, Exceptions> {
        known(&self.0)
    }
}

fn known<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All of them, as long as they live.
#[derive(Debug, Clone, Default)]
pub(super) struct Readers(Arc<Mutex<Vec<Weak<Mutex<Exceptions>>>>>);

impl Readers {
    /// One more, which knows nothing yet.
    pub(super) fn joined(&self) -> Shared {
        let reader = Shared::default();
        let mut all = known(&self.0);
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(&reader.0));
        reader
    }

    /// A statement is sent that may make rows exceptional.
    pub(super) const fn not_told(&self) -> NotTold<'_> {
        NotTold(Some(self))
    }

    fn each(&self, tell: impl Fn(&mut Exceptions)) {
        for reader in known(&self.0).iter().filter_map(Weak::upgrade) {
            tell(&mut known(&reader));
        }
    }
}

/// A statement of which it is not told what it changed. Where it never is, because it failed, or nobody waits for its answer
/// any more, it may be anything.
#[derive(Debug)]
pub(super) struct NotTold<'r>(Option<&'r Readers>);

impl NotTold<'_> {
    /// Rows of these keys, at most.
    pub(super) fn told(mut self, keys: &[Key]) {
        if let Some(readers) = self.0.take() {
            readers.each(|reader| keys.iter().for_each(|key| reader.put(key)));
        }
    }
}

impl Drop for NotTold<'_> {
    fn drop(&mut self) {
        if let Some(readers) = self.0 {
            readers.each(Exceptions::forget);
        }
    }
}

#[cfg(test)]
mod tests {
    use postrider_core::{HeldLane, Lane, Start, Term};

    use super::super::exceptions::Next;
    use super::*;

    /// One that has walked its only lane, where nothing was.
    fn joined(readers: &Readers) -> Shared {
        let reader = readers.joined();
        let mut exceptions = reader.get();
        exceptions.follow(&[HeldLane { lane: Lane(0), term: Term(1), start: Start::Clean }]);
        let Next::Step(_, from) = exceptions.next() else { panic!("no step is due") };
        assert!(exceptions.walked(from, Vec::new()));
        drop(exceptions);
        reader
    }

    fn closes(reader: &Shared, text: &str) -> bool {
        reader.get().may_close(Some(&Key::unchecked(text)))
    }

    #[test]
    fn every_reader_is_told_what_an_answer_tells_and_forgets_where_there_is_none() {
        let readers = Readers::default();
        let gone = joined(&readers);
        drop(gone);
        let both = [joined(&readers), joined(&readers)];
        assert_eq!(known(&readers.0).len(), 2);
        readers.not_told().told(&[Key::unchecked("a")]);
        for reader in &both {
            assert!(closes(reader, "a") && !closes(reader, "z"));
        }
        drop(readers.not_told());
        for reader in &both {
            assert!(closes(reader, "z"));
        }
    }
}
