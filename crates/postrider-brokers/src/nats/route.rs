//! Whether any stream stores what a route sends, where the subject depends on the topic.

use async_nats::jetstream::context::Context;
use async_nats::jetstream::response::Response;
use postrider_core::{DestinationTemplate, Error, ErrorKind, Finding, Level, Result, TopicPattern};
use serde::Deserialize;
use serde_json::json;

use super::findings::{judge, unseen};
use super::settings::Settings;

/// The most streams of one route that are looked at.
const MOST: usize = 16;

/// An answer to the question for names; null when there are none.
#[derive(Debug, Deserialize)]
struct Names {
    streams: Option<Vec<String>>,
}

/// Looks for streams that store a subject of the route, and at what weakens their acknowledgements.
///
/// # Errors
/// `Config` when no stream stores any of them, or none that the option `stream` allows, or none that acknowledges.
pub(super) async fn look(
    settings: &Settings,
    context: &Context,
    topics: &TopicPattern,
    destination: &DestinationTemplate,
) -> Result<Vec<Finding>> {
    let (subjects, mut findings, mut names) = (subjects(topics, destination), Vec::new(), Vec::new());
    if subjects.is_empty() {
        return Ok(findings);
    }
    for subject in &subjects {
        // The server names the streams that have a subject in common with this one.
        let answer: std::result::Result<Response<Names>, _> =
            context.request("STREAM.NAMES", &json!({ "subject": subject })).await;
        match answer {
            Ok(Response::Ok(found)) => names.extend(found.streams.unwrap_or_default()),
            Ok(Response::Err { error }) => return Ok(vec![unseen(subject, &error.to_string())]),
            Err(error) => return Ok(vec![unseen(subject, &error.to_string())]),
        }
    }
    names.sort();
    names.dedup();
    if let Some(expected) = &settings.stream {
        names.retain(|name| name == expected);
    }
    let (mut stored, mut usable, mut refused) = (names.len() > MOST, names.len() > MOST, None);
    for name in names.iter().take(MOST) {
        match context.get_stream(name).await {
            Ok(stream) => {
                let config = &stream.cached_info().config;
                // Every subject has those in common that begin with $: the server's own, as of its key-value buckets.
                if config.subjects.iter().all(|subject| subject.starts_with('$')) {
                    continue;
                }
                stored = true;
                match judge(context, config, &mut findings) {
                    Ok(()) => usable = true,
                    Err(error) => refused = Some((name, error)),
                }
            }
            Err(error) => {
                (stored, usable) = (true, true);
                findings.push(unseen(name, &error.to_string()));
            }
        }
    }
    match refused {
        // Which of the streams the messages will go to is not known.
        Some((name, error)) if usable => findings.push(Finding {
            level: Level::Warning,
            subject: name.clone(),
            found: error.story(),
            advice: "see that nothing of this outbox is sent to it".to_owned(),
        }),
        Some((_, error)) => return Err(error),
        None if !stored => return Err(nowhere(settings, &subjects)),
        None => {}
    }
    Ok(findings)
}

/// The subjects of a route, as NATS writes patterns, so that none is missing: its wildcards stand for whole words, and
/// `>` for at least one at the end. None where messages may decide too much of them.
fn subjects(topics: &TopicPattern, destination: &DestinationTemplate) -> Vec<String> {
    let pattern = topics.to_string();
    let with = pattern.strip_suffix(".#").into_iter().chain([pattern.as_str()]);
    let places: Option<Vec<Vec<String>>> = with.map(|topic| destination.patterns(topic)).collect();
    let mut subjects: Vec<String> = Vec::new();
    for subject in places.iter().flatten().flatten().map(|text| wildcards(text)) {
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    subjects
}

fn wildcards(text: &str) -> String {
    let mut words = Vec::new();
    for word in text.split('.') {
        if word.contains('#') {
            words.push(">");
            break;
        }
        words.push(if word.contains('*') { "*" } else { word });
    }
    words.join(".")
}

fn nowhere(settings: &Settings, subjects: &[String]) -> Error {
    let (at, asked) = (&settings.shown, subjects.join(","));
    let named = settings.stream.as_ref().map_or(String::new(), |name| format!(" named {name:?} (the option stream)"));
    let name = settings.stream.as_deref().unwrap_or("NAME");
    let (what, subjects) = match asked.as_str() {
        ">" => ("any subject".to_owned(), "orders.>".to_owned()),
        _ => (format!("a subject of the route, {asked:?}"), asked),
    };
    let step = format!(
        "create one for the subjects that are sent to, such as: nats stream add {name} --subjects {subjects:?} \
         --storage file --defaults"
    );
    Error::new(ErrorKind::Config, format!("no JetStream stream{named} at {at} covers {what}")).advise(step)
}

#[cfg(test)]
mod tests {
    use postrider_core::{AllowList, MAX_PLACES, Placeholder};

    use super::*;

    #[test]
    fn a_route_is_asked_for_in_the_wildcards_of_nats() {
        for (topics, destination, expected) in [
            ("#", "{topic}", &[">"][..]),
            ("orders.#", "{topic}", &["orders", "orders.>"]),
            ("orders.#", "events.{topic}", &["events.orders", "events.orders.>"]),
            ("orders.#", "{topic}.eu", &["orders.eu", "orders.>"]),
            ("*.placed", "x.{topic}", &["x.*.placed"]),
            ("*", "x{topic}", &["*"]),
            ("orders.placed", "{topic}", &["orders.placed"]),
        ] {
            let (topics, destination) =
                (TopicPattern::parse(topics).unwrap(), DestinationTemplate::parse(destination).unwrap());
            assert_eq!(subjects(&topics, &destination), expected, "{topics}");
        }
    }

    #[test]
    fn what_messages_may_decide_is_asked_for_value_by_value() {
        let allowing = |text: &str, values: &[&str]| {
            let allowed = AllowList::default().allow(Placeholder::Key, values.iter().copied()).unwrap();
            DestinationTemplate::allowing(text, &allowed).unwrap()
        };
        let topics = TopicPattern::parse("orders.*").unwrap();
        assert_eq!(
            subjects(&topics, &allowing("{key}.{topic}", &["eu", "us-*"])),
            ["eu.orders.*", "*.orders.*"],
            "a value that is not whole is a wildcard"
        );
        assert_eq!(subjects(&topics, &allowing("all.{key}", &["*"])), ["all.*"]);
        let many: Vec<String> = (0..=MAX_PLACES).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(subjects(&topics, &allowing("all.{key}", &many)).is_empty());
    }
}
