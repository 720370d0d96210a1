//! What an answer of the service means, and what to do about it.

use std::error::Error as StdError;

use postrider_core::{Error, ErrorKind};
use serde_json::Value;

use super::options::DynamoOptions;
use super::table::INDEX;
use crate::network::is_network;

type Cause = Box<dyn StdError + Send + Sync>;

/// The most letters of what the service says that are repeated.
const LONGEST_SAYING: usize = 300;
const NO_TABLE: &str = "ResourceNotFoundException";
/// Nothing was written, and another request may be taken.
const PATIENCE: [&str; 6] = [
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "RequestLimitExceeded",
    "LimitExceededException",
    "TransactionConflictException",
    "ReplicatedWriteConflictException",
];
const WRONG_CREDENTIALS: [&str; 9] = [
    "UnrecognizedClientException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "IncompleteSignatureException",
    "IncompleteSignature",
    "MissingAuthenticationTokenException",
    "MissingAuthenticationToken",
    "ExpiredTokenException",
];

/// What became of a request that has no good answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// It was not sent: there were no credentials, or no connection.
    Unsent(Cause),
    /// It was sent, and nothing came back in time.
    Late(Cause),
    /// It was sent, and the connection was lost.
    Lost(Cause),
    /// The service said no.
    Refused(Refusal),
}

impl Failure {
    pub(super) fn unsent(cause: impl Into<Cause>) -> Self {
        Self::Unsent(cause.into())
    }

    /// Whether the service gave this name to it.
    pub(super) fn is(&self, code: &str) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.code == code)
    }

    /// Whether there is no such table.
    pub(super) fn is_table_missing(&self) -> bool {
        self.is(NO_TABLE)
    }

    /// Whether there is no index, or it is being made.
    fn is_index_missing(&self) -> bool {
        self.is("ValidationException") && matches!(self, Self::Refused(refusal) if refusal.message.contains(INDEX))
    }

    /// The item that did not meet the condition, where it was asked for and there is one.
    pub(super) fn item(&self) -> Option<&Value> {
        match self {
            Self::Refused(refusal) => refusal.item.as_ref(),
            _ => None,
        }
    }

    fn cause(self) -> Cause {
        match self {
            Self::Unsent(cause) | Self::Late(cause) | Self::Lost(cause) => cause,
            Self::Refused(refusal) => refusal.said().into(),
        }
    }
}

/// What the service said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    status: u16,
    /// The name of the error; empty where what answered is not the service.
    code: String,
    message: String,
    item: Option<Value>,
}

impl Refusal {
    /// The refusal of this status and body.
    pub(super) fn new(status: u16, mut body: Value) -> Self {
        let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
        let code = text("__type").rsplit('#').next().unwrap_or_default().to_owned();
        let message = [text("message"), text("Message")].concat();
        let item = body.get_mut("Item").map(Value::take);
        Self { status, code, message, item }
    }

    fn said(&self) -> String {
        // What it says of a signature repeats the headers that were signed, and one of them is a credential.
        if self.message.is_empty() || self.code.contains("Signature") {
            return format!("status {} {}", self.status, self.code).trim_end().to_owned();
        }
        let message: String = self.message.chars().filter(|c| !c.is_control()).take(LONGEST_SAYING).collect();
        format!("status {} {}: {message}", self.status, self.code)
    }

    fn is_of_credentials(&self) -> bool {
        WRONG_CREDENTIALS.contains(&self.code.as_str()) || self.code.is_empty() && self.status == 403
    }

    fn is_of_rights(&self) -> bool {
        self.code.starts_with("AccessDenied")
    }
}

/// What one request to write came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The condition did not hold: nothing was written.
    Refused,
    /// Nothing was written, and it is worth another request.
    Again,
    /// It may have been written.
    Doubtful,
    /// It may be written, also later.
    Unknown,
    /// Nothing was written, for this reason.
    Failed(ErrorKind),
}

/// What one request to write came to that did not succeed.
pub(super) fn verdict(failure: &Failure) -> Verdict {
    match failure {
        Failure::Unsent(cause) if is_network(&**cause) => Verdict::Failed(ErrorKind::Unavailable),
        Failure::Unsent(_) => Verdict::Failed(ErrorKind::Config),
        Failure::Late(_) => Verdict::Unknown,
        Failure::Lost(_) => Verdict::Doubtful,
        Failure::Refused(refusal) => match (refusal.status, &*refusal.code) {
            (_, "ConditionalCheckFailedException") => Verdict::Refused,
            (_, code) if PATIENCE.contains(&code) => Verdict::Again,
            (429, _) => Verdict::Again,
            // Somebody between answers so, or the service and what it said was not read.
            (..400, _) => Verdict::Unknown,
            (408 | 500.., _) => Verdict::Doubtful,
            _ => Verdict::Failed(ErrorKind::Config),
        },
    }
}

/// The error of a request that changes no document.
pub(super) fn reading(doing: &str, options: &DynamoOptions, failure: Failure) -> Error {
    let kind = match verdict(&failure) {
        Verdict::Again => ErrorKind::Throttled,
        Verdict::Doubtful | Verdict::Unknown => ErrorKind::Unavailable,
        Verdict::Failed(kind) => kind,
        Verdict::Refused => ErrorKind::Config,
    };
    failed(kind, doing, options, failure)
}

/// An error with what to do.
pub(super) fn failed(kind: ErrorKind, doing: &str, options: &DynamoOptions, failure: Failure) -> Error {
    let step = match (&failure, kind) {
        _ if failure.is_table_missing() => {
            "call prepare once, with credentials that may make the table, or correct its name or the region in the URL"
        }
        _ if failure.is_index_missing() => "call prepare once, and wait until the index is made",
        (Failure::Refused(refusal), _) if refusal.is_of_credentials() => {
            "correct the credentials in the variables AWS_, the region, or the clock of this machine"
        }
        (Failure::Refused(refusal), _) if refusal.is_of_rights() => {
            "allow these credentials GetItem, PutItem and DeleteItem on the table, Query on its index, and DescribeTable"
        }
        (_, ErrorKind::Throttled) => "it is tried again; where it goes on, raise what the table may take",
        (_, ErrorKind::Unavailable) => "look whether the service and its credentials are reached from here",
        (Failure::Unsent(_), ErrorKind::Config) => "give credentials in the variables AWS_",
        (_, ErrorKind::Config) => "correct the URL or the variables AWS_, as the service says",
        _ => return Error::new(kind, format!("{doing} in {}", options.shown())).because(failure.cause()),
    };
    Error::new(kind, format!("{doing} in {}", options.shown())).because(failure.cause()).advise(step)
}

#[cfg(test)]
mod tests {
    use object_store::client::{HttpError, HttpErrorKind};
    use serde_json::json;

    use super::*;

    fn refused(status: u16, code: &str) -> Failure {
        let code = format!("com.amazonaws.dynamodb.v20120810#{code}");
        Failure::Refused(Refusal::new(status, json!({ "__type": code, "message": "hunter2" })))
    }

    #[test]
    fn what_is_certain_is_told_from_what_is_not() {
        let unreached = HttpError::new(HttpErrorKind::Connect, std::io::Error::other("nobody"));
        for (failure, expected) in [
            (refused(400, "ConditionalCheckFailedException"), Verdict::Refused),
            (refused(400, "ProvisionedThroughputExceededException"), Verdict::Again),
            (refused(400, "ThrottlingException"), Verdict::Again),
            (refused(400, "RequestLimitExceeded"), Verdict::Again),
            (refused(400, "TransactionConflictException"), Verdict::Again),
            (refused(400, "ReplicatedWriteConflictException"), Verdict::Again),
            (refused(400, "ResourceNotFoundException"), Verdict::Failed(ErrorKind::Config)),
            (refused(400, "ValidationException"), Verdict::Failed(ErrorKind::Config)),
            (refused(400, "UnrecognizedClientException"), Verdict::Failed(ErrorKind::Config)),
            (refused(500, "InternalServerError"), Verdict::Doubtful),
            (refused(503, "ServiceUnavailable"), Verdict::Doubtful),
            (Failure::Refused(Refusal::new(200, Value::Null)), Verdict::Unknown),
            (Failure::Refused(Refusal::new(502, Value::Null)), Verdict::Doubtful),
            (Failure::Lost("cut".into()), Verdict::Doubtful),
            (Failure::Late("slow".into()), Verdict::Unknown),
            (Failure::unsent("no credentials"), Verdict::Failed(ErrorKind::Config)),
            (Failure::unsent(unreached), Verdict::Failed(ErrorKind::Unavailable)),
        ] {
            assert_eq!(verdict(&failure), expected, "{failure:?}");
        }
    }

    #[test]
    fn what_is_said_of_a_signature_is_not_repeated() {
        let options = DynamoOptions::new("dynamodb://shop?region=eu-west-1", []).unwrap();
        for code in ["InvalidSignatureException", "SignatureDoesNotMatch"] {
            let error = failed(ErrorKind::Config, "reading", &options, refused(400, code));
            let text = format!("{error} {error:?}");
            assert!(text.contains(code) && text.contains("clock") && !text.contains("hunter2"), "{text}");
        }
        let error = reading("reading", &options, refused(400, "AccessDeniedException")).to_string();
        assert!(error.contains("hunter2") && error.contains("PutItem"), "{error}");
    }
}
