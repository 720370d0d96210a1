//! What became of a request, seen where it is sent: the client's own errors do not tell a request that was never sent from
//! one whose answer is lost.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use object_store::{ClientOptions, Extensions};

/// What became of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Fate {
    /// It was not sent: there were no credentials, or no connection.
    #[default]
    Unsent,
    /// It was sent, and nothing came back in time.
    Late,
    /// It was sent, and the connection was lost.
    Lost,
    /// It was answered with this status.
    Answered(u16),
}

/// Goes along with a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Witness(Arc<Mutex<Fate>>);

impl Witness {
    /// What the request is given.
    pub(super) fn extensions(&self) -> Extensions {
        let mut extensions = Extensions::new();
        extensions.insert(self.clone());
        extensions
    }

    /// What it saw.
    pub(super) fn fate(&self) -> Fate {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn saw(&self, fate: Fate) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = fate;
    }
}

/// Makes connections whose requests are seen by their witnesses.
#[derive(Debug, Default)]
pub(super) struct Witnessed {
    inner: ReqwestConnector,
}

impl HttpConnector for Witnessed {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Watching { inner: self.inner.connect(options)? }))
    }
}

#[derive(Debug)]
struct Watching {
    inner: HttpClient,
}

#[async_trait]
impl HttpService for Watching {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let witness = request.extensions().get::<Witness>().cloned().unwrap_or_default();
        // Until the answer is there, and for ever where the call is dropped.
        witness.saw(Fate::Lost);
        let answer = self.inner.execute(request).await;
        witness.saw(match &answer {
            Ok(response) => Fate::Answered(response.status().as_u16()),
            Err(error) => match error.kind() {
                HttpErrorKind::Connect => Fate::Unsent,
                HttpErrorKind::Timeout => Fate::Late,
                _ => Fate::Lost,
            },
        });
        answer
    }
}
