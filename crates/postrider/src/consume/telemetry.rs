//! What a consumer tells in the log. Nothing of it shows a payload.

use std::time::Duration;

use postrider_core::{Error, Finding, GivenUp, Level};

use super::plan::After;
use super::setback::Setback;
use super::taken::{Content, Taken};

/// Logs that nothing will ever be given up.
pub(super) fn no_graveyard() {
    tracing::warn!(
        "this consumer has no place for dead letters: a message that can't be handled is tried for ever, and its key waits; \
         give it one with ConsumerBuilder::dead_letters"
    );
}

/// Logs what the check of a broker found.
pub(super) fn findings(broker: &str, findings: &[Finding]) {
    for finding in findings {
        let Finding { level, subject, found, advice } = finding;
        match level {
            Level::Good => tracing::debug!(broker, subject, found, "checked"),
            Level::Warning | Level::Failure => tracing::warn!(broker, subject, found, advice, "checked"),
        }
    }
}

/// Logs that the broker gives no messages.
pub(super) fn broker_away(broker: &str, error: &Error) {
    tracing::warn!(broker, kind = %error.kind(), %error, "no messages can be taken; trying again");
}

/// Logs that the broker gives messages again.
pub(super) fn broker_back(broker: &str) {
    tracing::info!(broker, "messages can be taken again");
}

/// Logs what follows from a setback.
pub(super) fn set_back(taken: &Taken, setback: &Setback, after: After) {
    let (id, place, error) = (taken.id(), &taken.place, setback.story());
    match after {
        After::Retry { charged, after } => {
            tracing::info!(id, %place, charged, after_ms = millis(after), error, "message will be tried again");
        }
        After::GivenUp { charged } => {
            tracing::error!(id, %place, charged, error, "message is given up and goes to the dead letters");
        }
        After::Stuck { charged, after } => {
            tracing::error!(
                id,
                %place,
                charged,
                after_ms = millis(after),
                error,
                "message can't be handled and its key waits: mend the handler, or give the consumer a place for dead letters \
                 with ConsumerBuilder::dead_letters; it is tried again"
            );
        }
        After::Release => tracing::info!(id, %place, error, "message goes back: the consumer stops"),
        After::Nothing => {}
    }
}

/// Logs that what is no message stays in hand.
pub(super) fn kept(taken: &Taken, after: Duration) {
    let Content::Unreadable(error, _) = &taken.content else { return };
    let place = &taken.place;
    tracing::error!(
        %place,
        after_ms = millis(after),
        error,
        "what lies there is no message, and stays: give the consumer a place for dead letters with \
         ConsumerBuilder::dead_letters, or take it away"
    );
}

/// Logs that a message goes to the dead letters before it was handled.
pub(super) fn unbegun(taken: &Taken, given_up: &GivenUp) {
    let (id, place, error) = (taken.id(), &taken.place, &given_up.error);
    tracing::error!(id, %place, reason = %given_up.reason, error, "given up unhandled; goes to the dead letters");
}

/// Logs that a dead letter is not where it belongs.
pub(super) fn not_buried(taken: &Taken, error: &Error, after: After) {
    let (id, place, kind) = (taken.id(), &taken.place, error.kind());
    let after_ms = match after {
        After::Retry { after, .. } => Some(millis(after)),
        _ => None,
    };
    tracing::warn!(id, %place, %kind, %error, after_ms, "a dead letter was not accepted, and stays in hand; trying again");
}

/// Logs that a message became another consumer's.
pub(super) fn lost(taken: &Taken) {
    let (id, place) = (taken.id(), &taken.place);
    tracing::debug!(id, %place, "message is another consumer's by now, and is let go");
}

/// A time for the log.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
