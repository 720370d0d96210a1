//! Which refused messages are meant.

use clap::Args;
use postrider_core::{MessageId, RefusedFilter};
use uuid::Uuid;

use crate::config::values;
use crate::failure::{Failure, Outcome};

/// The conditions; all that are given must hold.
#[derive(Debug, Clone, Args)]
pub(crate) struct Filter {
    /// This message; may be repeated
    #[arg(long = "id", value_name = "UUID")]
    ids: Vec<Uuid>,
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
        let older_than = match &self.older_than {
            None => None,
            Some(text) => Some(values::duration(text).ok_or_else(|| {
                Failure::usage(format!("{text:?} is no length of time"), "write --older-than 30m, 2h or 7d")
            })?),
        };
        Ok(RefusedFilter {
            ids: self.ids.iter().copied().map(MessageId).collect(),
            consumer: self.consumer.clone(),
            topic: self.topic.clone(),
            older_than,
        })
    }

    /// Whether single messages are named, so that no confirmation is needed.
    pub(crate) fn names_messages(&self) -> bool {
        !self.ids.is_empty()
    }
}
