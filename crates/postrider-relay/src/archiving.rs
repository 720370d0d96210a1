//! Removing what is past its retention after it was archived.

use std::time::Duration;

use postrider_core::{Archive, Error, ErrorKind, Operator, PastRow, Pruned, Result, Retention, Room};
use tokio::time::timeout;

/// What is archived and removed at a time: it is in memory.
const ROOM: Room = Room { rows: 1_000, bytes: 8 << 20 };

/// Archives what is past its retention, then removes it, and remembers what is durable in the archive meanwhile: what could
/// not be removed, because that failed or because somebody else locks it, is not archived again.
///
/// It remembers no more than it archives at a time. When the process ends, or the archive keeps only a part, every row is
/// still in the database, and is archived again. What is changed meanwhile, as by a replay, is archived and stays.
#[derive(Debug, Default)]
pub struct Archiving {
    durable: Vec<PastRow>,
}

impl Archiving {
    /// Archives the next rows, of each kind at most 1,000 and 8 MiB (or one that is larger), and removes them when they are
    /// durable there; what is durable already is removed before more is archived. Nothing when nothing that can be removed
    /// is past its retention any more. Showing, keeping and removing may take `limit` each.
    ///
    /// # Errors
    /// The archive's, and then nothing was removed; the store's; `Config` from a store that cannot show what it removes.
    pub async fn prune(
        &mut self,
        operator: &mut dyn Operator,
        archive: &dyn Archive,
        retention: &Retention,
        limit: Duration,
    ) -> Result<Pruned> {
        let shown = within(limit, "showing what is past its retention", operator.past(retention, ROOM)).await?;
        // By their numbers alone a row that died anew, or one of a database that was restored, would go without being kept.
        let (mut known, new): (Vec<_>, Vec<_>) = shown.into_iter().partition(|row| self.durable.contains(row));
        if !known.is_empty() {
            let pruned = removed(limit, operator, retention, &known).await?;
            // What somebody else locks is not removed, and holds back nothing.
            if pruned != Pruned::default() {
                return Ok(pruned);
            }
        }
        if new.is_empty() {
            self.durable = known;
            return Ok(Pruned::default());
        }
        within(limit, "writing the archive", archive.keep(&new)).await.map_err(|error| not_kept(&error))?;
        known.extend(new);
        self.durable = known;
        let pruned = removed(limit, operator, retention, &self.durable).await?;
        if pruned.delivered + pruned.dead == self.durable.len() as u64 {
            self.durable = Vec::new();
        }
        Ok(pruned)
    }
}

async fn removed(
    limit: Duration,
    operator: &mut dyn Operator,
    retention: &Retention,
    rows: &[PastRow],
) -> Result<Pruned> {
    within(limit, "removing what was archived", operator.remove_past(retention, rows)).await
}

fn not_kept(error: &Error) -> Error {
    Error::new(error.kind(), "archiving what is past its retention; nothing was removed")
        .because(error.story())
        .advise("look at the place of the archive: has it room, may it be written, does another process write it?")
}

/// What a call gives, or that it took longer than it may.
pub(crate) async fn within<T>(limit: Duration, doing: &str, call: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(limit, call).await.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Unavailable, format!("{doing} took longer than {} s", limit.as_secs())))
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use async_trait::async_trait;
    use postrider_core::{DeadReason, LaneCount, Message, Outcome, Store};
    use postrider_stores::History;
    use postrider_stores::memory::MemoryStore;
    use postrider_testkit::troubled::{Trouble, TroubledStore};
    use tokio::time::sleep;

    use super::*;
    use crate::housekeeper::tests::{delivered, ended};

    pub(crate) const AT_ONCE: Retention = Retention { delivered: Some(Duration::ZERO), dead: None };

    /// An archive in memory, which takes its time, and may fail after it has taken everything.
    #[derive(Debug, Default)]
    pub(crate) struct Kept {
        pub(crate) rows: Mutex<Vec<PastRow>>,
        pub(crate) fails: Option<ErrorKind>,
        pub(crate) takes: Duration,
    }

    #[async_trait]
    impl Archive for Kept {
        async fn keep(&self, rows: &[PastRow]) -> Result<()> {
            sleep(self.takes).await;
            self.rows.lock().unwrap().extend_from_slice(rows);
            self.fails.map_or(Ok(()), |kind| Err(Error::new(kind, "scripted")))
        }
    }

    /// A script by which so many removals fail, and nothing else.
    pub(crate) fn failing_removals(count: usize) -> impl Fn(&'static str) -> Trouble + Send + Sync + 'static {
        let removals = AtomicUsize::new(0);
        move |name| match name {
            "remove_past" if removals.fetch_add(1, Ordering::Relaxed) < count => Trouble::Fail(ErrorKind::Unavailable),
            _ => Trouble::None,
        }
    }

    /// What is past its retention now.
    pub(crate) async fn past(store: &MemoryStore) -> Vec<PastRow> {
        store.operator().await.unwrap().past(&AT_ONCE, ROOM).await.unwrap()
    }

    #[tokio::test]
    async fn what_is_removed_was_archived_before_and_the_rest_is_untouched() {
        let store = delivered(3).await;
        let (archive, mut archiving) = (Kept::default(), Archiving::default());
        let mut operator = store.operator().await.unwrap();
        let pruned = archiving.prune(&mut *operator, &archive, &AT_ONCE, Duration::MAX).await.unwrap();
        assert_eq!((pruned.delivered, past(&store).await.len(), archive.rows.lock().unwrap().len()), (3, 0, 3));
        assert_eq!(
            archiving.prune(&mut *operator, &archive, &AT_ONCE, Duration::MAX).await.unwrap(),
            Pruned::default()
        );
    }

    #[tokio::test]
    async fn what_is_gone_is_not_remembered() {
        let dead = Outcome::Dead { reason: DeadReason::Attempts, attempts: 1, waiting_for: None, failures: Vec::new() };
        let store = ended(&[Outcome::Delivered, Outcome::Delivered, Outcome::Delivered, dead]).await;
        let everything = Retention { dead: Some(Duration::ZERO), ..AT_ONCE };
        let (archive, mut archiving) = (Kept::default(), Archiving::default());
        let mut operator = store.operator().await.unwrap();
        let pruned = archiving.prune(&mut *operator, &archive, &everything, Duration::MAX).await.unwrap();
        assert_eq!((pruned, archiving.durable), (Pruned { delivered: 3, dead: 1 }, Vec::new()));
    }

    #[tokio::test]
    async fn nothing_is_removed_while_the_archive_fails_and_what_it_had_taken_comes_again() {
        let store = delivered(3).await;
        let (mut operator, mut archiving) = (store.operator().await.unwrap(), Archiving::default());
        for kind in [ErrorKind::Unavailable, ErrorKind::Unknown] {
            let broken = Kept { fails: Some(kind), ..Kept::default() };
            let error = archiving.prune(&mut *operator, &broken, &AT_ONCE, Duration::MAX).await.unwrap_err();
            assert_eq!((error.kind(), past(&store).await.len()), (kind, 3));
        }
        let sound = Kept::default();
        assert_eq!(archiving.prune(&mut *operator, &sound, &AT_ONCE, Duration::MAX).await.unwrap().delivered, 3);
    }

    #[tokio::test]
    async fn what_is_durable_and_could_not_be_removed_is_not_archived_again() {
        let store = delivered(3).await;
        let (archive, shown, mut archiving) = (Kept::default(), past(&store).await, Archiving::default());
        let troubled = TroubledStore::wrap(Arc::new(store.clone()), failing_removals(3));
        let mut operator = troubled.operator().await.unwrap();
        let mut prune = async || archiving.prune(&mut *operator, &archive, &AT_ONCE, Duration::MAX).await;
        for _ in 0..3 {
            assert_eq!(prune().await.unwrap_err().kind(), ErrorKind::Unavailable);
        }
        assert_eq!(prune().await.unwrap().delivered, 3);
        assert_eq!(prune().await.unwrap(), Pruned::default());
        assert_eq!((past(&store).await, &*archive.rows.lock().unwrap()), (Vec::new(), &shown));
    }

    #[tokio::test]
    async fn what_is_durable_is_removed_before_more_is_archived() {
        let store = delivered(3).await;
        let (archive, shown) = (Kept::default(), past(&store).await);
        let mut archiving = Archiving { durable: shown[1..].to_vec() };
        let mut operator = store.operator().await.unwrap();
        for (removed, kept) in [(2, 0), (1, 1), (0, 1)] {
            let pruned = archiving.prune(&mut *operator, &archive, &AT_ONCE, Duration::MAX).await.unwrap();
            assert_eq!((pruned.delivered, archive.rows.lock().unwrap().len()), (removed, kept));
        }
        assert_eq!(*archive.rows.lock().unwrap(), shown[..1]);
    }

    /// As after a restored backup: the numbers are given a second time.
    #[tokio::test]
    async fn a_row_that_has_the_number_of_one_that_is_durable_is_archived_itself() {
        let (before, after) = (delivered(1).await, delivered(1).await);
        let (archive, mut archiving) = (Kept::default(), Archiving::default());
        let shown = [past(&before).await, past(&after).await].concat();
        let troubled = TroubledStore::wrap(Arc::new(before), failing_removals(1));
        let mut operator = troubled.operator().await.unwrap();
        archiving.prune(&mut *operator, &archive, &AT_ONCE, Duration::MAX).await.unwrap_err();
        let mut operator = after.operator().await.unwrap();
        archiving.prune(&mut *operator, &archive, &AT_ONCE, Duration::MAX).await.unwrap();
        assert_eq!((past(&after).await, &*archive.rows.lock().unwrap()), (Vec::new(), &shown));
    }

    #[tokio::test]
    async fn what_waits_is_never_archived() {
        let store = MemoryStore::new(LaneCount::ONE, History::Kept);
        store.enqueue_committed(&[Message::new("t", "")]);
        let (archive, mut archiving) = (Kept::default(), Archiving::default());
        let mut operator = store.operator().await.unwrap();
        archiving.prune(&mut *operator, &archive, &AT_ONCE, Duration::MAX).await.unwrap();
        assert!(archive.rows.lock().unwrap().is_empty() && !store.rows().is_empty());
    }
}
