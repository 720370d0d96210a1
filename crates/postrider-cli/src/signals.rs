//! SIGTERM and SIGINT: the first asks for a graceful stop, the second ends at once.

use tokio_util::sync::CancellationToken;

use crate::exit::Exit;

/// Cancels the token at the first signal and ends the process at the second.
pub(crate) fn watch(stop: CancellationToken) {
    tokio::spawn(async move {
        received().await;
        tracing::info!("stopping: finishing what is in flight; a second signal ends at once");
        stop.cancel();
        received().await;
        tracing::warn!("ended at once by a second signal; what was in flight is delivered again later");
        std::process::exit(i32::from(Exit::Interrupted.code()));
    });
}

#[cfg(unix)]
async fn received() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}

#[cfg(not(unix))]
async fn received() {
    let _ = tokio::signal::ctrl_c().await;
}
