//! Single messages, named by their ids: `dead replay ID`, or `--id ID`.

use clap::Args;
use postrider_core::MessageId;
use uuid::Uuid;

/// The ids; none where other conditions say which messages are meant.
#[derive(Debug, Clone, Args)]
pub(crate) struct NamedIds {
    /// These messages alone
    #[arg(value_name = "ID")]
    plain: Vec<Uuid>,
    /// The same, as an option; may be repeated
    #[arg(long = "id", value_name = "UUID")]
    options: Vec<Uuid>,
}

impl NamedIds {
    pub(crate) fn read(&self) -> Vec<MessageId> {
        self.plain.iter().chain(&self.options).copied().map(MessageId).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.options.is_empty()
    }
}
