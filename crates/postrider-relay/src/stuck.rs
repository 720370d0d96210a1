//! Whether nothing is left but messages that no route leads anywhere.

use std::collections::HashSet;
use std::time::Duration;

use postrider_core::machine::Note;
use postrider_core::{MessageId, Tick};

use crate::housekeeper::Rest;

/// The most messages remembered; with more of them, the relay does not end by itself.
const MOST: usize = 65_536;

/// The messages that no route of this relay leads anywhere: it can never deliver them.
#[derive(Debug, Default)]
pub(crate) struct Stuck {
    ids: HashSet<MessageId>,
    cause: String,
    alone_since: Option<Tick>,
}

impl Stuck {
    /// Hears which they are, and which are given up.
    pub(crate) fn hear(&mut self, note: &Note) {
        match note {
            Note::Nowhere { id, text } => {
                if self.ids.len() < MOST {
                    self.ids.insert(*id);
                }
                self.cause.clone_from(text);
            }
            Note::Dead { id: Some(id), .. } | Note::Dropped { id: Some(id), .. } => {
                self.ids.remove(id);
            }
            _ => {}
        }
    }

    /// How many they are and what to do about it, when for so long nothing else has been left.
    pub(crate) fn counted(&mut self, now: Tick, rest: Rest, patience: Duration) -> Option<(usize, String)> {
        let count = self.ids.len();
        if count == 0 || rest != Rest::Retrying(u64::try_from(count).unwrap_or(u64::MAX)) {
            self.alone_since = None;
            return None;
        }
        let since = *self.alone_since.get_or_insert(now);
        (now.since(since) >= patience).then(|| (count, self.cause.clone()))
    }
}

#[cfg(test)]
mod tests {
    use postrider_core::{DeadReason, RowId, Topic};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(3);

    fn at(seconds: u64) -> Tick {
        Tick::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn messages_that_lack_a_route_end_it_after_its_patience_when_they_alone_are_left() {
        let mut stuck = Stuck::default();
        assert_eq!(stuck.counted(at(0), Rest::Retrying(0), Duration::ZERO), None);
        let id = MessageId::fresh();
        stuck.hear(&Note::Nowhere { id, text: "no route".to_owned() });
        assert_eq!(stuck.counted(at(0), Rest::Retrying(1), PATIENCE), None);
        assert_eq!(stuck.counted(at(1), Rest::More, PATIENCE), None);
        assert_eq!(stuck.counted(at(2), Rest::Retrying(1), PATIENCE), None);
        assert_eq!(stuck.counted(at(4), Rest::Retrying(1), PATIENCE), None);
        assert_eq!(stuck.counted(at(5), Rest::Retrying(1), PATIENCE), Some((1, "no route".to_owned())));
        assert_eq!(stuck.counted(at(9), Rest::Retrying(2), PATIENCE), None, "another one is tried again");
    }

    fn nowhere(id: MessageId) -> Note {
        Note::Nowhere { id, text: "no route".to_owned() }
    }

    #[test]
    fn a_message_that_is_given_up_or_dropped_is_not_left() {
        let (dead, dropped, left) = (MessageId::fresh(), MessageId::fresh(), MessageId::fresh());
        let mut stuck = Stuck::default();
        [dead, dropped, left].into_iter().for_each(|id| stuck.hear(&nowhere(id)));
        let (row, reason, text) = (RowId(1), DeadReason::Expired, String::new());
        stuck.hear(&Note::Dead { id: Some(dead), row, topic: None, key: None, reason, text });
        stuck.hear(&Note::Dropped { id: Some(dropped), topic: Topic::unchecked("t") });
        let counted = stuck.counted(at(0), Rest::Retrying(1), Duration::ZERO);
        assert_eq!(counted, Some((1, "no route".to_owned())));
    }

    #[test]
    fn with_more_messages_than_are_remembered_it_does_not_end() {
        let mut stuck = Stuck::default();
        let rest = |count: usize| Rest::Retrying(u64::try_from(count).unwrap());
        (0..MOST).for_each(|_| stuck.hear(&nowhere(MessageId::fresh())));
        assert!(stuck.counted(at(0), rest(MOST), Duration::ZERO).is_some());
        stuck.hear(&nowhere(MessageId::fresh()));
        assert_eq!(stuck.counted(at(1), rest(MOST + 1), Duration::ZERO), None);
    }
}
