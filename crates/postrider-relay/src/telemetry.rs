//! The one home of event and metric names.
//!
//! The names and their labels are promises (docs/compatibility.md); [`METRICS`] is what docs/metrics.md is made from.

use std::time::{Duration, Instant};

use metrics::{counter, gauge, histogram};
use postrider_core::machine::Note;
use postrider_core::{
    DeadReason, DestinationName, Error, ErrorKind, Finding, Forgotten, Level, Start, StoreStatus, Topic,
};
use tracing::field::display;

use crate::causes::Cause;
use crate::leaseholder::LeaseNews;
use crate::snapshot::RelaySnapshot;

/// A metric: its name, its kind, its labels, and what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram` (of seconds).
    pub kind: &'static str,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

const READ: &str = "postrider_read_total";
const ACCEPTED: &str = "postrider_accepted_total";
const DELIVERED: &str = "postrider_delivered_total";
const SET_ASIDE: &str = "postrider_set_aside_total";
const FAILED: &str = "postrider_failed_total";
const RETRIES: &str = "postrider_retries_total";
const DEAD: &str = "postrider_dead_total";
const DROPPED: &str = "postrider_dropped_total";
const FENCED: &str = "postrider_fenced_total";
const SWEEP_FOUND: &str = "postrider_sweep_found_total";
const FORGOTTEN: &str = "postrider_inbox_forgotten_total";
const FORGET_ERRORS: &str = "postrider_inbox_errors_total";
const STORE_ERRORS: &str = "postrider_store_errors_total";
const PAUSED: &str = "postrider_destination_paused";
const WINDOW_ROWS: &str = "postrider_window_messages";
const WINDOW_BYTES: &str = "postrider_window_bytes";
const LANES: &str = "postrider_lanes_held";
const LANE_HELD: &str = "postrider_lane_held";
const PENDING: &str = "postrider_pending_messages";
const RETRYING: &str = "postrider_retrying_messages";
const DELAYED: &str = "postrider_delayed_messages";
const WAITING: &str = "postrider_set_aside_messages";
const DEAD_LETTERS: &str = "postrider_dead_letters";
const OLDEST: &str = "postrider_oldest_pending_seconds";
const READ_SECONDS: &str = "postrider_read_seconds";
const PUBLISH_SECONDS: &str = "postrider_publish_seconds";
const SETTLE_SECONDS: &str = "postrider_settle_seconds";

/// Every metric that a relay has.
pub const METRICS: &[Metric] = &[
    Metric { name: READ, kind: "counter", labels: &[], help: "Messages read into the window." },
    Metric { name: ACCEPTED, kind: "counter", labels: &["destination"], help: "Messages a destination accepted." },
    Metric { name: DELIVERED, kind: "counter", labels: &[], help: "Messages delivered and settled." },
    Metric { name: SET_ASIDE, kind: "counter", labels: &[], help: "Messages set aside behind their key's head." },
    Metric { name: FAILED, kind: "counter", labels: &["destination", "kind"], help: "Publishes that failed, by kind." },
    Metric { name: RETRIES, kind: "counter", labels: &[], help: "Retries scheduled." },
    Metric { name: DEAD, kind: "counter", labels: &["reason"], help: "Messages given up, by reason." },
    Metric {
        name: DROPPED,
        kind: "counter",
        labels: &[],
        help: "Expired messages removed without delivery (retry.on_expire = drop).",
    },
    Metric { name: FENCED, kind: "counter", labels: &[], help: "Lanes found to belong to another relay at a settle." },
    Metric {
        name: SWEEP_FOUND,
        kind: "counter",
        labels: &[],
        help: "Messages that only the sweep found; must stay 0.",
    },
    Metric {
        name: STORE_ERRORS,
        kind: "counter",
        labels: &["kind"],
        help: "Reads, settles and leases that failed, by kind.",
    },
    Metric {
        name: FORGOTTEN,
        kind: "counter",
        labels: &["what"],
        help: "What the inbox forgot (inbox.keep): records, or partitions as a whole.",
    },
    Metric {
        name: FORGET_ERRORS,
        kind: "counter",
        labels: &["kind"],
        help: "Rounds of forgetting that failed, by kind; what is to be forgotten stays.",
    },
    Metric { name: PAUSED, kind: "gauge", labels: &["destination"], help: "1 while the destination is paused." },
    Metric { name: WINDOW_ROWS, kind: "gauge", labels: &[], help: "Messages in memory." },
    Metric { name: WINDOW_BYTES, kind: "gauge", labels: &[], help: "Bytes of the messages in memory." },
    Metric { name: LANES, kind: "gauge", labels: &[], help: "Lanes held." },
    Metric { name: LANE_HELD, kind: "gauge", labels: &["lane"], help: "1 for each lane held, 0 after it was lost." },
    Metric {
        name: PENDING,
        kind: "gauge",
        labels: &[],
        help: "Messages to be delivered; exact to 10,000, estimated above.",
    },
    Metric { name: RETRYING, kind: "gauge", labels: &[], help: "Messages that were tried and will be again." },
    Metric { name: DELAYED, kind: "gauge", labels: &[], help: "Messages not yet due." },
    Metric { name: WAITING, kind: "gauge", labels: &[], help: "Messages set aside." },
    Metric { name: DEAD_LETTERS, kind: "gauge", labels: &[], help: "Dead letters." },
    Metric {
        name: OLDEST,
        kind: "gauge",
        labels: &[],
        help: "Age of the oldest message that is not delayed, those that are retried or held back included; 0 when there is none.",
    },
    Metric { name: READ_SECONDS, kind: "histogram", labels: &[], help: "Time of one read." },
    Metric { name: PUBLISH_SECONDS, kind: "histogram", labels: &["destination"], help: "Time of one publish call." },
    Metric { name: SETTLE_SECONDS, kind: "histogram", labels: &[], help: "Time of one settle." },
];

/// Counters that somebody is woken for stand at 0 from the start: of one that appears with its first count, Prometheus
/// sees no increase.
pub(crate) fn begin() {
    for reason in DeadReason::ALL {
        counter!(DEAD, "reason" => reason.as_str()).increment(0);
    }
    counter!(SWEEP_FOUND).increment(0);
    counter!(FENCED).increment(0);
}

/// The start of something that is measured.
pub(crate) fn started() -> Instant {
    Instant::now()
}

pub(crate) fn read_took(started: Instant) {
    histogram!(READ_SECONDS).record(started.elapsed());
}

pub(crate) fn settle_took(started: Instant) {
    histogram!(SETTLE_SECONDS).record(started.elapsed());
}

pub(crate) fn publish_took(destination: &DestinationName, started: Instant) {
    histogram!(PUBLISH_SECONDS, "destination" => destination.to_string()).record(started.elapsed());
}

/// Logs which lanes come and go.
pub(crate) fn membership(news: &LeaseNews) {
    match news {
        LeaseNews::Joined(id) => tracing::debug!(%id, "this relay joined the others of its outbox"),
        LeaseNews::Gained(lanes) => {
            let after_a_death = lanes.iter().filter(|held| held.start == Start::Careful).count();
            tracing::info!(lanes = lanes.len(), after_a_death, "lanes were taken");
        }
        LeaseNews::Lost(lanes) => tracing::warn!(lanes = lanes.len(), "lanes belong to another relay now"),
        LeaseNews::Surplus(lanes) => tracing::info!(lanes = lanes.len(), "lanes are handed to another relay"),
        LeaseNews::Evicted => tracing::warn!("the lease ran out and the lanes went to others; joining again"),
        LeaseNews::Trusted(_) | LeaseNews::Answered | LeaseNews::Left | LeaseNews::Away(_) => {}
    }
}

/// Counts and logs what the machine noted; with the last failure, where that is a retry.
pub(crate) fn note(note: &Note, cause: Option<&Cause>) {
    match note {
        Note::Read(count) => {
            counter!(READ).increment(*count);
            tracing::debug!(count, "messages were read");
        }
        Note::Accepted(destination, count) => {
            counter!(ACCEPTED, "destination" => destination.to_string()).increment(*count);
        }
        Note::Delivered(count) => {
            counter!(DELIVERED).increment(*count);
            tracing::debug!(count, "messages were delivered, and that is recorded");
        }
        Note::SetAside(count) => {
            counter!(SET_ASIDE).increment(*count);
            tracing::debug!(count, "messages were set aside");
        }
        Note::Failed { id, topic, destination, kind, text } => {
            counter!(FAILED, "destination" => destination.to_string(), "kind" => kind.as_str()).increment(1);
            tracing::debug!(%id, %topic, %destination, %kind, error = %text, "publish failed");
        }
        Note::Retry { id, attempts, after } => {
            counter!(RETRIES).increment(1);
            let after_ms = after.as_millis();
            let Some(Cause { at, kind, text }) = cause else {
                return tracing::info!(%id, attempts, after_ms, "message will be tried again");
            };
            let (topic, to) = (at.as_ref().map(|(topic, _)| display(topic)), at.as_ref().map(|(_, to)| display(to)));
            // A wrong setting does not pass by itself: somebody must see to it.
            if *kind == ErrorKind::Config {
                tracing::warn!(%id, topic, destination = to, attempts, after_ms, %kind, error = %text, "message will be tried again");
            } else {
                tracing::info!(%id, topic, destination = to, attempts, after_ms, %kind, error = %text, "message will be tried again");
            }
        }
        // Its retry follows and says why; of what is delivered the number is noted too.
        Note::Nowhere { .. } | Note::DeliveredMessage(_) => {}
        Note::Dead { id, row, topic, reason, text, .. } => {
            counter!(DEAD, "reason" => reason.as_str()).increment(1);
            // A row that is no message may have neither: what is not known is left out.
            let (id, topic) = (id.map(|id| id.to_string()), topic.as_ref().map(Topic::as_str));
            tracing::error!(id, row = row.0, topic, %reason, error = %text, "message is dead; see `postrider dead list`");
        }
        Note::Dropped { id, topic } => {
            counter!(DROPPED).increment(1);
            let id = id.map(|id| id.to_string());
            tracing::warn!(id, %topic, "message expired and was dropped, as retry.on_expire says");
        }
        Note::Paused(destination, kind, text) => {
            gauge!(PAUSED, "destination" => destination.to_string()).set(1.0);
            tracing::warn!(%destination, %kind, error = %text, "destination paused; no attempts are counted");
        }
        Note::Resumed(destination) => {
            gauge!(PAUSED, "destination" => destination.to_string()).set(0.0);
            tracing::info!(%destination, "destination goes on");
        }
        // What is said of the two: [`store_away`], [`store_back`].
        Note::StoreAway(kind, ..) => store_failed(*kind),
        Note::StoreBack => {}
        Note::Fenced(held) => {
            counter!(FENCED).increment(1);
            tracing::warn!(lane = %held.lane, term = held.term.0, "the lane belongs to another relay now; nothing was changed");
        }
        Note::NumbersCameAgain(held) => tracing::warn!(
            lane = %held.lane,
            "the outbox draws row numbers again that it had drawn before, as after a restore; the lane is read anew, and what was \
             on its way may be sent again"
        ),
        Note::SweepFound(count) => {
            counter!(SWEEP_FOUND).increment(*count);
            tracing::error!(count, "the sweep found messages that reading had missed; please report this");
        }
    }
}

/// Logs that a destination is paused yet, and why now.
pub(crate) fn still_paused(destination: &DestinationName, kind: ErrorKind, text: &str, since: Duration) {
    let seconds = since.as_secs();
    tracing::warn!(%destination, seconds, %kind, error = %text, "destination is still paused; no attempts are counted");
}

/// Logs that a run until the outbox is empty has nothing to do itself.
pub(crate) fn others_have_the_lanes() {
    tracing::info!(
        "other relays have every lane, and this one ends when they have emptied the outbox; `postrider status` names them"
    );
}

/// Counts a call that the store did not answer: every one, so that an alert lasts as long as the store is away.
pub(crate) fn store_failed(kind: ErrorKind) {
    counter!(STORE_ERRORS, "kind" => kind.as_str()).increment(1);
}

/// Logs that the store did not answer, and why.
pub(crate) fn store_away(kind: ErrorKind, text: &str) {
    tracing::warn!(%kind, error = %text, "the store did not answer; trying again");
}

/// Logs that the store answers everybody again.
pub(crate) fn store_back() {
    tracing::info!("the store answers again");
}

/// Counts and logs what the inbox forgot.
pub(crate) fn forgotten(Forgotten { records, partitions, more }: &Forgotten) {
    counter!(FORGOTTEN, "what" => "records").increment(*records);
    counter!(FORGOTTEN, "what" => "partitions").increment(*partitions);
    if *records + *partitions > 0 {
        tracing::debug!(records, partitions, more, "the inbox forgot what was handled long ago");
    }
}

/// Counts and logs that the inbox could not forget, with what to do where that is known.
pub(crate) fn not_forgotten(error: &Error) {
    counter!(FORGET_ERRORS, "kind" => error.kind().as_str()).increment(1);
    let error = error.story_and_advice();
    tracing::warn!(%error, "the inbox remembers more than inbox.keep says; messages are relayed, and it is tried again");
}

/// Logs that what is past its retention could not be archived, or not be removed after it was.
pub(crate) fn not_archived(error: &Error) {
    tracing::warn!(%error, "what is past its retention stays until it is archived and removed; trying again");
}

/// Logs that a read or a settle is not answered yet.
pub(crate) fn unanswered(what: &'static str, since: Duration) {
    let seconds = since.as_secs();
    tracing::warn!(what, seconds, "the database has not answered yet; `postrider status` names who locks the outbox");
}

/// Logs what a broker's check found.
pub(crate) fn findings(destination: &DestinationName, findings: &[Finding]) {
    for finding in findings {
        let Finding { level, subject, found, advice } = finding;
        match level {
            Level::Good => tracing::debug!(%destination, subject, found, "checked"),
            Level::Warning | Level::Failure => tracing::warn!(%destination, subject, found, advice, "checked"),
        }
    }
}

/// Shows the relay's own numbers.
pub(crate) fn snapshot(before: &RelaySnapshot, snapshot: &RelaySnapshot) {
    gauge!(WINDOW_ROWS).set(float(snapshot.window_rows));
    gauge!(WINDOW_BYTES).set(float(snapshot.window_bytes));
    if before.lanes != snapshot.lanes {
        gauge!(LANES).set(float(snapshot.lanes.len()));
        for lane in before.lanes.iter().filter(|lane| !snapshot.lanes.contains(lane)) {
            gauge!(LANE_HELD, "lane" => lane.to_string()).set(0.0);
        }
        for lane in &snapshot.lanes {
            gauge!(LANE_HELD, "lane" => lane.to_string()).set(1.0);
        }
    }
}

/// Shows the outbox in numbers.
pub(crate) fn store(status: &StoreStatus) {
    let small = |n: u64| float(usize::try_from(n).unwrap_or(usize::MAX));
    gauge!(PENDING).set(small(status.pending.value()));
    gauge!(RETRYING).set(small(status.retrying.value()));
    gauge!(DELAYED).set(small(status.delayed.value()));
    gauge!(WAITING).set(small(status.set_aside.value()));
    gauge!(DEAD_LETTERS).set(small(status.dead.value()));
    gauge!(OLDEST).set(status.oldest_age.unwrap_or_default().as_secs_f64());
}

/// Another relay shows the outbox in numbers from now on.
pub(crate) fn store_is_shown_elsewhere() {
    for name in [PENDING, RETRYING, DELAYED, WAITING, DEAD_LETTERS, OLDEST] {
        gauge!(name).set(0.0);
    }
}

/// A count as the floating point number that gauges take; above 2^53 the last digits are lost.
#[expect(clippy::cast_precision_loss, reason = "gauges are floating point")]
const fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
