//! Why a message is tried again: what its last failure said.

use std::collections::HashMap;

use postrider_core::machine::Note;
use postrider_core::{DestinationName, ErrorKind, MessageId, Topic};

/// The most failures remembered. A failure and its retry are noted close together; the rest is what was accepted in the
/// end, of which no note tells.
const MOST: usize = 4_096;

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    /// Of which topic the message is and where it failed; none where no route leads it anywhere, which the text says.
    pub(crate) at: Option<(Topic, DestinationName)>,
    pub(crate) kind: ErrorKind,
    pub(crate) text: String,
}

/// The failures of messages whose retry is still to be noted.
#[derive(Debug, Default)]
pub(crate) struct Causes(HashMap<MessageId, Cause>);

impl Causes {
    /// Hears of failures; for a retry, the last failure of its message.
    pub(crate) fn hear(&mut self, note: &Note) -> Option<Cause> {
        match note {
            Note::Failed { id, topic, destination, kind, text } => {
                let at = Some((topic.clone(), destination.clone()));
                self.keep(*id, Cause { at, kind: *kind, text: text.clone() });
            }
            Note::Nowhere { id, text } => {
                self.keep(*id, Cause { at: None, kind: ErrorKind::Config, text: text.clone() });
            }
            Note::Retry { id, .. } => return self.0.remove(id),
            Note::Dead { id: Some(id), .. } => {
                self.0.remove(id);
            }
            _ => {}
        }
        None
    }

    fn keep(&mut self, id: MessageId, cause: Cause) {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert(id, cause);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use postrider_core::{DeadReason, RowId};

    use super::*;

    #[test]
    fn a_retry_is_told_its_last_cause_once() {
        let id = MessageId::fresh();
        let retry = Note::Retry { id, attempts: 0, after: Duration::ZERO };
        let mut causes = Causes::default();
        assert_eq!(causes.hear(&retry), None);
        causes.hear(&Note::Nowhere { id, text: "no route".to_owned() });
        let expected = Cause { at: None, kind: ErrorKind::Config, text: "no route".to_owned() };
        assert_eq!(causes.hear(&retry), Some(expected));
        assert_eq!(causes.hear(&retry), None);
    }

    fn failed(id: MessageId, text: &str) -> Note {
        let (topic, destination) = (Topic::unchecked("t"), DestinationName::new("out"));
        Note::Failed { id, topic, destination, kind: ErrorKind::Throttled, text: text.to_owned() }
    }

    /// The cause that the same makes.
    fn cause(text: &str) -> Cause {
        let at = Some((Topic::unchecked("t"), DestinationName::new("out")));
        Cause { at, kind: ErrorKind::Throttled, text: text.to_owned() }
    }

    fn retry(id: MessageId) -> Note {
        Note::Retry { id, attempts: 1, after: Duration::ZERO }
    }

    #[test]
    fn each_retry_is_told_the_last_failure_of_its_own_message() {
        let (one, other) = (MessageId::fresh(), MessageId::fresh());
        let mut causes = Causes::default();
        for (id, text) in [(one, "slow"), (other, "slower"), (one, "slowest")] {
            assert_eq!(causes.hear(&failed(id, text)), None);
        }
        assert_eq!(causes.hear(&retry(one)), Some(cause("slowest")));
        assert_eq!(causes.hear(&retry(other)), Some(cause("slower")));
    }

    #[test]
    fn what_a_message_that_is_given_up_failed_of_is_forgotten() {
        let id = MessageId::fresh();
        let mut causes = Causes::default();
        causes.hear(&failed(id, "no"));
        let (row, reason, text) = (RowId(1), DeadReason::Attempts, "no".to_owned());
        causes.hear(&Note::Dead { id: Some(id), row, topic: None, key: None, reason, text });
        assert_eq!(causes.hear(&retry(id)), None);
    }

    /// Of a message that was accepted in the end no note tells: nothing but the bound makes room.
    #[test]
    fn failures_that_no_retry_follows_do_not_pile_up() {
        let mut causes = Causes::default();
        for count in 1..=MOST {
            causes.hear(&failed(MessageId::fresh(), "no"));
            assert_eq!(causes.0.len(), count);
        }
        causes.hear(&failed(MessageId::fresh(), "no"));
        assert_eq!(causes.0.len(), 1);
    }
}
