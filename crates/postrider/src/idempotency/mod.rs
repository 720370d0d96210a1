//! Requests with an idempotency key: one effect, and one answer, however often the request is sent.

#[cfg(feature = "http-idempotency")]
mod http;
mod keys;
mod scoped_key;

#[cfg(all(
    feature = "http-idempotency",
    any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite")
))]
pub use self::http::PooledKeys;
#[cfg(feature = "http-idempotency")]
pub(crate) use self::http::response;
#[cfg(feature = "http-idempotency")]
pub use self::http::{IdempotencyLayer, IdempotencyService, IdempotentRequest, KeyBackend};
pub use keys::IdempotencyKeys;
pub use scoped_key::ScopedKey;
