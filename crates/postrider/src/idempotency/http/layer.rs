//! What a service says of its idempotent requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::{
    CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, ETAG, LAST_MODIFIED, LINK, LOCATION,
};
use http::request::Parts;
use http::{HeaderName, Method};
use tower_layer::Layer;

use super::backend::KeyBackend;
use super::service::IdempotencyService;

const LEASE: Duration = Duration::from_secs(60);
const LARGEST: usize = 1024 * 1024;
const LONGEST_PATH: usize = 200;

type Told<R> = Arc<dyn Fn(&Parts) -> R + Send + Sync>;

/// The header `Idempotency-Key` before a service of tower's: a request that is sent again has its effect once, and gets the
/// same answer.
///
/// | request | answer |
/// |---|---|
/// | without a key, of a method that needs one | 400 |
/// | with a body that is too large | 413 |
/// | with the key of another request | 422 |
/// | whose first one was answered | that answer, with `idempotent-replayed: true` |
/// | whose first one is worked on | 409 with `retry-after`, or a [wait](Self::wait) before that |
/// | the first, or one whose server died | the handler's, with an [`IdempotentRequest`](super::IdempotentRequest) among its extensions |
///
/// What is not the handler's has the type `application/problem+json` and says what to do next. A success that the handler
/// returned without storing it is passed on, and warned of (`tracing`): its effect may have happened, so the key stays taken
/// until its lease ends, and a request that is sent again after that is handled again.
///
/// Put it behind what authenticates, and before what routes. Two requests are the same when their method, path with its query,
/// content type and body are; the host and the other headers are not compared, and what tells hosts apart belongs to the caller.
/// Where something before it takes a part of the path away, as axum's `nest` does from what is layered within, say what the
/// whole is: [`path`](Self::path). Otherwise what differs only there is taken for one.
pub struct IdempotencyLayer<K>(Desk<K>);

/// Where keys are, and what a service says of its requests.
pub(super) struct Desk<K> {
    pub(super) backend: Arc<K>,
    pub(super) settings: Arc<Settings>,
}

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) caller: Told<Option<String>>,
    pub(super) path: Told<String>,
    /// None where it is the method and the path.
    pub(super) operation: Option<Told<String>>,
    pub(super) methods: Vec<Method>,
    pub(super) lease: Duration,
    pub(super) wait: Duration,
    pub(super) largest: usize,
    pub(super) listed: Arc<[HeaderName]>,
}

impl<K: KeyBackend> IdempotencyLayer<K> {
    /// A layer whose keys are there, and count for the caller that `caller` tells: a tenant's or user's id, as it was
    /// authenticated, of 255 bytes at most. Where it tells none, or one that is no such id, the request is refused (400).
    ///
    /// Keys are needed by POST and PATCH; leases have 60 s.
    pub fn new(backend: K, caller: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        let listed = [
            CONTENT_TYPE,
            CONTENT_LANGUAGE,
            CONTENT_ENCODING,
            CONTENT_DISPOSITION,
            LOCATION,
            ETAG,
            LAST_MODIFIED,
            LINK,
        ];
        let settings = Settings {
            caller: Arc::new(caller),
            path: Arc::new(|parts| parts.uri.path().to_owned()),
            operation: None,
            methods: vec![Method::POST, Method::PATCH],
            lease: LEASE,
            wait: Duration::ZERO,
            largest: LARGEST,
            listed: Arc::new(listed),
        };
        Self(Desk { backend: Arc::new(backend), settings: Arc::new(settings) })
    }

    /// The same layer, where the path of a request, without its query, is told by this: that of its URI unless it is set.
    ///
    /// For a layer within axum's `nest`, which takes the beginning of the path away before, and keeps the whole:
    ///
    /// ```
    /// # use axum::{extract::OriginalUri, http::request::Parts};
    /// # use postrider::{IdempotencyLayer, KeyBackend};
    /// # fn nested<K: KeyBackend>(layer: IdempotencyLayer<K>) -> IdempotencyLayer<K> {
    /// layer.path(|parts: &Parts| parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |sent| &sent.0).path().to_owned())
    /// # }
    /// ```
    #[must_use]
    pub fn path(self, path: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.path = Arc::new(path))
    }

    /// The same layer, where what a request asks for is told by this: its method and [`path`](Self::path) unless it is set, such
    /// as the method and the route's pattern. Keys do not count for another operation; whatever it is, what is compared stays
    /// the same.
    #[must_use]
    pub fn operation(self, operation: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.operation = Some(Arc::new(operation)))
    }

    /// The same layer for requests of these methods; others are passed on as they are, with a key or without.
    #[must_use]
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.with(|settings| settings.methods = methods.into_iter().collect())
    }

    /// The same layer with another lease: longer than a handler usually works. One that works longer is not stopped, but
    /// another one may begin, and one of the two is refused its answer.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|settings| settings.lease = lease)
    }

    /// The same layer, where a request whose first one is worked on waits so long for its answer before it is told 409.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|settings| settings.wait = wait)
    }

    /// The same layer with another size of the largest body of a request: 1 MiB unless it is set. Bodies are held in memory.
    #[must_use]
    pub fn largest_request(self, bytes: usize) -> Self {
        self.with(|settings| settings.largest = bytes)
    }

    /// The same layer, where answers are stored and sent with these headers and no others: those that tell of the content,
    /// `location`, `etag`, `last-modified` and `link` unless they are set. Never list what is meant for one connection or one
    /// moment, such as `set-cookie`.
    #[must_use]
    pub fn replayed_headers(self, headers: impl IntoIterator<Item = HeaderName>) -> Self {
        self.with(|settings| settings.listed = headers.into_iter().collect())
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.0.settings));
        self
    }
}

impl Settings {
    /// What a request asks for, whose path is this one: of a long path its beginning, as the whole is compared with the request.
    pub(super) fn operation_of(&self, parts: &Parts, path: &str) -> String {
        match &self.operation {
            Some(operation) => operation(parts),
            None => format!("{} {}", parts.method, &path[..path.floor_char_boundary(LONGEST_PATH)]),
        }
    }
}

impl<K> Clone for Desk<K> {
    fn clone(&self) -> Self {
        Self { backend: Arc::clone(&self.backend), settings: Arc::clone(&self.settings) }
    }
}

impl<K> Clone for IdempotencyLayer<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> fmt::Debug for IdempotencyLayer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &self.0.settings;
        f.debug_struct("IdempotencyLayer")
            .field("methods", &settings.methods)
            .field("lease", &settings.lease)
            .field("wait", &settings.wait)
            .finish_non_exhaustive()
    }
}

impl<S, K> Layer<S> for IdempotencyLayer<K> {
    type Service = IdempotencyService<S, K>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyService::new(inner, self.0.clone())
    }
}
