//! What follows when a message is given up.

/// What becomes of a message that is given up, and of its key.
///
/// The message is kept as a dead letter with its reason in every case; nothing is given up silently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum OnDead {
    /// Its key goes on without it: the default.
    #[default]
    Skip,
    /// Its key waits at the destinations that did not accept it, until an operator replays or discards it. Without a
    /// key, or where the messages of a key keep no order of their own, there is nothing to hold, and it is skipped. So
    /// is a message whose time has passed: an outage that ends messages holds nothing.
    Hold,
    /// Its key goes on, and it is also published to the destination of dead letters, with the reason in headers. It is
    /// owed there until it is accepted. A row that is no message cannot be published, and one on which relays died is
    /// not fetched again: both are skipped.
    Forward,
}

impl OnDead {
    /// The word used in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Hold => "hold",
            Self::Forward => "forward",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_the_word_of_the_configuration() {
        assert_eq!([OnDead::Skip, OnDead::Hold, OnDead::Forward].map(OnDead::as_str), ["skip", "hold", "forward"]);
    }
}
