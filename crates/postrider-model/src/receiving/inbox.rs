//! The inbox in the receiver's own transaction: claim, effect and outputs are one commit.
//!
//! Where two transactions claim the same message the second waits for the first: it goes on as a repeat when that one
//! commits, and as the first when it is rolled back. What retention forgets is refused and not handled again.
//!
//! No function of the core decides here, because none does in a service: what is the first is decided by a unique key and
//! its lock, in one statement of SQL for each database. What is checked is the rule that the statements are to follow. That
//! they do is for the tests on real servers.

use stateright::{Model, Property};

use crate::checked::{Checked, check};

/// A message has its effect at most once.
pub const ONCE: &str = "one effect";
/// What is acknowledged had its effect, or was refused and kept.
pub const ACKNOWLEDGED: &str = "acknowledged means done";

/// Consumers of one message, and what may go wrong.
#[derive(Debug, Clone, Copy)]
pub struct Inbox {
    /// Consumers that process at the same time.
    pub consumers: usize,
    /// Deliveries in all.
    pub deliveries: u8,
    /// Consumers that die, and commits whose answer is lost.
    pub losses: u8,
    /// The rule that is broken, if one is.
    pub broken: Option<BrokenInbox>,
}

/// A rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BrokenInbox {
    /// The claim commits in a transaction of its own, before that of the effect.
    ClaimFirst,
    /// The claim commits in a transaction of its own, behind that of the effect.
    ClaimLast,
    /// The inbox is asked first and written in the end, and nothing refuses the second of two.
    LookThenInsert,
    /// The message is acknowledged before the commit.
    AcknowledgedFirst,
    /// What is older than all that is remembered is handled.
    ForgottenIsNew,
    /// The claim of another transaction that is open counts as a repeat.
    OpenIsRepeat,
}

impl BrokenInbox {
    /// The broken rule, in words.
    pub const fn says(self) -> &'static str {
        match self {
            Self::ClaimFirst => "inbox: the claim commits before the effect",
            Self::ClaimLast => "inbox: the claim commits behind the effect",
            Self::LookThenInsert => "inbox: looked at first, written in the end, and nothing refuses the second",
            Self::AcknowledgedFirst => "inbox: acknowledged before the commit",
            Self::ForgottenIsNew => "inbox: what is older than all that is remembered is handled",
            Self::OpenIsRepeat => "inbox: the open claim of another transaction counts as a repeat",
        }
    }

    /// Each of them, with what must fall.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::ClaimFirst, ACKNOWLEDGED),
        (Self::ClaimLast, ONCE),
        (Self::LookThenInsert, ONCE),
        (Self::AcknowledgedFirst, ACKNOWLEDGED),
        (Self::ForgottenIsNew, ONCE),
        (Self::OpenIsRepeat, ACKNOWLEDGED),
    ];
}

/// What a consumer is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Consumer {
    /// It waits for a delivery.
    Idle,
    /// Its transaction is about to claim the message.
    Claiming,
    /// Its transaction has the claim and the effect.
    Open,
    /// The effect is committed, and the claim is about to be: only where that rule is broken.
    Claims,
    /// It has committed, or found a repeat.
    Done,
}

/// A state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InboxState {
    seen: bool,
    /// Retention has dropped the time of the message.
    forgotten: bool,
    refused: bool,
    consumers: Vec<Consumer>,
    effects: u8,
    acknowledged: bool,
    deliveries: u8,
    losses: u8,
    waited: bool,
}

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InboxAction {
    /// The message is delivered.
    Deliver(usize),
    /// A consumer does what it is at.
    Step(usize),
    /// A consumer dies: what it has open is rolled back.
    Crash(usize),
    /// A consumer commits, and dies before it knows.
    Lose(usize),
    /// Retention forgets the message.
    Forget,
}

impl Model for Inbox {
    type State = InboxState;
    type Action = InboxAction;

    fn init_states(&self) -> Vec<InboxState> {
        vec![InboxState {
            seen: false,
            forgotten: false,
            refused: false,
            consumers: vec![Consumer::Idle; self.consumers],
            effects: 0,
            acknowledged: false,
            deliveries: 0,
            losses: 0,
            waited: false,
        }]
    }

    fn actions(&self, state: &InboxState, actions: &mut Vec<InboxAction>) {
        for (place, consumer) in state.consumers.iter().enumerate() {
            match consumer {
                Consumer::Idle if state.deliveries < self.deliveries => actions.push(InboxAction::Deliver(place)),
                Consumer::Idle => {}
                Consumer::Claiming if self.waits(state) => {}
                _ => actions.push(InboxAction::Step(place)),
            }
            if *consumer != Consumer::Idle && state.losses < self.losses {
                actions.push(InboxAction::Crash(place));
                if *consumer == Consumer::Open {
                    actions.push(InboxAction::Lose(place));
                }
            }
        }
        if state.seen && !state.forgotten {
            actions.push(InboxAction::Forget);
        }
    }

    fn next_state(&self, state: &InboxState, action: InboxAction) -> Option<InboxState> {
        let mut next = state.clone();
        match action {
            InboxAction::Deliver(place) => {
                next.deliveries += 1;
                next.acknowledged |= self.broken == Some(BrokenInbox::AcknowledgedFirst);
                next.waited |= self.waits(state);
                next.consumers[place] = Consumer::Claiming;
            }
            InboxAction::Step(place) => next.consumers[place] = self.step(&mut next, state.consumers[place]),
            InboxAction::Crash(place) => {
                next.losses += 1;
                next.consumers[place] = Consumer::Idle;
            }
            InboxAction::Lose(place) => {
                next.losses += 1;
                self.step(&mut next, Consumer::Open);
                next.consumers[place] = Consumer::Idle;
            }
            InboxAction::Forget => {
                next.seen = false;
                next.forgotten = true;
            }
        }
        next.consumers.sort_unstable();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONCE, |_: &Self, state: &InboxState| state.effects <= 1),
            Property::always(ACKNOWLEDGED, |_, state: &InboxState| {
                !state.acknowledged || state.effects > 0 || state.refused
            }),
            Property::sometimes("a claim waits for another one", |_, state: &InboxState| {
                state.waited && state.acknowledged
            }),
            Property::sometimes("what is forgotten is refused", |_, state: &InboxState| state.refused),
        ]
    }
}

impl Inbox {
    /// Checks every history within the bounds, or until a promise falls: the one that is named, or any.
    pub fn check(self, until: Option<&'static str>) -> Checked<InboxAction> {
        check(self, until)
    }

    /// Whether a claim waits for the open one of another transaction.
    fn waits(&self, state: &InboxState) -> bool {
        let is_blind = matches!(
            self.broken,
            Some(
                BrokenInbox::LookThenInsert
                    | BrokenInbox::ClaimLast
                    | BrokenInbox::ClaimFirst
                    | BrokenInbox::OpenIsRepeat
            )
        );
        !is_blind && state.consumers.contains(&Consumer::Open)
    }

    fn step(&self, state: &mut InboxState, consumer: Consumer) -> Consumer {
        match consumer {
            Consumer::Idle => Consumer::Idle,
            Consumer::Claiming => {
                let is_open = state.consumers.contains(&Consumer::Open);
                if state.seen || (is_open && self.broken == Some(BrokenInbox::OpenIsRepeat)) {
                    return Consumer::Done;
                }
                if state.forgotten && self.broken != Some(BrokenInbox::ForgottenIsNew) {
                    state.refused = true;
                    return Consumer::Done;
                }
                state.seen |= self.broken == Some(BrokenInbox::ClaimFirst);
                Consumer::Open
            }
            Consumer::Open => {
                state.effects += 1;
                if self.broken == Some(BrokenInbox::ClaimLast) {
                    return Consumer::Claims;
                }
                state.seen = true;
                Consumer::Done
            }
            Consumer::Claims => {
                state.seen = true;
                Consumer::Done
            }
            Consumer::Done => {
                state.acknowledged = true;
                Consumer::Idle
            }
        }
    }
}
