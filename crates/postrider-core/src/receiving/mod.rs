//! The receiving side's protocols: how a message that comes more than once has its effect once.
//!
//! Brokers deliver at least once. What makes the effect happen once is where the receiver records that it happened, and
//! in which order it does things. Every protocol here is the same few steps: load what the message changes, check whether
//! it was handled before, handle it, commit, publish what the handler wants sent, remember the message, clean up,
//! acknowledge. Two rules carry all of them:
//!
//! * **The check comes after the load.** Attempts that overlap are kept apart by the conditional write at the loaded
//!   version; attempts that do not overlap by the check. A check before the load leaves a gap between the two.
//! * **The id is always in at least one place**: in the document, in the store of known ids, or its token is gone.
//!
//! And one for every write: a write whose answer was lost is never undone. It may have happened; the next look tells.
//!
//! A protocol is data: a list of [`Step`]s ([`Protocol`]). [`Processing`] goes through it for one delivery. It does no I/O:
//! it answers with an [`Effect`] that its driver carries out, and goes on with what came of it. The model of
//! `postrider-model` drives the same machine through every order of outcomes, crashes and repeats, and with every order of
//! steps that is known to be wrong.

mod age;
mod cursor;
mod document;
mod key;
mod processing;
mod protocol;
mod sweeping;
#[cfg(test)]
mod tests;

pub use age::{Age, age, made_at};
pub use cursor::{Advance, Numbering, Sequence, advance};
pub use document::{Document, Entry, Kinds, Leftover, Outputs};
pub use key::{Begun, Epoch, Fingerprint, KeyRecord, begin};
pub use processing::{
    Checking, Creating, Disposition, Effect, Handling, Known, Lapse, Loading, Mark, Marking, Processing, Publishing,
    Writing,
};
pub use protocol::{Protocol, Step};
pub use sweeping::{Deleting, Fencing, Looking, Sweep, SweepEffect, Swept};
