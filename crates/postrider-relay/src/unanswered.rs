//! A word about a database that takes its time, long before it is given up.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

/// Nothing that a relay asks of its database takes so long but behind somebody's lock, or where nobody answers.
const NOTICE: Duration = Duration::from_secs(5);

/// Waits for an answer; `tell` is called once, with how long it has been, where there is none by then.
pub(crate) async fn answered<T>(work: impl Future<Output = T>, tell: impl FnOnce(Duration)) -> T {
    let mut work = pin!(work);
    match timeout(NOTICE, work.as_mut()).await {
        Ok(answer) => answer,
        Err(_) => {
            tell(NOTICE);
            work.await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_takes_long_is_told_once_and_waited_for() {
        for (takes, expected) in [(0, 0), (4_999, 0), (5_001, 1), (50_000, 1)] {
            let mut told = 0;
            let work = async {
                tokio::time::sleep(Duration::from_millis(takes)).await;
                takes
            };
            assert_eq!(answered(work, |_| told += 1).await, takes);
            assert_eq!(told, expected, "{takes} ms");
        }
    }
}
