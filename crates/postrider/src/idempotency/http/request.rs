//! What the handler gets beside its request.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderName, Response};
use http_body_util::Full;
use postrider_core::receiving::Epoch;

use super::super::{IdempotencyKeys, ScopedKey};
use super::answer::stored;
use crate::inbox::InboxError;
use crate::receive::Receive;

/// A request that is worked on under its idempotency key: an extension of the request, for its handler.
///
/// The handler has its effect in one transaction of its own, stores its answer through [`answer`](Self::answer) in the same
/// one, commits it, and returns the response it got back. Where the transaction was rolled back and the request may be tried
/// again at once, it says so: [`rolled_back`](Self::rolled_back). In every other case the key is free again when its lease has
/// ended.
#[derive(Clone)]
pub struct IdempotentRequest(Arc<Work>);

struct Work {
    keys: IdempotencyKeys,
    key: ScopedKey,
    epoch: Epoch,
    listed: Arc<[HeaderName]>,
    ending: Mutex<Ending>,
}

/// How the work on a request ended, as far as its handler said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It said nothing.
    Untold,
    /// It stored an answer in a transaction.
    Answered,
    /// It rolled back.
    RolledBack,
}

impl IdempotentRequest {
    pub(super) fn new(keys: IdempotencyKeys, key: ScopedKey, epoch: Epoch, listed: Arc<[HeaderName]>) -> Self {
        Self(Arc::new(Work { keys, key, epoch, listed, ending: Mutex::new(Ending::Untold) }))
    }

    /// The key of the request, with its caller and operation.
    pub fn key(&self) -> &ScopedKey {
        &self.0.key
    }

    /// Under which number it is worked on: the next one that begins has a higher one.
    pub fn epoch(&self) -> Epoch {
        self.0.epoch
    }

    /// Stores the answer inside `tx`, which has the effect, and hands it back as it will be sent every time: with its status,
    /// its body, and those of its headers that are [listed](super::IdempotencyLayer::replayed_headers).
    ///
    /// What is worth the same answer again: successes, and refusals that another try would meet too. Return it after `tx` is
    /// committed.
    ///
    /// # Errors
    /// As [`IdempotencyKeys::answer`]: roll back, so that there is no effect.
    /// [`Superseded`](InboxError::Superseded) says that the lease had ended and another one works on the request; answer 409
    /// or 503, so that it is sent again.
    pub fn answer<T: Receive, B: Into<Bytes>>(
        &self,
        tx: T,
        response: Response<B>,
    ) -> T::Received<Response<Full<Bytes>>> {
        let work = &self.0;
        self.ended(Ending::Answered);
        let answer = stored(response.map(Into::into), &work.listed).map_err(InboxError::from);
        work.keys.answer_as_response(tx, &work.key, work.epoch, answer)
    }

    /// Says that the transaction of the effect is known to be rolled back, so that the request may be tried again at once.
    ///
    /// Not after a commit that failed: it may have happened.
    pub fn rolled_back(&self) {
        self.ended(Ending::RolledBack);
    }

    pub(super) fn ending(&self) -> Ending {
        *self.0.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self, how: Ending) {
        *self.0.ending.lock().unwrap_or_else(PoisonError::into_inner) = how;
    }
}

impl fmt::Debug for IdempotentRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let work = &self.0;
        f.debug_struct("IdempotentRequest").field("key", &work.key).field("epoch", &work.epoch).finish_non_exhaustive()
    }
}
