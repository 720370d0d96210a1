//! Whether any topic takes what a route sends, where the topic of Kafka depends on that of the message.

use postrider_core::{DestinationTemplate, Error, ErrorKind, Finding, Result, TopicPattern};

use super::findings;
use super::link::Link;
use super::place;
use super::settings::Settings;
use super::way::Way;

/// The most topics of one route that are looked at.
const MOST: usize = 16;
/// No topic of a message has it.
const MARK: &str = "\u{1}";

/// Looks for topics that the route can send to, and at what weakens their acknowledgements.
///
/// # Errors
/// `Config` when there are none; `Unavailable` or `Config` when the cluster can't be asked.
pub(super) async fn look(
    settings: &Settings,
    link: &Link,
    topics: &TopicPattern,
    destination: &DestinationTemplate,
) -> Result<Vec<Finding>> {
    let metadata = link.line(Way::Batched)?.metadata(None).await?;
    let mut names: Vec<&str> = metadata.topics().iter().map(|topic| topic.name()).collect();
    names.retain(|name| !name.starts_with("__"));
    names.sort_unstable();
    let Some(taken) = taken(&names, topics, destination) else { return Ok(Vec::new()) };
    if taken.is_empty() {
        let example = destination.patterns("orders.placed").and_then(|places| places.first().cloned());
        let text = format!("no topic at {} takes what the route sends for {topics}", settings.shown);
        let example = example.unwrap_or_else(|| destination.for_topic("orders.placed"));
        let step = format!(
            "there is none yet that it sends to, such as {example:?}; {}",
            place::creation(&settings.shown, &example)
        );
        return Err(Error::new(ErrorKind::Config, text).advise(step));
    }
    let mut findings = Vec::new();
    for name in taken.iter().take(MOST) {
        findings::one(settings, name, &metadata, &mut findings).await?;
    }
    Ok(findings)
}

/// The names that a route can send to; none where that can't be told from the template.
fn taken<'a>(names: &[&'a str], topics: &TopicPattern, destination: &DestinationTemplate) -> Option<Vec<&'a str>> {
    let places = destination.patterns(MARK)?;
    let can_be_told = |place: &String| !place.contains('*') && place.matches(MARK).count() <= 1;
    if !places.iter().all(can_be_told) {
        return None;
    }
    let fits = |name: &&str| {
        places.iter().any(|place| match place.split_once(MARK) {
            Some((before, after)) => {
                let topic = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
                topic.is_some_and(|topic| topics.matches(topic))
            }
            None => place == name,
        })
    };
    Some(names.iter().filter(|name| fits(name)).copied().collect())
}

#[cfg(test)]
mod tests {
    use postrider_core::{AllowList, Placeholder};

    use super::*;

    #[test]
    fn a_route_finds_the_topics_that_it_can_send_to() {
        let names = ["eu.orders", "eu.orders.placed", "orders", "orders.placed", "stock"];
        for (topics, destination, expected) in [
            ("#", "{topic}", &names[..]),
            ("orders.#", "{topic}", &["orders", "orders.placed"]),
            ("orders.*", "eu.{topic}", &["eu.orders.placed"]),
            ("billing.#", "{topic}", &[]),
        ] {
            let (topics, destination) =
                (TopicPattern::parse(topics).unwrap(), DestinationTemplate::parse(destination).unwrap());
            assert_eq!(taken(&names, &topics, &destination).unwrap(), expected, "{topics} {destination:?}");
        }
        let twice = DestinationTemplate::parse("{topic}.{topic}").unwrap();
        assert_eq!(taken(&names, &TopicPattern::every(), &twice), None);
    }

    #[test]
    fn topics_of_every_value_that_a_message_may_decide_are_found_where_they_are_listed() {
        let names = ["eu.orders", "us.orders", "us.orders.placed", "orders"];
        let allowing = |values: &[&str]| {
            let allowed = AllowList::default().allow(Placeholder::Key, values.iter().copied()).unwrap();
            DestinationTemplate::allowing("{key}.{topic}", &allowed).unwrap()
        };
        let topics = TopicPattern::parse("orders").unwrap();
        assert_eq!(taken(&names, &topics, &allowing(&["eu", "us"])).unwrap(), ["eu.orders", "us.orders"]);
        assert_eq!(taken(&names, &topics, &allowing(&["eu", "u*"])), None);
    }
}
