//! A model of the protocol, for checking every history within bounds: lanes, leases, terms, publish, settle,
//! retention, careful starts.
//!
//! The rules are the core's where there is one: the lane record and its fence, the trust in a lease, what an answer to
//! a settle says of a row, the judge of failures, retry policies, what retention removes. What the model adds is
//! everything that can come between two of them: relays that die, stop, or lose their clock, requests and answers that
//! are lost or late, a broker that refuses, a transaction that is rolled back, lanes that move.
//!
//! Time is discrete: everything happens at a tick, in any order. A membership counts as expired from the moment at
//! which it ends, which is earlier than any database sees it. Relays that run renew at every tick; one that does not
//! has been stopped, suspended, or waits for a late answer. A stopped relay's clock goes on, a suspended one's stands
//! still and is behind from then on. Between two statements of one connection nothing is assumed: a request may be
//! carried out at any later time, also after its sender died.
//!
//! Left out: the machine's bookkeeping of rows set aside and of keys held (its own tests and the random
//! worlds of core and relay play that),
//! operators, the forwarding of dead letters, orders other than that of a key, the share of the lanes (here any relay may
//! take any free lane, and hand back any lane), several destinations, clocks that run at different speeds (the lease's
//! margin is for them).

mod bounds;
mod checked;
mod database;
mod invariants;
mod mutation;
pub mod receiving;
mod relay;
mod state;
mod steps;

use postrider_core::LaneRecord;
use stateright::{Model, Property};

pub use bounds::{Bounds, LANES, MESSAGES, Poison, RELAYS, Troubles, Writer};
pub use checked::Checked;
pub use invariants::{P1, P2, P3, P4, P5, P6};
pub use mutation::Mutation;
pub use relay::Reply;
pub use state::State;
pub use steps::{Action, Recording};

use bounds::OPEN;
use state::{Place, Relay, Row, Wrong};

/// The longest quiet run that delivers everything, and more.
const QUIET_STEPS: usize = 400;

/// The model: its size, and the rule that is broken, if one is.
#[derive(Debug, Clone, Copy)]
pub struct Outbox {
    /// How large it is, and what may go wrong.
    pub bounds: Bounds,
    /// The rule that is broken.
    pub mutation: Option<Mutation>,
}

impl Model for Outbox {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            now: 0,
            rows: [Row::new(Place::RolledBack); MESSAGES],
            lanes: [LaneRecord::NEW; LANES],
            expires: [None; RELAYS],
            relays: [Relay::NEW; RELAYS],
            received: [0; MESSAGES],
            refused: [0; MESSAGES],
            stray: None,
            kills: 0,
            left: self.bounds.troubles,
            wrong: Wrong::default(),
        };
        for message in 0..self.bounds.messages {
            let open = message == OPEN && self.bounds.writer == Writer::Open;
            state.rows[message].place = if open { Place::Open } else { Place::Pending };
        }
        for place in 0..RELAYS {
            state.prolong(place);
            state.renew(place);
        }
        (0..LANES).for_each(|lane| state.acquire(0, lane, None));
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.steps(state, actions);
        if state.now < self.bounds.ticks {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.take(&mut next, action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        invariants::properties(self)
    }
}

impl Outbox {
    /// Whether every message is delivered, given up, or never was one.
    fn is_over(&self, state: &State) -> bool {
        state.rows.iter().all(Row::is_over)
    }

    /// Whether anything went wrong that excuses a repeat.
    fn had_a_fault(&self, state: &State) -> bool {
        let (all, left) = (&self.bounds.troubles, &state.left);
        (all.crashes, all.pauses, all.losses) != (left.crashes, left.pauses, left.losses) || state.kills > 0
    }

    /// Whether everything gets through if from here on nothing goes wrong.
    ///
    /// Where one more quiet step stays within the bounds, the state it leads to is judged instead.
    fn gets_through(&self, state: &State) -> bool {
        if state.now < self.bounds.ticks {
            return true;
        }
        let mut actions = Vec::new();
        self.steps(state, &mut actions);
        actions.iter().any(|action| action.is_quiet()) || self.run_quietly(state.clone())
    }

    fn run_quietly(&self, mut state: State) -> bool {
        let mut actions = Vec::new();
        for _ in 0..QUIET_STEPS {
            if self.is_over(&state) {
                return !state.wrong.overtaken;
            }
            actions.clear();
            self.steps(&state, &mut actions);
            let next = actions.iter().copied().find(|action| action.is_quiet());
            self.take(&mut state, next.unwrap_or(Action::Tick));
        }
        false
    }

    /// Checks every history within the bounds, or until a promise falls where a rule is broken.
    pub fn check(self) -> Checked<Action> {
        checked::check(self, self.mutation.map(Mutation::promise))
    }
}
