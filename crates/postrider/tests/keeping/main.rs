//! What an application received through its own driver, kept by the operator's side and by a relay, on real servers.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod applications;
mod forgetting;
mod late;
mod refused;
mod rights;

use std::time::Duration;

use postrider::MessageId;
use uuid::Uuid;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// An id of UUIDv7 that was made so long ago.
fn made(ago: Duration) -> MessageId {
    MessageId(Uuid::from_u128(MessageId::fresh().0.as_u128() - (ago.as_millis() << 80)))
}

/// An id that tells no time.
fn timeless() -> MessageId {
    MessageId(Uuid::new_v4())
}

/// Runs each case on MySQL and SQLite: PostgreSQL drops partitions by the time in the ids.
macro_rules! on_those_that_delete {
    ($($case:ident),* $(,)?) => {
        mod on_mysql { $(
            #[tokio::test]
            async fn $case() {
                super::$case(&mut crate::applications::Mysql::fresh().await).await;
            }
        )* }
        mod on_sqlite { $(
            #[tokio::test]
            async fn $case() {
                super::$case(&mut crate::applications::Sqlite::fresh().await).await;
            }
        )* }
    };
}
pub(crate) use on_those_that_delete;

/// Runs every case on each of the databases.
macro_rules! on_every_database {
    ($($case:ident),* $(,)?) => {
        mod on_postgresql { $(
            #[tokio::test]
            async fn $case() {
                super::$case(&mut crate::applications::Postgres::fresh().await).await;
            }
        )* }
        $crate::on_those_that_delete!($($case),*);
    };
}
pub(crate) use on_every_database;
