//! What to know about a stream and a consumer before one relies on them.

use std::time::Duration;

use postrider_core::{Error, ErrorKind, Finding, Level, Result};

use super::durable::{self, Found};
use super::question::Desk;
use super::reading::Reading;
use super::shape::Consumer;
use super::stream::{self, Stream};
use super::subjects::{covers, meet};
use crate::nats::findings;
use crate::nats::settings::Settings;

/// Looks at the server, the stream and the consumer. Nothing is taken, made or changed.
///
/// # Errors
/// `Config` where nothing could be taken: no stream, a consumer with other settings, a missing permission.
pub(super) async fn look(settings: &Settings, reading: &Reading, desk: &mut Desk<'_>) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    findings::version(settings, &desk.context.client(), &mut found);
    let name = stream::name(settings, reading, desk).await?;
    let consumer = match durable::find(settings, reading, desk, &name).await? {
        Found::There(consumer) => Some(consumer),
        Found::Missing => {
            durable::may_make(reading, desk, &name).await?;
            None
        }
    };
    match stream::look(settings, reading, desk, &name).await {
        Ok(stream) => of_stream(settings, reading, &name, &stream, consumer.is_some(), &mut found)?,
        Err(error) if error.kind() == ErrorKind::Config => found.push(Finding {
            level: Level::Warning,
            subject: format!("stream {name}"),
            found: format!("could not be looked at: {}", error.story()),
            advice: format!("give the consumer's user permission to publish to $JS.API.STREAM.INFO.{name}"),
        }),
        Err(error) => return Err(error),
    }
    of_consumer(settings, reading, consumer.as_deref(), &mut found);
    Ok(found)
}

fn of_stream(
    settings: &Settings,
    reading: &Reading,
    name: &str,
    stream: &Stream,
    is_there: bool,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let kept = &stream.config;
    let mut say = |level: Level, found: String, advice: &str| {
        findings.push(Finding { level, subject: format!("stream {name}"), found, advice: advice.to_owned() });
    };
    // What a stream copies from others may have subjects that it does not name.
    if kept.mirror.is_none() && kept.sources.as_ref().is_none_or(Vec::is_empty) {
        for subject in &reading.from {
            if !kept.subjects.iter().any(|has| meet(has, subject)) {
                let text = format!(
                    "the stream {name:?} at {} has {}, and nothing of {subject:?}: correct the subject or the option stream",
                    settings.shown,
                    kept.subjects.join(", ")
                );
                return Err(Error::new(ErrorKind::Config, text));
            }
            if subject != ">" && !kept.subjects.iter().any(|has| covers(has, subject)) {
                let found = format!("it has only a part of {subject}: {}", kept.subjects.join(", "));
                say(Level::Warning, found, "give it the other subjects, or read only what it has");
            }
        }
    }
    if kept.storage == "memory" {
        let found = "it keeps its messages in memory: a restart of the server loses them, taken or not".to_owned();
        say(Level::Warning, found, "use file storage");
    }
    let others = stream.state.consumer_count.saturating_sub(usize::from(is_there));
    match kept.retention.as_str() {
        "workqueue" if others > 0 => say(
            Level::Warning,
            format!(
                "its retention is workqueue and it has {others} other consumer(s): each message goes to one of them only"
            ),
            "use the retention limits where every consumer is to get everything",
        ),
        "interest" if !is_there => say(
            Level::Warning,
            "its retention is interest: what is published before this consumer is made is not kept for it".to_owned(),
            "make the consumer before anybody publishes: let it run once",
        ),
        _ => {}
    }
    if kept.discard != "new" && (kept.max_msgs > 0 || kept.max_bytes > 0 || kept.max_msgs_per_subject > 0) {
        let found = "it drops its oldest messages when it is full, taken or not".to_owned();
        say(
            Level::Warning,
            found,
            "let it discard new ones (--discard new), or see that it is never full of what was not taken",
        );
    }
    if kept.max_age > 0 {
        let age = Duration::from_nanos(kept.max_age);
        say(Level::Good, format!("what is not taken within {age:?} is dropped (max_age)"), "");
    }
    Ok(())
}

fn of_consumer(settings: &Settings, reading: &Reading, consumer: Option<&Consumer>, findings: &mut Vec<Finding>) {
    let mut say = |level: Level, found: String, advice: String| {
        findings.push(Finding { level, subject: format!("consumer {}", reading.consumer), found, advice });
    };
    if reading.ack_wait < settings.timeout * 2 {
        let found = format!(
            "a message is given to another after {:?}, and a word of the server may take {:?}: it may come twice",
            reading.ack_wait, settings.timeout
        );
        say(Level::Warning, found, "raise ack_wait, or lower timeout, until it is twice as long".to_owned());
    }
    let Some(Consumer { config: shape, paused, .. }) = consumer else {
        return say(Level::Good, "it is not there yet: the first take makes it".to_owned(), String::new());
    };
    if *paused {
        let advice = "resume it with nats consumer resume, or wait until its time is over";
        say(Level::Warning, "it is paused: nothing comes for a while".to_owned(), advice.to_owned());
    }
    if shape.deliver_policy != "all" {
        let found =
            format!("it does not begin at the stream's first message: its deliver_policy is {}", shape.deliver_policy);
        say(Level::Good, found, String::new());
    }
    if shape.max_ack_pending > 0 && shape.max_ack_pending < i64::try_from(reading.max_ack_pending).unwrap_or(i64::MAX) {
        let found = format!(
            "all its members together hold at most {} messages, and the option max_ack_pending says {}",
            shape.max_ack_pending, reading.max_ack_pending
        );
        say(Level::Warning, found, "raise it with nats consumer edit, or lower the option".to_owned());
    }
    if shape.inactive_threshold > 0 {
        let after = Duration::from_nanos(shape.inactive_threshold);
        let found = format!("the server deletes it when nobody has taken for {after:?}: everything comes again then");
        say(Level::Warning, found, "make it without inactive_threshold".to_owned());
    }
    if shape.mem_storage {
        let found = "what was acknowledged is kept in memory: after a restart of the server everything may come again";
        say(Level::Warning, found.to_owned(), "make it without mem_storage".to_owned());
    }
}
