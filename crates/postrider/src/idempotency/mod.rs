//! Requests with an idempotency key: one effect, and one answer, however often the request is sent.

mod keys;
mod scoped_key;

pub use keys::IdempotencyKeys;
pub use scoped_key::ScopedKey;
