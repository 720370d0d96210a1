//! The header `Idempotency-Key` before a service of tower's, such as axum's.
//!
//! <https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/>

mod answer;
mod backend;
mod layer;
mod problem;
mod request;
mod service;

pub(crate) use answer::response;
pub use backend::KeyBackend;
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
pub use backend::PooledKeys;
pub use layer::IdempotencyLayer;
pub use request::IdempotentRequest;
pub use service::IdempotencyService;
