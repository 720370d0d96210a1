//! A store of documents whose calls fail, hang, wait, panic, lose their answer or answer by what was, as a script says.

use std::collections::{BTreeSet, HashMap};
use std::fmt::{self, Debug};
use std::future::{Future, pending};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    Collection, DocumentKey, DocumentProfile, DocumentStore, Draft, Error, ErrorKind, Finding, Result, Stored,
    Timestamp, Version, WriteError,
};
use tokio::sync::Semaphore;

/// A call that is about to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call<'a> {
    /// A read.
    Load(&'a DocumentKey),
    /// A write of what does not exist.
    Create(&'a DocumentKey, &'a Draft),
    /// A write over a version.
    Replace(&'a DocumentKey, &'a Draft),
    /// A delete.
    Delete(&'a DocumentKey),
    /// The question what is due.
    Due(&'a Collection),
    /// The making of what the store needs.
    Prepare,
    /// The question whether it is there.
    Check,
}

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    None,
    /// It has no effect and fails with a kind.
    FailBefore(ErrorKind),
    /// It takes effect and fails with [`ErrorKind::Unknown`].
    FailAfter,
    /// It has no effect and never returns.
    Hang,
    /// It takes effect and never returns.
    LoseAnswer,
    /// It takes effect, and the answer comes so much later.
    Late(Duration),
    /// It takes effect so much later, and so does the answer.
    Delay(Duration),
    /// It takes effect once [`TroubledDocuments::release`] lets it, and so does the answer.
    Held,
    /// It panics.
    Panic,
    /// A read answers by what the document was before its last write through this store, and the question what is due by what
    /// each document was; as `None` for every other call.
    Stale,
}

type Script = dyn Fn(Call<'_>) -> Trouble + Send + Sync;

/// What a document was, as far as it was written here.
#[derive(Debug, Default)]
struct Past {
    before: Option<Was>,
    last: Option<Was>,
}

#[derive(Debug)]
struct Was {
    stored: Stored,
    due: Option<Timestamp>,
}

/// A store in trouble: the script is asked at every call.
pub struct TroubledDocuments {
    inner: Arc<dyn DocumentStore>,
    script: Box<Script>,
    pasts: Mutex<HashMap<DocumentKey, Past>>,
    /// One permit for each call that is held.
    held: Semaphore,
    /// One permit for each call that may go on.
    released: Semaphore,
}

impl TroubledDocuments {
    /// Wraps a store.
    pub fn wrap(
        inner: Arc<dyn DocumentStore>,
        script: impl Fn(Call<'_>) -> Trouble + Send + Sync + 'static,
    ) -> Arc<dyn DocumentStore> {
        Self::new(inner, script)
    }

    /// Wraps a store, some of whose calls are [`Held`](Trouble::Held).
    pub fn new(
        inner: Arc<dyn DocumentStore>,
        script: impl Fn(Call<'_>) -> Trouble + Send + Sync + 'static,
    ) -> Arc<Self> {
        let [held, released] = [0, 0].map(Semaphore::new);
        Arc::new(Self { inner, script: Box::new(script), pasts: Mutex::default(), held, released })
    }

    /// Waits until a call is held, one that nobody waited for yet.
    pub async fn held(&self) {
        pass(&self.held).await;
    }

    /// Lets a call go on that is held, or the next one.
    pub fn release(&self) {
        self.released.add_permits(1);
    }

    fn pasts(&self) -> MutexGuard<'_, HashMap<DocumentKey, Past>> {
        self.pasts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wrote(&self, key: &DocumentKey, now: Option<Was>) {
        let mut pasts = self.pasts();
        let past = pasts.entry(key.clone()).or_default();
        past.before = std::mem::replace(&mut past.last, now);
    }

    async fn write(
        &self,
        call: Call<'_>,
        key: &DocumentKey,
        draft: &Draft,
        effect: impl Future<Output = Result<Version, WriteError>>,
    ) -> Result<Version, WriteError> {
        let remembered = async {
            let version = effect.await?;
            let stored = Stored { json: draft.json.clone(), version: version.clone() };
            self.wrote(key, Some(Was { stored, due: draft.due }));
            Ok(version)
        };
        self.suffer((self.script)(call), remembered).await
    }

    /// What a document was before its last write, where it was written here.
    fn was(&self, key: &DocumentKey) -> Option<Option<Stored>> {
        let pasts = self.pasts();
        Some(pasts.get(key)?.before.as_ref().map(|was| was.stored.clone()))
    }

    /// What was due before each document was written last.
    async fn was_due(
        &self,
        collection: &Collection,
        by: Timestamp,
        after: Option<&DocumentKey>,
        at_most: usize,
    ) -> Result<Vec<DocumentKey>> {
        let written = self.pasts().len();
        let due = self.inner.due(collection, by, after, at_most.saturating_add(written)).await?;
        let mut named: BTreeSet<DocumentKey> = due.into_iter().collect();
        for (key, past) in self.pasts().iter() {
            let was_due = past.before.as_ref().and_then(|was| was.due).is_some_and(|due| due <= by);
            if was_due && key.collection() == collection && after.is_none_or(|after| key > after) {
                named.insert(key.clone());
            } else if !was_due {
                named.remove(key);
            }
        }
        Ok(named.into_iter().take(at_most).collect())
    }

    async fn suffer<T, E: From<Error>>(
        &self,
        trouble: Trouble,
        effect: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        match trouble {
            Trouble::None | Trouble::Stale => effect.await,
            Trouble::FailBefore(kind) => Err(Error::new(kind, "the store fails, as scripted").into()),
            Trouble::FailAfter => {
                effect.await?;
                Err(Error::new(ErrorKind::Unknown, "the store fails after its work, as scripted").into())
            }
            Trouble::Hang => pending().await,
            Trouble::LoseAnswer => {
                drop(effect.await);
                pending().await
            }
            Trouble::Late(delay) => {
                let answer = effect.await;
                tokio::time::sleep(delay).await;
                answer
            }
            Trouble::Delay(delay) => {
                tokio::time::sleep(delay).await;
                effect.await
            }
            Trouble::Held => {
                self.held.add_permits(1);
                pass(&self.released).await;
                effect.await
            }
            Trouble::Panic => panic!("the store panics, as scripted"),
        }
    }
}

impl Debug for TroubledDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TroubledDocuments").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// Takes a permit for ever.
async fn pass(permits: &Semaphore) {
    if let Ok(permit) = permits.acquire().await {
        permit.forget();
    }
}

#[async_trait]
impl DocumentStore for TroubledDocuments {
    fn profile(&self) -> DocumentProfile {
        self.inner.profile()
    }

    async fn load(&self, key: &DocumentKey) -> Result<Option<Stored>> {
        let trouble = (self.script)(Call::Load(key));
        if trouble == Trouble::Stale
            && let Some(was) = self.was(key)
        {
            return Ok(was);
        }
        self.suffer(trouble, self.inner.load(key)).await
    }

    async fn create(&self, key: &DocumentKey, draft: &Draft) -> Result<Version, WriteError> {
        self.write(Call::Create(key, draft), key, draft, self.inner.create(key, draft)).await
    }

    async fn replace(&self, key: &DocumentKey, over: &Version, draft: &Draft) -> Result<Version, WriteError> {
        self.write(Call::Replace(key, draft), key, draft, self.inner.replace(key, over, draft)).await
    }

    async fn delete(&self, key: &DocumentKey, over: &Version) -> Result<(), WriteError> {
        let remembered = async {
            self.inner.delete(key, over).await?;
            self.wrote(key, None);
            Ok(())
        };
        self.suffer((self.script)(Call::Delete(key)), remembered).await
    }

    async fn due(
        &self,
        collection: &Collection,
        by: Timestamp,
        after: Option<&DocumentKey>,
        at_most: usize,
    ) -> Result<Vec<DocumentKey>> {
        match (self.script)(Call::Due(collection)) {
            Trouble::Stale => self.was_due(collection, by, after, at_most).await,
            trouble => self.suffer(trouble, self.inner.due(collection, by, after, at_most)).await,
        }
    }

    async fn prepare(&self) -> Result<()> {
        self.suffer((self.script)(Call::Prepare), self.inner.prepare()).await
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.suffer((self.script)(Call::Check), self.inner.check()).await
    }
}
