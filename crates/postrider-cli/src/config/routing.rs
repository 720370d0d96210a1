//! Topics, brokers and routes.

use postrider_core::{RetryPolicy, Secret, TopicPattern};

use super::reader::Reader;
use super::sections::retry;
use super::{BrokerSection, Route};
use crate::failure::{Failure, Outcome};

pub(super) fn topics(read: &Reader<'_>, base: RetryPolicy) -> Outcome<Vec<(TopicPattern, RetryPolicy)>> {
    let mut topics = Vec::new();
    for place in 0.. {
        let prefix = format!("retry.topic[{place}]");
        if !read.0.any_below(&format!("{prefix}.")) {
            break;
        }
        topics.push((pattern(read, &format!("{prefix}.pattern"), None)?, retry(read, &prefix, base)?));
    }
    Ok(topics)
}

pub(super) fn pattern(read: &Reader<'_>, path: &str, default: Option<&str>) -> Outcome<TopicPattern> {
    let next = "write words joined by dots, with * for one word and # at the end for any number, such as \"orders.#\"";
    let text = read.maybe(path).or_else(|| default.map(str::to_owned));
    let text = text.ok_or_else(|| read.refuse(path, "is missing", next))?;
    TopicPattern::parse(&text).map_err(|what| read.refuse(path, &what, next))
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
        brokers.push(BrokerSection { name, url: Secret::new(url), options });
    }
    Ok(brokers)
}

pub(super) fn routes(read: &Reader<'_>, brokers: &[BrokerSection]) -> Outcome<Vec<Route>> {
    if read.0.any_below("route[1].") {
        return Err(Failure::usage(
            "there is more than one [[route]]: this version relays to one destination",
            "keep one [[route]], or run one relay and one outbox (outbox.prefix) per destination",
        ));
    }
    if brokers.is_empty() {
        return Ok(Vec::new());
    }
    let broker = match (read.maybe("route[0].broker"), brokers) {
        (Some(name), _) if brokers.iter().any(|broker| broker.name == name) => name,
        (Some(name), _) => {
            let known: Vec<_> = brokers.iter().map(|broker| broker.name.as_str()).collect();
            let what = format!("there is no [broker.{name}]");
            return Err(read.refuse("route[0].broker", &what, format!("write one of: {}", known.join(", "))));
        }
        (None, [only]) => only.name.clone(),
        (None, _) => {
            return Err(Failure::usage(
                "there are several brokers and no [[route]] that says which one messages go to",
                "write [[route]] with broker = \"NAME\"; this version relays to one of them",
            ));
        }
    };
    let destination = read.maybe("route[0].destination").unwrap_or_else(|| "{topic}".to_owned());
    Ok(vec![Route { topics: pattern(read, "route[0].topics", Some("#"))?, broker, destination }])
}
