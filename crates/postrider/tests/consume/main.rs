//! Messages of a broker handed to receivers.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod broker;
mod dead_letters;
mod failures;
mod log;
mod once;
mod order;
mod queue;
mod scene;
mod settings;
mod stopping;
