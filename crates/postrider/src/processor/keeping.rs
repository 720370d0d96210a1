//! What no delivery does: finishing what deliveries left that do not come again, and what has a time of its own.

use postrider_core::receiving::{Document, Entry, Lapse, Leftover, Sweep, SweepEffect, Swept};
use postrider_core::{DocumentKey, Error, ErrorKind, Result, Timestamp, WriteError};
use uuid::Uuid;

use super::entity::{Json, State};
use super::handler::Handler;
use super::memory::Memory;
use super::processed::Processed;
use super::running::Processor;
use super::tokens::{Left, Owner, Tokens};

/// How many due documents are asked for at once.
const PAGE: usize = 200;

/// What one round did.
#[derive(Debug, Default)]
pub struct Kept {
    /// Messages whose outputs were sent now.
    pub finished: u64,
    /// Outputs that were sent because their time had come.
    pub sent: u64,
    /// Ids that were forgotten.
    pub forgotten: u64,
    /// Tokens that were deleted, because the attempts that made them were not committed.
    pub swept: u64,
    /// Entities that could not be finished now, and known ids and tokens that could not be read, each by its name, with why.
    pub stuck: Vec<(String, Error)>,
}

impl<H: Handler> Processor<H> {
    /// Finishes what was committed and not sent, sends what is due at its own time, and forgets ids that were kept for long
    /// enough. Call it now and then: every 10 s, say, in one process of the consumer or in all.
    ///
    /// With a store that has no index of what is due ([`DueIndex::Listed`](postrider_core::DueIndex::Listed)), each round
    /// reads every entity.
    ///
    /// # Errors
    /// When the store fails or does not say what is due. What is in the way of one entity, or of one record, is in
    /// [`Kept::stuck`].
    pub async fn keep_up(&self) -> Result<Kept> {
        let now = self.clock.now();
        let (mut kept, mut after) = (Kept::default(), None);
        loop {
            let page = self.store.due(&self.collection, now, after.as_ref(), PAGE).await?;
            for key in &page {
                if let Err(error) = self.finish(key, now, &mut kept).await {
                    kept.stuck.push((key.name().to_owned(), error));
                }
            }
            if page.len() < PAGE {
                break;
            }
            after = page.into_iter().next_back();
        }
        match &self.memory {
            Memory::InDocument => {}
            Memory::KnownIds(known) => known.forget(&self.format.consumer, now, &mut kept).await?,
            Memory::Tokens(tokens) => self.sweep(tokens, now, &mut kept).await?,
        }
        Ok(kept)
    }

    async fn finish(&self, key: &DocumentKey, now: Timestamp, kept: &mut Kept) -> Result<()> {
        while let Some(stored) = self.store.load(key).await? {
            let document = self.format.read(&stored.json)?;
            if let Some(entry) = document.unfinished().filter(|entry| self.is_left(entry, now)) {
                match self.attempt(key, entry.id, entry.token, None).await {
                    Processed::Resumed | Processed::Repeat | Processed::Applied => kept.finished += 1,
                    Processed::Again { error: Some(error), .. } => return Err(error),
                    // Somebody else is at it.
                    _ => return Ok(()),
                }
                continue;
            }
            return self.send_and_forget(key, document, &stored.version, now, kept).await;
        }
        Ok(())
    }

    /// Whether its own delivery has had its time.
    fn is_left(&self, entry: &Entry<Json>, now: Timestamp) -> bool {
        now.since(entry.attempt.made_at()) >= self.format.resume_after
    }

    /// Looks at the tokens that attempts left behind which were not committed.
    async fn sweep(&self, tokens: &Tokens, now: Timestamp, kept: &mut Kept) -> Result<()> {
        let mut after = None;
        loop {
            let Left { tokens: left, unreadable, last } =
                tokens.left(&self.format.consumer, &self.collection, now, after.as_ref(), PAGE).await?;
            kept.stuck.extend(unreadable);
            for (token, owner) in left {
                match self.sweep_one(tokens, token, &owner).await {
                    Ok(Swept::Deleted) => kept.swept += 1,
                    Ok(Swept::Needed | Swept::Retry(_)) => {}
                    Err(error) => kept.stuck.push((owner.entity, error)),
                }
            }
            if last.is_none() {
                return Ok(());
            }
            after = last;
        }
    }

    async fn sweep_one(&self, tokens: &Tokens, token: Uuid, owner: &Owner) -> Result<Swept> {
        let key = owner.key()?;
        let mut effect = Sweep::begin::<Json>(Leftover::Token(token));
        loop {
            effect = match effect {
                SweepEffect::Look(looking) => match self.store.load(&key).await? {
                    Some(stored) => looking.found(self.format.read(&stored.json)?, stored.version),
                    None => looking.absent(),
                },
                SweepEffect::Fence(fencing) => match self.put(&key, fencing.over(), fencing.document()).await {
                    Ok(_) => fencing.written(),
                    Err(WriteError::Failed(error)) => return Err(error),
                    Err(WriteError::Conflict | WriteError::TooLarge { .. }) => fencing.lapsed(Lapse::Conflict),
                },
                SweepEffect::Delete(deleting) => {
                    tokens.discard(token).await?;
                    deleting.done()
                }
                SweepEffect::End(swept) => return Ok(swept),
            };
        }
    }

    /// Sends what has a time of its own that has come, and forgets ids that were kept for long enough.
    async fn send_and_forget(
        &self,
        key: &DocumentKey,
        document: Document<Json>,
        version: &postrider_core::Version,
        now: Timestamp,
        kept: &mut Kept,
    ) -> Result<()> {
        let state = document.state.clone().unwrap_or_default();
        let (due, later): (Vec<_>, Vec<_>) =
            state.later.into_iter().partition(|output| output.deliver_at().is_none_or(|at| at <= now));
        let forgets = self.format.forgets(&document, now);
        if due.is_empty() && forgets == 0 {
            return Ok(());
        }
        self.send(&due).await?;
        let document = Document { state: Some(State { later, ..state }), entries: document.entries };
        match self.put(key, Some(version), &document).await {
            Ok(_) => {
                kept.sent += u64::try_from(due.len()).unwrap_or(u64::MAX);
                kept.forgotten += u64::try_from(forgets).unwrap_or(u64::MAX);
            }
            // Somebody else wrote it: they are sent once more, with the same ids.
            Err(WriteError::Conflict) => {}
            Err(WriteError::Failed(error)) => return Err(error),
            Err(WriteError::TooLarge { limit, actual }) => {
                let text = format!("the entity has {actual} bytes, and the store takes {limit}");
                return Err(Error::new(ErrorKind::Config, text));
            }
        }
        Ok(())
    }
}
