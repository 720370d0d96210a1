//! Which refused messages are meant.

use clap::Args;
use postrider_core::RefusedFilter;

use super::named_ids::NamedIds;
use super::older_than::older_than;
use crate::failure::Outcome;

/// The conditions; all that are given must hold.
#[derive(Debug, Clone, Args)]
pub(crate) struct Filter {
    /// Single messages
    #[command(flatten)]
    ids: NamedIds,
    /// Refused by this consumer, such as billing or billing@tenant
    #[arg(long)]
    consumer: Option<String>,
    /// This topic
    #[arg(long)]
    topic: Option<String>,
    /// First refused at least this long ago, such as 2h
    #[arg(long, value_name = "TIME")]
    older_than: Option<String>,
}

impl Filter {
    /// The filter of the store.
    pub(crate) fn read(&self) -> Outcome<RefusedFilter> {
        Ok(RefusedFilter {
            ids: self.ids.read(),
            consumer: self.consumer.clone(),
            topic: self.topic.clone(),
            older_than: older_than(self.older_than.as_deref())?,
        })
    }

    /// Whether single messages are named, so that no confirmation is needed.
    pub(crate) fn names_messages(&self) -> bool {
        !self.ids.is_empty()
    }
}
