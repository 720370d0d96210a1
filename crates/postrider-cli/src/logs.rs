//! Logs: to standard error, as text or JSON, without secrets.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::Log;
use crate::redact;

/// Starts logging.
pub(crate) fn start(log: &Log) {
    let filter = filter(&log.level);
    let builder = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(Scrubbed);
    // A second start (in one process) keeps the first logger.
    let _ = match log.format.as_str() {
        "json" => {
            let json = builder.json().flatten_event(true).with_current_span(false).with_span_list(false);
            json.finish().with(filter).try_init()
        }
        _ => {
            let text = builder.with_ansi(io::stderr().is_terminal() && crate::output::paint::wanted());
            text.finish().with(filter).try_init()
        }
    };
}

/// At `debug` one can read what the relay does; the clients' own chatter, with every statement, comes with `trace`.
fn filter(level: &str) -> Targets {
    let level = level.parse().unwrap_or(LevelFilter::INFO);
    if level == LevelFilter::TRACE {
        return Targets::new().with_default(level);
    }
    Targets::new()
        .with_default(LevelFilter::WARN)
        // What NATS refuses is told by the relay, once; its client says it again at every try.
        .with_target("async_nats::connector", LevelFilter::OFF)
        // Every crate of ours: a target is matched by how it begins.
        .with_target("postrider", level)
}

/// Standard error, one line at a time, without secrets.
#[derive(Debug, Clone, Copy)]
struct Scrubbed;

impl<'a> MakeWriter<'a> for Scrubbed {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(Vec::new())
    }
}

/// One event, written when it is complete.
#[derive(Debug)]
struct Line(Vec<u8>);

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let text = redact::scrub(&String::from_utf8_lossy(&self.0));
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::fmt::TestWriter;

    use super::*;

    #[test]
    fn what_the_client_of_nats_says_of_every_try_to_connect_comes_with_trace_only() {
        for (level, is_shown) in [("warn", false), ("debug", false), ("trace", true)] {
            let logger =
                tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(TestWriter::default());
            let logger = logger.finish().with(filter(level));
            tracing::subscriber::with_default(logger, || {
                assert_eq!(
                    tracing::enabled!(target: "async_nats::connector", tracing::Level::ERROR),
                    is_shown,
                    "{level}"
                );
                assert!(tracing::enabled!(target: "async_nats", tracing::Level::ERROR), "{level}");
                assert!(tracing::enabled!(target: "postrider_relay", tracing::Level::WARN), "{level}");
            });
        }
    }
}
