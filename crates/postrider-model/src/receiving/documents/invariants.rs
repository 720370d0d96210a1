//! What holds in every state, and what must be seen in some.

use postrider_core::receiving::{Outputs, Step};
use stateright::Property;

use super::state::{Id, State, Validity};
use super::{Broken, Receiver};

/// Each message has its effect at most once.
pub const ONCE: &str = "one effect";
/// What is sent comes from the run of the handler whose state was kept.
pub const OUTPUTS: &str = "outputs of the effect that was kept";
/// The state is what the effects made of it.
pub const STATE: &str = "no effect is overwritten";
/// What is acknowledged had its effect, and its outputs are sent.
pub const ACKNOWLEDGED: &str = "acknowledged means done";
/// A token that is gone stays gone.
pub const TOKENS: &str = "tokens do not come back";
/// When everything is over, nothing is left of it.
pub const LEFT_BEHIND: &str = "nothing is left behind";
/// Whatever happened, one more delivery of each message finishes it.
pub const STUCK: &str = "another delivery finishes it";

pub(super) fn properties(receiver: &Receiver) -> Vec<Property<Receiver>> {
    let mut properties = vec![
        Property::always(ONCE, |_: &Receiver, state: &State| state.applied.values().all(|runs| runs.len() <= 1)),
        Property::always(OUTPUTS, |_, state| outputs_are_kept(state)),
        Property::always(STATE, |receiver: &Receiver, state: &State| !receiver.counts() || state_is_the_sum(state)),
        Property::always(ACKNOWLEDGED, |_, state: &State| state.acknowledged.iter().all(|id| is_done(state, *id))),
        Property::always(TOKENS, |_, state: &State| !state.returned),
        Property::always(LEFT_BEHIND, |receiver: &Receiver, state: &State| {
            !state.is_over() || receiver.is_clean(state)
        }),
        Property::always(STUCK, |receiver: &Receiver, state: &State| {
            !state.is_idle() || receiver.finishes(state.clone())
        }),
        Property::sometimes("an unfinished message is finished by a later delivery", |_, state: &State| {
            state.seen.resumed
        }),
        Property::sometimes("a write meets another one", |_, state: &State| state.seen.conflict),
        Property::sometimes("a repeat is recognised", |_, state: &State| state.seen.repeat),
        Property::sometimes("everything is over", |_, state: &State| state.is_over()),
    ];
    if receiver.bounds.sweeps > 0 {
        properties.push(Property::sometimes("a token is swept", |_, state: &State| state.seen.swept));
    }
    properties
}

fn outputs_are_kept(state: &State) -> bool {
    state.broker.iter().all(|held| match held.attempt {
        None => true,
        Some(attempt) => {
            let from = Id { stage: held.id.stage - 1, message: held.id.message };
            state.applied.get(&from).is_some_and(|runs| runs.contains(&attempt))
        }
    })
}

fn state_is_the_sum(state: &State) -> bool {
    state.entities.iter().zip(0..).all(|(entity, stage)| {
        let counted = entity.document.as_ref().and_then(|document| document.state).unwrap_or_default();
        counted.iter().zip(0..).all(|(count, message)| {
            let runs = state.applied.get(&Id { stage, message }).map_or(0, Vec::len);
            usize::from(*count) == runs
        })
    })
}

fn is_done(state: &State, id: Id) -> bool {
    let sent = |run: &u8| {
        let next = Id { stage: id.stage + 1, message: id.message };
        state.broker.iter().any(|held| held.id == next && held.attempt == Some(*run))
    };
    state.applied.get(&id).is_some_and(|runs| runs.iter().any(sent))
}

impl Receiver {
    /// That nothing is left to send, that no token is valid, and that no entry is left where entries go. What an attempt made
    /// that did not commit is for the sweep, if there is one, and what it made that did is not there any more.
    pub(super) fn is_clean(&self, state: &State) -> bool {
        let entries =
            state.entities.iter().filter_map(|entity| entity.document.as_ref()).flat_map(|document| &document.entries);
        let mut left = entries.filter(|entry| self.has(Step::Remove) || entry.outputs != Outputs::Sent);
        let has_valid = self.has(Step::Consume) && state.tokens.values().any(|validity| *validity == Validity::Active);
        let committed = |attempt: &u8| state.applied.values().flatten().any(|run| run == attempt);
        let is_swept = self.broken != Some(Broken::RegisteredOnly) || state.leftovers().next().is_none();
        left.next().is_none() && !has_valid && !state.staged.values().any(committed) && is_swept
    }
}
