//! What verbs print: tables, moments, numbers of things, colours, JSON.

pub(crate) mod counted;
pub(crate) mod json;
pub(crate) mod moment;
pub(crate) mod paint;
pub(crate) mod progress;
pub(crate) mod table;

use std::io::Write;

use crate::failure::{Failure, Outcome};
use crate::redact;

/// Prints to standard output, without secrets. A reader that went away (`| head`) is no error.
pub(crate) fn print(text: &str) -> Outcome<()> {
    let mut out = std::io::stdout().lock();
    let text = redact::scrub(text);
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::usage(
            format!("cannot write to standard output: {error}"),
            "free the disk, or send the output somewhere else",
        )),
        _ => Ok(()),
    }
}
