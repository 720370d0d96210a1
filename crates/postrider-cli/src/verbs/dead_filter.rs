//! Which dead letters are meant.

use clap::Args;
use postrider_core::{DeadFilter, DeadReason, Key, RowState};

use super::named_ids::NamedIds;
use super::older_than::older_than;
use crate::config::nearest::nearest;
use crate::failure::{Failure, Outcome};

/// The conditions; all that are given must hold.
#[derive(Debug, Clone, Args)]
pub(crate) struct Filter {
    /// Single messages
    #[command(flatten)]
    ids: NamedIds,
    /// This topic
    #[arg(long)]
    topic: Option<String>,
    /// This key
    #[arg(long)]
    key: Option<String>,
    /// This reason: attempts, malformed, expired, relay-died or operator
    #[arg(long)]
    reason: Option<String>,
    /// Given up at least this long ago, such as 2h
    #[arg(long, value_name = "TIME")]
    older_than: Option<String>,
    /// Only those that hold their key
    #[arg(long)]
    holding: bool,
}

impl Filter {
    /// The filter of the store.
    pub(crate) fn read(&self) -> Outcome<DeadFilter> {
        let reason = self.reason.as_deref().map(reason).transpose()?;
        Ok(DeadFilter {
            ids: self.ids.read(),
            topic: self.topic.clone(),
            key: self.key.clone().map(Key::unchecked),
            reason,
            older_than: older_than(self.older_than.as_deref())?,
            state: self.holding.then_some(RowState::Holding),
        })
    }

    /// Whether single messages are named, so that no confirmation is needed.
    pub(crate) fn names_messages(&self) -> bool {
        !self.ids.is_empty()
    }
}

fn reason(text: &str) -> Outcome<DeadReason> {
    let words = DeadReason::ALL.map(DeadReason::as_str);
    DeadReason::ALL.into_iter().find(|reason| reason.as_str() == text).ok_or_else(|| {
        let next = match nearest(text, words) {
            Some(word) => format!("did you mean {word}?"),
            None => format!("write one of {}", words.join(", ")),
        };
        Failure::usage(format!("{text:?} is no reason"), next)
    })
}
