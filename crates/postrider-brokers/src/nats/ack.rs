//! What JetStream's answer means.

use std::error::Error as StdError;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::publish::PublishAck;
use postrider_core::{Accepted, Confirmation, Error, ErrorKind};

use super::link::Broken;

/// The acknowledgement.
pub(super) fn accepted(answer: &PublishAck) -> Accepted {
    let confirmation = if answer.duplicate { Confirmation::Duplicate } else { Confirmation::Fresh };
    Accepted { confirmation }
}

/// Classifies a publication that was not acknowledged.
pub(super) fn classify(shown: &str, subject: &str, error: &PublishError) -> Error {
    let doing = |what: &str| format!("publishing to {subject:?} at {shown}: {what}");
    match error.kind() {
        PublishErrorKind::StreamNotFound => no_stream(shown, subject),
        PublishErrorKind::MaxPayloadExceeded => {
            let text = doing(
                "the message with its headers is larger than the server's max_payload, which is learnt when a connection is made \
                 (restart the relay after raising it)",
            );
            Error::new(ErrorKind::Rejected, text).because(error.to_string())
        }
        // A plain subscriber of the subject keeps the server from telling that no stream stores it.
        PublishErrorKind::TimedOut => {
            Error::new(ErrorKind::Unknown, doing("no acknowledgement in time; does a stream cover the subject?"))
        }
        PublishErrorKind::BrokenPipe => Error::new(ErrorKind::Unknown, doing("the connection was lost")),
        PublishErrorKind::MaxAckPending => {
            Error::new(ErrorKind::Throttled, doing("too many messages wait for their acknowledgement"))
        }
        PublishErrorKind::WrongLastMessageId | PublishErrorKind::WrongLastSequence => {
            Error::new(ErrorKind::Rejected, doing("the stream expects another message")).because(error.to_string())
        }
        PublishErrorKind::Other => other(&doing, error),
    }
}

/// What it means that a wait for an acknowledgement was ended.
pub(super) fn broken(shown: &str, subject: &str, broken: &Broken) -> Error {
    match broken {
        Broken::Denied(text) | Broken::Unanswered(text) => {
            let text = format!(
                "publishing to {subject:?} at {shown}: {text}; give the relay's user permission to publish there and to \
                 subscribe to _INBOX.>"
            );
            Error::new(ErrorKind::Config, text)
        }
        Broken::Lost => {
            Error::new(ErrorKind::Unknown, format!("the connection to {shown} was lost before the acknowledgement"))
        }
    }
}

/// No stream stores a subject, and what to do.
pub(super) fn no_stream(shown: &str, subject: &str) -> Error {
    let text = format!("no JetStream stream at {shown} covers the subject {subject:?}");
    Error::new(ErrorKind::Config, text)
        .advise(format!("create one: nats stream add NAME --subjects {subject:?} --storage file --defaults"))
}

fn other(doing: &dyn Fn(&str) -> String, error: &PublishError) -> Error {
    let Some(told) = error.source().and_then(|source| source.downcast_ref::<async_nats::jetstream::Error>()) else {
        // Not an answer of JetStream: the client could not send, or could not read what came.
        return Error::new(ErrorKind::Unknown, doing("no acknowledgement")).because(error.to_string());
    };
    let (kind, what) = match told.error_code() {
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM => {
            (ErrorKind::Rejected, "the message is larger than the stream's max_msg_size")
        }
        ErrorCode::STREAM_NOT_MATCH => (
            ErrorKind::Config,
            "another stream stores this subject; correct the option stream or the stream's subjects",
        ),
        ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
            (ErrorKind::Config, "JetStream is not enabled; start the server with -js, or enable it for the account")
        }
        ErrorCode::STREAM_SEALED => (ErrorKind::Config, "the stream is sealed; create another one"),
        ErrorCode::STREAM_STORE_FAILED => (
            ErrorKind::Unavailable,
            "the stream can't store it; is it full? raise its limits or let it discard old ones",
        ),
        _ if told.code() >= 500 => (ErrorKind::Unavailable, "JetStream can't store it now"),
        _ => (ErrorKind::Rejected, "JetStream refuses it"),
    };
    Error::new(kind, doing(what)).because(told.to_string())
}
