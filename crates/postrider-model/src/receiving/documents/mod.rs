//! Entities in documents: every protocol that is a list of steps, by the core's own machine.
//!
//! Workers go through [`Processing`](postrider_core::receiving::Processing) one effect at a time. Between two of them
//! anything may happen: another worker's step, another delivery of the same message, also of one that was acknowledged
//! long ago, a worker that dies, a request whose answer is lost and that is carried out now, later or never.
//!
//! Of histories between which nobody could tell, one is looked at. A delivery begins when it reads, and its handler runs when
//! the first request behind it leaves. A delivery that only read before it was over is not counted: there may be any number of
//! those, and one of them that dies might as well not have come. A write over a version that is gone is refused at once.
//! Messages, workers, runs of handlers and tokens have no names: they are numbered as they come.
//!
//! One entity per receiver and one conditional write at a time; a store of known ids; outputs beside the document; tokens,
//! where what the first receiver sends is handled by a second one, for it is at the second that a wrong token shows.

mod broken;
mod invariants;
mod state;
mod steps;

use postrider_core::receiving::Protocol;
use stateright::{Model, Property};

use crate::checked::{Checked, check};

pub use broken::{Broken, Change};
pub use invariants::{ACKNOWLEDGED, LEFT_BEHIND, ONCE, OUTPUTS, STATE, STUCK, TOKENS};
use state::Validity;
pub use state::{Small, State};
pub use steps::Action;

/// A protocol and how much of it is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Receiver {
    /// The order of the steps.
    pub protocol: Protocol,
    /// How large the model is, and what may go wrong.
    pub bounds: Bounds,
    /// The rule that is broken, if one is.
    pub broken: Option<Broken>,
}

/// How large the model is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Receivers that process at the same time, 1 to 3.
    pub workers: usize,
    /// Messages of one entity, 1 or 2.
    pub messages: u8,
    /// Receivers in a row, 1 or 2: each handles what the one before it sends.
    pub stages: u8,
    /// Deliveries that do more than read, repeats among them.
    pub deliveries: u8,
    /// Workers that die, and answers that are lost.
    pub losses: u8,
    /// Looks at what attempts left behind.
    pub sweeps: u8,
}

impl Bounds {
    /// Two messages of one entity.
    pub const TWO_MESSAGES: Self = Self { workers: 2, messages: 2, stages: 1, deliveries: 4, losses: 2, sweeps: 0 };

    /// One message that comes again and again.
    pub const MANY_REPEATS: Self = Self { workers: 3, messages: 1, stages: 1, deliveries: 5, losses: 2, sweeps: 0 };

    /// Two messages of one entity that come again and again.
    pub const FULL: Self = Self { workers: 3, deliveries: 5, ..Self::TWO_MESSAGES };

    /// Two messages of one entity, and a look at what they leave beside it.
    pub const SWEPT: Self = Self { deliveries: 3, losses: 2, sweeps: 1, ..Self::TWO_MESSAGES };

    /// The same with more at the same time, and less that goes wrong.
    pub const SWEPT_BY_MANY: Self = Self { workers: 3, deliveries: 4, losses: 1, ..Self::SWEPT };

    /// One message that comes again and again, and two looks at what it leaves beside the document.
    pub const SWEPT_TWICE: Self = Self { losses: 1, sweeps: 2, ..Self::MANY_REPEATS };

    /// A message whose output is a message for another receiver.
    pub const CHAIN: Self = Self { workers: 2, messages: 1, stages: 2, deliveries: 4, losses: 1, sweeps: 1 };

    /// Two messages on that way, and nothing that dies.
    pub const TWO_CHAINS: Self = Self { messages: 2, deliveries: 5, losses: 0, ..Self::CHAIN };

    /// One message, with more of everything but losses.
    pub const LONG_CHAIN: Self = Self { workers: 3, deliveries: 5, sweeps: 2, ..Self::CHAIN };
}

impl Model for Receiver {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.first()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.possible(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.take(&mut next, action);
        self.refuse(&mut next);
        next.returned |=
            state.tokens.iter().any(|(token, was)| *was == Validity::Gone && next.validity(*token) != *was);
        // Workers are alike, and so are requests on their way: one order stands for all.
        next.workers.sort_by_cached_key(steps::hash);
        next.late.sort_by_cached_key(steps::hash);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        invariants::properties(self)
    }
}

impl Receiver {
    /// Checks every history within the bounds, or until a promise falls: the one that is named, or any.
    pub fn check(self, until: Option<&'static str>) -> Checked<Action> {
        check(self, until)
    }
}
