//! Topics, brokers and routes.

use postrider_core::{AllowList, DestinationTemplate, Message, Placeholder, RetryPolicy, Secret, TopicPattern};

use super::creds;
use super::layers::{Origin, QUICK_BROKER};
use super::nearest::nearest;
use super::reader::Reader;
use super::sections::retry;
use super::{BrokerSection, DEAD_LETTERS, Route};
use crate::failure::{Failure, Outcome};

/// The most characters of a destination's name.
const LONGEST_NAME: usize = 64;

pub(super) fn topics(read: &Reader<'_>, base: RetryPolicy) -> Outcome<Vec<(TopicPattern, RetryPolicy)>> {
    let entries = read.0.entries("retry.topic");
    entries.iter().map(|entry| Ok((pattern(read, &format!("{entry}.pattern"))?, retry(read, entry, base)?))).collect()
}

/// What to write as a pattern of topics.
const PATTERN: &str =
    "write words joined by dots, with * for one word and # at the end for any number, such as \"orders.#\"";

pub(super) fn pattern(read: &Reader<'_>, path: &str) -> Outcome<TopicPattern> {
    let text = read.maybe(path).ok_or_else(|| read.refuse(path, "is missing", PATTERN))?;
    pattern_of(read, path, &text)
}

fn pattern_of(read: &Reader<'_>, path: &str, text: &str) -> Outcome<TopicPattern> {
    let pattern = TopicPattern::parse(text).map_err(|what| read.refuse(path, &what, PATTERN))?;
    // What no message may have as its topic is matched by none.
    let example = Message::new(text.replace(['*', '#'], "x"), "");
    match example.validate() {
        Ok(()) => Ok(pattern),
        Err(why) => Err(read.refuse(path, &format!("{text:?} matches no topic: {why}"), PATTERN)),
    }
}

pub(super) fn brokers(read: &Reader<'_>) -> Outcome<Vec<BrokerSection>> {
    let mut brokers = Vec::new();
    for name in read.0.names("broker.") {
        let prefix = format!("broker.{name}.");
        let mut options = toml::Table::new();
        for (path, setting) in read.0.iter() {
            if let Some(option) = path.strip_prefix(&prefix).filter(|option| *option != "url") {
                options.insert(option.to_owned(), setting.value.clone());
            }
        }
        let url = read.maybe(&format!("{prefix}url")).ok_or_else(|| {
            Failure::usage(
                format!("broker.{name} has no url"),
                "write where it is: url = \"nats://host:4222\", \"http://host/path\", \"file:PATH\" or \"stdout:\"",
            )
        })?;
        let broker = BrokerSection { name, url: Secret::new(url), options };
        creds::told_apart(read, &broker)?;
        brokers.push(broker);
    }
    Ok(brokers)
}

/// The name of a broker, if there is one of that name.
pub(super) fn known(read: &Reader<'_>, path: &str, name: String, brokers: &[BrokerSection]) -> Outcome<String> {
    if brokers.iter().any(|broker| broker.name == name) {
        return Ok(name);
    }
    let names: Vec<_> = brokers.iter().map(|broker| broker.name.as_str()).collect();
    let next = match nearest(&name, names.iter().copied()) {
        Some(near) => format!("did you mean {near:?}? There is: {}", names.join(", ")),
        None => format!("write one of: {}", names.join(", ")),
    };
    Err(read.refuse(path, &format!("there is no [broker.{name}]"), next))
}

pub(super) fn routes(read: &Reader<'_>, brokers: &[BrokerSection]) -> Outcome<Vec<Route>> {
    if brokers.is_empty() {
        return Ok(Vec::new());
    }
    let mut entries = read.0.entries("route");
    if entries.is_empty() {
        // As if there were one that says nothing but what flags say of it.
        entries.push("route[0]".to_owned());
    }
    only_one_is_meant(read, entries.len())?;
    let routes = entries.iter().map(|entry| route(read, entry, brokers)).collect::<Outcome<Vec<_>>>()?;
    have_names_of_their_own(read, &routes)?;
    lead_nowhere_twice(&routes)?;
    Ok(routes)
}

fn route(read: &Reader<'_>, entry: &str, brokers: &[BrokerSection]) -> Outcome<Route> {
    let at = |key: &str| format!("{entry}.{key}");
    let broker = match (read.maybe(&at("broker")), brokers) {
        (Some(name), _) => known(read, &at("broker"), name, brokers)?,
        (None, [only]) => only.name.clone(),
        (None, _) => {
            let names: Vec<_> = brokers.iter().map(|broker| broker.name.as_str()).collect();
            return Err(Failure::usage(
                format!("there are several brokers, and nothing says to which one {} leads", at("topics")),
                format!("write [[route]] with broker = \"NAME\", one of: {}", names.join(", ")),
            ));
        }
    };
    let topics = read.texts(&at("topics")).unwrap_or_else(|| vec!["#".to_owned()]);
    let topics = topics.iter().map(|text| pattern_of(read, &at("topics"), text)).collect::<Outcome<_>>()?;
    let name = read.maybe(&at("name")).unwrap_or_else(|| broker.clone());
    let is_named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.len() > LONGEST_NAME || !name.chars().all(is_named) || name == DEAD_LETTERS {
        let next = format!("write letters, digits, '-' and '_', at most {LONGEST_NAME}; {DEAD_LETTERS} is taken");
        return Err(read.refuse(&at("name"), &format!("{name:?} is no name of a destination"), next));
    }
    Ok(Route { name, topics, broker, destination: destination(read, entry)? })
}

fn destination(read: &Reader<'_>, entry: &str) -> Outcome<DestinationTemplate> {
    let at = |key: &str| format!("{entry}.{key}");
    let mut allowed = AllowList::default();
    let of_header = at("allow.header.");
    let headers = read.0.iter().filter_map(|(path, _)| {
        let name = path.strip_prefix(&of_header)?;
        Some((path.to_owned(), Placeholder::Header(name.to_owned())))
    });
    for (path, placeholder) in [(at("allow.key"), Placeholder::Key)].into_iter().chain(headers) {
        let Some(values) = read.texts(&path) else { continue };
        allowed = allowed.allow(placeholder, values.iter().map(String::as_str)).map_err(|what| {
            read.refuse(&path, &what, "list what a message may put there, such as [\"eu\", \"us-*\"]")
        })?;
    }
    let (path, text) = (at("destination"), read.maybe(&at("destination")).unwrap_or_else(|| "{topic}".to_owned()));
    DestinationTemplate::allowing(&text, &allowed).map_err(|what| {
        let next = "write a place such as \"{topic}\" or \"events.{header.region}\", and beside it in this [[route]] what \
                    messages may decide: allow.header.region = [\"eu\", \"us-*\"]";
        read.refuse(&path, &what, next)
    })
}

/// A flag that says where messages go is for one route: which of several it means cannot be told.
fn only_one_is_meant(read: &Reader<'_>, routes: usize) -> Outcome<()> {
    let flagged = |path: &str| read.0.get(path).is_some_and(|setting| matches!(setting.origin, Origin::Flag(_)));
    let flag = if flagged(QUICK_BROKER) {
        "--broker"
    } else if flagged("route[0].destination") {
        "--destination"
    } else {
        return Ok(());
    };
    if routes > 1 {
        return Err(Failure::usage(
            format!("{flag} is for one route, and the file has {routes}"),
            format!("leave {flag} out, or name another file with --config"),
        ));
    }
    Ok(())
}

/// A destination's name stands in the table: it is never made up from the place of a route.
fn have_names_of_their_own(read: &Reader<'_>, routes: &[Route]) -> Outcome<()> {
    for (place, route) in routes.iter().enumerate() {
        let Some(before) = routes[..place].iter().position(|other| other.name == route.name) else { continue };
        let path = format!("route[{place}].name");
        let what = match read.maybe(&path) {
            Some(name) => format!("{name:?} is also the name of route[{before}]"),
            None => format!("is missing: {:?}, the broker's name, is also that of route[{before}]", route.name),
        };
        let next = format!("give this route a name of its own, such as name = \"{}-{}\"", route.broker, place + 1);
        return Err(read.refuse(&path, &what, next));
    }
    Ok(())
}

/// A message may not arrive twice where it should once. What only its own data could make one place is not seen.
fn lead_nowhere_twice(routes: &[Route]) -> Outcome<()> {
    for (place, route) in routes.iter().enumerate() {
        for (before, other) in routes[..place].iter().enumerate().filter(|(_, other)| other.broker == route.broker) {
            let pairs = other.topics.iter().flat_map(|one| route.topics.iter().map(move |two| (one, two)));
            let mut twice = pairs.filter(|(one, two)| other.destination.meets(one, &route.destination, two));
            let Some((one, two)) = twice.next() else { continue };
            return Err(Failure::usage(
                format!(
                    "route[{before}] and route[{place}] both lead {one} and {two} to {:?} of the broker {}: a message would \
                     arrive there twice",
                    route.destination.to_string(),
                    route.broker
                ),
                "leave one of them out, or write both patterns into the topics of one, topics = [\"a.#\", \"b.#\"], and what \
                 both allow into its lists",
            ));
        }
    }
    Ok(())
}
