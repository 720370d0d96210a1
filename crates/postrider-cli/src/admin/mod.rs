//! The admin address: `/metrics`, `/livez`, `/readyz` and `/status` of a running relay.
//!
//! It listens on this machine only, unless a token is set. `/livez` and `/readyz` never need the token: they tell
//! nothing but a word, and probes have no place for one.
//!
//! | state of the relay | `/livez` | `/readyz` | `/metrics`, `/status` |
//! |---|---|---|---|
//! | starting (the outbox is not open yet) | 200 | 503 | 200 |
//! | standby (other relays have every lane) | 200 | 200 | 200 |
//! | relaying | 200 | 200 | 200 |
//! | relaying, a destination is paused | 200 | 200 | 200 |
//! | the outbox is away | 200 | 503 | 200 |
//! | stopping, stopped | 200 | 503 | 200 |
//! | any, the token is missing or wrong | 200 | as above | 401 |
//!
//! Readiness does not depend on the broker: a broker that is away is shown by `postrider status` and by metrics, and
//! restarting relays would not bring it back.

pub(crate) mod ask;
mod listener;
pub(crate) mod live;
pub(crate) mod report;
mod token;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::layers::Origin;
use crate::config::{Admin, Config};
use crate::failure::{Failure, Outcome};
use live::Live;
use report::RelayState;

/// What the handlers share.
#[derive(Debug, Clone)]
struct Served {
    live: Arc<Live>,
    admin: Admin,
}

/// Serves until the token is cancelled; where it listens, if it does.
///
/// An address that is the default and taken is given up with a warning, so that two relays on one machine need no
/// configuration; an address that somebody chose must be free.
pub(crate) async fn start(config: &Config, live: Arc<Live>, stop: CancellationToken) -> Outcome<Option<SocketAddr>> {
    let Some(listen) = config.admin.listen else { return Ok(None) };
    let listener = match TcpListener::bind(listen).await {
        Ok(listener) => listener,
        Err(error) => {
            let chosen = config.layers.get("admin.listen").is_some_and(|setting| setting.origin != Origin::Default);
            if chosen {
                return Err(Failure::usage(
                    format!("cannot listen on {listen} (admin.listen): {error}"),
                    "name a free port with --admin-listen 127.0.0.1:PORT, or turn it off with --admin-listen off",
                ));
            }
            tracing::warn!("no admin address: {listen} is taken ({error}); --admin-listen names another");
            return Ok(None);
        }
    };
    let address = listener.local_addr().unwrap_or(listen);
    tracing::info!(address = %address, "admin address: /metrics, /livez, /readyz, /status");
    let router = router(Served { live, admin: config.admin.clone() });
    tokio::spawn(async move {
        let served = axum::serve(listener::Bounded::new(listener), router)
            .with_graceful_shutdown(async move { stop.cancelled().await });
        if let Err(error) = served.await {
            tracing::warn!("the admin address is gone: {error}");
        }
    });
    Ok(Some(address))
}

fn router(served: Served) -> Router {
    Router::new()
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .fallback(|| async { (StatusCode::NOT_FOUND, "try /metrics, /livez, /readyz or /status\n") })
        .with_state(served)
}

async fn ready(State(served): State<Served>) -> Response {
    let state = served.live.report().state;
    (code(state), format!("{state}\n")).into_response()
}

/// The code of `/readyz`.
fn code(state: RelayState) -> StatusCode {
    match state {
        RelayState::Relaying | RelayState::Standby => StatusCode::OK,
        RelayState::Starting | RelayState::StoreAway | RelayState::Stopping | RelayState::Stopped => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}

async fn metrics(State(served): State<Served>, headers: HeaderMap) -> Response {
    if !token::permits(served.admin.token.as_ref(), &headers) {
        return refused();
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], served.live.metrics()).into_response()
}

async fn status(State(served): State<Served>, headers: HeaderMap) -> Response {
    if !token::permits(served.admin.token.as_ref(), &headers) {
        return refused();
    }
    Json(served.live.report()).into_response()
}

fn refused() -> Response {
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], "a token is needed\n").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_relay_that_relays_or_could_is_ready() {
        for (state, expected) in [
            (RelayState::Starting, 503),
            (RelayState::Standby, 200),
            (RelayState::Relaying, 200),
            (RelayState::StoreAway, 503),
            (RelayState::Stopping, 503),
            (RelayState::Stopped, 503),
        ] {
            assert_eq!(code(state).as_u16(), expected, "{state}");
        }
    }
}
