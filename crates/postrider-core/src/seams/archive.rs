//! Where rows are kept before retention removes them.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::Result;
use crate::seams::PastRow;

/// A place that keeps rows for good.
///
/// Rows are removed from the database only after [`keep`](Self::keep) has returned for them. What died between the two is
/// kept again by the next round: a row may stand in an archive more than once.
#[async_trait]
pub trait Archive: Send + Sync + Debug {
    /// Keeps these rows, in this order; returns when they are durable.
    ///
    /// # Errors
    /// Of any kind: nothing is removed then, and the same rows come again.
    async fn keep(&self, rows: &[PastRow]) -> Result<()>;
}
