//! How a destination is made from a message, and how much of that a message may decide.
//!
//! A destination comes from the configuration. What a message may put into it beside its topic, which its route's pattern
//! bounds, is what an [`AllowList`] lists, and nothing else.

use std::fmt;

use crate::address::Destination;
use crate::message::Message;
use crate::retry::TopicPattern;

/// The most places, or patterns of places, that are told of one template.
pub const MAX_PLACES: usize = 64;
/// The most characters of a value that an error shows.
const MOST_SHOWN: usize = 60;
/// The most allowed values that an error shows.
const MOST_ALLOWED_SHOWN: usize = 5;

/// What a message may decide, beside its topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Placeholder {
    /// Its key: `{key}`.
    Key,
    /// The value of a header: `{header.NAME}`.
    Header(String),
}

impl Placeholder {
    /// Reads what stands between the braces: `key` or `header.NAME`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix("header.") {
            Some("") => None,
            Some(name) => Some(Self::Header(name.to_owned())),
            None => (text == "key").then_some(Self::Key),
        }
    }

    fn value<'m>(&self, message: &'m Message) -> Option<&'m str> {
        match self {
            Self::Key => message.key.as_ref().map(crate::message::Key::as_str),
            Self::Header(name) => message.headers.get(name),
        }
    }

    fn told(&self) -> String {
        match self {
            Self::Key => "key".to_owned(),
            Self::Header(name) => format!("header {name:?}"),
        }
    }
}

impl fmt::Display for Placeholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => f.write_str("key"),
            Self::Header(name) => write!(f, "header.{name}"),
        }
    }
}

/// A value that a message may put into a destination: a text in which `*` stands for one or more letters, digits, `-`
/// and `_` of ASCII.
///
/// What `*` stands for joins no words and no folders: no value that matches has a dot, a slash or a blank that the
/// pattern does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValuePattern(String);

impl ValuePattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong, in words, for an empty one and one with blanks or control characters.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(format!(
                "{text:?} is no value that may be allowed: write one without blanks, such as \"eu-*\""
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether a value is allowed.
    pub fn matches(&self, value: &str) -> bool {
        if self.is_exact() {
            return self.0 == value;
        }
        // Each place of the pattern at which the value read so far may stand; behind a star it may stay.
        let pattern: Vec<char> = self.0.chars().collect();
        let mut at = vec![false; pattern.len() + 1];
        at[0] = true;
        for c in value.chars() {
            let mut next = vec![false; pattern.len() + 1];
            for (place, wanted) in pattern.iter().enumerate() {
                next[place + 1] |= match wanted {
                    '*' => is_of_a_word(c) && (at[place] || at[place + 1]),
                    wanted => at[place] && *wanted == c,
                };
            }
            if !next.contains(&true) {
                return false;
            }
            at = next;
        }
        at[pattern.len()]
    }

    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_exact(&self) -> bool {
        !self.0.contains('*')
    }

    /// Whether nothing but strokes and dots of a value comes from the list.
    fn is_free(&self) -> bool {
        !self.is_exact() && !self.0.contains(char::is_alphanumeric)
    }
}

const fn is_of_a_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

/// What messages may decide of a destination, by placeholder. The default allows nothing but the topic.
///
/// ```
/// # use postrider_core::{AllowList, DestinationTemplate, Message, Placeholder};
/// let allowed = AllowList::default().allow(Placeholder::Header("region".to_owned()), ["eu", "us-*"])?;
/// let template = DestinationTemplate::allowing("orders.{header.region}", &allowed)?;
/// let message = Message::new("orders.placed", "x").header("region", "us-east");
/// assert_eq!(template.render(&message)?.as_str(), "orders.us-east");
/// assert!(template.render(&message.header("region", "mars")).is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowList(Vec<(Placeholder, Vec<ValuePattern>)>);

impl AllowList {
    /// The same list with the values that may stand for a placeholder.
    ///
    /// # Errors
    /// What is wrong, in words: a bad [pattern](ValuePattern::parse), no value at all, a placeholder for the second time.
    pub fn allow<'v>(
        mut self,
        placeholder: Placeholder,
        values: impl IntoIterator<Item = &'v str>,
    ) -> Result<Self, String> {
        let values: Vec<_> = values.into_iter().map(ValuePattern::parse).collect::<Result<_, _>>()?;
        if values.is_empty() {
            return Err(format!("nothing is allowed for {{{placeholder}}}: list at least one value"));
        }
        if self.of(&placeholder).is_some() {
            return Err(format!("the values of {{{placeholder}}} are listed twice"));
        }
        self.0.push((placeholder, values));
        Ok(self)
    }

    fn of(&self, placeholder: &Placeholder) -> Option<&[ValuePattern]> {
        self.0.iter().find(|(known, _)| known == placeholder).map(|(_, values)| values.as_slice())
    }
}

/// How a destination is made from a message: literal text, `{topic}`, and as far as an [`AllowList`] goes `{key}` and
/// `{header.NAME}`.
///
/// ```
/// # use postrider_core::{DestinationTemplate, Message};
/// let template = DestinationTemplate::parse("events.{topic}").unwrap();
/// let destination = template.render(&Message::new("orders.placed", "x")).unwrap();
/// assert_eq!(destination.as_str(), "events.orders.placed");
/// assert!(DestinationTemplate::parse("{nonsense}").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationTemplate(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Topic,
    Chosen(Placeholder, Vec<ValuePattern>),
}

impl DestinationTemplate {
    /// The default: the topic itself.
    pub fn topic() -> Self {
        Self(vec![Part::Topic])
    }

    /// Reads a template of literal text and `{topic}`, so that every message has a place.
    ///
    /// # Errors
    /// What is wrong, in words, for a placeholder that is not known or needs an allow-list, or a brace that is alone.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::allowing(text, &AllowList::default())
    }

    /// Reads a template in which messages may decide as much as a list allows.
    ///
    /// # Errors
    /// What is wrong, in words: the same as [`parse`](Self::parse), a placeholder without a list, a list for which there is
    /// no placeholder, and a template in which a message alone would decide everything.
    pub fn allowing(text: &str, allowed: &AllowList) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let (literal, tail) = rest.split_at(open);
            let close = tail.find('}').ok_or_else(|| format!("{text:?} has a '{{' that is not closed"))?;
            parts.extend(Part::literal(text, literal)?);
            parts.push(Part::placeholder(text, &tail[1..close], allowed)?);
            rest = &tail[close + 1..];
        }
        parts.extend(Part::literal(text, rest)?);
        let template = Self(parts);
        if let Some((unused, _)) = allowed.0.iter().find(|(placeholder, _)| !template.names(placeholder)) {
            return Err(format!("values are allowed for {{{unused}}}, which {text:?} does not name"));
        }
        if template.is_the_messages_alone() {
            return Err(format!(
                "with {text:?} and a value such as \"*\" a message alone would decide where it goes: write a text beside the \
                 placeholder, or list the values"
            ));
        }
        Ok(template)
    }

    /// The destination of a message.
    ///
    /// # Errors
    /// Why the message has no place, where it lacks what the template names or has a value that is not allowed: what was
    /// found, and what to do.
    pub fn render(&self, message: &Message) -> Result<Destination, String> {
        if let [Part::Topic] = self.0.as_slice() {
            return Ok(Destination::of(&message.topic));
        }
        let mut place = String::new();
        for part in &self.0 {
            place.push_str(match part {
                Part::Literal(text) => text,
                Part::Topic => message.topic.as_str(),
                Part::Chosen(placeholder, allowed) => self.chosen(placeholder, allowed, message)?,
            });
        }
        Ok(Destination::new(&place))
    }

    fn chosen<'m>(
        &self,
        placeholder: &Placeholder,
        allowed: &[ValuePattern],
        message: &'m Message,
    ) -> Result<&'m str, String> {
        let told = placeholder.told();
        let Some(value) = placeholder.value(message) else {
            return Err(format!(
                "it has no {told}, which the destination \"{self}\" names; write the {told} when the message is \
                 enqueued, or let another route lead its topic"
            ));
        };
        if allowed.iter().any(|pattern| pattern.matches(value)) {
            return Ok(value);
        }
        let shown: String = value.chars().take(MOST_SHOWN).collect();
        let rest = if shown.len() < value.len() { " and more" } else { "" };
        let more = if allowed.len() > MOST_ALLOWED_SHOWN { ", ..." } else { "" };
        let allowed: Vec<&str> = allowed.iter().take(MOST_ALLOWED_SHOWN).map(ValuePattern::as_str).collect();
        Err(format!(
            "its {told} is {shown:?}{rest}, and allow.{placeholder} lists {}{more}; add the value there and restart the relay, or \
             correct what writes the message",
            allowed.join(", ")
        ))
    }

    /// Whether every message has a place: no value of a message is asked for but its topic.
    pub fn is_certain(&self) -> bool {
        !self.0.iter().any(|part| matches!(part, Part::Chosen(..)))
    }

    /// The template for messages of one topic, or with `{topic}` for those of any: two that are written alike lead a
    /// message to the same place.
    pub fn for_topic(&self, topic: &str) -> String {
        let text = |part: &Part| match part {
            Part::Literal(text) => text.clone(),
            Part::Topic => topic.to_owned(),
            Part::Chosen(placeholder, _) => format!("{{{placeholder}}}"),
        };
        self.0.iter().map(text).collect()
    }

    /// Every place that messages of a topic can have, with `*` where an allowed value has one: at most [`MAX_PLACES`],
    /// and none where there are more. The topic may be a pattern of topics.
    pub fn patterns(&self, topic: &str) -> Option<Vec<String>> {
        let mut places = vec![String::new()];
        for part in &self.0 {
            let values: Vec<&str> = match part {
                Part::Literal(text) => vec![text.as_str()],
                Part::Topic => vec![topic],
                Part::Chosen(_, allowed) => allowed.iter().map(ValuePattern::as_str).collect(),
            };
            if places.len() * values.len() > MAX_PLACES {
                return None;
            }
            let with_each = |place: &String| values.iter().map(|value| format!("{place}{value}")).collect::<Vec<_>>();
            places = places.iter().flat_map(with_each).collect();
        }
        Some(places)
    }

    /// Every place that a message can have, where these are few and do not depend on its topic.
    pub fn places(&self) -> Option<Vec<Destination>> {
        let depends = |part: &Part| match part {
            Part::Literal(_) => false,
            Part::Topic => true,
            Part::Chosen(_, allowed) => !allowed.iter().all(ValuePattern::is_exact),
        };
        if self.0.iter().any(depends) {
            return None;
        }
        let places = self.patterns("")?;
        Some(places.iter().map(|place| Destination::new(place)).collect())
    }

    /// Whether messages of a topic that both patterns match go to one place by both templates; what only their own data could
    /// make one place is not seen.
    pub fn meets(&self, topics: &TopicPattern, other: &Self, their_topics: &TopicPattern) -> bool {
        let topic = topics.only().or_else(|| their_topics.only()).unwrap_or_else(|| "{topic}".to_owned());
        topics.overlaps(their_topics) && self.for_topic(&topic) == other.for_topic(&topic)
    }

    fn names(&self, placeholder: &Placeholder) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Chosen(known, _) if known == placeholder))
    }

    /// Whether nothing of a place comes from the configuration: no text, no topic, and no listed value.
    fn is_the_messages_alone(&self) -> bool {
        let is_free = |part: &Part| match part {
            Part::Literal(_) | Part::Topic => false,
            Part::Chosen(_, allowed) => allowed.iter().any(ValuePattern::is_free),
        };
        !self.0.is_empty() && self.0.iter().all(is_free)
    }
}

impl Part {
    /// What stands between two placeholders, if there is anything.
    fn literal(text: &str, between: &str) -> Result<Option<Self>, String> {
        if between.contains('}') {
            return Err(format!("{text:?} has a '}}' without a '{{' before it"));
        }
        Ok((!between.is_empty()).then(|| Self::Literal(between.to_owned())))
    }

    fn placeholder(text: &str, inside: &str, allowed: &AllowList) -> Result<Self, String> {
        if inside == "topic" {
            return Ok(Self::Topic);
        }
        let placeholder = Placeholder::parse(inside).ok_or_else(|| {
            format!("{text:?} names {{{inside}}}; the placeholders are {{topic}}, {{key}} and {{header.NAME}}")
        })?;
        let values = allowed.of(&placeholder).ok_or_else(|| {
            format!(
                "{text:?} names {{{placeholder}}}, and nothing says which values messages may put there; list them, such \
                 as allow.{placeholder} = [\"eu\", \"us-*\"]"
            )
        })?;
        Ok(Self::Chosen(placeholder, values.to_vec()))
    }
}

/// As it was written.
impl fmt::Display for DestinationTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.for_topic("{topic}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions() -> AllowList {
        AllowList::default().allow(Placeholder::Header("region".to_owned()), ["eu", "us-*"]).unwrap()
    }

    fn keys(values: &[&str]) -> AllowList {
        AllowList::default().allow(Placeholder::Key, values.iter().copied()).unwrap()
    }

    #[test]
    fn the_topic_stands_wherever_the_template_names_it() {
        let render = |text: &str| {
            let template = DestinationTemplate::parse(text).unwrap();
            let rendered = template.render(&Message::new("a.b", "x")).unwrap();
            assert_eq!((template.for_topic("a.b").as_str(), template.to_string().as_str()), (rendered.as_str(), text));
            assert_eq!(template.patterns("a.b").unwrap(), [rendered.as_str()]);
            assert!(template.is_certain());
            rendered.to_string()
        };
        let places = ["{topic}", "fixed", "x.{topic}", "{topic}.y", "x.{topic}.y.{topic}", ""];
        assert_eq!(places.map(render), ["a.b", "fixed", "x.a.b", "a.b.y", "x.a.b.y.a.b", ""]);
        assert_eq!(DestinationTemplate::parse("{topic}"), Ok(DestinationTemplate::topic()), "nothing empty beside it");
        for wrong in ["{", "x.{topic", "{}", "{keys}", "{header}", "{header.}", "{Topic}"] {
            assert!(DestinationTemplate::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn key_and_headers_stand_in_a_place_as_far_as_the_list_allows() {
        let allowed = regions().allow(Placeholder::Key, ["order-*"]).unwrap();
        let template = DestinationTemplate::allowing("{header.region}/{topic}/{key}", &allowed).unwrap();
        assert!(!template.is_certain());
        assert_eq!(template.to_string(), "{header.region}/{topic}/{key}");
        let message = |region: &str, key: &str| Message::new("placed", "x").key(key).header("region", region);
        let place = |region: &str, key: &str| template.render(&message(region, key)).map(|place| place.to_string());
        assert_eq!(place("eu", "order-7"), Ok("eu/placed/order-7".to_owned()));
        assert_eq!(place("us-1", "order-x_Y"), Ok("us-1/placed/order-x_Y".to_owned()));
        for (region, key) in
            [("mars", "order-7"), ("eu", "7"), ("us-", "order-7"), ("us-a/b", "order-7"), ("us-a.b", "order-7")]
        {
            assert!(place(region, key).is_err(), "{region} {key}");
        }
    }

    #[test]
    fn a_message_without_a_place_is_told_what_was_found_and_what_to_do() {
        let template = DestinationTemplate::allowing("orders.{header.region}", &regions()).unwrap();
        let bare = Message::new("t", "x");
        let missing = template.render(&bare).unwrap_err();
        assert!(missing.contains("it has no header \"region\"") && missing.contains("enqueued"), "{missing}");
        let refused = template.render(&bare.header("region", "mars\n")).unwrap_err();
        let words = ["\"mars\\n\"", "allow.header.region lists eu, us-*", "add the value there and restart the relay"];
        assert!(words.iter().all(|word| refused.contains(word)), "{refused}");
        let long = template.render(&Message::new("t", "x").header("region", "y".repeat(1_000))).unwrap_err();
        assert!(long.len() < 300, "{long}");
        let keyless = DestinationTemplate::allowing("k.{key}", &keys(&["*"])).unwrap();
        assert!(keyless.render(&Message::new("t", "x")).unwrap_err().contains("it has no key"));
    }

    #[test]
    fn what_messages_may_decide_is_listed_and_nothing_is_listed_in_vain() {
        let refused = |text: &str, allowed: &AllowList| DestinationTemplate::allowing(text, allowed).unwrap_err();
        let nothing = AllowList::default();
        assert!(refused("x.{key}", &nothing).contains("allow.key = [\"eu\", \"us-*\"]"));
        assert!(refused("x.{header.region}", &keys(&["eu"])).contains("{header.region}"));
        assert!(refused("x.{topic}", &keys(&["eu"])).contains("does not name"));
        assert!(nothing.clone().allow(Placeholder::Key, []).is_err());
        assert!(nothing.clone().allow(Placeholder::Key, ["eu", ""]).is_err());
        assert!(nothing.allow(Placeholder::Key, ["a b"]).is_err());
        assert!(keys(&["eu"]).allow(Placeholder::Key, ["us"]).is_err());
    }

    #[test]
    fn a_message_alone_never_decides_where_it_goes() {
        for (text, values, goes) in [
            ("{key}", &["*"][..], false),
            ("{key}", &["eu", "*"], false),
            ("{key}", &["*-*"], false),
            ("{key}", &["*.*"], false),
            ("{key}", &["eu", "us-*"], true),
            ("{key}{key}", &["*"], false),
            ("orders.{key}", &["*"], true),
            ("{topic}.{key}", &["*"], true),
        ] {
            let read = DestinationTemplate::allowing(text, &keys(values));
            assert_eq!(read.is_ok(), goes, "{text} {values:?}: {read:?}");
        }
    }

    #[test]
    fn a_star_stands_for_letters_digits_and_strokes_and_for_one_at_least() {
        let matches = |pattern: &str, value: &str| ValuePattern::parse(pattern).unwrap().matches(value);
        for (pattern, good) in [
            ("eu", &["eu"][..]),
            ("*", &["a", "A-1_b"]),
            ("eu-*", &["eu-1", "eu--"]),
            ("*-eu-*", &["a-eu-b", "a-eu-eu-b", "-eu-eu-eu-"]),
            ("a*b*", &["axbx", "axxbbb", "abbb"]),
            ("v*.*", &["v1.2"]),
        ] {
            assert!(good.iter().all(|value| matches(pattern, value)), "{pattern}");
        }
        for (pattern, bad) in [
            ("eu", &["", "e", "eu1", "EU"][..]),
            ("*", &["", ".", "a.b", "a/b", "a b", "\u{fc}", ">", "*"]),
            ("eu-*", &["eu-", "eu", "eu-a.b"]),
            ("a*b*", &["ab", "abb", "axb", "a.b1"]),
            ("v*.*", &["v1.", "v.2", "v1.2.3"]),
        ] {
            assert!(!bad.iter().any(|value| matches(pattern, value)), "{pattern}");
        }
    }

    #[test]
    fn the_places_of_a_template_are_known_where_they_are_few() {
        let places = |text: &str, allowed: &AllowList| {
            let template = DestinationTemplate::allowing(text, allowed).unwrap();
            template.places().map(|places| places.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let nothing = AllowList::default();
        assert_eq!(places("events", &nothing), Some(vec!["events".to_owned()]));
        assert_eq!(places("", &nothing), Some(vec![String::new()]));
        assert_eq!((places("{topic}", &nothing), places("events.{topic}", &nothing)), (None, None));
        assert_eq!(places("o.{key}", &keys(&["eu", "us"])), Some(vec!["o.eu".to_owned(), "o.us".to_owned()]));
        assert_eq!(places("o.{key}", &keys(&["eu", "us-*"])), None);
        let many: Vec<String> = (0..=MAX_PLACES).map(|n| n.to_string()).collect();
        assert_eq!(places("o.{key}", &keys(&many.iter().map(String::as_str).collect::<Vec<_>>())), None);
    }

    #[test]
    fn the_patterns_of_a_template_have_every_allowed_value() {
        let template = DestinationTemplate::allowing("{header.region}.{topic}", &regions()).unwrap();
        assert_eq!(template.patterns("orders.*").unwrap(), ["eu.orders.*", "us-*.orders.*"]);
        assert_eq!(template.for_topic("orders"), "{header.region}.orders");
    }
}
