//! What becomes of messages that are given up.

use std::collections::BTreeSet;

use postrider_core::{DestinationTemplate, OnDead, Secret, TopicPattern};

use super::reader::Reader;
use super::routing::{known, pattern};
use super::{BrokerSection, Forward, Notify, Route};
use crate::failure::Outcome;

/// What applies to which topics; the last entry is for every topic.
pub(super) fn on_dead(read: &Reader<'_>) -> Outcome<Vec<(TopicPattern, OnDead)>> {
    let mut entries = Vec::new();
    for prefix in read.0.entries("retry.topic") {
        // The first entry that matches decides, also by what it leaves unsaid.
        let word = read.maybe(&format!("{prefix}.on_dead")).unwrap_or_else(|| read.text("retry.on_dead"));
        entries.push((pattern(read, &format!("{prefix}.pattern"))?, named(&word)));
    }
    entries.push((TopicPattern::every(), named(&read.text("retry.on_dead"))));
    Ok(entries)
}

/// Where dead letters are forwarded, if any are.
pub(super) fn forward(
    read: &Reader<'_>,
    on_dead: &[(TopicPattern, OnDead)],
    brokers: &[BrokerSection],
    routes: &[Route],
) -> Outcome<Option<Forward>> {
    let path = "forward.broker";
    let named = read.maybe(path).map(|name| known(read, path, name, brokers)).transpose()?;
    if on_dead.iter().all(|(_, on_dead)| *on_dead != OnDead::Forward) {
        return Ok(None);
    }
    let led: BTreeSet<&str> = routes.iter().map(|route| route.broker.as_str()).collect();
    let led: Vec<&str> = led.into_iter().collect();
    let broker = match (named, led.as_slice()) {
        (Some(name), _) => name,
        (None, []) => return Ok(None),
        (None, [only]) => (*only).to_owned(),
        (None, several) => {
            return Err(read.refuse(
                path,
                "is missing: dead letters are to be forwarded, and the routes lead to several brokers",
                format!("write one of: {}", several.join(", ")),
            ));
        }
    };
    let path = "forward.destination";
    let destination = DestinationTemplate::parse(&read.text(path)).map_err(|what| {
        read.refuse(path, &what, "write a place such as \"dead.{topic}\"; {topic} is the only placeholder here")
    })?;
    Ok(Some(Forward { broker, destination }))
}

/// Who is told of messages that are given up, if anybody is.
pub(super) fn notify(read: &Reader<'_>) -> Outcome<Option<Notify>> {
    let Some(url) = read.maybe("notify.url") else { return Ok(None) };
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(read.refuse("notify.url", "is no address of HTTP", "write https://HOST/PATH"));
    }
    let egress = read.text("notify.egress");
    let egress = match egress.as_str() {
        "public" | "any" => serde_json::json!(egress),
        networks => serde_json::json!(networks.split(',').map(str::trim).collect::<Vec<_>>()),
    };
    Ok(Some(Notify { url: Secret::new(url), secret: read.secret("notify.secret")?, egress }))
}

/// The table of settings has refused every other word.
fn named(word: &str) -> OnDead {
    match word {
        "hold" => OnDead::Hold,
        "forward" => OnDead::Forward,
        _ => OnDead::Skip,
    }
}
