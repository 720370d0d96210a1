//! The durable consumer: found, or made where there is none, and never changed.

use async_nats::jetstream::ErrorCode;
use postrider_core::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use super::question::{Answer, Desk};
use super::reading::Reading;
use super::shape::{Consumer, fresh};
use super::stream;
use crate::nats::settings::Settings;

/// The server that learned to read several subjects with one consumer; before, it ignores all of them.
const SEVERAL: (i64, i64, i64) = (2, 10, 0);

/// What became of looking for a consumer.
pub(super) enum Found {
    /// It is there, and fit.
    There(Box<Consumer>),
    /// There is none, in a stream that is there.
    Missing,
}

/// Looks for the consumer.
///
/// # Errors
/// As of every question; `Config` without the stream, and for a consumer with settings that would lose messages.
pub(super) async fn find(settings: &Settings, reading: &Reading, desk: &mut Desk<'_>, stream: &str) -> Result<Found> {
    several(settings, reading, desk)?;
    let subject = format!("CONSUMER.INFO.{stream}.{}", reading.consumer);
    let answer: Answer<Consumer> = desk.ask(&subject, &json!({})).await?;
    match answer {
        Ok(found) => fit(settings, reading, desk, stream, found).await,
        Err(error) if error.error_code() == ErrorCode::CONSUMER_NOT_FOUND => Ok(Found::Missing),
        Err(error) if error.code() == 404 => Err(stream::missing(settings, reading, stream)),
        Err(error) => Err(desk.refused(&format!("looking for the consumer {:?}", reading.consumer), &error)),
    }
}

/// Makes the consumer. Another process may do so at the same time: the one that is there afterwards is the consumer of both.
///
/// # Errors
/// As of every question; `Config` where the stream does not allow it, and as of [`find`].
pub(super) async fn make(
    settings: &Settings,
    reading: &Reading,
    desk: &mut Desk<'_>,
    stream: &str,
) -> Result<Box<Consumer>> {
    let body = json!({ "stream_name": stream, "config": fresh(reading), "action": "create" });
    let answer: Answer<Consumer> = desk.ask(&creation(reading, stream), &body).await?;
    let found = match answer {
        Ok(made) => {
            let consumer = &reading.consumer;
            tracing::info!(broker = %settings.shown, stream, consumer, "the durable consumer was not there and is made");
            fit(settings, reading, desk, stream, made).await?
        }
        // Of another process that made another one at the same time; what is different about it is told.
        Err(error)
            if [ErrorCode::CONSUMER_ALREADY_EXISTS, ErrorCode::CONSUMER_NAME_EXIST].contains(&error.error_code()) =>
        {
            find(settings, reading, desk, stream).await?
        }
        Err(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
            return Err(stream::missing(settings, reading, stream));
        }
        Err(error) => return Err(unmade(reading, desk, stream, &error)),
    };
    match found {
        Found::There(consumer) => Ok(consumer),
        Found::Missing => Err(gone(settings, reading, stream)),
    }
}

/// Whether we may make the consumer: asked so that nothing is made, whatever the answer.
///
/// # Errors
/// As of every question: `Config` without the permission.
pub(super) async fn may_make(reading: &Reading, desk: &mut Desk<'_>, stream: &str) -> Result<()> {
    // The server refuses a body that names another stream than the subject does, before it looks at anything else.
    let body = json!({ "stream_name": "", "config": fresh(reading), "action": "create" });
    let _: Answer<Value> = desk.ask(&creation(reading, stream), &body).await?;
    Ok(())
}

/// Where to ask for the consumer to be made: the only filter is a part of it, so that permissions can tell them apart.
fn creation(reading: &Reading, stream: &str) -> String {
    match reading.filter() {
        [one] => format!("CONSUMER.CREATE.{stream}.{}.{one}", reading.consumer),
        _ => format!("CONSUMER.CREATE.{stream}.{}", reading.consumer),
    }
}

/// What to say of a consumer that was there and is not any more.
pub(super) fn gone(settings: &Settings, reading: &Reading, stream: &str) -> Error {
    let text = format!(
        "the consumer {:?} of the stream {stream:?} at {} was deleted while it was read; it is made again now and begins at the \
         first message that the stream has: repeats are recognised as far back as the inbox keeps ids",
        reading.consumer, settings.shown
    );
    Error::new(ErrorKind::Config, text)
}

fn several(settings: &Settings, reading: &Reading, desk: &Desk<'_>) -> Result<()> {
    let client = desk.context.client();
    let (major, minor, patch) = SEVERAL;
    if reading.filter().len() < 2 || client.is_server_compatible(major, minor, patch) {
        return Ok(());
    }
    let text = format!(
        "the consumer {:?} reads several subjects, which needs a server of {major}.{minor} or later, and {} has {}: upgrade it, \
         or make a consumer for each subject, or read what they have in common with wildcards",
        reading.consumer,
        settings.shown,
        client.server_info().version
    );
    Err(Error::new(ErrorKind::Config, text))
}

/// Demands that what is there loses nothing.
async fn fit(
    settings: &Settings,
    reading: &Reading,
    desk: &mut Desk<'_>,
    stream: &str,
    consumer: Consumer,
) -> Result<Found> {
    let shape = &consumer.config;
    let mut differences = shape.differences(reading);
    if !shape.reads_the_same(reading, &[]) {
        let subjects = stream::look(settings, reading, desk, stream).await?.config.subjects;
        if !shape.reads_the_same(reading, &subjects) {
            let told = |filter: &[String]| if filter.is_empty() { ">".to_owned() } else { filter.join(", ") };
            let (has, wanted) = (told(&shape.filter()), told(reading.filter()));
            differences.push(format!("it reads {has}, and here {wanted} is to be read"));
        }
    }
    if differences.is_empty() {
        return Ok(Found::There(Box::new(consumer)));
    }
    let text = format!(
        "the consumer {:?} of the stream {stream:?} at {} is another one: {}; nobody else's consumer is changed from here: set \
         the options as it is, change it (nats consumer edit), or choose another name",
        reading.consumer,
        settings.shown,
        differences.join("; ")
    );
    Err(Error::new(ErrorKind::Config, text))
}

fn unmade(reading: &Reading, desk: &Desk<'_>, stream: &str, error: &async_nats::jetstream::Error) -> Error {
    let advice = match error.error_code() {
        ErrorCode::CONSUMER_WQ_MULTIPLE_UNFILTERED | ErrorCode::CONSUMER_WQ_CONSUMER_NOT_UNIQUE => {
            "each message of a stream of the retention workqueue goes to one consumer, and another one reads these subjects: \
             take that one's name, or give the stream another retention"
        }
        ErrorCode::CONSUMER_FILTER_NOT_SUBSET => "the stream does not have these subjects: correct one of them",
        ErrorCode::MAXIMUM_CONSUMERS_LIMIT => "the stream or the account allows no more consumers: raise its limit",
        ErrorCode::CONSUMER_MAX_PENDING_ACK_EXCESS => "lower the option max_ack_pending, or raise the server's limit",
        _ => return desk.refused(&doing(reading, stream), error),
    };
    desk.refused(&doing(reading, stream), error).advise(advice)
}

fn doing(reading: &Reading, stream: &str) -> String {
    format!("making the consumer {:?} of {} in the stream {stream:?}", reading.consumer, reading.from.join(", "))
}
