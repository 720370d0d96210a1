//! What must hold in every state, and what must happen in some.

use postrider_core::Start;
use postrider_core::machine::DEATHS;
use stateright::Property;

use super::Outbox;
use super::bounds::{POISON, Poison, Troubles, lane_of};
use super::state::{Ending, Place, Settle, State, members};

/// Whatever was committed is received, or a dead letter, or still there; and if nothing more goes wrong, it gets
/// through from here.
pub const P1: &str = "P1 no loss";
/// What the broker received was committed.
pub const P2: &str = "P2 no ghost";
/// A message is not received before its predecessor of the same key was received or given up.
pub const P3: &str = "P3 order";
/// Without a fault nothing is received twice.
pub const P4: &str = "P4 repeats around faults only";
/// Only a message that the broker refused is charged or given up, and one that kills relays kills no more of them than
/// it takes to find it.
pub const P5: &str = "P5 isolation";
/// A relay that lost its lane changes nothing in it, and publishes nothing unless its clock stood still.
pub const P6: &str = "P6 fencing";

/// The properties of a model.
pub(super) fn properties(model: &Outbox) -> Vec<Property<Outbox>> {
    let mut properties = vec![
        Property::always(P1, |model: &Outbox, state: &State| nothing_is_lost(state) && model.gets_through(state)),
        Property::always(P2, |_, state| {
            each(state, |message| received(state, message) == 0 || is_committed(state, message))
        }),
        Property::always(P3, |_, state: &State| !state.wrong.overtaken),
        Property::always(P4, |model: &Outbox, state: &State| {
            model.had_a_fault(state) || state.received.iter().all(|times| *times < 2)
        }),
        Property::always(P5, |_, state| nobody_else_pays(state)),
        Property::always(P6, |_, state: &State| !state.wrong.meddled && !state.wrong.distrusted),
    ];
    if model.mutation.is_some() {
        return properties;
    }
    properties.extend([
        Property::sometimes("everything is over", |model: &Outbox, state| model.is_over(state)),
        Property::sometimes("retention removes history", |_, state: &State| {
            state.rows.iter().any(|row| row.place == Place::Gone)
        }),
    ]);
    let Troubles { crashes, pauses, losses, refusals, handbacks } = model.bounds.troubles;
    if crashes + pauses > 0 {
        properties.extend([
            Property::sometimes("a lane is taken over from a dead owner", |_, state| has_careful_lane(state)),
            Property::sometimes("a settle is about to be fenced", |_, state| has_settle(state, about_to_be_fenced)),
        ]);
    }
    if crashes + pauses + losses > 0 {
        properties
            .push(Property::sometimes("a message is received twice", |_, state: &State| state.received.contains(&2)));
    }
    if pauses > 0 {
        properties.extend([
            Property::sometimes("a relay does not trust its lease", |_, state: &State| {
                state.relays.iter().any(|relay| relay.is_up() && relay.joined && !state.is_trusted(relay))
            }),
            Property::sometimes("a relay publishes on a lease that it lost", |_, state| has_deluded_flight(state)),
        ]);
    }
    if losses > 0 {
        properties.extend([
            Property::sometimes("a settle is about to find its row gone", |_, state| has_settle(state, finds_it_gone)),
            Property::sometimes("a settle outlives its connection", |_, state: &State| state.stray.is_some()),
        ]);
    }
    if refusals > 0 {
        properties.extend([
            Property::sometimes("a message is to be tried again", |_, state: &State| {
                state.rows.iter().any(|row| row.is_pending() && row.attempts > 0)
            }),
            Property::sometimes("a message is given up", |_, state: &State| state.rows.iter().any(|row| row.is_dead())),
        ]);
    }
    if handbacks > 0 {
        properties
            .push(Property::sometimes("a lane is handed over in good order", |_, state| has_handed_over_lane(state)));
    }
    if model.bounds.poison == Poison::First {
        properties.extend([
            Property::sometimes("a message that kills its relay is given up", |_, state: &State| {
                state.rows[POISON].place == Place::RelayDied
            }),
            Property::sometimes("another message is suspected", |_, state: &State| {
                state.rows.iter().enumerate().any(|(message, row)| message != POISON && row.suspicion > 0)
            }),
        ]);
    }
    properties
}

fn each(state: &State, holds: impl Fn(usize) -> bool) -> bool {
    (0..state.rows.len()).all(holds)
}

fn received(state: &State, message: usize) -> u8 {
    state.received[message]
}

fn is_committed(state: &State, message: usize) -> bool {
    state.rows[message].is_committed()
}

fn nothing_is_lost(state: &State) -> bool {
    each(state, |message| {
        let removed = matches!(state.rows[message].place, Place::History | Place::Gone);
        !removed || received(state, message) > 0
    })
}

fn nobody_else_pays(state: &State) -> bool {
    u16::from(state.kills) <= DEATHS + 1
        && each(state, |message| {
            let row = &state.rows[message];
            let guilty = state.refused[message];
            row.attempts <= guilty
                && (row.place != Place::Dead || guilty > 0)
                && (row.place != Place::RelayDied || message == POISON)
        })
}

fn has_careful_lane(state: &State) -> bool {
    let mut held = state.relays.iter().flat_map(|relay| relay.held.iter().flatten());
    held.any(|held| held.start == Start::Careful)
}

fn has_settle(state: &State, is: fn(&State, &Settle) -> bool) -> bool {
    let settles = state.relays.iter().filter_map(|relay| relay.settle.as_ref());
    settles.chain(&state.stray).any(|settle| is(state, settle))
}

/// Whether a lane of the settle is not its sender's any more, and there are rows that it would change.
fn about_to_be_fenced(state: &State, settle: &Settle) -> bool {
    let mut ended = settle.endings.iter().enumerate().filter(|(_, ending)| ending.is_some());
    ended.any(|(message, _)| {
        let lease = settle.leases[lane_of(message)];
        let lane = &state.lanes[lane_of(message)];
        state.rows[message].is_pending() && lease.is_some_and(|held| !lane.admits(settle.me, held.term))
    })
}

fn finds_it_gone(state: &State, settle: &Settle) -> bool {
    let mut delivered = settle.endings.iter().enumerate().filter(|(_, ending)| **ending == Some(Ending::Delivered));
    delivered.any(|(message, _)| {
        let lease = settle.leases[lane_of(message)];
        let lane = &state.lanes[lane_of(message)];
        !state.rows[message].is_pending() && lease.is_some_and(|held| lane.admits(settle.me, held.term))
    })
}

fn has_handed_over_lane(state: &State) -> bool {
    let mut held = state.relays[1..].iter().flat_map(|relay| relay.held.iter().flatten());
    held.any(|held| held.start == Start::Clean && held.term.0 == 2)
}

fn has_deluded_flight(state: &State) -> bool {
    state.relays.iter().enumerate().any(|(place, relay)| {
        let me = relay.id(place);
        let lost = |message: usize| {
            let held = relay.held[lane_of(message)];
            held.is_some_and(|held| !state.lanes[lane_of(message)].admits(me, held.term))
        };
        relay.is_up() && relay.behind > 0 && relay.flight.is_some_and(|flight| members(flight.stays).any(lost))
    })
}
