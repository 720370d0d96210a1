//! A row in words and as JSON.

use postrider_core::{Explained, Key, RowState, RowView, Standing, Timestamp};
use serde_json::{Value, json};

use super::verdict::{self, Verdict};
use crate::admin::report::Report;
use crate::config::{DEAD_LETTERS, Route};
use crate::output::counted::counted;
use crate::output::moment::{relative, written};
use crate::output::table::{argument, visible};

/// The state's word (design: pending, retrying, delayed, set aside, dead, holding, delivered).
pub(crate) fn word(row: &RowView, now: Timestamp) -> &'static str {
    match row.state {
        None => "unreadable",
        Some(RowState::Dead) => "dead",
        Some(RowState::Holding) => "holding",
        // In the table, until the destination of dead letters is back, or in memory.
        Some(RowState::Pending | RowState::SetAside) if row.dead_reason.is_some() => "forwarding",
        Some(RowState::SetAside) => "set aside",
        Some(RowState::Pending) if row.next_attempt_at.is_some() => "retrying",
        Some(RowState::Pending) if row.message.deliver_at.is_some_and(|at| at.0 > now.0) => "delayed",
        Some(RowState::Pending) => "pending",
    }
}

/// The failed attempts of the `errors` column; nonsense in it is no attempt.
pub(crate) fn failures(row: &RowView) -> Vec<Value> {
    row.errors.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The last failure as one line: `destination: text (kind)`, or without a destination where there was none.
pub(crate) fn last_failure(row: &RowView) -> Option<String> {
    let last = failures(row).pop()?;
    let field = |name: &str| last.get(name).and_then(Value::as_str).unwrap_or("?").to_owned();
    let told = format!("{} ({})", field("text"), field("kind"));
    // What leads nowhere failed at no destination.
    Some(visible(&match field("destination").as_str() {
        "" => told,
        destination => format!("{destination}: {told}"),
    }))
}

/// A row as JSON; the payload only as its size.
pub(crate) fn row_json(row: &RowView, now: Timestamp) -> Value {
    let message = &row.message;
    json!({
        "id": message.id.to_string(), "row": row.row.0, "lane": row.lane.0, "state": word(row, now),
        "topic": message.topic.as_str(), "key": message.key.as_ref().map(postrider_core::Key::as_str),
        "payload_bytes": message.payload.len(), "content_type": message.content_type, "headers": message.headers,
        "created_at": message.created_at.map(written), "deliver_at": message.deliver_at.map(written),
        "expires_at": message.expires_at.map(ending),
        "attempts": row.attempts, "last_attempt_at": row.last_attempt_at.map(written),
        "next_attempt_at": row.next_attempt_at.map(written), "waiting_for": row.waiting_for,
        "errors": failures(row), "dead_at": row.dead_at.map(written),
        "dead_reason": row.dead_reason.map(postrider_core::DeadReason::as_str),
    })
}

/// When a message is over.
fn ending(at: Timestamp) -> String {
    if at == Timestamp::NEVER { "never".to_owned() } else { written(at) }
}

/// What is known beside the rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Around<'a> {
    /// The routes that are configured here.
    pub(crate) routes: &'a [Route],
    /// What a relay says, where one answered.
    pub(crate) relay: Option<&'a Report>,
}

/// Where a message is and why, in lines; the last one is the next step.
pub(crate) fn told(explained: &Explained, around: Around<'_>) -> Vec<String> {
    match &explained.standing {
        Standing::Delivered { id, key, topic, settled_at, .. } => vec![
            heading(&id.to_string(), topic, key.as_ref().map(postrider_core::Key::as_str)),
            format!("  delivered: settled {} ({})", written(*settled_at), relative(*settled_at, explained.now)),
        ],
        Standing::Outbox(row) => of_row(row, explained, around),
    }
}

/// The same as JSON.
pub(crate) fn told_json(explained: &Explained, around: Around<'_>) -> Value {
    let mut value = match &explained.standing {
        Standing::Delivered { row, id, key, topic, settled_at } => json!({
            "id": id.to_string(), "row": row.0, "state": "delivered", "topic": topic,
            "key": key.as_ref().map(postrider_core::Key::as_str), "settled_at": written(*settled_at),
        }),
        Standing::Outbox(row) => row_json(row, explained.now),
    };
    value["behind"] = json!(explained.held.as_ref().map(|held| held.id.to_string()));
    value["relay"] = json!(explained.owner.as_ref().map(|owner| owner.name.clone()));
    if let Standing::Outbox(row) = &explained.standing {
        let halted = halted(row, explained, around);
        value["halted"] = json!(halted.into_iter().map(|verdict| verdict.cause).collect::<Vec<_>>());
    }
    value["why"] = json!(told(explained, around).iter().skip(1).map(|line| line.trim().to_owned()).collect::<Vec<_>>());
    value
}

fn heading(id: &str, topic: &str, key: Option<&str>) -> String {
    let key = key.map_or("no key".to_owned(), |key| format!("key {}", visible(key)));
    format!("{id}  {}  {key}", visible(topic))
}

/// The destinations that a message is owed to: those that the table names, or else every one that a route leads it to.
fn owed_to(row: &RowView, routes: &[Route]) -> Vec<String> {
    match row.waiting_for.as_deref().unwrap_or_default() {
        [] => {
            let led = routes.iter().filter(|route| route.leads(row.message.topic.as_str()));
            led.map(|route| route.name.clone()).collect()
        }
        named => named.to_vec(),
    }
}

/// The same in words.
fn owed(row: &RowView, routes: &[Route]) -> Option<String> {
    let named = row.waiting_for.as_deref().unwrap_or_default();
    let gone: Vec<&String> = named.iter().filter(|name| !is_known(name, routes)).collect();
    let list = |names: &[String]| visible(&names.join(", "));
    match (named, gone.first()) {
        ([], _) if matches!(row.state, Some(RowState::Pending | RowState::SetAside)) && !routes.is_empty() => {
            Some(match owed_to(row, routes).as_slice() {
                [] => format!("owed to: nobody, as no route leads the topic {}", visible(row.message.topic.as_str())),
                led => format!("owed to: {} (every route that leads its topic)", list(led)),
            })
        }
        ([], _) => None,
        (named, None) => Some(format!("owed to: {}", list(named))),
        (named, Some(gone)) => Some(format!(
            "owed to: {}; no route configured here has the name {:?}: the relay needs one (name = {gone:?}) to deliver it",
            list(named),
            visible(gone)
        )),
    }
}

/// Where nothing is configured here, nothing is missed.
fn is_known(name: &str, routes: &[Route]) -> bool {
    routes.is_empty() || name == DEAD_LETTERS || routes.iter().any(|route| route.name == name)
}

/// Why a destination that a message is owed to takes nothing at the moment, as the relay says that has the message.
fn halted(row: &RowView, explained: &Explained, around: Around<'_>) -> Vec<Verdict> {
    let owner = explained.owner.as_ref().filter(|owner| !owner.lease_left.is_zero());
    let relay = around.relay.filter(|relay| owner.is_some_and(|owner| owner.name == relay.relay));
    let is_waiting = matches!(word(row, explained.now), "pending" | "retrying" | "forwarding" | "set aside");
    let Some(relay) = relay.filter(|_| is_waiting) else { return Vec::new() };
    let owed = owed_to(row, around.routes);
    // Without routes here, a message that names none goes to whatever the relay has.
    let is_any = owed.is_empty() && around.routes.is_empty();
    let ours = relay.destinations.iter().filter(|destination| is_any || owed.contains(&destination.name));
    ours.filter_map(verdict::of_destination).collect()
}

fn of_row(row: &RowView, explained: &Explained, around: Around<'_>) -> Vec<String> {
    let (message, now) = (&row.message, explained.now);
    let id = message.id.to_string();
    let mut lines = vec![heading(&id, message.topic.as_str(), message.key.as_ref().map(postrider_core::Key::as_str))];
    let age = message.created_at.map_or(String::new(), |at| format!(", written {}", relative(at, now)));
    let mut say = |line: String| lines.push(format!("  {line}"));
    match word(row, now) {
        "dead" | "holding" => {
            let reason = row.dead_reason.map_or("an unknown reason", postrider_core::DeadReason::as_str);
            let when = row.dead_at.map_or(String::new(), |at| format!(" {}", relative(at, now)));
            say(format!(
                "{}: given up{when} for {reason} after {}{age}",
                word(row, now),
                counted(row.attempts.into(), "attempt")
            ));
            if row.state == Some(RowState::Holding) {
                say("its key waits until an operator replays or discards it".to_owned());
            }
        }
        "forwarding" => {
            let reason = row.dead_reason.map_or("an unknown reason", postrider_core::DeadReason::as_str);
            say(format!(
                "forwarding: given up for {reason} after {}; to be published as a dead letter{age}",
                counted(row.attempts.into(), "attempt")
            ));
        }
        "retrying" => {
            let next = row.next_attempt_at.map_or("soon".to_owned(), |at| relative(at, now));
            say(format!("retrying: {}, the next {next}{age}", counted(row.attempts.into(), "charged attempt")));
        }
        "delayed" => {
            let due = message.deliver_at.map_or(String::new(), |at| format!("{} ({})", written(at), relative(at, now)));
            say(format!("delayed: not before {due}{age}"));
        }
        "unreadable" => say(format!("its state is a number that means nothing: a foreign hand wrote it{age}")),
        state => say(format!("{state}: waiting to be delivered{age}")),
    }
    if let Some(end) = message.expires_at.filter(|end| row.dead_at.is_none() && *end != Timestamp::NEVER) {
        say(format!("expires: {} ({}); it is not sent after that", written(end), relative(end, now)));
    }
    if let Some(failure) = last_failure(row) {
        say(format!("last failure: {failure}"));
    }
    if let Some(held) = &explained.held {
        say(match held.state {
            RowState::Holding => format!("behind: message {} was given up and holds what comes after it", held.id),
            _ => format!("behind: message {} goes first", held.id),
        });
    }
    if let Some(owed) = owed(row, around.routes) {
        say(owed);
    }
    let halted = halted(row, explained, around);
    for verdict in &halted {
        say(format!("halted: {}", verdict.cause));
    }
    match &explained.owner {
        Some(owner) if owner.lease_left.is_zero() => {
            say(format!("lane {}: the lease of its relay {} has run out", row.lane, visible(&owner.name)));
        }
        Some(owner) => say(format!("lane {}: relayed by {}", row.lane, visible(&owner.name))),
        None => say(format!("lane {}: no relay has it", row.lane)),
    }
    say(format!("next: {}", advice(row, explained, halted.first())));
    lines
}

fn advice(row: &RowView, explained: &Explained, halted: Option<&Verdict>) -> String {
    let id = row.message.id;
    if let Some(held) = explained.held.as_ref().filter(|held| held.state == RowState::Holding) {
        let (behind, key) = (held.id, argument("key", row.message.key.as_ref().map_or("", Key::as_str)));
        return format!(
            "`postrider dead replay {key} --yes` once the cause is gone, or `postrider dead discard --id {behind}` to go \
             on without it"
        );
    }
    match word(row, explained.now) {
        "dead" | "holding" => {
            format!("`postrider dead replay --id {id}` once the cause is gone, or `postrider dead discard --id {id}`")
        }
        "unreadable" => "correct the column `state` by hand (0 means pending)".to_owned(),
        "delayed" => "nothing: it is delivered when it is due".to_owned(),
        _ if explained.owner.as_ref().is_none_or(|owner| owner.lease_left.is_zero()) => {
            "start a relay: `postrider relay`".to_owned()
        }
        state => match (state, &explained.held, halted) {
            ("set aside", Some(held), _) => format!("`postrider explain {}` tells what holds it", held.id),
            (_, _, Some(halted)) => halted.next.clone(),
            ("set aside", None, None) => "nothing: it goes when its key's head has gone".to_owned(),
            ("forwarding", _, None) => "nothing: it is forwarded as soon as that destination takes it".to_owned(),
            ("retrying", _, None) => "see to the last failure; the relay tries again by itself".to_owned(),
            (_, _, None) => "nothing; when it stays, `postrider status` names the cause".to_owned(),
        },
    }
}
