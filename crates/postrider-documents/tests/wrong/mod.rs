//! Stores that are wrong in one thing.

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use postrider_core::{
    Collection, DocumentKey, DocumentProfile, DocumentStore, Draft, Error, ErrorKind, Finding, Result, Stored,
    Timestamp, Version, WriteError,
};
use postrider_documents::memory::MemoryDocuments;
use serde_json::Value;

type Written<T> = std::result::Result<T, WriteError>;

/// In what a store is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    CreatesOverWhatIsThere,
    ReplacesAnyVersion,
    DeletesAnyVersion,
    MakesByReplacing,
    HashesContent,
    CountsSinceTheCreate,
    LooksBeforeItCreates,
    LooksBeforeItReplaces,
    ReadsWhatWas,
    FoldsCase,
    JoinsCollectionAndName,
    LosesDigits,
    DropsTheCharacterZero,
    StoresWhatIsTooLarge,
    RepeatsTheLastOfAPage,
    EndsAfterOnePage,
    NamesWhatIsNotDue,
    NamesOtherCollections,
    ForgetsTheDueOfAReplace,
    WritesInTwoSteps,
    ShowsWhatItRefuses,
    SaysNothingInCheck,
}

impl Wrong {
    /// Every one, with a case that it cannot pass.
    pub const ALL: [(Self, &'static str); 22] = [
        (Self::CreatesOverWhatIsThere, "a_second_create_conflicts_and_the_first_value_stays"),
        (Self::ReplacesAnyVersion, "a_stale_replace_conflicts_and_the_value_stays"),
        (Self::DeletesAnyVersion, "a_stale_delete_conflicts_and_the_value_stays"),
        (Self::MakesByReplacing, "a_write_over_an_absent_document_conflicts_and_makes_none"),
        (Self::HashesContent, "content_that_comes_back_brings_no_version_back"),
        (Self::CountsSinceTheCreate, "a_document_that_was_deleted_brings_no_version_back"),
        (Self::LooksBeforeItCreates, "of_many_creators_one_wins"),
        (Self::LooksBeforeItReplaces, "counting_at_once_loses_nothing"),
        (Self::ReadsWhatWas, "every_client_sees_a_write_once_it_is_answered"),
        (Self::FoldsCase, "unusual_names_stay_apart"),
        (Self::JoinsCollectionAndName, "a_name_means_another_document_in_another_collection"),
        (Self::LosesDigits, "every_kind_of_value_comes_back"),
        (Self::DropsTheCharacterZero, "the_character_zero_is_kept_or_refused"),
        (Self::StoresWhatIsTooLarge, "what_is_too_large_is_refused_and_not_stored"),
        (Self::RepeatsTheLastOfAPage, "what_is_due_is_named_in_order_and_in_pages"),
        (Self::EndsAfterOnePage, "what_is_due_is_named_in_order_and_in_pages"),
        (Self::NamesWhatIsNotDue, "what_is_due_is_named_in_order_and_in_pages"),
        (Self::NamesOtherCollections, "what_is_due_is_named_in_order_and_in_pages"),
        (Self::ForgetsTheDueOfAReplace, "a_replace_moves_what_is_due_and_a_delete_takes_it_away"),
        (Self::WritesInTwoSteps, "a_call_that_is_dropped_leaves_the_old_or_the_new"),
        (Self::ShowsWhatItRefuses, "nothing_secret_is_shown"),
        (Self::SaysNothingInCheck, "check_is_content_with_a_prepared_store"),
    ];
}

const LIMIT: u64 = 1 << 20;

/// Documents in memory, wrong in one thing.
pub struct WrongDocuments {
    inner: MemoryDocuments,
    wrong: Wrong,
    writes: Mutex<HashMap<DocumentKey, u64>>,
    /// What each document was before its last write.
    pasts: Mutex<HashMap<DocumentKey, Option<Stored>>>,
}

impl Debug for WrongDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrongDocuments").field("wrong", &self.wrong).finish_non_exhaustive()
    }
}

impl WrongDocuments {
    /// A store that is wrong in this.
    pub fn new(wrong: Wrong) -> Self {
        let inner = match wrong {
            Wrong::StoresWhatIsTooLarge => MemoryDocuments::new(),
            _ => MemoryDocuments::new().limit(LIMIT),
        };
        Self { inner, wrong, writes: Mutex::default(), pasts: Mutex::default() }
    }

    fn key(&self, key: &DocumentKey) -> DocumentKey {
        match self.wrong {
            Wrong::FoldsCase => DocumentKey::new(key.collection(), &key.name().to_lowercase()).unwrap(),
            Wrong::JoinsCollectionAndName => {
                let joined = format!("{}-{}", key.collection(), key.name());
                DocumentKey::new(&Collection::new("all").unwrap(), &joined).unwrap_or_else(|_| key.clone())
            }
            _ => key.clone(),
        }
    }

    fn json(&self, json: &Bytes) -> Bytes {
        match self.wrong {
            Wrong::LosesDigits => {
                serde_json::from_slice(json).map_or(json.clone(), |value| rounded(value).to_string().into())
            }
            Wrong::DropsTheCharacterZero => String::from_utf8_lossy(json).replace("\\u0000", "").into(),
            _ => json.clone(),
        }
    }

    /// The version as this store shows it.
    fn shown(&self, key: &DocumentKey, stored: &Stored) -> Version {
        match self.wrong {
            Wrong::HashesContent => {
                let mut hasher = DefaultHasher::new();
                stored.json.hash(&mut hasher);
                Version(hasher.finish().to_string())
            }
            Wrong::CountsSinceTheCreate => Version(self.writes.lock().unwrap().get(key).unwrap_or(&0).to_string()),
            _ => stored.version.clone(),
        }
    }

    /// The version of the store below, where the one that is shown is this one.
    async fn below(&self, key: &DocumentKey, over: &Version) -> Written<Version> {
        match self.inner.load(key).await? {
            Some(stored) if self.shown(key, &stored) == *over => Ok(stored.version),
            _ => Err(WriteError::Conflict),
        }
    }

    async fn current(&self, key: &DocumentKey) -> Written<Version> {
        Ok(self.inner.load(key).await?.ok_or(WriteError::Conflict)?.version)
    }

    async fn put(&self, key: &DocumentKey, draft: &Draft) -> Written<Version> {
        match self.current(key).await {
            Ok(over) => self.inner.replace(key, &over, draft).await,
            Err(_) => self.inner.create(key, draft).await,
        }
    }

    async fn written(&self, key: &DocumentKey) -> Written<Version> {
        *self.writes.lock().unwrap().entry(key.clone()).or_default() += 1;
        let stored = self.inner.load(key).await?.ok_or(WriteError::Conflict)?;
        Ok(self.shown(key, &stored))
    }

    fn refuses(&self, draft: &Draft) -> Written<()> {
        let text = String::from_utf8_lossy(&draft.json);
        match self.wrong {
            Wrong::ShowsWhatItRefuses if text.contains("\\u0000") => {
                Err(Error::new(ErrorKind::Rejected, format!("U+0000 in {text}")).into())
            }
            _ => Ok(()),
        }
    }

    fn too_large(&self, draft: &Draft) -> Written<()> {
        let actual = draft.json.len() as u64;
        if actual > LIMIT { Err(WriteError::TooLarge { limit: LIMIT, actual }) } else { Ok(()) }
    }
}

fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) if number.as_f64().is_some_and(|number| number.abs() > 1e15) => number.as_f64().into(),
        Value::Array(values) => values.into_iter().map(rounded).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, rounded(value))).collect(),
        other => other,
    }
}

#[async_trait]
impl DocumentStore for WrongDocuments {
    fn profile(&self) -> DocumentProfile {
        DocumentProfile { limit: Some(LIMIT), ..self.inner.profile() }
    }

    async fn load(&self, key: &DocumentKey) -> Result<Option<Stored>> {
        let key = self.key(key);
        if self.wrong == Wrong::ReadsWhatWas
            && let Some(past) = self.pasts.lock().unwrap().get(&key)
        {
            return Ok(past.clone());
        }
        let stored = self.inner.load(&key).await?;
        Ok(stored.map(|stored| Stored { version: self.shown(&key, &stored), ..stored }))
    }

    async fn create(&self, key: &DocumentKey, draft: &Draft) -> Written<Version> {
        self.refuses(draft)?;
        let (key, draft) = (self.key(key), Draft { json: self.json(&draft.json), ..draft.clone() });
        let past = self.inner.load(&key).await?;
        self.pasts.lock().unwrap().insert(key.clone(), past);
        match self.wrong {
            Wrong::CreatesOverWhatIsThere => {
                self.put(&key, &draft).await?;
            }
            Wrong::LooksBeforeItCreates => {
                if self.inner.load(&key).await?.is_some() {
                    return Err(WriteError::Conflict);
                }
                tokio::task::yield_now().await;
                self.put(&key, &draft).await?;
            }
            _ => {
                self.inner.create(&key, &draft).await?;
            }
        }
        self.too_large(&draft)?;
        self.written(&key).await
    }

    async fn replace(&self, key: &DocumentKey, over: &Version, draft: &Draft) -> Written<Version> {
        let (key, mut draft) = (self.key(key), Draft { json: self.json(&draft.json), ..draft.clone() });
        let found = self.inner.load(&key).await?;
        self.pasts.lock().unwrap().insert(key.clone(), found.clone());
        let over = match self.wrong {
            Wrong::ReplacesAnyVersion => self.current(&key).await?,
            Wrong::MakesByReplacing if found.is_none() => {
                self.inner.create(&key, &draft).await?;
                return self.written(&key).await;
            }
            Wrong::LooksBeforeItReplaces => {
                if found.is_none_or(|found| found.version != *over) {
                    return Err(WriteError::Conflict);
                }
                tokio::task::yield_now().await;
                self.current(&key).await?
            }
            Wrong::WritesInTwoSteps => {
                let half = Draft { json: Bytes::from_static(b"{\"n\": 77}"), ..draft.clone() };
                let over = self.inner.replace(&key, over, &half).await?;
                tokio::task::yield_now().await;
                over
            }
            _ => self.below(&key, over).await?,
        };
        if self.wrong == Wrong::ForgetsTheDueOfAReplace {
            draft.due = None;
        }
        self.inner.replace(&key, &over, &draft).await?;
        self.too_large(&draft)?;
        self.written(&key).await
    }

    async fn delete(&self, key: &DocumentKey, over: &Version) -> Written<()> {
        let key = self.key(key);
        let past = self.inner.load(&key).await?;
        self.pasts.lock().unwrap().insert(key.clone(), past);
        let over = match self.wrong {
            Wrong::DeletesAnyVersion => self.current(&key).await?,
            _ => self.below(&key, over).await?,
        };
        self.inner.delete(&key, &over).await?;
        self.writes.lock().unwrap().remove(&key);
        Ok(())
    }

    async fn due(
        &self,
        collection: &Collection,
        by: Timestamp,
        after: Option<&DocumentKey>,
        at_most: usize,
    ) -> Result<Vec<DocumentKey>> {
        match self.wrong {
            Wrong::RepeatsTheLastOfAPage => {
                let mut due = self.inner.due(collection, by, after, at_most.saturating_sub(1)).await?;
                due.splice(0..0, after.cloned());
                Ok(due)
            }
            Wrong::EndsAfterOnePage if after.is_some() => Ok(Vec::new()),
            Wrong::NamesWhatIsNotDue => self.inner.due(collection, Timestamp::NEVER, after, at_most).await,
            Wrong::NamesOtherCollections if after.is_none() => {
                self.inner.due(&Collection::new("carts-2").unwrap(), by, None, at_most).await
            }
            _ => self.inner.due(collection, by, after, at_most).await,
        }
    }

    async fn prepare(&self) -> Result<()> {
        self.inner.prepare().await
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        match self.wrong {
            Wrong::SaysNothingInCheck => Ok(Vec::new()),
            _ => self.inner.check().await,
        }
    }
}
