//! `postrider enqueue`: messages from the shell, in one transaction.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use postrider_core::{MAX_PAYLOAD, Message, Timestamp};
use serde_json::json;
use uuid::Uuid;

use super::json_lines;
use crate::config::{Config, values};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::{self, moment};
use crate::wiring;

/// For `--help`.
pub(crate) const EXAMPLE: &str = "Examples:
  postrider enqueue orders.placed --key 42 --payload '{\"order\":1}' --content-type application/json
  postrider enqueue reminders.due --payload-file mail.txt --delay 2h
  postrider enqueue prices.changed --key eur-usd --payload 1.08 --expires-in 30s
  postrider enqueue --json-lines < messages.jsonl
      # each line: {\"topic\": \"orders.placed\", \"key\": \"42\", \"payload\": {\"order\": 1}, \"headers\": {\"tenant\": \"blue\"}}";

/// Writes messages into the outbox, all in one transaction, and prints their ids.
#[derive(Debug, Args)]
pub(crate) struct Enqueue {
    /// The topic
    #[arg(required_unless_present = "json_lines")]
    topic: Option<String>,
    /// The ordering group; messages without one have no order
    #[arg(long)]
    key: Option<String>,
    /// The payload; without this and --payload-file it is read from standard input
    #[arg(long, conflicts_with = "payload_file")]
    payload: Option<String>,
    /// A file that is the payload; - is standard input
    #[arg(long, value_name = "FILE")]
    payload_file: Option<PathBuf>,
    /// A header; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
    /// The media type of the payload
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Not before this moment, such as 2030-01-31T12:00:00Z
    #[arg(long, value_name = "MOMENT", conflicts_with = "delay")]
    deliver_at: Option<String>,
    /// Not before this long from now, by this machine's clock
    #[arg(long, value_name = "TIME")]
    delay: Option<String>,
    /// Not to be sent after this moment, such as 2030-01-31T12:00:00Z
    #[arg(long, value_name = "MOMENT", conflicts_with = "expires_in")]
    expires_at: Option<String>,
    /// Not to be sent after this long from now, by this machine's clock
    #[arg(long, value_name = "TIME")]
    expires_in: Option<String>,
    /// The message id, a UUID [default: a fresh UUIDv7]
    #[arg(long, value_name = "UUID")]
    id: Option<Uuid>,
    /// Read messages from standard input, one JSON object a line
    #[arg(long, conflicts_with_all = ["topic", "key", "payload", "payload_file", "headers", "content_type", "deliver_at", "delay", "expires_at", "expires_in", "id"])]
    json_lines: bool,
    /// Print the ids as JSON
    #[arg(long)]
    json: bool,
}

impl Enqueue {
    /// Checks and writes.
    pub(crate) async fn run(&self, config: &Config) -> Outcome<Exit> {
        wiring::store_url(config)?;
        let messages = if self.json_lines { json_lines::read(std::io::stdin().lock())? } else { vec![self.message()?] };
        for message in &messages {
            message.validate().map_err(|error| {
                Failure::usage(format!("message {}: {error}", message.id), "correct the message; nothing was written")
            })?;
        }
        let mut operator = wiring::operator(config).await?;
        operator.enqueue(&messages).await.map_err(|error| Failure::store(&error))?;
        let ids: Vec<String> = messages.iter().map(|message| message.id.to_string()).collect();
        if self.json {
            output::json::print(&json!({ "ids": ids }))?;
        } else if !ids.is_empty() {
            output::print(&ids.join("\n"))?;
        }
        Ok(Exit::Good)
    }

    fn message(&self) -> Outcome<Message> {
        let mut message = Message::new(self.topic.clone().unwrap_or_default(), self.bytes()?);
        if let Some(id) = self.id {
            message = message.id(id);
        }
        if let Some(key) = &self.key {
            message = message.key(key);
        }
        if let Some(content_type) = &self.content_type {
            message = message.content_type(content_type);
        }
        for header in &self.headers {
            let (name, value) = header.split_once('=').ok_or_else(|| {
                Failure::usage(
                    format!("the header {header:?} has no value"),
                    "write NAME=VALUE, with =: --header tenant=blue",
                )
            })?;
            if message.headers.get(name).is_some() {
                return Err(Failure::usage(format!("the header {name:?} is given twice"), "give each header once"));
            }
            message = message.header(name, value);
        }
        let now = moment::now();
        message.deliver_at =
            chosen(self.deliver_at.as_deref(), self.delay.as_deref(), now, ["--deliver-at", "--delay"])?;
        let flags = ["--expires-at", "--expires-in"];
        message.expires_at = chosen(self.expires_at.as_deref(), self.expires_in.as_deref(), now, flags)?;
        if message.expires_at.is_some_and(|end| end <= message.deliver_at.unwrap_or(now)) {
            return Err(Failure::usage(
                "the message would expire before it could be sent",
                "give --expires-at or --expires-in a later moment",
            ));
        }
        Ok(message)
    }

    fn bytes(&self) -> Outcome<Vec<u8>> {
        if let Some(payload) = &self.payload {
            return Ok(payload.clone().into_bytes());
        }
        match &self.payload_file {
            Some(path) if path.as_os_str() != "-" => {
                let cannot = |error: std::io::Error| {
                    Failure::usage(format!("cannot read {}: {error}", path.display()), "name a file that you may read")
                };
                bounded(std::fs::File::open(path).map_err(cannot)?)
            }
            None if std::io::stdin().is_terminal() => Err(Failure::usage(
                "there is no payload",
                "give --payload TEXT, --payload-file FILE, or pipe it in (an empty one: --payload '')",
            )),
            _ => bounded(std::io::stdin().lock()),
        }
    }
}

/// A moment, or this long from now.
fn chosen(at: Option<&str>, after: Option<&str>, now: Timestamp, flags: [&str; 2]) -> Outcome<Option<Timestamp>> {
    if let Some(text) = at {
        let next = format!("write {} 2030-01-31T12:00:00Z", flags[0]);
        return moment::read(text).map(Some).ok_or_else(|| Failure::usage(format!("{text:?} is no moment"), next));
    }
    let Some(text) = after else { return Ok(None) };
    let next = format!("write {} 90s, 2h or 7d", flags[1]);
    let after = values::duration(text).ok_or_else(|| Failure::usage(format!("{text:?} is no length of time"), next))?;
    Ok(Some(later(now, after)))
}

fn later(now: Timestamp, delay: Duration) -> Timestamp {
    Timestamp(now.0.saturating_add(i64::try_from(delay.as_micros()).unwrap_or(i64::MAX)))
}

/// Reads what may be a payload: one byte more than allowed is enough to refuse it.
fn bounded(from: impl Read) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_PAYLOAD).unwrap_or(u64::MAX).saturating_add(1);
    from.take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::usage(format!("cannot read the payload: {error}"), "look at where it comes from"))?;
    Ok(bytes)
}
