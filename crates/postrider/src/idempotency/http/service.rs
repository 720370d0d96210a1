//! One request with its key: looked up, handled, answered.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use postrider_core::receiving::{Begun, Epoch, Fingerprint};
use postrider_stores::keys::StoredAnswer;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};
use tower_service::Service;

use super::super::ScopedKey;
use super::super::scoped_key::Scope;
use super::answer::{Sent, response, sent};
use super::backend::KeyBackend;
use super::layer::Desk;
use super::problem::Problem;
use super::request::{Ending, IdempotentRequest};
use crate::inbox::InboxError;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// How long a request that waits sleeps between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// When a request comes again at the latest whose first one is worked on: most are answered long before their lease ends.
const SOON: Duration = Duration::from_secs(5);
/// How long at least a request begins again that meets another one at its key in the same moment.
const MEETING: Duration = Duration::from_secs(1);

type Failed = Box<dyn StdError + Send + Sync>;

/// A service behind an [`IdempotencyLayer`](super::IdempotencyLayer).
///
/// The service within takes the body as it came, or, of a request with a key, whole: axum's routers and handlers take either.
pub struct IdempotencyService<S, K> {
    inner: S,
    desk: Desk<K>,
}

impl<S, K> IdempotencyService<S, K> {
    pub(super) fn new(inner: S, desk: Desk<K>) -> Self {
        Self { inner, desk }
    }
}

impl<S: Clone, K> Clone for IdempotencyService<S, K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), desk: self.desk.clone() }
    }
}

impl<S, K> fmt::Debug for IdempotencyService<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyService").finish_non_exhaustive()
    }
}

impl<S, K, B, R> Service<Request<B>> for IdempotencyService<S, K>
where
    S: Service<Request<Either<B, Full<Bytes>>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    K: KeyBackend,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Failed>,
    R: Send,
{
    type Response = Response<Either<R, Full<Bytes>>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that is ready works; the next call waits for the other.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let desk = self.desk.clone();
        Box::pin(async move {
            if !desk.settings.methods.contains(request.method()) {
                return Ok(inner.call(request.map(Either::Left)).await?.map(Either::Left));
            }
            let (request, work) = match desk.admitted(request).await {
                Admitted::Answered(response) => return Ok(response.map(Either::Right)),
                Admitted::Started(request, work) => (request, work),
            };
            let answer = inner.call(request.map(Either::Right)).await;
            let status = answer.as_ref().map_or(StatusCode::INTERNAL_SERVER_ERROR, Response::status);
            desk.ended(&work, status).await;
            Ok(answer?.map(Either::Left))
        })
    }
}

/// Whether a request reaches its handler.
enum Admitted {
    Answered(Response<Full<Bytes>>),
    Started(Request<Full<Bytes>>, IdempotentRequest),
}

impl<K: KeyBackend> Desk<K> {
    async fn admitted<B>(&self, request: Request<B>) -> Admitted
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Failed>,
    {
        let (parts, body) = request.into_parts();
        match self.begun(&parts, body).await {
            Err(problem) => Admitted::Answered(problem.response()),
            Ok(Looked::Answered(mut replay)) => {
                replay.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
                Admitted::Answered(replay)
            }
            Ok(Looked::Started { key, epoch, body }) => {
                let work =
                    IdempotentRequest::new(self.backend.keys().clone(), key, epoch, Arc::clone(&self.settings.listed));
                let mut request = Request::from_parts(parts, Full::new(body));
                request.extensions_mut().insert(work.clone());
                Admitted::Started(request, work)
            }
        }
    }

    async fn begun<B>(&self, parts: &Parts, body: B) -> Result<Looked, Problem>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Failed>,
    {
        let sent_key = match sent(&parts.headers, &KEY) {
            Sent::Missing => return Err(Problem::KeyMissing),
            Sent::Unreadable => {
                return Err(Problem::KeyInvalid("It stands there more than once, or is no text".to_owned()));
            }
            Sent::Once(key) => key,
        };
        let caller = (self.settings.caller)(parts).ok_or(Problem::CallerUnknown)?;
        let path = (self.settings.path)(parts);
        let scope =
            Scope::new(&caller, &self.settings.operation_of(parts, &path)).map_err(|_| Problem::ScopeInvalid)?;
        let key = scope.key(sent_key).map_err(|error| Problem::KeyInvalid(error.to_string()))?;
        let body = self.whole(body).await?;
        match self.looked_up(&key, fingerprint(parts, &path, &body)).await? {
            Begun::Started(epoch) => Ok(Looked::Started { key, epoch, body }),
            Begun::Replay(answer) => Ok(Looked::Answered(response(answer))),
            Begun::InProgress { retry_after } => Err(Problem::InProgress(retry_after.min(SOON))),
            Begun::Mismatch => Err(Problem::OtherRequest),
        }
    }

    async fn whole<B>(&self, body: B) -> Result<Bytes, Problem>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Failed>,
    {
        match Limited::new(body, self.settings.largest).collect().await {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(Problem::BodyTooLarge(self.settings.largest)),
            Err(_) => Err(Problem::BodyUnreadable),
        }
    }

    /// What to do with a request, after a wait where its first one is worked on.
    async fn looked_up(&self, key: &ScopedKey, fingerprint: Fingerprint) -> Result<Begun<StoredAnswer>, Problem> {
        let began = Instant::now();
        loop {
            let begun = match self.backend.begin(key, fingerprint, self.settings.lease).await {
                Ok(begun) => begun,
                // By the time, not by the number: a database may have waited for a lock before it says so.
                Err(InboxError::Contended(_)) if began.elapsed() < self.settings.wait.max(MEETING) => {
                    sleep(BETWEEN_LOOKS).await;
                    continue;
                }
                Err(InboxError::Contended(_)) => Begun::InProgress { retry_after: BETWEEN_LOOKS },
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn StdError,
                        "a request was turned away: its key cannot be looked up"
                    );
                    return Err(Problem::Unavailable);
                }
            };
            let left = self.settings.wait.saturating_sub(began.elapsed());
            if left.is_zero() || !matches!(begun, Begun::InProgress { .. }) {
                return Ok(begun);
            }
            sleep(left.min(BETWEEN_LOOKS)).await;
        }
    }

    async fn ended(&self, work: &IdempotentRequest, status: StatusCode) {
        match work.ending() {
            Ending::RolledBack => {
                if let Err(error) = self.backend.release(work.key(), work.epoch()).await {
                    let error = &error as &dyn StdError;
                    tracing::warn!(error, "the key of a request that was rolled back is taken until its lease ends");
                }
            }
            Ending::Untold if status.is_success() => tracing::warn!(
                "a handler returned a success that it did not store with IdempotentRequest::answer: the request is handled \
                 again when it is sent again after its lease"
            ),
            Ending::Untold | Ending::Answered => {}
        }
    }
}

/// What was found of a request's key.
enum Looked {
    Answered(Response<Full<Bytes>>),
    Started { key: ScopedKey, epoch: Epoch, body: Bytes },
}

/// A hash of what was asked for: the method, the path with its query, the content type and the body.
fn fingerprint(parts: &Parts, path: &str, body: &Bytes) -> Fingerprint {
    let uri = parts.uri.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let content_type = parts.headers.get(CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    let mut hash = Sha256::new();
    for part in [parts.method.as_str().as_bytes(), uri.as_bytes(), content_type, body] {
        // Its length first, so that no two requests are the same bytes.
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    Fingerprint(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tower_layer::Layer;

    use super::super::IdempotencyLayer;
    use super::*;
    use crate::idempotency::IdempotencyKeys;

    /// A database that waits for a lock whenever a request begins, for as long as some do.
    #[derive(Default)]
    struct Locked(IdempotencyKeys, AtomicU32);

    impl KeyBackend for Locked {
        fn keys(&self) -> &IdempotencyKeys {
            &self.0
        }

        async fn begin(&self, _: &ScopedKey, _: Fingerprint, _: Duration) -> Result<Begun<StoredAnswer>, InboxError> {
            self.1.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_secs(50)).await;
            Err(InboxError::Contended(None))
        }

        async fn release(&self, _: &ScopedKey, _: Epoch) -> Result<(), InboxError> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waited_for_a_lock_does_not_wait_for_it_again() {
        let desk = IdempotencyLayer::new(Locked::default(), |_| None).layer(()).desk;
        let key = ScopedKey::new("alice", "POST /orders", "k").unwrap();
        let begun = desk.looked_up(&key, Fingerprint([0; 32])).await;
        assert!(matches!(begun, Ok(Begun::InProgress { .. })), "{begun:?}");
        assert_eq!(desk.backend.1.load(Ordering::Relaxed), 1);
    }

    fn print(method: &str, uri: &str, content_type: &str, body: &'static str) -> Fingerprint {
        let request = Request::builder().method(method).uri(uri).header("content-type", content_type).body(()).unwrap();
        let parts = request.into_parts().0;
        fingerprint(&parts, parts.uri.path(), &Bytes::from_static(body.as_bytes()))
    }

    #[test]
    fn whatever_was_asked_for_is_part_of_the_fingerprint() {
        let first = print("POST", "/orders?dry=1", "text/plain", "book");
        assert_eq!(first, print("POST", "http://elsewhere/orders?dry=1", "text/plain", "book"));
        for (method, uri, content_type, body) in [
            ("PATCH", "/orders?dry=1", "text/plain", "book"),
            ("POST", "/orders?dry=2", "text/plain", "book"),
            ("POST", "/orders?dry=1", "text/plai", "nbook"),
            ("POST", "/orders?dry=1", "text/plain", "boo"),
        ] {
            assert_ne!(first, print(method, uri, content_type, body), "{method} {uri} {content_type} {body}");
        }
    }
}
