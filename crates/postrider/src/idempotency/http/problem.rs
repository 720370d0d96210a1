//! What is answered instead of the handler: problem details (RFC 9457) that say what to do next.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;

/// Why a request does not reach its handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    KeyMissing,
    KeyInvalid(String),
    CallerUnknown,
    ScopeInvalid,
    BodyUnreadable,
    BodyTooLarge(usize),
    OtherRequest,
    InProgress(Duration),
    Unavailable,
}

impl Problem {
    fn told(&self) -> (StatusCode, &'static str, &'static str, String) {
        match self {
            Self::KeyMissing => (
                StatusCode::BAD_REQUEST,
                "idempotency-key-missing",
                "The header Idempotency-Key is missing",
                "Send a value of your own in it, such as a UUID, and the same one when you send this request again.".to_owned(),
            ),
            Self::KeyInvalid(why) => (
                StatusCode::BAD_REQUEST,
                "idempotency-key-invalid",
                "The header Idempotency-Key is not valid",
                format!("{why}. Send the request again with another key."),
            ),
            Self::CallerUnknown => (
                StatusCode::BAD_REQUEST,
                "idempotency-caller-unknown",
                "It is not known whose request this is",
                "A key counts for the caller who sent it. Send what tells the caller, such as your credentials.".to_owned(),
            ),
            Self::ScopeInvalid => (
                StatusCode::BAD_REQUEST,
                "idempotency-scope-invalid",
                "This request cannot have an idempotency key as it is",
                "A key counts for a caller and an operation, and one of these is empty, longer than 255 bytes, or has control \
                 characters or spaces at its ends. Another key does not help: send other credentials, or another path."
                    .to_owned(),
            ),
            Self::BodyUnreadable => (
                StatusCode::BAD_REQUEST,
                "body-unreadable",
                "The body did not arrive whole",
                "Send the request again with the same key.".to_owned(),
            ),
            Self::BodyTooLarge(largest) => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "body-too-large",
                "The body is too large",
                format!("At most {largest} bytes are taken with an idempotency key. Send less."),
            ),
            Self::OtherRequest => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency-key-reused",
                "The idempotency key was used for another request",
                "Send this request with a key of its own, or the first one again as it was: method, path with its query, \
                 content type and body."
                    .to_owned(),
            ),
            Self::InProgress(_) => (
                StatusCode::CONFLICT,
                "idempotency-key-in-progress",
                "A request with this idempotency key is being worked on",
                "Send it again with the same key after the time in Retry-After: you get the answer of the first one.".to_owned(),
            ),
            Self::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "idempotency-keys-unavailable",
                "It could not be looked up whether this request was made before",
                "Nothing was done. Send it again with the same key after the time in Retry-After.".to_owned(),
            ),
        }
    }

    pub(super) fn response(&self) -> Response<Full<Bytes>> {
        let (status, kind, title, detail) = self.told();
        let told = serde_json::json!({
            "type": format!("urn:postrider:{kind}"), "title": title, "status": status.as_u16(), "detail": detail,
        });
        let mut response = Response::new(Full::from(told.to_string()));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        let retry_after = match self {
            Self::InProgress(after) => Some(*after),
            Self::Unavailable => Some(Duration::from_secs(1)),
            _ => None,
        };
        if let Some(after) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(whole_seconds(after)));
        }
        response
    }
}

/// Never too early.
fn whole_seconds(after: Duration) -> u64 {
    (after.as_secs() + u64::from(after.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_when_to_come_again() {
        for (millis, seconds) in [(0, "1"), (1_000, "1"), (1_001, "2"), (59_999, "60")] {
            let response = Problem::InProgress(Duration::from_millis(millis)).response();
            assert_eq!(
                (response.status(), &response.headers()[RETRY_AFTER]),
                (StatusCode::CONFLICT, &HeaderValue::from_static(seconds))
            );
            assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        }
        assert!(!Problem::OtherRequest.response().headers().contains_key(RETRY_AFTER));
    }
}
