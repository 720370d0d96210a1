//! A pause for a setting, and the topics that met it: it says nothing of other topics.

use std::collections::BTreeSet;

use crate::message::Topic;

/// The most topics that are told apart; with more of them a pause has nothing to do with topics.
const MOST: usize = 16;

/// The topics of a destination that pauses for a setting.
#[derive(Debug, Default)]
pub(super) struct Topics {
    /// Of messages that failed for it, or had their turn.
    failed: BTreeSet<Topic>,
    /// Of messages that came since, and were not tried yet.
    others: BTreeSet<Topic>,
}

impl Topics {
    /// A message of this topic failed for the setting.
    pub(super) fn failed(&mut self, topic: Topic) {
        self.others.remove(&topic);
        if self.failed.len() + self.others.len() < MOST {
            self.failed.insert(topic);
        }
    }

    /// Whether messages of this topic failed for the setting, or had their turn.
    pub(super) fn met(&self, topic: &Topic) -> bool {
        self.failed.contains(topic)
    }

    /// Whether the pause has to do with topics.
    pub(super) fn are_known(&self) -> bool {
        !self.failed.is_empty()
    }

    /// A message came; whether it is the first of a topic of which the pause says nothing.
    pub(super) fn came(&mut self, topic: &Topic) -> bool {
        let is_known = self.failed.contains(topic) || self.others.contains(topic);
        let has_room = self.failed.len() + self.others.len() < MOST;
        !self.failed.is_empty() && !is_known && has_room && self.others.insert(topic.clone())
    }

    /// Whether a topic waits that was not tried yet, asked when the pause is prolonged. Each gets the pause shortened once:
    /// its message may stand behind another one of its key, and not be the next probe however short the pauses are.
    pub(super) fn shorten(&mut self) -> bool {
        let shorten = !self.others.is_empty();
        self.failed.append(&mut self.others);
        shorten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str) -> Topic {
        Topic::unchecked(name)
    }

    #[test]
    fn the_first_message_of_another_topic_is_told_until_that_topic_was_tried() {
        let mut topics = Topics::default();
        assert!(!topics.came(&topic("a")), "nothing failed for a topic");
        topics.failed(topic("uncovered"));
        assert!(!topics.came(&topic("uncovered")));
        assert!(topics.came(&topic("a")) && !topics.came(&topic("a")));
        topics.failed(topic("a"));
        assert!(!topics.shorten() && !topics.came(&topic("a")));
        assert!(topics.came(&topic("b")) && topics.shorten());
        assert!(!topics.shorten() && !topics.came(&topic("b")), "once");
    }

    #[test]
    fn with_many_topics_a_pause_has_nothing_to_do_with_them() {
        let mut topics = Topics::default();
        for n in 0..100 {
            topics.failed(topic(&format!("t{n}")));
        }
        assert!(!topics.came(&topic("another")) && topics.failed.len() == MOST);
    }

    #[test]
    fn those_that_failed_and_those_that_wait_are_counted_together() {
        let mut topics = Topics::default();
        for n in 0..MOST / 2 {
            topics.failed(topic(&format!("failed{n}")));
        }
        for n in 0..MOST / 2 {
            assert!(topics.came(&topic(&format!("waits{n}"))));
        }
        assert!(!topics.came(&topic("another")));
        topics.failed(topic("another"));
        assert_eq!(topics.failed.len() + topics.others.len(), MOST);
    }
}
