//! Measures an outbox, a relay and a broker, and says beside every figure whether the promises held meanwhile.
//!
//! What is here knows the seams alone: it measures whatever store and broker it is given, beside what both do without a
//! relay between them, for `postrider bench`. The bench target `private` brings its own servers and measures the limit
//! of the machine beside every figure, for `cargo xtask bench`.

pub mod drain;
pub mod figure;
pub mod limit;
pub mod load;
pub mod page;
pub mod performance;
pub mod plot;
mod running;
pub mod spread;
pub mod steady;
pub mod verdict;
pub mod witness;
