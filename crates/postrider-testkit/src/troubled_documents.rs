//! A store of documents whose calls fail, hang, panic, lose their answer or answer by what was, as a script says.

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::future::{Future, pending};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    Collection, DocumentKey, DocumentProfile, DocumentStore, Draft, Error, ErrorKind, Finding, Result, Stored,
    Timestamp, Version, WriteError,
};

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
    /// It panics.
    Panic,
    /// A read answers by what the document was before its last write through this store; as `None` for every other call.
    Stale,
}

type Script = dyn Fn(Call<'_>) -> Trouble + Send + Sync;

/// What a document was, as far as it was written here.
#[derive(Debug, Default)]
struct Past {
    before: Option<Stored>,
    last: Option<Stored>,
}

/// A store in trouble: the script is asked at every call.
pub struct TroubledDocuments {
    inner: Arc<dyn DocumentStore>,
    script: Box<Script>,
    pasts: Mutex<HashMap<DocumentKey, Past>>,
}

impl TroubledDocuments {
    /// Wraps a store.
    pub fn wrap(
        inner: Arc<dyn DocumentStore>,
        script: impl Fn(Call<'_>) -> Trouble + Send + Sync + 'static,
    ) -> Arc<dyn DocumentStore> {
        Arc::new(Self { inner, script: Box::new(script), pasts: Mutex::default() })
    }

    fn pasts(&self) -> MutexGuard<'_, HashMap<DocumentKey, Past>> {
        self.pasts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wrote(&self, key: &DocumentKey, now: Option<Stored>) {
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
            self.wrote(key, Some(Stored { json: draft.json.clone(), version: version.clone() }));
            Ok(version)
        };
        suffer((self.script)(call), remembered).await
    }
}

impl Debug for TroubledDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TroubledDocuments").field("inner", &self.inner).finish_non_exhaustive()
    }
}

async fn suffer<T, E: From<Error>>(trouble: Trouble, effect: impl Future<Output = Result<T, E>>) -> Result<T, E> {
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
        Trouble::Panic => panic!("the store panics, as scripted"),
    }
}

#[async_trait]
impl DocumentStore for TroubledDocuments {
    fn profile(&self) -> DocumentProfile {
        self.inner.profile()
    }

    async fn load(&self, key: &DocumentKey) -> Result<Option<Stored>> {
        match (self.script)(Call::Load(key)) {
            Trouble::Stale => Ok(self.pasts().get(key).and_then(|past| past.before.clone())),
            trouble => suffer(trouble, self.inner.load(key)).await,
        }
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
        suffer((self.script)(Call::Delete(key)), remembered).await
    }

    async fn due(
        &self,
        collection: &Collection,
        by: Timestamp,
        after: Option<&DocumentKey>,
        at_most: usize,
    ) -> Result<Vec<DocumentKey>> {
        suffer((self.script)(Call::Due(collection)), self.inner.due(collection, by, after, at_most)).await
    }

    async fn prepare(&self) -> Result<()> {
        suffer((self.script)(Call::Prepare), self.inner.prepare()).await
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        suffer((self.script)(Call::Check), self.inner.check()).await
    }
}
