//! The rules, one by one, in a small simulated world; then many worlds at random.

mod backlog;
mod blame;
mod broker;
mod by_hand;
mod careful;
mod catching_up;
mod crossing;
mod destinations;
mod ending_carefully;
mod expiry;
mod forwarding;
mod handing_back;
mod holding;
mod hurrying;
mod order;
mod ordering;
mod probing_carefully;
mod random;
mod rng;
mod settling_ahead;
mod speed;
mod sweeping;
mod table;
mod unconfigured;
mod waiting;
mod world;
