//! Where the layer begins and releases requests: on connections of its own.

use std::time::Duration;

use postrider_core::receiving::{Begun, Epoch, Fingerprint};
use postrider_stores::keys::StoredAnswer;

use super::super::{IdempotencyKeys, ScopedKey};
use crate::inbox::InboxError;

/// Begins and releases requests, each in a transaction of its own on a connection of its own.
///
/// For pools of sqlx there is `PooledKeys`. For another driver a few lines do: begin a transaction, ask
/// [`IdempotencyKeys::begin`] or [`IdempotencyKeys::release`] in it, commit it.
pub trait KeyBackend: Send + Sync + 'static {
    /// The keys, whose tables the answers go to as well.
    fn keys(&self) -> &IdempotencyKeys;

    /// [`IdempotencyKeys::begin`], committed.
    fn begin(
        &self,
        key: &ScopedKey,
        fingerprint: Fingerprint,
        lease: Duration,
    ) -> impl Future<Output = Result<Begun<StoredAnswer>, InboxError>> + Send;

    /// [`IdempotencyKeys::release`], committed.
    fn release(&self, key: &ScopedKey, epoch: Epoch) -> impl Future<Output = Result<(), InboxError>> + Send;
}

/// The keys in a database that a pool of sqlx is connected to: `PgPool`, `MySqlPool` or `SqlitePool`.
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
#[derive(Debug, Clone)]
pub struct PooledKeys<P> {
    keys: IdempotencyKeys,
    pool: P,
}

#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
impl<P> PooledKeys<P> {
    /// The keys on this pool.
    pub fn new(keys: IdempotencyKeys, pool: P) -> Self {
        Self { keys, pool }
    }
}

#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
macro_rules! pooled {
    ($pool:ty, |$on:ident| $begin:expr) => {
        impl KeyBackend for PooledKeys<$pool> {
            fn keys(&self) -> &IdempotencyKeys {
                &self.keys
            }

            async fn begin(
                &self,
                key: &ScopedKey,
                fingerprint: Fingerprint,
                lease: Duration,
            ) -> Result<Begun<StoredAnswer>, InboxError> {
                let $on = &self.pool;
                let mut tx = $begin.await.map_err(no_connection)?;
                let begun = self.keys.begin(&mut tx, key, fingerprint, lease).await?;
                tx.commit().await.map_err(not_committed)?;
                Ok(begun)
            }

            async fn release(&self, key: &ScopedKey, epoch: Epoch) -> Result<(), InboxError> {
                let $on = &self.pool;
                let mut tx = $begin.await.map_err(no_connection)?;
                self.keys.release(&mut tx, key, epoch).await?;
                tx.commit().await.map_err(not_committed)
            }
        }
    };
}

#[cfg(feature = "sqlx-postgres")]
pooled!(sqlx::PgPool, |pool| pool.begin());
#[cfg(feature = "sqlx-mysql")]
pooled!(sqlx::MySqlPool, |pool| pool.begin());
#[cfg(feature = "sqlx-sqlite")]
pooled!(sqlx::SqlitePool, |pool| pool.begin_with("begin immediate"));

#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
fn no_connection(error: sqlx::Error) -> InboxError {
    unavailable(
        "beginning a transaction for the key of a request: the pool gave no connection, or somebody else is writing",
        error,
    )
}

#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
fn not_committed(error: sqlx::Error) -> InboxError {
    unavailable("committing what was recorded of a request's key: it may be there, until its lease ends", error)
}

#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
fn unavailable(what: &str, error: sqlx::Error) -> InboxError {
    postrider_core::Error::new(postrider_core::ErrorKind::Unavailable, what).because(error).into()
}
