//! Tokens: a message may be processed only while its token exists.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use postrider_core::receiving::Known;
use postrider_core::{
    Collection, DocumentKey, DocumentStore, Error, ErrorKind, Invalid, MessageId, Result, Stored, Timestamp, WriteError,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::records::{FORMAT, draft, key, read};
use crate::token::Token;

/// When a valid token is due: never, so that it can be counted and is not swept.
const WHILE_VALID: Option<Timestamp> = Some(Timestamp::NEVER);
/// How often a token is looked at again that somebody else is changing.
const TRIES: usize = 8;

/// The tokens of messages that are on their way, in a store that senders and receivers share.
///
/// A token is made before its message is sent, and deleted when the message was processed: what is kept is what is in
/// flight, and nothing expires. A message that is lost on the way leaves its token for ever, which is how it can be found.
#[derive(Debug, Clone)]
pub struct Tokens {
    store: Arc<dyn DocumentStore>,
    collection: Collection,
    sweep_after: Duration,
}

/// A token as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u32,
    state: State,
    /// Who made it, in which attempt: only while it is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<Owner>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// Made for an output that is not committed, as far as the token knows.
    Pending,
    /// Its message may be processed.
    Active,
}

/// Whose message a pending token was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Owner {
    pub consumer: String,
    pub collection: String,
    pub entity: String,
    pub message: Uuid,
}

impl Owner {
    /// The document that names the token once it is committed.
    pub(super) fn key(&self) -> Result<DocumentKey> {
        let refused = |invalid: Invalid| Error::new(ErrorKind::Config, invalid.to_string());
        key(&Collection::new(&self.collection).map_err(refused)?, &self.entity)
    }
}

/// A page of tokens that attempts may have left behind.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Each with its owner.
    pub tokens: Vec<(Uuid, Owner)>,
    /// What is called like a token and is none, each by its name, with why.
    pub unreadable: Vec<(String, Error)>,
    /// Where to go on, if there may be more.
    pub last: Option<DocumentKey>,
}

impl Tokens {
    /// Tokens in the collection `tokens` of this store.
    ///
    /// # Errors
    /// Never for this collection; see [`collection`](Self::collection).
    pub fn new(store: Arc<dyn DocumentStore>) -> std::result::Result<Self, Invalid> {
        Ok(Self { store, collection: Collection::new("tokens")?, sweep_after: Duration::from_secs(3_600) })
    }

    /// The same in another collection.
    #[must_use]
    pub fn collection(self, collection: Collection) -> Self {
        Self { collection, ..self }
    }

    /// How old a token that was never valid is before a look is taken at it; an hour without. Shorter costs some deliveries a
    /// second try, and nothing else.
    #[must_use]
    pub fn sweep_after(self, age: Duration) -> Self {
        Self { sweep_after: age, ..self }
    }

    /// Makes a valid token, for a message that no processor sends: before the message is sent, which carries it in
    /// [`TOKEN_HEADER`](postrider_core::TOKEN_HEADER).
    ///
    /// Where the message is written into an outbox, make the token first: a transaction that is rolled back leaves a token
    /// without a message, which [`revoke`](Self::revoke) deletes.
    ///
    /// # Errors
    /// When the store fails; a token whose making is not known to have failed is not to be used.
    pub async fn issue(&self) -> Result<Token> {
        let token = Token(Uuid::now_v7());
        let record = Record { format: FORMAT, state: State::Active, owner: None };
        match self.store.create(&self.key(token)?, &draft(&record, WHILE_VALID)?).await {
            Ok(_) => Ok(token),
            Err(error) => Err(failed(error)),
        }
    }

    /// Deletes a token, whether it is valid or not: its message is not processed any more.
    ///
    /// # Errors
    /// When the store fails, or it is not known.
    pub async fn revoke(&self, token: Token) -> Result<()> {
        self.change(token, |_| Change::Delete).await
    }

    /// The tokens that exist, the oldest first, from behind `after`, at most so many: those of messages that were not
    /// processed yet. One that stays is of a message that was lost on its way, or given up. Where the store's index of what is
    /// due follows after a moment, as that of DynamoDB, so does this.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn outstanding(&self, after: Option<Token>, at_most: usize) -> Result<Vec<Token>> {
        let after = after.map(|after| self.key(after)).transpose()?;
        let page = self.store.due(&self.collection, Timestamp::NEVER, after.as_ref(), at_most).await?;
        Ok(page.iter().filter_map(|key| Uuid::parse_str(key.name()).ok()).map(Token).collect())
    }

    /// Makes tokens that are not valid yet.
    pub(super) async fn create(&self, tokens: &[Uuid], owner: &Owner, now: Timestamp) -> Result<()> {
        let record = Record { format: FORMAT, state: State::Pending, owner: Some(owner.clone()) };
        let age = i64::try_from(self.sweep_after.as_micros()).unwrap_or(i64::MAX);
        let due = Some(Timestamp(now.0.saturating_add(age)));
        let one = |token: Uuid| {
            let record = &record;
            async move {
                let made = self.store.create(&self.key(Token(token))?, &draft(record, due)?).await;
                made.map(drop).map_err(failed)
            }
        };
        try_join_all(tokens.iter().copied().map(one)).await.map(drop)
    }

    /// Makes tokens valid that exist. One that does not was used already.
    pub(super) async fn activate(&self, tokens: &[Uuid]) -> Result<()> {
        let change = |state| if state == State::Pending { Change::Activate } else { Change::None };
        try_join_all(tokens.iter().map(|token| self.change(Token(*token), change))).await.map(drop)
    }

    /// Deletes a token, for ever.
    pub(super) async fn consume(&self, token: Uuid) -> Result<()> {
        self.change(Token(token), |_| Change::Delete).await
    }

    /// Deletes a token that is not valid.
    pub(super) async fn discard(&self, token: Uuid) -> Result<()> {
        let change = |state| if state == State::Pending { Change::Delete } else { Change::None };
        self.change(Token(token), change).await
    }

    /// What a token says of its message.
    pub(super) async fn ask(&self, token: Uuid) -> Result<Known> {
        let Some(stored) = self.store.load(&self.key(Token(token))?).await? else { return Ok(Known::Handled) };
        Ok(match read::<Record>(&stored)?.state {
            State::Active => Known::New,
            State::Pending => Known::Pending,
        })
    }

    /// Tokens that this consumer made long ago for entities of this collection and that are not valid, from behind `after`.
    pub(super) async fn left(
        &self,
        consumer: &str,
        entities: &Collection,
        now: Timestamp,
        after: Option<&DocumentKey>,
        at_most: usize,
    ) -> Result<Left> {
        let page = self.store.due(&self.collection, now, after, at_most).await?;
        let mut left = Left::default();
        for key in &page {
            let Some(stored) = self.store.load(key).await? else { continue };
            let record = match read::<Record>(&stored) {
                Ok(record) => record,
                Err(error) => {
                    left.unreadable.push((key.name().to_owned(), error));
                    continue;
                }
            };
            let Record { state: State::Pending, owner: Some(owner), .. } = record else { continue };
            let Ok(token) = Uuid::parse_str(key.name()) else { continue };
            // A store that names every document names those that are not old enough, too.
            let is_old = made_before(token, now, self.sweep_after);
            if owner.consumer == consumer && owner.collection == entities.as_str() && is_old {
                left.tokens.push((token, owner));
            }
        }
        left.last = (page.len() == at_most).then(|| page.into_iter().next_back()).flatten();
        Ok(left)
    }

    fn key(&self, token: Token) -> Result<DocumentKey> {
        key(&self.collection, &token.to_string())
    }

    /// Changes a token by the state that it has; one that does not exist is left so.
    async fn change(&self, token: Token, change: impl Fn(State) -> Change) -> Result<()> {
        let key = self.key(token)?;
        for _ in 0..TRIES {
            let Some(stored) = self.store.load(&key).await? else { return Ok(()) };
            match self.write(&key, &stored, change(read::<Record>(&stored)?.state)).await {
                Ok(()) => return Ok(()),
                Err(WriteError::Conflict) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(Error::new(ErrorKind::Unavailable, format!("others keep changing the token {token}")))
    }

    async fn write(&self, key: &DocumentKey, stored: &Stored, change: Change) -> std::result::Result<(), WriteError> {
        match change {
            Change::None => Ok(()),
            Change::Activate => {
                let record = Record { format: FORMAT, state: State::Active, owner: None };
                self.store.replace(key, &stored.version, &draft(&record, WHILE_VALID)?).await.map(drop)
            }
            Change::Delete => self.store.delete(key, &stored.version).await,
        }
    }
}

/// What becomes of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    Activate,
    Delete,
}

fn made_before(token: Uuid, now: Timestamp, age: Duration) -> bool {
    let made = postrider_core::receiving::made_at(MessageId(token));
    made.is_none_or(|made| now.since(made) >= age)
}

/// What failed of a write that nobody else makes.
fn failed(error: WriteError) -> Error {
    match error {
        WriteError::Failed(error) => error,
        WriteError::Conflict => Error::new(ErrorKind::Unknown, "the token is there already, or changed meanwhile"),
        WriteError::TooLarge { limit, .. } => {
            Error::new(ErrorKind::Config, format!("the store takes {limit} bytes, which is less than a token has"))
        }
    }
}
