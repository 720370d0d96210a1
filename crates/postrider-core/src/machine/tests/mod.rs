//! The rules, one by one, in a small simulated world; then many worlds at random.

mod broker;
mod random;
mod table;
mod world;
