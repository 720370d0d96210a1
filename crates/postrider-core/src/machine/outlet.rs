//! One destination: its line, its flights, its pauses, and what it has shown so far.
//!
//! A destination that rejects everything (a wrong permission, say) pauses at the sixteenth distinct message that it
//! rejects without accepting one between them, however long ago the first was, dead ones included: at most fifteen
//! messages die there. The count lives in memory: it begins anew when the relay starts, and each of several relays has
//! its own. A message that was rejected again although others were accepted since its first rejection says nothing of the
//! destination any more and is not counted: bad messages that are tried again together, while nothing else is to be sent,
//! would pause it for every good one behind them.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::events::Flight;
use super::keys::KeySlot;
use super::topics::Topics;
use super::witnesses::Witnesses;
use crate::error::{Error, ErrorKind};
use crate::judge::Evidence;
use crate::message::Topic;
use crate::retry::{Jitter, RetryPolicy};
use crate::row::RowId;
use crate::tick::Tick;

/// Distinct messages rejected in a row that make a destination pause.
const REJECTED_IN_A_ROW: usize = 16;
/// The most suspects remembered. Of more of them the others are tried without being counted until some are over: were the
/// oldest ones forgotten for them, each would be forgotten just before its turn, and none ever counted.
const MAX_SUSPECTS: usize = 8_192;
/// One that did not fail within so many failures and acceptances is no suspect any more, as those of a lane that was lost: it
/// gets one more try that is not counted.
const LONGEST_SUSPECTED: u64 = 131_072;
/// Those that are suspects no more are looked for once in so many failures: it takes as long as there are suspects.
const FAILURES_BETWEEN_LOOKS: u64 = 8_192;
/// Failures on a shared connection after which a message is sent alone.
const FAILURES_BEFORE_ALONE: u32 = 2;
/// A destination that answers nothing for so long, with calls under way, keeps nothing in memory that others need.
const SILENCE: Duration = Duration::from_secs(2);
/// Each silence that an answer ends doubles the length of the next, so often at most: who is slow is waited for at last,
/// because what is set aside is written and read once more.
const MOST_DOUBLED: u32 = 5;
/// The first pause.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Something that may be sent next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Key(KeySlot),
    Row(RowId),
}

/// Messages that were sent in one call.
#[derive(Debug)]
pub(super) struct Sent {
    /// Each with its stay in the window.
    pub(super) rows: Vec<(RowId, u64)>,
    pub(super) moment: u64,
    pub(super) probe: bool,
    pub(super) alone: bool,
}

/// Why a destination pauses, and until when.
#[derive(Debug, Clone)]
pub(super) struct Pause {
    pub(super) kind: ErrorKind,
    pub(super) text: String,
    pub(super) since: Tick,
    pub(super) next_probe: Tick,
    pub(super) rounds: u32,
    pub(super) probing: bool,
    /// The moment at which the youngest message was sent that was accepted before it.
    accepted_before: u64,
}

#[derive(Debug, Clone, Copy)]
struct Suspect {
    failures: u32,
    /// Of these, the charged ones: the table counts them as well.
    charged: u32,
    moment: u64,
    /// Whether it failed once more after others were accepted.
    is_to_blame: bool,
}

/// One destination.
#[derive(Debug, Default)]
pub(super) struct Outlet {
    pub(super) line: VecDeque<Turn>,
    /// Messages to be sent alone, between others.
    pub(super) alone: VecDeque<RowId>,
    /// Whether the next call is for one of these.
    pub(super) alone_is_next: bool,
    pub(super) flights: HashMap<Flight, Sent>,
    pub(super) pause: Option<Pause>,
    /// The last answer, or the first call after which none was under way.
    heard_at: Tick,
    /// It answers nothing, and what waits for it waits in the table, as during a pause.
    pub(super) is_silent: bool,
    /// Silences that an answer ended since its last pause, up to [`MOST_DOUBLED`].
    silences: u32,
    pub(super) topics: Topics,
    witnesses: Witnesses,
    suspects: HashMap<RowId, Suspect>,
    /// When those were looked for that are suspects no more.
    looked_through_at: u64,
    rejected: Vec<RowId>,
    /// The moment at which the youngest accepted message was sent.
    accepted_sent_at: u64,
}

impl Outlet {
    /// A call is under way.
    pub(super) fn sent(&mut self, now: Tick, flight: Flight, sent: Sent) {
        if self.flights.is_empty() {
            self.heard_at = now;
        }
        self.flights.insert(flight, sent);
    }

    /// A call was answered, however: whether that ends a silence.
    pub(super) fn heard(&mut self, now: Tick) -> bool {
        self.heard_at = now;
        let was_silent = std::mem::take(&mut self.is_silent);
        if was_silent {
            self.silences = MOST_DOUBLED.min(self.silences + 1);
        }
        was_silent
    }

    /// Since when it has answered nothing, where that is why what waits for it leaves memory.
    pub(super) fn silent_since(&self) -> Option<Tick> {
        (self.is_silent && self.pause.is_none()).then_some(self.heard_at)
    }

    /// Whether calls are under way and none was answered for long.
    pub(super) fn answers_nothing(&self, now: Tick) -> bool {
        !self.flights.is_empty() && now.since(self.heard_at) >= SILENCE * (1 << self.silences)
    }

    /// What came into line last is the next to go.
    pub(super) fn last_is_first(&mut self) {
        if let Some(last) = self.line.pop_back() {
            self.line.push_front(last);
        }
    }

    /// The broker has a message that was sent at this moment.
    pub(super) fn accepted(&mut self, row: RowId, sent_at: u64) {
        self.accepted_sent_at = self.accepted_sent_at.max(sent_at);
        self.rejected.clear();
        if !self.suspects.is_empty() {
            self.suspects.remove(&row);
        }
    }

    /// A message failed: what is known of the destination, to judge it by. Remembers the failure.
    pub(super) fn failed(&mut self, row: RowId, kind: ErrorKind, moment: u64) -> Evidence {
        let previous = self.suspects.get(&row).copied();
        let others_accepted = previous.is_some_and(|suspect| self.accepted_sent_at > suspect.moment);
        let was_to_blame = previous.is_some_and(|suspect| suspect.is_to_blame);
        self.suspect(row, previous, moment, others_accepted || was_to_blame);
        if kind == ErrorKind::Rejected && !others_accepted && !was_to_blame {
            if !self.rejected.contains(&row) {
                self.rejected.push(row);
            }
            if self.rejected.len() > REJECTED_IN_A_ROW {
                self.rejected.remove(0);
            }
            if self.rejected.len() == REJECTED_IN_A_ROW {
                return Evidence::EverythingRejected;
            }
        }
        // What was accepted before a pause says nothing of what fails during it: it may be the destination that is away.
        let is_old = self.pause.as_ref().is_some_and(|pause| self.accepted_sent_at <= pause.accepted_before);
        if others_accepted && !is_old { Evidence::OthersAccepted } else { Evidence::NothingAccepted }
    }

    fn suspect(&mut self, row: RowId, previous: Option<Suspect>, moment: u64, is_to_blame: bool) {
        if previous.is_none() && !self.has_room_for_a_suspect(moment) {
            return;
        }
        let (failures, charged) = previous.map_or((0, 0), |suspect| (suspect.failures, suspect.charged));
        self.suspects.insert(row, Suspect { failures: failures.saturating_add(1), charged, moment, is_to_blame });
    }

    fn has_room_for_a_suspect(&mut self, moment: u64) -> bool {
        let is_full = self.suspects.len() >= MAX_SUSPECTS;
        if is_full && moment.saturating_sub(self.looked_through_at) >= FAILURES_BETWEEN_LOOKS {
            self.looked_through_at = moment;
            self.suspects.retain(|_, suspect| moment.saturating_sub(suspect.moment) <= LONGEST_SUSPECTED);
        }
        self.suspects.len() < MAX_SUSPECTS
    }

    /// How often the message failed here since it was last accepted or forgotten.
    pub(super) fn failures(&self, row: RowId) -> u32 {
        self.suspects.get(&row).map_or(0, |suspect| suspect.failures)
    }

    /// How many of these failures were charged to nobody.
    pub(super) fn uncharged_failures(&self, row: RowId) -> u32 {
        self.suspects.get(&row).map_or(0, |suspect| suspect.failures.saturating_sub(suspect.charged))
    }

    /// The last failure of the message is charged to it.
    pub(super) fn charged(&mut self, row: RowId) {
        if let Some(suspect) = self.suspects.get_mut(&row) {
            suspect.charged = suspect.charged.saturating_add(1);
        }
    }

    /// Whether the message must travel alone.
    pub(super) fn must_go_alone(&self, row: RowId) -> bool {
        self.failures(row) >= FAILURES_BEFORE_ALONE
    }

    /// Nothing that was sent at this moment or later has been accepted.
    pub(super) fn nothing_accepted_since(&self, moment: u64) -> bool {
        self.accepted_sent_at < moment
    }

    pub(super) fn forget(&mut self, row: RowId) {
        self.suspects.remove(&row);
    }

    /// Begins a pause, or prolongs it after a probe that failed. True when it has just begun.
    pub(super) fn pause(
        &mut self,
        now: Tick,
        kind: ErrorKind,
        text: &str,
        asked: Option<Duration>,
        longest: Duration,
        jitter: &mut Jitter,
    ) -> bool {
        let begins = self.pause.is_none();
        if kind != ErrorKind::Config {
            self.topics = Topics::default();
        }
        let longest = if self.topics.shorten() { FIRST_PAUSE.min(longest) } else { longest };
        let rounds = self.pause.as_ref().map_or(1, |pause| pause.rounds.saturating_add(1));
        let since = self.pause.as_ref().map_or(now, |pause| pause.since);
        let backoff = RetryPolicy { initial: FIRST_PAUSE, maximum: longest, ..RetryPolicy::default() };
        let wait = asked.map_or_else(|| backoff.delay(rounds, jitter), |asked| asked.min(longest));
        let accepted_before = self.pause.as_ref().map_or(self.accepted_sent_at, |pause| pause.accepted_before);
        let (text, next_probe) = (text.to_owned(), now + wait);
        self.pause = Some(Pause { kind, text, since, next_probe, rounds, probing: false, accepted_before });
        begins
    }

    /// The pause ends; whether there was one.
    pub(super) fn goes_on(&mut self) -> bool {
        self.topics = Topics::default();
        self.witnesses = Witnesses::default();
        self.silences = 0;
        self.pause.take().is_some()
    }

    /// A message met the pause that goes on or begins with it.
    pub(super) fn met(&mut self, row: RowId, error: &Error) {
        self.witnesses.met(row, error);
    }

    /// The longest that a message which did not fail here yet waits during a pause, where it waits less than others.
    pub(super) fn longest_for_untried(&self) -> Option<Duration> {
        self.witnesses.longest(FIRST_PAUSE)
    }

    /// A message that did not fail here yet came into line, and is next: it may be the one that ends a pause.
    pub(super) fn hurry_untried(&mut self, now: Tick) {
        if let (Some(longest), Some(pause)) = (self.longest_for_untried(), &mut self.pause) {
            pause.next_probe = pause.next_probe.min(now + longest);
        }
    }

    /// A message of this topic met a wrong setting, and the destination pauses for it.
    pub(super) fn met_a_setting(&mut self, topic: Topic) {
        self.topics.failed(topic);
    }

    /// A message came into line last. Where the pause is for a setting that only other topics met, the first of its topic is
    /// the next probe, and soon: a subject that no stream covers is no reason for other subjects to wait.
    pub(super) fn hurry(&mut self, now: Tick, topic: &Topic) {
        let Some(pause) = &mut self.pause else { return };
        if self.topics.came(topic) {
            pause.next_probe = pause.next_probe.min(now + FIRST_PAUSE);
            self.last_is_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_failure_has_no_evidence_even_when_neighbours_were_accepted() {
        let mut outlet = Outlet::default();
        outlet.accepted(RowId(1), 5);
        assert_eq!(outlet.failed(RowId(2), ErrorKind::Unknown, 6), Evidence::NothingAccepted);
    }

    #[test]
    fn a_second_failure_counts_when_another_was_sent_and_accepted_after_the_first() {
        let mut outlet = Outlet::default();
        outlet.failed(RowId(2), ErrorKind::Unknown, 6);
        outlet.accepted(RowId(1), 5);
        assert_eq!(outlet.failed(RowId(2), ErrorKind::Unknown, 7), Evidence::NothingAccepted, "sent before");
        outlet.accepted(RowId(1), 8);
        assert_eq!(outlet.failed(RowId(2), ErrorKind::Unknown, 9), Evidence::OthersAccepted);
    }

    #[test]
    fn bad_messages_that_are_tried_again_together_are_no_fault_of_the_destination() {
        let mut outlet = Outlet::default();
        for n in 0..15 {
            assert_eq!(outlet.failed(RowId(n), ErrorKind::Rejected, 1), Evidence::NothingAccepted);
        }
        outlet.accepted(RowId(98), 2);
        for n in 15..30 {
            assert_eq!(outlet.failed(RowId(n), ErrorKind::Rejected, 3), Evidence::NothingAccepted);
        }
        outlet.accepted(RowId(99), 4);
        for moment in 5..9 {
            for n in 0..30 {
                assert_ne!(outlet.failed(RowId(n), ErrorKind::Rejected, moment), Evidence::EverythingRejected);
            }
        }
        // What was never tried counts as ever.
        for n in 30..45 {
            assert_eq!(outlet.failed(RowId(n), ErrorKind::Rejected, 9), Evidence::NothingAccepted);
        }
        assert_eq!(outlet.failed(RowId(45), ErrorKind::Rejected, 9), Evidence::EverythingRejected);
    }

    #[test]
    fn sixteen_distinct_rejections_in_a_row_are_the_destinations_fault() {
        let mut outlet = Outlet::default();
        for n in 0..15 {
            for _ in 0..2 {
                assert_ne!(outlet.failed(RowId(n), ErrorKind::Rejected, 1), Evidence::EverythingRejected);
            }
        }
        assert_eq!(outlet.failed(RowId(15), ErrorKind::Rejected, 1), Evidence::EverythingRejected);
        assert_eq!(outlet.failed(RowId(16), ErrorKind::Rejected, 1), Evidence::EverythingRejected);
        outlet.accepted(RowId(99), 2);
        assert_ne!(outlet.failed(RowId(15), ErrorKind::Rejected, 3), Evidence::EverythingRejected);
    }

    #[test]
    fn suspects_are_bounded() {
        let mut outlet = Outlet::default();
        for n in 0..20_000 {
            outlet.failed(RowId(n), ErrorKind::Unavailable, 1);
        }
        assert_eq!(outlet.suspects.len(), MAX_SUSPECTS);
    }

    #[test]
    fn of_more_suspects_than_are_remembered_each_is_charged_in_its_turn() {
        let (mut outlet, mut moment, mut left) = (Outlet::default(), 0, 3 * i64::try_from(MAX_SUSPECTS).unwrap());
        let mut rounds = 0;
        let mut bad: Vec<i64> = (0..left).collect();
        while left > 0 {
            rounds += 1;
            assert!(rounds < 20, "{left} are never charged");
            bad.retain(|n| {
                moment += 1;
                let is_charged = outlet.failed(RowId(*n), ErrorKind::Config, moment) == Evidence::OthersAccepted;
                if is_charged {
                    outlet.forget(RowId(*n));
                }
                !is_charged
            });
            left = i64::try_from(bad.len()).unwrap();
            moment += 1;
            outlet.accepted(RowId(-1), moment);
        }
    }

    #[test]
    fn a_suspect_is_forgotten_for_another_one_only_when_it_did_not_fail_for_long() {
        let mut outlet = Outlet::default();
        let most = i64::try_from(MAX_SUSPECTS).unwrap();
        for n in 0..most {
            outlet.failed(RowId(n), ErrorKind::Unavailable, 1);
        }
        outlet.failed(RowId(0), ErrorKind::Unavailable, LONGEST_SUSPECTED);
        outlet.failed(RowId(most), ErrorKind::Unavailable, LONGEST_SUSPECTED + 1);
        assert_eq!((outlet.failures(RowId(1)), outlet.failures(RowId(most))), (1, 0), "none is old enough");
        outlet.failed(RowId(most), ErrorKind::Unavailable, LONGEST_SUSPECTED + most.unsigned_abs() + 1);
        assert_eq!([0, 1, most].map(|row| outlet.failures(RowId(row))), [2, 0, 1]);
    }

    #[test]
    fn a_message_is_no_suspect_any_more_when_it_was_accepted() {
        let mut outlet = Outlet::default();
        for moment in [1, 2] {
            assert!(!outlet.must_go_alone(RowId(1)));
            outlet.failed(RowId(1), ErrorKind::Unavailable, moment);
        }
        outlet.failed(RowId(2), ErrorKind::Unavailable, 3);
        assert!(outlet.must_go_alone(RowId(1)));
        outlet.accepted(RowId(1), 4);
        assert_eq!((outlet.failures(RowId(1)), outlet.uncharged_failures(RowId(1))), (0, 0));
        assert!(!outlet.must_go_alone(RowId(1)));
        assert_eq!(outlet.failures(RowId(2)), 1, "only the one that was accepted is");
    }

    #[test]
    fn a_silence_that_an_answer_ends_doubles_the_next_one_and_a_pause_forgets_that() {
        let (mut outlet, mut now) = (Outlet::default(), Tick::ZERO);
        let seconds = Duration::from_secs;
        let sent = || Sent { rows: Vec::new(), moment: 0, probe: false, alone: false };
        let mut lengths = |outlet: &mut Outlet, times: u32| {
            let mut once = |_| {
                outlet.sent(now, Flight(1), sent());
                let length = (0..200).find(|long| outlet.answers_nothing(now + seconds(*long))).unwrap();
                now = now + seconds(length);
                outlet.is_silent = true;
                assert_eq!(outlet.silent_since().map(|since| now.since(since)), Some(seconds(length)));
                outlet.flights.clear();
                assert!(outlet.heard(now));
                length
            };
            (0..times).map(&mut once).collect::<Vec<_>>()
        };
        assert_eq!(lengths(&mut outlet, 7), [2, 4, 8, 16, 32, 64, 64]);
        outlet.pause(Tick::ZERO, ErrorKind::Unavailable, "scripted", None, seconds(1), &mut Jitter::seeded(1));
        assert!(outlet.goes_on());
        assert_eq!(lengths(&mut outlet, 2), [2, 4]);
    }

    /// The waits before so many probes, each of which failed for this reason.
    fn waits(kind: ErrorKind, longest: Duration, probes: u32, seed: u64) -> Vec<Duration> {
        let (mut outlet, mut jitter, mut now) = (Outlet::default(), Jitter::seeded(seed), Tick::ZERO);
        let mut wait = |_| {
            outlet.pause(now, kind, "scripted", None, longest, &mut jitter);
            let next = outlet.pause.as_ref().unwrap().next_probe;
            let wait = next.since(now);
            now = next;
            wait
        };
        (0..probes).map(&mut wait).collect()
    }

    #[test]
    fn the_first_pause_is_short_and_none_is_longer_than_the_longest() {
        let longest = Duration::from_secs(2);
        for seed in 0..20 {
            let waits = waits(ErrorKind::Unavailable, longest, 12, seed);
            assert!(waits[0] <= FIRST_PAUSE, "{waits:?}");
            assert!(waits.iter().all(|wait| *wait <= longest), "{waits:?}");
        }
    }

    /// A destination that pauses long, because messages of topic `failed` met this there.
    fn long_paused(kind: ErrorKind) -> (Outlet, Tick) {
        let (mut outlet, mut jitter) = (Outlet::default(), Jitter::seeded(1));
        let longest = Duration::from_secs(3_600);
        for _ in 0..20 {
            outlet.met_a_setting(Topic::unchecked("failed"));
            outlet.pause(Tick::ZERO, kind, "scripted", None, longest, &mut jitter);
        }
        let next = outlet.pause.as_ref().unwrap().next_probe;
        assert!(next > Tick::ZERO + Duration::from_secs(60));
        outlet.line.extend([Turn::Row(RowId(1)), Turn::Row(RowId(2))]);
        (outlet, next)
    }

    #[test]
    fn a_message_of_another_topic_is_the_next_probe_and_soon_while_a_setting_is_the_reason() {
        let (mut outlet, _) = long_paused(ErrorKind::Config);
        outlet.hurry(Tick::ZERO, &Topic::unchecked("another"));
        assert_eq!(outlet.pause.as_ref().unwrap().next_probe, Tick::ZERO + FIRST_PAUSE);
        assert_eq!(outlet.line, [Turn::Row(RowId(2)), Turn::Row(RowId(1))]);
    }

    #[test]
    fn nothing_is_hurried_where_the_topic_is_no_news_or_not_the_reason() {
        for (kind, topic) in [(ErrorKind::Config, "failed"), (ErrorKind::Unavailable, "another")] {
            let (mut outlet, next) = long_paused(kind);
            outlet.hurry(Tick::ZERO, &Topic::unchecked(topic));
            assert_eq!(outlet.pause.as_ref().unwrap().next_probe, next, "{kind:?}");
            assert_eq!(outlet.line, [Turn::Row(RowId(1)), Turn::Row(RowId(2))], "{kind:?}");
        }
    }
}
