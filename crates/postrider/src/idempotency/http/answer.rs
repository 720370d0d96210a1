//! Answers as HTTP has them, and as they are stored.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use postrider_core::Invalid;
use postrider_stores::keys::StoredAnswer;

/// The answer that is stored of a response: of its headers those that are listed.
pub(crate) fn stored(response: Response<Bytes>, listed: &[HeaderName]) -> Result<StoredAnswer, Invalid> {
    let (parts, body) = response.into_parts();
    let mut headers = Vec::new();
    for (name, value) in parts.headers.iter().filter(|(name, _)| listed.contains(name)) {
        let text = std::str::from_utf8(value.as_bytes()).map_err(|_| Invalid::Grammar {
            what: "the header of the answer",
            found: name.to_string(),
            expected: "expected a value that is UTF-8",
        })?;
        headers.push((name.to_string(), text.to_owned()));
    }
    Ok(StoredAnswer { status: parts.status.as_u16(), headers, body: body.to_vec() })
}

/// The response that a stored answer is: the same bytes whenever it is sent.
pub(crate) fn response(answer: StoredAnswer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    // What was stored was one; another hand may have been at the table.
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = answer.headers.iter().filter_map(|(name, value)| header(name, value)).collect();
    response
}

fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))
}

/// The one value of a header, if it is there once.
pub(super) enum Sent<'r> {
    /// It is not there.
    Missing,
    /// It is there more than once, or no text.
    Unreadable,
    /// It is there.
    Once(&'r str),
}

pub(super) fn sent<'r>(headers: &'r HeaderMap, name: &HeaderName) -> Sent<'r> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Sent::Missing,
        (Some(value), None) => value.to_str().map_or(Sent::Unreadable, Sent::Once),
        (Some(_), Some(_)) => Sent::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use http::header::{CONTENT_TYPE, LINK};

    use super::*;

    #[test]
    fn a_response_is_stored_with_its_listed_headers_and_is_the_same_again() {
        let response_sent = Response::builder()
            .status(201)
            .header("content-type", "text/plain")
            .header("link", "</a>")
            .header("link", "</ä>")
            .header("set-cookie", "session=1")
            .body(Bytes::from_static(b"\0\xff"))
            .unwrap();
        let answer = stored(response_sent, &[CONTENT_TYPE, LINK]).unwrap();
        let again = response(answer.clone());
        assert_eq!((again.status(), again.headers().len()), (StatusCode::CREATED, 3));
        assert_eq!(again.headers()["content-type"], "text/plain");
        let links: Vec<_> = again.headers().get_all(LINK).iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(links, ["</a>".as_bytes(), "</ä>".as_bytes()]);
        assert_eq!(answer.body, b"\0\xff");
    }

    #[test]
    fn a_header_that_cannot_be_stored_is_refused() {
        let value = HeaderValue::from_bytes(b"\xff").unwrap();
        let sent = Response::builder().header("link", value).body(Bytes::new()).unwrap();
        assert!(matches!(stored(sent, &[LINK]), Err(Invalid::Grammar { .. })));
    }
}
