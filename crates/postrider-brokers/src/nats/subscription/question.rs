//! One question to JetStream, and what its answer means.

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{Context, RequestErrorKind};
use async_nats::jetstream::response::Response;
use postrider_core::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::nats::link::{Broken, Watch};

/// What JetStream says to a question: what was asked for, or an error of its own.
pub(super) type Answer<T> = std::result::Result<T, async_nats::jetstream::Error>;

/// Where questions are asked: one server, on one connection.
pub(super) struct Desk<'a> {
    /// The servers as they are shown.
    pub(super) shown: &'a str,
    pub(super) context: &'a Context,
    pub(super) watch: Watch,
}

impl Desk<'_> {
    /// Asks, at a subject below `$JS.API`.
    ///
    /// # Errors
    /// `Config` without JetStream or without the permission to ask, `Unavailable` where no answer came in time.
    pub(super) async fn ask<T: DeserializeOwned>(&mut self, subject: &str, body: &Value) -> Result<Answer<T>> {
        self.watch.connected()?;
        let full = format!("$JS.API.{subject}");
        let answer = tokio::select! {
            biased;
            answer = self.context.request::<_, _, Response<T>>(subject.to_owned(), body) => answer,
            broken = self.watch.broken(&full) => return Err(self.broken(&full, &broken)),
        };
        match answer {
            Ok(Response::Ok(found)) => Ok(Ok(found)),
            Ok(Response::Err { error }) if is_off(error.error_code()) => Err(self.off().because(error)),
            Ok(Response::Err { error }) => Ok(Err(error)),
            Err(error) if error.kind() == RequestErrorKind::NoResponders => Err(self.off()),
            Err(error) => {
                let text = format!("asking {} for {full}: no answer in time", self.shown);
                Err(Error::new(ErrorKind::Unavailable, text).because(error.to_string()))
            }
        }
    }

    /// What it means that a wait was ended before the answer.
    pub(super) fn broken(&self, subject: &str, broken: &Broken) -> Error {
        broken_at(self.shown, subject, broken)
    }

    fn off(&self) -> Error {
        let text = format!(
            "JetStream is not enabled at {}; start the server with -js, or enable it for the account",
            self.shown
        );
        Error::new(ErrorKind::Config, text)
    }

    /// What it means that JetStream did not do what was asked, `doing`.
    pub(super) fn refused(&self, doing: &str, error: &async_nats::jetstream::Error) -> Error {
        let kind = if error.code() >= 500 { ErrorKind::Unavailable } else { ErrorKind::Config };
        Error::new(kind, format!("{doing} at {}", self.shown)).because(error.to_string())
    }
}

/// What it means that a wait for an answer to something sent to a subject was ended.
pub(super) fn broken_at(shown: &str, subject: &str, broken: &Broken) -> Error {
    let (text, missing) = match broken {
        Broken::Denied(text) => (text, format!("publish to {}", permission(subject))),
        Broken::Unanswered(text) => (text, "subscribe to _INBOX.>".to_owned()),
        Broken::Lost => {
            let text = format!("the connection to {shown} was lost; it comes back by itself");
            return Error::new(ErrorKind::Unavailable, text);
        }
    };
    let text = format!("receiving from {shown}: {text}; give the consumer's user permission to {missing}");
    Error::new(ErrorKind::Config, text)
}

/// The permission that a subject needs: of an acknowledgement, one for all messages of its consumer.
fn permission(subject: &str) -> String {
    let words: Vec<&str> = subject.split('.').collect();
    match words.as_slice() {
        ["$JS", "ACK", rest @ ..] if rest.len() >= 9 => format!("$JS.ACK.{}.>", rest[..4].join(".")),
        ["$JS", "ACK", stream, consumer, ..] => format!("$JS.ACK.{stream}.{consumer}.>"),
        _ => subject.to_owned(),
    }
}

fn is_off(code: ErrorCode) -> bool {
    [ErrorCode::JETSTREAM_NOT_ENABLED, ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT].contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_permission_is_named_as_it_has_to_be_given() {
        let told = |subject: &str| broken_at("nats://a", subject, &Broken::Denied("Permissions Violation".into()));
        for (subject, permission) in [
            ("$JS.API.CONSUMER.INFO.ORDERS.invoices", "publish to $JS.API.CONSUMER.INFO.ORDERS.invoices"),
            ("$JS.ACK.ORDERS.invoices.1.17.17.1700000000.0", "publish to $JS.ACK.ORDERS.invoices.>"),
            ("$JS.ACK._.hash.ORDERS.invoices.1.17.17.1700000000.0", "publish to $JS.ACK._.hash.ORDERS.invoices.>"),
        ] {
            let error = told(subject);
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().ends_with(permission), "{error}");
        }
        let lost = broken_at("nats://a", "x", &Broken::Lost);
        assert_eq!(lost.kind(), ErrorKind::Unavailable);
    }
}
