//! Where a message goes: a destination and its name.

use std::fmt;
use std::sync::Arc;

use crate::message::Topic;

/// The configured name of a destination, as it stands in `waiting_for` and in metrics. It is stable: a message that is
/// owed to a name stays owed to it until a destination of that name accepts it.
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

    /// The place that is called like a topic.
    pub(crate) fn of(topic: &Topic) -> Self {
        Self(topic.shared())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_they_were_given() {
        let (name, place) = (DestinationName::new("billing"), Destination::new("events.orders"));
        assert_eq!((name.as_str(), name.to_string().as_str()), ("billing", "billing"));
        assert_eq!((place.as_str(), place.to_string().as_str()), ("events.orders", "events.orders"));
    }
}
