//! The stream that holds what a consumer reads.

use postrider_core::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::question::{Answer, Desk};
use super::reading::Reading;
use crate::nats::ack;
use crate::nats::settings::Settings;

/// Of what the server says about a stream, what we need to know.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Stream {
    /// How it is made.
    pub(super) config: Kept,
    /// What is in it.
    pub(super) state: State,
}

/// How a stream is made, in the server's own words. Lengths of time are nanoseconds; what is not positive is no limit.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Kept {
    pub(super) subjects: Vec<String>,
    pub(super) retention: String,
    pub(super) storage: String,
    pub(super) discard: String,
    pub(super) max_age: u64,
    pub(super) max_msgs: i64,
    pub(super) max_bytes: i64,
    pub(super) max_msgs_per_subject: i64,
    pub(super) mirror: Option<Value>,
    pub(super) sources: Option<Vec<Value>>,
}

/// What is in a stream.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct State {
    pub(super) consumer_count: usize,
}

/// An answer to the question for names; null when there are none.
#[derive(Debug, Deserialize)]
struct Names {
    streams: Option<Vec<String>>,
}

/// The name of the stream: the option's, or that of the only one which has something of every subject.
///
/// # Errors
/// `Config` where there is none, or more than one.
pub(super) async fn name(settings: &Settings, reading: &Reading, desk: &mut Desk<'_>) -> Result<String> {
    if let Some(stream) = &settings.stream {
        return Ok(stream.clone());
    }
    let mut common: Option<Vec<String>> = None;
    for subject in &reading.from {
        let answer: Answer<Names> = desk.ask("STREAM.NAMES", &json!({ "subject": subject })).await?;
        let names = answer.map_err(|error| desk.refused("looking for the stream", &error))?;
        let names = names.streams.unwrap_or_default();
        if names.is_empty() {
            return Err(ack::no_stream(&settings.shown, subject));
        }
        common = Some(match common {
            None => names,
            Some(before) => before.into_iter().filter(|name| names.contains(name)).collect(),
        });
    }
    match common.unwrap_or_default().as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            let text = format!(
                "no stream at {} has all of {}: a consumer reads one stream; make one consumer for each of them",
                settings.shown,
                reading.from.join(", ")
            );
            Err(Error::new(ErrorKind::Config, text))
        }
        several => {
            let text = format!(
                "the streams {} at {} have {}: name the one to read in the option stream",
                several.join(", "),
                settings.shown,
                reading.from.join(", ")
            );
            Err(Error::new(ErrorKind::Config, text))
        }
    }
}

/// What the server knows about a stream.
///
/// # Errors
/// As of every question; `Config` where there is no such stream.
pub(super) async fn look(settings: &Settings, reading: &Reading, desk: &mut Desk<'_>, name: &str) -> Result<Stream> {
    let answer: Answer<Stream> = desk.ask(&format!("STREAM.INFO.{name}"), &json!({})).await?;
    answer.map_err(|error| match error.code() {
        404 => missing(settings, reading, name),
        _ => desk.refused(&format!("looking at the stream {name:?}"), &error),
    })
}

/// What to do where a stream is not there.
pub(super) fn missing(settings: &Settings, reading: &Reading, name: &str) -> Error {
    let text = format!(
        "there is no JetStream stream {name:?} at {}; create it: nats stream add {name} --subjects {:?} --storage file \
         --defaults",
        settings.shown,
        reading.from.join(",")
    );
    Error::new(ErrorKind::Config, text)
}
