//! What one message looks like as a request.

use std::time::{SystemTime, UNIX_EPOCH};

use postrider_core::{Error, ErrorKind, Outgoing, Result};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::settings::Settings;
use crate::dead_letter::kept_as;

/// Headers that frame the request, carry its credentials or belong to the webhook specification.
const OURS: [&str; 16] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "authorization",
    "cookie",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
];

/// The attribute that says a path below the destination.
const PATH: &str = "http.path";

/// The URL of one message.
///
/// # Errors
/// `Rejected` when a path is none, or the message asks of HTTP what it does not know.
pub(super) fn url(settings: &Settings, outgoing: &Outgoing) -> Result<Url> {
    let attributes = &outgoing.message.attributes;
    if let Some((name, _)) = attributes.iter().find(|(name, _)| name.starts_with("http.") && *name != PATH) {
        return Err(Error::new(ErrorKind::Rejected, format!("the attribute {name:?}: expected {PATH}, the only one")));
    }
    below(settings, outgoing.destination.as_str(), attributes.get(PATH))
}

/// The configured URL with a destination and an `http.path` below it. Nothing but the path can change.
///
/// # Errors
/// `Rejected` when either is no plain path.
pub(super) fn below(settings: &Settings, destination: &str, path: Option<&str>) -> Result<Url> {
    // A destination without a leading slash is a topic or a name, not a place.
    let destination = Some(destination).filter(|text| text.starts_with('/'));
    let mut url = settings.url.clone();
    let mut whole = url.path().to_owned();
    for (what, part) in [("the destination", destination), ("the attribute http.path", path)] {
        let Some(part) = part else { continue };
        if !plain(part) {
            let text = format!(
                "{what} is not a plain path: expected words joined by single slashes, without '.' or '..' as a word and \
                 without ? # % \\ : and blanks"
            );
            return Err(Error::new(ErrorKind::Rejected, text));
        }
        whole.truncate(whole.trim_end_matches('/').len());
        whole.push('/');
        whole.push_str(part.trim_start_matches('/'));
    }
    url.set_path(&whole);
    Ok(url)
}

fn plain(path: &str) -> bool {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    path.split('/').all(|word| {
        !matches!(word, "" | "." | "..")
            && !word.chars().any(|c| c.is_control() || c.is_whitespace() || "?#%\\:".contains(c))
    })
}

/// The headers of one message.
///
/// # Errors
/// `Rejected` when the message sets a header that is not its own.
pub(super) fn headers(settings: &Settings, outgoing: &Outgoing) -> Result<HeaderMap> {
    let message = &outgoing.message;
    let mut headers = HeaderMap::new();
    for (name, value) in message.headers.iter() {
        let lower = name.to_ascii_lowercase();
        if OURS.contains(&lower.as_str()) {
            // A message that another producer sent may have it, and its dead letter is to be kept like any other.
            if outgoing.given_up.is_some() {
                headers.append(header_name(&kept_as(name))?, header_value(name, value)?);
                continue;
            }
            let text = format!("the header {name:?} belongs to the HTTP broker; a message can't set it: rename it");
            return Err(Error::new(ErrorKind::Rejected, text));
        }
        headers.append(header_name(&lower)?, header_value(name, value)?);
    }
    if let Some(content_type) = &message.content_type {
        headers.insert(CONTENT_TYPE, header_value("content-type", content_type)?);
    }
    for (name, value) in outgoing.wire_headers() {
        headers.insert(HeaderName::from_static(name), header_value(name, &value)?);
    }
    let id = message.id.to_string();
    let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if let Some(signer) = &settings.signer {
        let signature = signer.sign(&id, timestamp, &message.payload);
        headers.insert(HeaderName::from_static("webhook-signature"), header_value("webhook-signature", &signature)?);
    }
    headers.insert(HeaderName::from_static("webhook-id"), header_value("webhook-id", &id)?);
    headers.insert(HeaderName::from_static("webhook-timestamp"), HeaderValue::from(timestamp));
    if let Some(authorization) = &settings.authorization {
        let mut value = header_value("authorization", authorization.reveal())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

fn header_name(name: &str) -> Result<HeaderName> {
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| Error::new(ErrorKind::Rejected, format!("{name:?} can't be the name of an HTTP header")))
}

fn header_value(name: &str, value: &str) -> Result<HeaderValue> {
    HeaderValue::from_bytes(value.as_bytes())
        .map_err(|_| Error::new(ErrorKind::Rejected, format!("the value of {name:?} can't be an HTTP header's")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postrider_core::{Attempt, DeadReason, Destination, GivenUp, Lane, Message, Term};

    use super::*;
    use crate::config::BrokerConfig;

    fn settings(url: &str) -> Settings {
        Settings::parse(&BrokerConfig::new(url)).unwrap()
    }

    #[test]
    fn a_path_is_appended_and_nothing_else_of_the_url_changes() {
        let settings = settings("http://127.0.0.1:9/hooks/?tenant=blue");
        let below = |destination, path| below(&settings, destination, path).unwrap().to_string();
        assert_eq!(below("orders.placed", None), "http://127.0.0.1:9/hooks/?tenant=blue");
        assert_eq!(below("/orders", None), "http://127.0.0.1:9/hooks/orders?tenant=blue");
        assert_eq!(below("/orders/", Some("/placed/7")), "http://127.0.0.1:9/hooks/orders/placed/7?tenant=blue");
        assert_eq!(below("x", Some("@evil.example")), "http://127.0.0.1:9/hooks/@evil.example?tenant=blue");
    }

    #[test]
    fn a_path_that_could_leave_its_place_is_rejected() {
        let settings = settings("http://127.0.0.1:9/hooks");
        for bad in [
            "..",
            "/../admin",
            "a/../b",
            "a/./b",
            "//evil.example",
            "a//b",
            "http://evil.example/",
            "a?b",
            "a#b",
            "%2e%2e",
            "a\\b",
            "a b",
            "a\tb",
            "",
        ] {
            let error = below(&settings, "", Some(bad)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{bad:?}");
        }
    }

    #[test]
    fn attributes_of_http_are_known_and_those_of_other_brokers_are_let_alone() {
        let settings = settings("http://127.0.0.1:9/hooks");
        let sent = |name: &str| {
            let outgoing = Outgoing {
                message: Arc::new(Message::new("t", "x").attribute(name, "placed")),
                destination: Destination::new("t"),
                attempt: Attempt(1),
                lane: Lane(0),
                term: Term(1),
                given_up: None,
            };
            url(&settings, &outgoing)
        };
        assert_eq!(sent("http.path").unwrap().path(), "/hooks/placed");
        assert_eq!(sent("kafka.partition").unwrap().path(), "/hooks");
        let error = sent("http.pth").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.story().contains("\"http.pth\": expected http.path"), "{error}");
    }

    #[test]
    fn a_dead_letter_has_what_belongs_to_the_request_under_another_name() {
        let settings = settings("http://127.0.0.1:9/hooks");
        let given_up = GivenUp { reason: DeadReason::Attempts, attempts: 9, error: "refused".to_owned() };
        let headers = |given_up: Option<GivenUp>| {
            headers(
                &settings,
                &Outgoing {
                    message: Arc::new(
                        Message::new("t", "x").header("Webhook-Id", "order-7").header("host", "evil.example"),
                    ),
                    destination: Destination::new("t"),
                    attempt: Attempt(1),
                    lane: Lane(0),
                    term: Term(1),
                    given_up: given_up.map(Arc::new),
                },
            )
        };
        assert_eq!(headers(None).unwrap_err().kind(), ErrorKind::Rejected);
        let headers = headers(Some(given_up)).unwrap();
        assert_eq!(
            (&headers["dead-letter-webhook-id"], &headers["dead-letter-host"]),
            (&HeaderValue::from_static("order-7"), &HeaderValue::from_static("evil.example"),)
        );
        assert!(!headers.contains_key("host") && headers["webhook-id"] != "order-7");
    }

    #[test]
    fn user_and_password_leave_the_url_and_are_shown_nowhere() {
        let settings = settings("http://us%2Ber:can%40ary@127.0.0.1:9/canary?canary");
        assert_eq!(settings.authorization.as_ref().unwrap().reveal(), "Basic dXMrZXI6Y2FuQGFyeQ==");
        assert!(settings.url.username().is_empty() && settings.url.password().is_none());
        let debug = format!("{settings:?}");
        assert!(!debug.contains("canary") && !debug.contains("dXMrZXI"), "{debug}");
    }
}
