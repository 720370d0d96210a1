//! Tokens that a writer makes ahead: each before the transaction that writes its message.

use futures_util::future::try_join_all;
use postrider::Tokens;
use uuid::Uuid;

use crate::Fallible;

/// How many are made at once: all writers share the connections of one store.
const AT_ONCE: usize = 32;

/// The tokens of one writer.
#[derive(Debug)]
pub(super) struct Purse {
    tokens: Tokens,
    made: Vec<Uuid>,
}

impl Purse {
    /// An empty one.
    pub(super) const fn new(tokens: Tokens) -> Self {
        Self { tokens, made: Vec::new() }
    }

    /// Makes tokens until there are so many.
    ///
    /// # Errors
    /// When their store does not answer; what was made then and is not known stays there, and is found in the end.
    pub(super) async fn fill(&mut self, wanted: usize) -> Fallible<()> {
        while self.made.len() < wanted {
            let missing = (wanted - self.made.len()).min(AT_ONCE);
            let made = try_join_all((0..missing).map(|_| self.tokens.issue())).await?;
            self.made.extend(made.into_iter().map(|token| token.0));
        }
        Ok(())
    }

    /// One for a message.
    pub(super) fn take(&mut self) -> Option<Uuid> {
        self.made.pop()
    }

    /// Those that no message has.
    pub(super) fn into_rest(self) -> Vec<Uuid> {
        self.made
    }
}
