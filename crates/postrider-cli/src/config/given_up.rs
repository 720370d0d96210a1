//! What becomes of messages that are given up.

use postrider_core::{OnDead, Secret, TopicPattern};

use super::reader::Reader;
use super::routing::pattern;
use super::{BrokerSection, Forward, Notify, Route};
use crate::failure::Outcome;

/// What applies to which topics; the last entry is for every topic.
pub(super) fn on_dead(read: &Reader<'_>) -> Outcome<Vec<(TopicPattern, OnDead)>> {
    let mut entries = Vec::new();
    for place in 0.. {
        let prefix = format!("retry.topic[{place}]");
        if !read.0.any_below(&format!("{prefix}.")) {
            break;
        }
        // The first entry that matches decides, also by what it leaves unsaid.
        let word = read.maybe(&format!("{prefix}.on_dead")).unwrap_or_else(|| read.text("retry.on_dead"));
        entries.push((pattern(read, &format!("{prefix}.pattern"), None)?, named(&word)));
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
    let named = read.maybe(path);
    if let Some(name) = named.as_ref().filter(|name| !brokers.iter().any(|broker| broker.name == **name)) {
        let known: Vec<_> = brokers.iter().map(|broker| broker.name.as_str()).collect();
        return Err(read.refuse(
            path,
            &format!("there is no [broker.{name}]"),
            format!("write one of: {}", known.join(", ")),
        ));
    }
    if on_dead.iter().all(|(_, on_dead)| *on_dead != OnDead::Forward) {
        return Ok(None);
    }
    let broker = named.or_else(|| routes.first().map(|route| route.broker.clone()));
    Ok(broker.map(|broker| Forward { broker, destination: read.text("forward.destination") }))
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
