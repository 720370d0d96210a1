//! Where a message goes: a destination and its name.

use std::fmt;
use std::sync::Arc;

/// The configured name of a destination, as it stands in `waiting_for` and in metrics.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationName(Arc<str>);

impl DestinationName {
    /// Names a destination.
    pub fn new(name: &str) -> Self {
        Self(Arc::from(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DestinationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A place inside a broker: a subject, a path, a file.
///
/// It comes from the configuration, never from message data alone; the broker validates it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination(Arc<str>);

impl Destination {
    /// A place inside a broker.
    pub fn new(place: &str) -> Self {
        Self(Arc::from(place))
    }

    /// The place as the broker writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
