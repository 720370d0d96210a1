//! SIGTERM and SIGINT: the first asks for a graceful stop, the second ends at once.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::exit::Exit;

/// Within this time the same signal is the first one again: `timeout` of GNU sends it to the process and to its group.
const REPEAT: Duration = Duration::from_millis(500);

/// What asks for the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    #[cfg_attr(not(unix), allow(dead_code, reason = "there is no such signal"))]
    Terminate,
    Interrupt,
}

/// Cancels the token at the first signal and ends the process at the second.
pub(crate) fn watch(stop: CancellationToken) {
    tokio::spawn(async move {
        let mut signals = Signals::new();
        let first = (signals.next().await, Instant::now());
        tracing::info!("stopping: finishing what is in flight; a second signal ends at once");
        stop.cancel();
        while is_repeat(first, (signals.next().await, Instant::now())) {}
        tracing::warn!("ended at once by a second signal; what was in flight is delivered again later");
        std::process::exit(i32::from(Exit::Interrupted.code()));
    });
}

/// Whether a signal says no more than the first one did.
fn is_repeat(first: (Signal, Instant), next: (Signal, Instant)) -> bool {
    next.0 == first.0 && next.1.duration_since(first.1) < REPEAT
}

/// The signals from now on.
struct Signals {
    #[cfg(unix)]
    terminate: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        Self { terminate: signal(SignalKind::terminate()).ok() }
    }

    async fn next(&mut self) -> Signal {
        match &mut self.terminate {
            Some(terminate) => tokio::select! {
                _ = terminate.recv() => Signal::Terminate,
                _ = tokio::signal::ctrl_c() => Signal::Interrupt,
            },
            None => interrupted().await,
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    fn new() -> Self {
        Self {}
    }

    async fn next(&mut self) -> Signal {
        interrupted().await
    }
}

async fn interrupted() -> Signal {
    let _ = tokio::signal::ctrl_c().await;
    Signal::Interrupt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_signal_at_once_is_no_second_one() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        for (signal, millis, repeats) in [
            (Signal::Terminate, 0, true),
            (Signal::Terminate, 1, true),
            (Signal::Terminate, 499, true),
            (Signal::Terminate, 500, false),
            (Signal::Interrupt, 1, false),
        ] {
            let next = (signal, after(millis));
            assert_eq!(is_repeat((Signal::Terminate, start), next), repeats, "{signal:?} after {millis} ms");
        }
    }
}
