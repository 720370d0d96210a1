//! What an answer of a service means, and what to do about it.

use postrider_core::{Error, ErrorKind};

use super::options::{ObjectOptions, Service};
use super::witness::Fate;
use super::write::Condition;
use crate::network::is_network;

/// What one request to write came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The condition did not hold: nothing was written.
    Refused,
    /// Nothing was written, and it is worth another request.
    Again,
    /// It may have been written, and another request will tell.
    Doubtful,
    /// It may be written, also later.
    Unknown,
    /// Nothing was written, for this reason.
    Failed(ErrorKind),
}

/// What one request to write came to that did not succeed.
pub(super) fn verdict(service: Service, condition: Condition<'_>, fate: Fate, error: &object_store::Error) -> Verdict {
    let says = |word: &str| error.to_string().contains(word);
    match (fate, condition) {
        (Fate::Unsent, _) if is_network(error) => Verdict::Failed(ErrorKind::Unavailable),
        (Fate::Unsent, _) => Verdict::Failed(ErrorKind::Config),
        (Fate::Late, _) => Verdict::Unknown,
        (Fate::Lost, _) => Verdict::Doubtful,
        (Fate::Answered(200..300), _) => Verdict::Unknown,
        (Fate::Answered(304 | 412), _) => Verdict::Refused,
        (Fate::Answered(404), Condition::Over(_)) if is_object_missing(error) => Verdict::Refused,
        (Fate::Answered(404), _) if !is_bucket_missing(error) => Verdict::Doubtful,
        // Azure says so of a blob that exists; S3 and others of two writers at once, of whom neither may have written.
        (Fate::Answered(409), Condition::Absent) if service == Service::Azure => Verdict::Refused,
        (Fate::Answered(408 | 409 | 429), _) => Verdict::Again,
        (Fate::Answered(503), _) if says("SlowDown") || says("ServerBusy") => Verdict::Again,
        (Fate::Answered(500..), _) => Verdict::Doubtful,
        (Fate::Answered(_), _) => Verdict::Failed(ErrorKind::Config),
    }
}

/// Whether the service says that there is no such object. A 404 alone may be of a gateway before it that has just been
/// started, and what is taken for missing is made, or taken for done.
pub(super) fn is_object_missing(error: &object_store::Error) -> bool {
    has_code(error, &["NoSuchKey", "BlobNotFound"])
}

/// Whether there is no bucket, where an object was asked for.
pub(super) fn is_bucket_missing(error: &object_store::Error) -> bool {
    has_code(error, &["NoSuchBucket", "ContainerNotFound"])
}

/// Whether the service names one of these codes, which no name of an object looks like.
fn has_code(error: &object_store::Error, codes: &[&str]) -> bool {
    let text = error.to_string();
    codes.iter().any(|code| text.contains(&format!("<Code>{code}</Code>")))
}

/// The error of a read.
pub(super) fn reading(doing: &str, options: &ObjectOptions, error: object_store::Error) -> Error {
    let text = error.to_string();
    let says = |word: &str| text.contains(word);
    let kind = match &error {
        _ if says("SlowDown") || says("ServerBusy") || says("status code: 429") => ErrorKind::Throttled,
        object_store::Error::NotFound { .. } if !is_bucket_missing(&error) => ErrorKind::Unavailable,
        _ if is_network(&error) || says("status code: 5") => ErrorKind::Unavailable,
        _ => ErrorKind::Config,
    };
    failed(kind, doing, options, error)
}

/// An error with what to do.
pub(super) fn failed(kind: ErrorKind, doing: &str, options: &ObjectOptions, error: object_store::Error) -> Error {
    let step = match (&error, kind) {
        _ if is_bucket_missing(&error) => "make the bucket or container, or correct its name in the URL".to_owned(),
        (object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. }, _) => {
            "allow these credentials to get, put and delete objects in the bucket and to list it".to_owned()
        }
        (_, ErrorKind::Config) => {
            format!("correct the URL or the variables {}, as the service says", options.service.variables())
        }
        (_, ErrorKind::Unavailable) => "look whether the service and its credentials are reached from here".to_owned(),
        _ => return Error::new(kind, format!("{doing} in {}", options.shown())).because(error),
    };
    Error::new(kind, format!("{doing} in {}", options.shown())).because(error).advise(step)
}

#[cfg(test)]
mod tests {
    use postrider_core::Version;

    use super::*;

    fn told(text: &str) -> object_store::Error {
        object_store::Error::Generic { store: "test", source: text.to_owned().into() }
    }

    #[test]
    fn what_is_certain_is_told_from_what_is_not() {
        let version = Version("7".to_owned());
        let over = Condition::Over(&version);
        for (service, condition, fate, text, expected) in [
            (Service::S3, Condition::Absent, Fate::Answered(412), "", Verdict::Refused),
            (Service::S3, over, Fate::Answered(404), "<Code>NoSuchKey</Code>", Verdict::Refused),
            (Service::S3, over, Fate::Answered(404), "<Code>NoSuchBucket</Code>", Verdict::Failed(ErrorKind::Config)),
            (Service::S3, over, Fate::Answered(404), "404 page not found", Verdict::Doubtful),
            (Service::S3, Condition::Absent, Fate::Answered(404), "404 page not found", Verdict::Doubtful),
            (Service::S3, Condition::Absent, Fate::Answered(409), "ConditionalRequestConflict", Verdict::Again),
            (Service::Azure, Condition::Absent, Fate::Answered(409), "BlobAlreadyExists", Verdict::Refused),
            (Service::S3, over, Fate::Answered(503), "SlowDown", Verdict::Again),
            (Service::S3, over, Fate::Answered(503), "", Verdict::Doubtful),
            (Service::S3, over, Fate::Answered(500), "InternalError", Verdict::Doubtful),
            (Service::S3, over, Fate::Answered(200), "no ETag", Verdict::Unknown),
            (Service::S3, over, Fate::Answered(403), "", Verdict::Failed(ErrorKind::Config)),
            (Service::S3, over, Fate::Late, "", Verdict::Unknown),
            (Service::S3, over, Fate::Lost, "", Verdict::Doubtful),
            (Service::S3, over, Fate::Unsent, "no credentials", Verdict::Failed(ErrorKind::Config)),
        ] {
            assert_eq!(
                verdict(service, condition, fate, &told(text)),
                expected,
                "{service:?} {condition:?} {fate:?} {text}"
            );
        }
    }
}
