//! The trace context of the moment in which a message is enqueued.

use postrider_core::Message;

#[cfg(not(feature = "opentelemetry"))]
pub(crate) fn capture(_messages: &mut [Message]) {}

/// Puts the current OpenTelemetry context into the headers of messages that carry none.
///
/// A message with a `traceparent` of its caller's keeps that context whole: no `tracestate` of another is put beside
/// it. What does not fit the limits of a message is left out, because tracing must not fail a transaction.
#[cfg(feature = "opentelemetry")]
pub(crate) fn capture(messages: &mut [Message]) {
    use opentelemetry::Context;
    use opentelemetry::propagation::TextMapPropagator;
    use opentelemetry_sdk::propagation::{BaggagePropagator, TraceContextPropagator};

    let context = Context::current();
    let (mut trace, mut baggage) = (Found::default(), Found::default());
    TraceContextPropagator::new().inject_context(&context, &mut trace);
    BaggagePropagator::new().inject_context(&context, &mut baggage);
    for message in messages {
        for found in [&trace, &baggage] {
            found.put_into(message);
        }
    }
}

/// The headers of one propagator.
#[cfg(feature = "opentelemetry")]
#[derive(Default)]
struct Found(Vec<(String, String)>);

#[cfg(feature = "opentelemetry")]
impl opentelemetry::propagation::Injector for Found {
    fn set(&mut self, name: &str, value: String) {
        if !value.is_empty() {
            self.0.push((name.to_owned(), value));
        }
    }
}

#[cfg(feature = "opentelemetry")]
impl Found {
    fn put_into(&self, message: &mut Message) {
        let taken = |name: &str| message.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        if self.0.iter().any(|(name, _)| taken(name)) {
            return;
        }
        for (name, value) in &self.0 {
            let fits = value.len() <= postrider_core::MAX_HEADER_VALUE && !value.chars().any(char::is_control);
            if fits && message.headers.len() < postrider_core::MAX_HEADERS {
                message.headers.set(name, value);
            }
        }
    }
}
