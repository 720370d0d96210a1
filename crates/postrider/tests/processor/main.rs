//! Processing messages once over documents.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod ages;
mod once;
mod scene;
