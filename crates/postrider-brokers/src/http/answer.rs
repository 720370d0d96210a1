//! What an answer means.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use postrider_core::{Error, ErrorKind, Result};
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use url::Url;

use super::failure;

/// How much of an answer is read at most.
const MAX_BODY: usize = 64 << 10;
/// How many characters of it an error quotes.
const QUOTED: usize = 200;
/// The longest pause a receiver can ask for.
const MAX_DELAY: Duration = Duration::from_secs(3600);

/// Reads an answer to its end, as far as it is bounded, and judges it.
pub(super) async fn judge(shown: &str, mut response: Response) -> Result<()> {
    let status = response.status();
    let mut body = Vec::new();
    let mut torn = None;
    while body.len() < MAX_BODY {
        match response.chunk().await {
            Ok(Some(piece)) => body.extend(piece.iter().take(MAX_BODY - body.len())),
            Ok(None) => break,
            Err(error) => {
                torn = Some(error);
                break;
            }
        }
    }
    if !status.is_success() {
        return Err(refusal(shown, status, response.headers(), response.url(), &body));
    }
    match torn {
        None => Ok(()),
        Some(error) => {
            let text = format!("POST to {shown}: {} and then the answer broke off", status.as_u16());
            Err(Error::new(ErrorKind::Unknown, text).because(failure::bare(error)))
        }
    }
}

fn refusal(shown: &str, status: StatusCode, headers: &HeaderMap, url: &Url, body: &[u8]) -> Error {
    let delay = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(retry_after);
    let kind = kind(status, delay.is_some());
    let mut text = format!("POST to {shown}: {status}");
    if let Some(advice) = advice(status, headers, url) {
        text.push_str("; ");
        text.push_str(&advice);
    }
    let quoted = quote(body);
    if !quoted.is_empty() {
        text.push_str("; it says: ");
        text.push_str(&quoted);
    }
    match delay {
        Some(delay) if kind == ErrorKind::Throttled => Error::new(kind, text).retry_after(delay),
        _ => Error::new(kind, text),
    }
}

fn kind(status: StatusCode, asks_for_a_pause: bool) -> ErrorKind {
    match status.as_u16() {
        300..=399 | 401 | 403 | 404 | 405 | 407 | 410 => ErrorKind::Config,
        408 | 425 | 429 => ErrorKind::Throttled,
        503 if asks_for_a_pause => ErrorKind::Throttled,
        400..=499 => ErrorKind::Rejected,
        _ => ErrorKind::Unavailable,
    }
}

fn advice(status: StatusCode, headers: &HeaderMap, url: &Url) -> Option<String> {
    Some(match status.as_u16() {
        300..=399 => {
            let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
            let host = location.and_then(|location| url.join(location).ok());
            let host = host.map(|url| url.origin().ascii_serialization()).unwrap_or_else(|| "nowhere".to_owned());
            format!("redirects are not followed (it leads to {host}): configure the final URL")
        }
        401 | 403 => "check token, secret and the user of the URL".to_owned(),
        404 | 405 => "check the path of the URL, or start the receiver".to_owned(),
        410 => "the receiver asks to stop: remove the destination or configure its new URL".to_owned(),
        413 => "the payload is too large for the receiver".to_owned(),
        _ => return None,
    })
}

/// Reads `Retry-After`: seconds or a date, at most an hour.
fn retry_after(text: &str) -> Option<Duration> {
    let text = text.trim();
    let delay = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = DateTimeParser::new().parse_timestamp(text).ok()?;
            let seconds = at.duration_since(Timestamp::now()).as_secs();
            Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
        }
    };
    Some(delay.min(MAX_DELAY))
}

/// The beginning of a text, without anything that a terminal or a log could mistake.
fn quote(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let mut quoted = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !quoted.is_empty() {
            quoted.push(' ');
        }
        quoted.push_str(word);
        if quoted.len() > 4 * QUOTED {
            break;
        }
    }
    quoted.chars().take(QUOTED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_answers() {
        use ErrorKind as K;
        let table = [
            (K::Config, &[300, 301, 302, 304, 307, 308, 401, 403, 404, 405, 407, 410][..]),
            (K::Throttled, &[408, 425, 429]),
            (K::Rejected, &[400, 402, 406, 409, 411, 413, 414, 415, 418, 421, 422, 431, 451, 499]),
            (K::Unavailable, &[500, 501, 502, 503, 504, 511, 599, 600, 999]),
        ];
        for (expected, statuses) in table {
            for status in statuses {
                assert_eq!(kind(StatusCode::from_u16(*status).unwrap(), false), expected, "{status}");
            }
        }
        assert_eq!(kind(StatusCode::SERVICE_UNAVAILABLE, true), K::Throttled);
        assert_eq!(kind(StatusCode::INTERNAL_SERVER_ERROR, true), K::Unavailable);
    }

    #[test]
    fn a_pause_is_asked_for_in_seconds_or_as_a_date_and_is_bounded() {
        assert_eq!(retry_after("7"), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("99999999"), Some(MAX_DELAY));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(retry_after("Thu, 31 Dec 2099 23:59:59 GMT"), Some(MAX_DELAY));
        for bad in ["", "soon", "-1", "1.5", "99999999999999999999999"] {
            assert_eq!(retry_after(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_quoted_is_short_and_harmless() {
        assert_eq!(quote(b" a\r\n\x1b[31m b\xff "), "a [31m b\u{fffd}");
        assert_eq!(quote(&vec![b'x'; 70_000]).len(), QUOTED);
    }
}
