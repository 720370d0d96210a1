//! Why a message is tried again: what its last failure said.

use std::collections::HashMap;

use postrider_core::machine::Note;
use postrider_core::{ErrorKind, MessageId};

/// The most failures remembered. A failure and its retry are noted close together; the rest is what was accepted in the
/// end, of which no note tells.
const MOST: usize = 4_096;

/// The kind and the text of a failure.
pub(crate) type Cause = (ErrorKind, String);

/// The failures of messages whose retry is still to be noted.
#[derive(Debug, Default)]
pub(crate) struct Causes(HashMap<MessageId, Cause>);

impl Causes {
    /// Hears of failures; for a retry, the last failure of its message.
    pub(crate) fn hear(&mut self, note: &Note) -> Option<Cause> {
        match note {
            Note::Failed { id, kind, text, .. } => self.keep(*id, (*kind, text.clone())),
            Note::Nowhere { id, text } => self.keep(*id, (ErrorKind::Config, text.clone())),
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

    use super::*;

    #[test]
    fn a_retry_is_told_its_last_cause_once() {
        let id = MessageId::fresh();
        let retry = Note::Retry { id, attempts: 0, after: Duration::ZERO };
        let mut causes = Causes::default();
        assert_eq!(causes.hear(&retry), None);
        causes.hear(&Note::Nowhere { id, text: "no route".to_owned() });
        assert_eq!(causes.hear(&retry), Some((ErrorKind::Config, "no route".to_owned())));
        assert_eq!(causes.hear(&retry), None);
    }
}
