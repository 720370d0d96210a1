//! What weakens an acknowledgement: the streams and the server, looked at without sending a message.

use async_nats::Client;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{Context, GetStreamByNameErrorKind, RequestErrorKind};
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{Config, StorageType};
use postrider_core::{Destination, Error, ErrorKind, Finding, Level, Result};
use std::time::Duration;

use super::settings::Settings;
use super::{ack, wire};

/// The oldest server that keeps what it acknowledged when its process is killed.
const KEEPS: (i64, i64, i64) = (2, 10, 23);
/// The oldest server that is safe for consumers too. Those from 2.10.17 on take an acknowledgement of what a consumer has not
/// delivered yet, such as a late one from before it was made again, for a reason to go on behind that: what lies before is never
/// delivered.
const SAFE: (i64, i64, i64) = (2, 10, 26);
/// The server's own default, below which a retry after an outage can be stored twice.
const WINDOW: Duration = Duration::from_secs(120);

/// Looks at the server, and at the stream of each destination.
pub(super) async fn look(settings: &Settings, context: &Context, destinations: &[Destination]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    server(settings, context, &mut findings).await?;
    let mut seen: Vec<String> = Vec::new();
    for destination in destinations {
        let subject = wire::subject(destination).map_err(|error| Error::new(ErrorKind::Config, error.story()))?;
        let name = match context.stream_by_subject(subject).await {
            Ok(name) => name,
            Err(error) if error.kind() == GetStreamByNameErrorKind::NotFound => {
                return Err(ack::no_stream(&settings.shown, subject));
            }
            Err(error) => {
                findings.push(unseen(subject, &error.to_string()));
                continue;
            }
        };
        if let Some(expected) = settings.stream.as_ref().filter(|expected| **expected != name) {
            let text = format!(
                "the subject {subject:?} is stored by the stream {name:?}, and the option stream says {expected:?}; \
                 correct one of them"
            );
            return Err(Error::new(ErrorKind::Config, text));
        }
        if !seen.contains(&name) {
            match context.get_stream(&name).await {
                Ok(stream) => judge(context, &stream.cached_info().config, &mut findings)?,
                Err(error) => findings.push(unseen(&name, &error.to_string())),
            }
            seen.push(name);
        }
    }
    Ok(findings)
}

async fn server(settings: &Settings, context: &Context, findings: &mut Vec<Finding>) -> Result<()> {
    // The answer's own fields do not matter, and servers before 2.10 lack some that the client's type for it demands.
    let answer: std::result::Result<Response<serde_json::Value>, _> = context.request("INFO", b"").await;
    let off = |why: String| {
        let text = format!(
            "JetStream is not enabled at {}; start the server with -js, or enable it for the account",
            settings.shown
        );
        Err(Error::new(ErrorKind::Config, text).because(why))
    };
    match answer {
        Ok(Response::Ok(_)) => {}
        Ok(Response::Err { error })
            if [ErrorCode::JETSTREAM_NOT_ENABLED, ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT]
                .contains(&error.error_code()) =>
        {
            return off(error.to_string());
        }
        Ok(Response::Err { error }) => findings.push(unseen("JetStream", &error.to_string())),
        Err(error) if error.kind() == RequestErrorKind::NoResponders => return off(error.to_string()),
        Err(error) => findings.push(unseen("JetStream", &error.to_string())),
    }
    version(settings, &context.client(), findings);
    Ok(())
}

/// Looks at the server's version.
pub(super) fn version(settings: &Settings, client: &Client, findings: &mut Vec<Finding>) {
    let is = |(major, minor, patch): (i64, i64, i64)| client.is_server_compatible(major, minor, patch);
    let what = match (is(KEEPS), is(SAFE)) {
        (_, true) => return,
        (true, false) => "can lose messages of a consumer that is made again",
        (false, false) => "can lose acknowledged messages when it is killed",
    };
    let (major, minor, patch) = SAFE;
    findings.push(Finding {
        level: Level::Warning,
        subject: settings.shown.clone(),
        found: format!("server {} {what}", client.server_info().version),
        advice: format!("upgrade it to {major}.{minor}.{patch} or later"),
    });
}

pub(super) fn judge(context: &Context, config: &Config, findings: &mut Vec<Finding>) -> Result<()> {
    if config.no_ack {
        let text = format!("the stream {:?} acknowledges nothing (no_ack); turn that off", config.name);
        return Err(Error::new(ErrorKind::Config, text));
    }
    let mut warn = |found: String, advice: &str| {
        let (subject, advice) = (format!("stream {}", config.name), advice.to_owned());
        findings.push(Finding { level: Level::Warning, subject, found, advice });
    };
    if config.storage == StorageType::Memory {
        warn("it keeps its messages in memory: a restart of the server loses them".to_owned(), "use file storage");
    }
    let clustered = context.client().server_info().cluster.is_some();
    if clustered && config.num_replicas < 3 {
        warn(format!("it has {} replica(s) in a cluster", config.num_replicas), "use 3 replicas");
    }
    if config.duplicate_window < WINDOW {
        warn(
            format!("it forgets message ids after {:?}", config.duplicate_window),
            "raise its duplicate window above the longest pause between two attempts",
        );
    }
    Ok(())
}

pub(super) fn unseen(subject: &str, why: &str) -> Finding {
    Finding {
        level: Level::Warning,
        subject: subject.to_owned(),
        found: format!("could not be looked at: {why}"),
        advice: "give the relay's user permission to publish to $JS.API.INFO, $JS.API.STREAM.NAMES and \
                 $JS.API.STREAM.INFO.*, so that check can help"
            .to_owned(),
    }
}
