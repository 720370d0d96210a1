//! The context of the current OpenTelemetry span, captured by the call.

use opentelemetry::baggage::BaggageExt as _;
use opentelemetry::trace::{TraceContextExt as _, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracerProvider;
use postrider::{Headers, Message, Outbox};
use rusqlite::Connection;

fn headers_of(messages: Vec<Message>) -> Vec<Headers> {
    let mut connection = Connection::open_in_memory().unwrap();
    postrider::migrate(&connection).unwrap();
    let tx = connection.transaction().unwrap();
    Outbox::new().enqueue_all(&tx, messages).unwrap();
    let mut select = tx.prepare("select coalesce(headers, '{}') from postrider_outbox order by id").unwrap();
    let rows = select.query_map((), |row| row.get::<_, String>(0)).unwrap();
    rows.map(|text| Headers::from_json(&text.unwrap()).unwrap()).collect()
}

/// Runs `work` in a span of a real tracer with some baggage, and tells the `traceparent` of that span.
fn in_a_span<R>(work: impl FnOnce() -> R) -> (String, R) {
    let provider = SdkTracerProvider::builder().build();
    let span = provider.tracer("test").start("place order");
    let context = Context::current_with_span(span).with_baggage([KeyValue::new("tenant", "blue, green")]);
    let told = context.span().span_context().clone();
    let _entered = context.attach();
    (format!("00-{}-{}-01", told.trace_id(), told.span_id()), work())
}

#[test]
fn the_span_and_the_baggage_of_the_moment_are_in_the_headers() {
    let (parent, headers) =
        in_a_span(|| headers_of(vec![Message::new("t", "").header("own", "1"), Message::new("t", "")]));
    for headers in &headers {
        assert_eq!(headers.get("traceparent"), Some(parent.as_str()));
        assert_eq!(headers.get("baggage"), Some("tenant=blue%2C%20green"));
        assert_eq!(headers.get("tracestate"), None);
    }
    assert_eq!(headers[0].iter().next(), Some(("own", "1")));
}

#[test]
fn a_context_that_the_caller_set_is_kept_whole() {
    let own = Message::new("t", "").header("Traceparent", "00-own-own-00").header("baggage", "a=b");
    let (_, headers) = in_a_span(|| headers_of(vec![own]));
    let expected = [("Traceparent", "00-own-own-00"), ("baggage", "a=b")];
    assert!(headers[0].iter().eq(expected), "{headers:?}");
}

#[test]
fn without_a_span_there_are_no_trace_headers() {
    assert!(headers_of(vec![Message::new("t", "")])[0].is_empty());
}

#[test]
fn a_message_with_every_header_taken_is_still_written() {
    let full = (0..64).fold(Message::new("t", ""), |message, n| message.header(format!("h{n}"), "v"));
    let (_, headers) = in_a_span(|| headers_of(vec![full]));
    assert_eq!(headers[0].len(), 64);
    assert_eq!(headers[0].get("traceparent"), None);
}
