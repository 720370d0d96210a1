//! The header `Idempotency-Key` before a service of axum's, on real databases: one effect, and one answer.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first surprise")]

mod refusals;
mod requests;
mod scene;
mod shop;
mod uncommitted;
