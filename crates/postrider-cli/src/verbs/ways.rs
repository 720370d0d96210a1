//! Where messages go, as the broker there sees it: the doctor's part about brokers.

use postrider_core::{Broker, Destination, DestinationTemplate, Finding, Level, TopicPattern};

use super::check::{failed, finding};
use crate::config::{BrokerSection, Config};
use crate::failure::{Failure, Outcome};
use crate::wiring;

/// The most places of one broker that are asked about because messages wait for them.
const MOST_AWAITED: usize = 64;

/// What messages of some topics take to a place in a broker.
struct Way<'c> {
    broker: &'c str,
    topics: Vec<TopicPattern>,
    destination: &'c DestinationTemplate,
}

/// What a broker says of itself and of the places that messages are sent to. `waiting` are the topics of messages that wait.
pub(super) async fn findings(config: &Config, section: &BrokerSection, waiting: &[String]) -> Vec<Finding> {
    let subject = format!("broker {}", section.name);
    let ways: Vec<Way<'_>> = ways(config).filter(|way| way.broker == section.name).collect();
    if ways.is_empty() {
        let advice = "write a [[route]] that leads to it, or leave the section out; the relay does not open it";
        return vec![finding(Level::Warning, &subject, "no route leads to it", advice)];
    }
    let broker = match wiring::broker(section) {
        Ok(broker) => broker,
        Err(failure) => return vec![failed(&subject, &failure)],
    };
    let findings = match along(&*broker, &subject, &ways, waiting).await {
        Ok(findings) if findings.is_empty() => vec![finding(Level::Good, &subject, "reachable", "")],
        Ok(findings) => findings,
        Err(failure) => vec![failed(&subject, &failure)],
    };
    broker.close().await;
    findings
}

/// The routes, and the way of dead letters, whose topics are those of all routes.
fn ways(config: &Config) -> impl Iterator<Item = Way<'_>> {
    let routes = config.routes.iter().map(|route| Way {
        broker: &route.broker,
        topics: route.topics.clone(),
        destination: &route.destination,
    });
    let forward = config.forward.iter().map(|forward| Way {
        broker: &forward.broker,
        topics: config.routes.iter().flat_map(|route| route.topics.clone()).collect(),
        destination: &forward.destination,
    });
    routes.chain(forward)
}

/// What the broker says of the places that the ways lead to: of each that is known, and by the topics where these decide.
async fn along(broker: &dyn Broker, subject: &str, ways: &[Way<'_>], waiting: &[String]) -> Outcome<Vec<Finding>> {
    // One that cannot be reached would say so for each of its places, and each time late.
    let mut findings = broker.check(&[]).await.map_err(|error| Failure::broker(&error))?;
    let awaited = awaited(ways, waiting);
    if awaited.len() > MOST_AWAITED {
        let found = format!("messages wait for {} places, of which {MOST_AWAITED} were looked at", awaited.len());
        findings.push(finding(Level::Good, subject, &found, ""));
    }
    let known = ways.iter().filter_map(|way| way.destination.places()).flatten();
    for place in known.chain(awaited.into_iter().take(MOST_AWAITED)) {
        add(&mut findings, subject, broker.check(&[place]).await);
    }
    for way in ways.iter().filter(|way| way.destination.places().is_none()) {
        for topics in &way.topics {
            add(&mut findings, subject, broker.check_route(topics, way.destination).await);
        }
    }
    Ok(findings)
}

/// The places that messages wait for, each once, where the topic decides them: those of a route that has one at least say
/// nothing of the others, for which a message would fail among others that are accepted.
fn awaited(ways: &[Way<'_>], waiting: &[String]) -> Vec<Destination> {
    let mut places: Vec<Destination> = Vec::new();
    for way in ways.iter().filter(|way| way.destination.places().is_none()) {
        let led = waiting.iter().filter(|topic| way.topics.iter().any(|pattern| pattern.matches(topic)));
        for place in led.filter_map(|topic| way.destination.patterns(topic)).flatten() {
            let place = Destination::new(&place);
            // What messages may decide freely is not known before they do.
            if !place.as_str().contains('*') && !places.contains(&place) {
                places.push(place);
            }
        }
    }
    places
}

/// What was found, or that it failed, each once.
fn add(findings: &mut Vec<Finding>, subject: &str, answer: postrider_core::Result<Vec<Finding>>) {
    let found = answer.unwrap_or_else(|error| vec![failed(subject, &Failure::broker(&error))]);
    for finding in found {
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
}

#[cfg(test)]
mod tests {
    use postrider_core::{AllowList, Placeholder};

    use super::*;

    fn places(topics: &str, destination: &DestinationTemplate, waiting: &[&str]) -> Vec<String> {
        let way = Way { broker: "bus", topics: vec![TopicPattern::parse(topics).unwrap()], destination };
        let waiting: Vec<String> = waiting.iter().map(ToString::to_string).collect();
        awaited(&[way], &waiting).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_topics_that_wait_lead_to_places_where_the_template_lets_them_decide() {
        let by_topic = DestinationTemplate::parse("eu.{topic}").unwrap();
        assert_eq!(places("orders.#", &by_topic, &["orders", "orders.paid", "stock"]), ["eu.orders", "eu.orders.paid"]);
        let fixed = DestinationTemplate::parse("events").unwrap();
        assert!(places("#", &fixed, &["orders"]).is_empty(), "it is asked about anyway");
        let listed = AllowList::default().allow(Placeholder::Key, ["eu", "us-*"]).unwrap();
        let chosen = DestinationTemplate::allowing("{key}.{topic}", &listed).unwrap();
        assert_eq!(places("#", &chosen, &["orders"]), ["eu.orders"]);
    }
}
