//! Whether what was delivered is kept.

/// Whether a store keeps what was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum History {
    /// A delivered message leaves no trace.
    #[default]
    Off,
    /// A delivered message is moved to the history.
    Kept,
}
