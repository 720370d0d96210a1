//! Processing messages once over documents.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod ages;
mod depths;
mod faults;
mod floats;
mod gates;
mod meeting;
mod once;
#[macro_use]
mod places;
mod scene;
mod stores;
mod tokens;
