//! Where a message goes: a destination and its name.

use std::fmt;
use std::sync::Arc;

use crate::message::Message;

/// The configured name of a destination, as it stands in `waiting_for` and in metrics.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationName(Arc<str>);

impl DestinationName {
    /// Names a destination.
    pub fn new(name: &str) -> Self {
        Self(Arc::from(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DestinationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A place inside a broker: a subject, a path, a file.
///
/// It comes from the configuration, never from message data alone; the broker validates it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination(Arc<str>);

impl Destination {
    /// A place inside a broker.
    pub fn new(place: &str) -> Self {
        Self(Arc::from(place))
    }

    /// The place as the broker writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a destination is made from a message: literal text and `{topic}`.
///
/// ```
/// # use postrider_core::{DestinationTemplate, Message};
/// let template = DestinationTemplate::parse("events.{topic}").unwrap();
/// let destination = template.render(&Message::new("orders.placed", "x"));
/// assert_eq!(destination.as_str(), "events.orders.placed");
/// assert!(DestinationTemplate::parse("{nonsense}").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationTemplate(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Topic,
}

impl DestinationTemplate {
    /// The default: the topic itself.
    pub fn topic() -> Self {
        Self(vec![Part::Topic])
    }

    /// Reads a template.
    ///
    /// # Errors
    /// What is wrong, in words, for a placeholder that is not known or a brace that is not closed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let (literal, tail) = rest.split_at(open);
            let close = tail.find('}').ok_or_else(|| format!("{text:?} has a '{{' that is not closed"))?;
            match &tail[1..close] {
                "topic" => {}
                other => return Err(format!("{text:?} names {{{other}}}; the only placeholder is {{topic}}")),
            }
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.to_owned()));
            }
            parts.push(Part::Topic);
            rest = &tail[close + 1..];
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    /// The destination of a message.
    pub fn render(&self, message: &Message) -> Destination {
        if let [Part::Topic] = self.0.as_slice() {
            return Destination(message.topic.shared());
        }
        Destination::new(&self.with_topic(message.topic.as_str()))
    }

    /// The text with this in the place of the topic, which may be a pattern of topics.
    pub fn with_topic(&self, topic: &str) -> String {
        let parts = self.0.iter().map(|part| match part {
            Part::Literal(text) => text.as_str(),
            Part::Topic => topic,
        });
        parts.collect()
    }

    /// The destination, where it is the same for every message.
    pub fn fixed(&self) -> Option<Destination> {
        match self.0.as_slice() {
            [] => Some(Destination::new("")),
            [Part::Literal(text)] => Some(Destination::new(text)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_they_were_given() {
        let (name, place) = (DestinationName::new("billing"), Destination::new("events.orders"));
        assert_eq!((name.as_str(), name.to_string().as_str()), ("billing", "billing"));
        assert_eq!((place.as_str(), place.to_string().as_str()), ("events.orders", "events.orders"));
    }

    #[test]
    fn the_topic_stands_wherever_the_template_names_it() {
        let render = |template: &str| {
            let template = DestinationTemplate::parse(template).unwrap();
            let rendered = template.render(&Message::new("a.b", "x"));
            assert_eq!(template.with_topic("a.b"), rendered.as_str());
            rendered.to_string()
        };
        let places = ["{topic}", "fixed", "x.{topic}", "{topic}.y", "x.{topic}.y.{topic}", ""];
        assert_eq!(places.map(render), ["a.b", "fixed", "x.a.b", "a.b.y", "x.a.b.y.a.b", ""]);
        assert_eq!(DestinationTemplate::parse("{topic}"), Ok(DestinationTemplate::topic()), "nothing empty beside it");
        for wrong in ["{", "x.{topic", "{}", "{key}"] {
            assert!(DestinationTemplate::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_destination_without_a_topic_is_the_same_for_every_message() {
        let fixed = |template: &str| DestinationTemplate::parse(template).unwrap().fixed();
        assert_eq!(fixed("events"), Some(Destination::new("events")));
        assert_eq!(fixed(""), Some(Destination::new("")));
        assert_eq!((fixed("{topic}"), fixed("events.{topic}")), (None, None));
    }
}
