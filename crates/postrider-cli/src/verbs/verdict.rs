//! The verdict of `status`: are messages moving, and if not, why and what to do.

use std::fmt;
use std::time::Duration;

use super::look::{Look, progressed};
use crate::admin::report::{DestinationReport, RelayState, Report};
use crate::config::values::spoken;
use crate::exit::Exit;
use crate::output::counted::{being, counted};
use crate::output::table::{argument, visible};

/// A relay that has made no progress for so long, with messages due, is stuck.
const PATIENCE: Duration = Duration::from_secs(30);
/// One that has made none for so long may still wait for an answer: nobody can say yet whether messages move.
const LULL: Duration = Duration::from_secs(5);

/// The answer in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// Messages are being delivered.
    Moving,
    /// There is nothing to deliver.
    Idle,
    /// Messages wait and do not go.
    Stuck,
    /// What could be seen does not tell.
    Unknown,
}

impl Word {
    /// The exit code.
    pub(crate) const fn exit(self) -> Exit {
        match self {
            Self::Moving | Self::Idle => Exit::Good,
            Self::Stuck => Exit::Bad,
            Self::Unknown => Exit::Unknown,
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Moving => "moving",
            Self::Idle => "idle",
            Self::Stuck => "stuck",
            Self::Unknown => "unknown",
        })
    }
}

/// The verdict: a word, the cause, the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The word.
    pub(crate) word: Word,
    /// Why.
    pub(crate) cause: String,
    /// What to do.
    pub(crate) next: String,
}

impl Verdict {
    fn new(word: Word, cause: impl Into<String>, next: impl Into<String>) -> Self {
        Self { word, cause: cause.into(), next: next.into() }
    }
}

/// What one look tells, if it tells enough.
pub(crate) fn at_once(look: &Look) -> Option<Verdict> {
    if let Some(report) = look.relay.as_ref().ok().filter(|report| report.state == RelayState::StoreAway) {
        return Some(away(report));
    }
    if let Some(paused) = look.paused() {
        return Some(paused_verdict(paused, &others(look, paused)));
    }
    if let Some(silent) = look.silent() {
        return Some(silent_verdict(silent, &others(look, silent)));
    }
    if look.due() == 0 {
        return Some(held(look).unwrap_or_else(|| idle(look)));
    }
    if look.living() == 0 {
        let cause = match look.store.members.len() {
            0 => "no relay is running".to_owned(),
            1 => format!("the relay {} has not renewed its lease", visible(&look.store.members[0].name)),
            n => format!("none of {n} relays has renewed its lease"),
        };
        let next = match look.store.members.len() {
            0 => "start one: `postrider relay`; where one runs and hangs, restart that one",
            _ => "restart it if it hangs, or start another: `postrider relay`",
        };
        return Some(Verdict::new(Word::Stuck, cause, next));
    }
    unrouted(look)
}

/// The store does not answer the relay: its error may know the next step best.
fn away(report: &Report) -> Verdict {
    let because = report.because.as_deref().unwrap_or("the outbox is away");
    let (because, step) = match report.next.as_deref() {
        Some(step) => (because.strip_suffix(step).map_or(because, |story| story.trim_end_matches("; ")), visible(step)),
        None => (because, "see to that cause: the database, its disk, the way to it or its credentials".to_owned()),
    };
    Verdict::new(
        Word::Stuck,
        format!("relay {} cannot reach the outbox: {}", report.relay, visible(because)),
        format!(
            "{step}; the relay goes on by itself, and is restarted where its own settings changed, a password file too"
        ),
    )
}

/// What two looks tell, `apart` from each other.
pub(crate) fn compared(first: &Look, second: &Look, apart: Duration) -> Verdict {
    if let Some(verdict) = at_once(second) {
        return verdict;
    }
    let last = second.store.recent_errors.first().map(|error| visible(error));
    if progressed(first, second, apart) {
        return working(second, last);
    }
    if second.due() <= second.waiting() && second.store.retrying.value() > 0 {
        let cause = last.unwrap_or_else(|| "the last failure is not recorded".to_owned());
        return Verdict::new(
            Word::Moving,
            format!("{} being retried: {cause}", being(second.store.retrying.value(), "message")),
            "see to that failure; `postrider explain ID` tells about one message",
        );
    }
    match (&second.relay, last) {
        (Ok(report), _) if report.state == RelayState::Standby => Verdict::new(
            Word::Unknown,
            format!(
                "relay {} is a standby, and {} did not move",
                visible(&report.relay),
                counted(second.due(), "due message")
            ),
            "ask the relay that has the lanes (--admin IP:PORT); if that one was killed, its lease ends within seconds and this \
             one takes over",
        ),
        (Ok(report), _) => by_age(second, report),
        (Err(why), Some(error)) => Verdict::new(
            Word::Stuck,
            format!("{} not moving: {error} (the relay could not be asked: {why})", being(second.due(), "due message")),
            "see to that failure, and look at the relay's logs",
        ),
        (Err(why), None) => Verdict::new(
            Word::Unknown,
            format!(
                "{} did not move for {}, and the relay could not be asked: {why}",
                counted(second.due(), "due message"),
                spoken(apart)
            ),
            "ask the relay, which has a lease, where its admin address can be reached (--admin IP:PORT); one inside an application \
             has none, and that application's log says why a destination pauses; one that was killed or hangs is replaced when \
             its lease has run out",
        ),
    }
}

/// Messages move; what keys wait for all the same is told.
fn working(look: &Look, last: Option<String>) -> Verdict {
    let being_done = format!("{} being worked on", being(look.due(), "due message"));
    match (look.store.set_aside.value(), look.store.retrying.value(), last) {
        (behind @ 1.., failed @ 1.., Some(cause)) => Verdict::new(
            Word::Moving,
            format!(
                "{being_done}, and {} waiting behind {} that failed: {cause}",
                being(behind, "message"),
                counted(failed, "message")
            ),
            "see to that failure; `postrider explain --key KEY` tells what a key waits for",
        ),
        _ => Verdict::new(Word::Moving, being_done, "nothing to do"),
    }
}

fn by_age(look: &Look, report: &Report) -> Verdict {
    let quiet = report.last_progress_seconds.map_or(PATIENCE.as_secs_f64(), |seconds| seconds);
    if report.state == RelayState::Relaying && quiet < PATIENCE.as_secs_f64() {
        let due = counted(look.due(), "due message");
        if quiet >= LULL.as_secs_f64() {
            return Verdict::new(
                Word::Unknown,
                format!("{due}, and no progress for {quiet:.0}s; the cause is not known yet"),
                "ask again in half a minute: a broker that does not answer is told when its timeout is over",
            );
        }
        let next = match look.living() {
            ..=1 => "nothing to do",
            _ => "nothing to do here; only this relay was asked: when it stays, ask the others (--admin IP:PORT)",
        };
        return Verdict::new(Word::Moving, format!("{due}; the last progress was {quiet:.0}s ago"), next);
    }
    let lanes = look.store.lanes.len();
    let owned = look.store.lanes.iter().filter(|lane| lane.owner.is_some()).count();
    let cause = format!(
        "relay {} is {} and has made no progress for {quiet:.0}s; {owned} of {lanes} lanes have an owner",
        report.relay, report.state
    );
    Verdict::new(Word::Stuck, cause, "look at the relay's logs; `postrider check` looks at the database and the broker")
}

/// What the other destinations do meanwhile, where there are any.
fn others(look: &Look, told_of: &DestinationReport) -> String {
    let all = look.relay.as_ref().map(|report| report.destinations.as_slice()).unwrap_or_default();
    let (pausing, running): (Vec<_>, Vec<_>) =
        all.iter().filter(|other| other.name != told_of.name).partition(|other| other.paused_seconds.is_some());
    let (silent, going): (Vec<_>, Vec<_>) = running.into_iter().partition(|other| other.silent_seconds.is_some());
    let mut told = String::new();
    for (destinations, what) in
        [(pausing, "paused as well"), (silent, "without an answer"), (going, "not paused, and messages go on there")]
    {
        let names: Vec<String> = destinations.iter().map(|one| visible(&one.name)).collect();
        if !names.is_empty() {
            told.push_str(&format!("; {what}: {}", names.join(", ")));
        }
    }
    told
}

/// Why a destination takes nothing at the moment, if that is so.
pub(crate) fn of_destination(destination: &DestinationReport) -> Option<Verdict> {
    match (destination.paused_seconds, destination.silent_seconds) {
        (Some(_), _) => Some(paused_verdict(destination, "")),
        (None, Some(_)) => Some(silent_verdict(destination, "")),
        (None, None) => None,
    }
}

fn paused_verdict(paused: &DestinationReport, others: &str) -> Verdict {
    let cause = paused.cause.clone().unwrap_or_else(|| "the cause is not known".to_owned());
    let since = Duration::from_secs_f64(paused.paused_seconds.unwrap_or_default().clamp(0.0, 1e9));
    let next = match paused.kind.as_deref() {
        Some("config") => {
            "correct the configuration of the broker (`postrider check` says more); an attempt is charged only to what fails \
             after another message was accepted"
        }
        Some("rejected") if paused.accepted > 0 => {
            "one message after the other is rejected there, and others were accepted before: see to the receiver, or to what \
             writes these; no message loses an attempt meanwhile"
        }
        Some("rejected") => {
            "every message is rejected there: see to the receiver; no message loses an attempt meanwhile"
        }
        _ => "bring the broker back; the relay goes on by itself, and no message loses an attempt meanwhile",
    };
    let tried = match (&paused.last_failed_id, &paused.last_failed_topic) {
        (Some(id), Some(topic)) => format!(" (last tried with message {id} of {})", visible(topic)),
        _ => String::new(),
    };
    Verdict::new(
        Word::Stuck,
        format!(
            "destination {} has been paused for {}: {}{tried}{others}",
            visible(&paused.name),
            spoken(since),
            visible(&cause)
        ),
        next,
    )
}

fn silent_verdict(silent: &DestinationReport, others: &str) -> Verdict {
    let long = Duration::from_secs_f64(silent.silent_seconds.unwrap_or_default().clamp(0.0, 1e9));
    Verdict::new(
        Word::Stuck,
        format!("destination {} has answered nothing for {}{others}", visible(&silent.name), spoken(long)),
        "see to that broker or endpoint: it takes calls and does not answer them; what waits for it goes on when it does",
    )
}

/// Messages whose topic no route leads wait for a better configuration, whatever else is moving.
fn unrouted(look: &Look) -> Option<Verdict> {
    let topics = &look.store.unrouted;
    let led = |topic: &String| look.routes.iter().any(|pattern| pattern.matches(topic));
    let named = topics.iter().map(|topic| visible(topic)).collect::<Vec<_>>().join(", ");
    let cause = match topics.len() {
        0 => return None,
        1 => format!("no route of the relay leads the topic {named}: its messages wait"),
        _ => format!("no route of the relay leads these topics: {named}; their messages wait"),
    };
    let next = if topics.iter().all(led) {
        "the configuration read here has a route: restart the relay if it runs without it; within a minute they are tried \
         again. A message may also be owed to a route of another name: `postrider explain ID` tells"
    } else {
        "add a route for the topic or a default route ([[route]] with topics = \"#\" leads every topic), and restart the \
         relay: within a minute they are tried again"
    };
    Some(Verdict::new(Word::Stuck, cause, next))
}

/// Nothing is due but what waits behind held keys: it does not move before somebody decides.
fn held(look: &Look) -> Option<Verdict> {
    let waiting = look.store.held_back.value();
    let first = look.store.held.first().filter(|_| waiting > 0)?;
    let (holding, key) = (look.store.holding.value(), visible(first.key.as_str()));
    let by_key = argument("key", first.key.as_str());
    let cause = match holding {
        1 => format!("the key {key} is held by a dead letter, and behind it {} waiting", being(waiting, "message")),
        _ => format!(
            "{holding} dead letters hold their keys, and behind them {} waiting, first of key {key}",
            being(waiting, "message")
        ),
    };
    let next = format!(
        "`postrider dead list --holding` shows them; `postrider dead replay {by_key} --yes` once the cause is gone, or \
         `postrider dead discard --id {}`",
        first.by
    );
    Some(Verdict::new(Word::Stuck, cause, next))
}

fn idle(look: &Look) -> Verdict {
    let mut cause = "nothing is due".to_owned();
    for (count, what) in
        [(look.store.delayed, "delayed"), (look.store.dead, "dead"), (look.store.holding, "holding their key")]
    {
        if count.value() > 0 {
            cause.push_str(&format!(", {} {what}", count.value()));
        }
    }
    let next = if look.store.dead.value() > 0 {
        "`postrider dead list` shows the dead letters"
    } else if look.living() == 0 {
        "no relay is running; start one before messages come: `postrider relay`"
    } else {
        "nothing to do"
    };
    Verdict::new(Word::Idle, cause, next)
}

#[cfg(test)]
mod tests {
    use postrider_core::{Measured, MemberStatus, StoreStatus, TopicPattern};
    use uuid::Uuid;

    use super::*;

    fn store(pending: u64, age: u64) -> StoreStatus {
        StoreStatus {
            pending: Measured::Exact(pending),
            oldest_age: (pending > 0).then(|| Duration::from_secs(age)),
            members: vec![MemberStatus { id: Uuid::nil(), name: "a".to_owned(), lease_left: Duration::from_secs(5) }],
            ..StoreStatus::default()
        }
    }

    fn report() -> Report {
        Report { state: RelayState::Relaying, last_progress_seconds: Some(60.0), ..Report::starting("a", None) }
    }

    fn look(pending: u64, age: u64) -> Look {
        Look { store: store(pending, age), relay: Ok(report()), routes: Vec::new() }
    }

    #[test]
    fn a_key_that_waits_is_told_while_others_move() {
        let mut now = look(56, 52);
        let before = Look { store: StoreStatus { pending: Measured::Exact(60), ..store(60, 52) }, ..look(60, 52) };
        assert_eq!(compared(&before, &now, Duration::from_secs(2)).next, "nothing to do");
        now.store.set_aside = Measured::Exact(53);
        now.store.retrying = Measured::Exact(2);
        now.store.recent_errors = vec!["no stream".to_owned()];
        let verdict = compared(&before, &now, Duration::from_secs(2));
        assert_eq!(verdict.word, Word::Moving);
        assert!(
            verdict.cause.ends_with("53 messages are waiting behind 2 messages that failed: no stream"),
            "{}",
            verdict.cause
        );
        assert!(verdict.next.contains("postrider explain --key KEY"), "{}", verdict.next);
    }

    #[test]
    fn a_relay_that_is_quiet_is_not_said_to_move_for_long() {
        let word = |quiet: f64| {
            let report = Report { last_progress_seconds: Some(quiet), ..report() };
            by_age(&look(3, 10), &report).word
        };
        assert_eq!([1.0, 4.9, 5.0, 29.0, 30.0].map(word), {
            use Word::{Moving, Stuck, Unknown};
            [Moving, Moving, Unknown, Unknown, Stuck]
        });
    }

    #[test]
    fn the_next_step_about_an_outbox_that_is_away_is_that_of_its_error() {
        let away = |because: &str, next: Option<&str>| {
            let (state, because) = (RelayState::StoreAway, Some(because.to_owned()));
            let report = Report { state, because, next: next.map(ToOwned::to_owned), ..report() };
            let verdict = at_once(&Look { relay: Ok(report), ..look(3, 10) }).unwrap();
            assert_eq!(verdict.word, Word::Stuck);
            (verdict.cause, verdict.next)
        };
        let (cause, next) = away("the disk is full; free some space", Some("free some space"));
        assert_eq!(cause, "relay a cannot reach the outbox: the disk is full");
        assert_eq!(
            next,
            "free some space; the relay goes on by itself, and is restarted where its own settings changed, a password file too"
        );
        let (cause, next) = away("refused", None);
        assert_eq!(cause, "relay a cannot reach the outbox: refused");
        assert!(next.contains("see to that cause"), "{next}");
    }

    #[test]
    fn a_paused_destination_is_stuck_with_its_cause() {
        let mut look = look(3, 10);
        if let Ok(report) = &mut look.relay {
            report.destinations.push(DestinationReport {
                name: "events".to_owned(),
                paused_seconds: Some(12.0),
                silent_seconds: None,
                cause: Some("connection refused".to_owned()),
                kind: Some("unavailable".to_owned()),
                last_failed_id: Some("0190-a".to_owned()),
                last_failed_topic: Some("orders".to_owned()),
                accepted: 0,
                failed: 4,
            });
        }
        let verdict = at_once(&look).unwrap();
        assert_eq!(verdict.word, Word::Stuck);
        assert!(verdict.cause.contains("events") && verdict.cause.contains("connection refused"), "{verdict:?}");
        assert!(verdict.cause.ends_with("last tried with message 0190-a of orders)"), "{verdict:?}");
    }

    #[test]
    fn beside_a_paused_destination_the_verdict_says_what_the_others_do() {
        let one = |name: &str, paused_seconds: Option<f64>| DestinationReport {
            name: name.to_owned(),
            paused_seconds,
            silent_seconds: None,
            cause: paused_seconds.map(|_| "away".to_owned()),
            kind: None,
            last_failed_id: None,
            last_failed_topic: None,
            accepted: 0,
            failed: 0,
        };
        let mut look = look(3, 10);
        if let Ok(report) = &mut look.relay {
            report.destinations = vec![one("events", None), one("billing", Some(12.0)), one("audit", Some(3.0))];
        }
        let cause = at_once(&look).unwrap().cause;
        let expected = "destination billing has been paused for 12s: away; paused as well: audit; not paused, and messages go \
                        on there: events";
        assert_eq!(cause, expected);
        if let Ok(report) = &mut look.relay {
            report.destinations = vec![one("events", None), one("billing", None)];
            report.destinations[1].silent_seconds = Some(5.0);
        }
        let verdict = at_once(&look).unwrap();
        let expected = "destination billing has answered nothing for 5s; not paused, and messages go on there: events";
        assert_eq!((verdict.word, verdict.cause.as_str()), (Word::Stuck, expected));
    }

    #[test]
    fn a_backlog_without_a_relay_is_stuck_and_an_empty_outbox_is_idle() {
        let mut alone = look(3, 10);
        alone.store.members.clear();
        assert_eq!(at_once(&alone).unwrap().word, Word::Stuck);
        assert_eq!(at_once(&look(0, 0)).unwrap().word, Word::Idle);
        let mut delayed = look(5, 0);
        delayed.store.delayed = Measured::Exact(5);
        assert_eq!(at_once(&delayed).unwrap().word, Word::Idle);
    }

    #[test]
    fn topics_without_a_route_are_stuck_whatever_else_moves_and_a_mended_configuration_is_seen() {
        let mut look = look(3, 10);
        look.store.unrouted = vec!["mail.sent".to_owned(), "paid".to_owned()];
        let verdict = at_once(&look).unwrap();
        assert_eq!(verdict.word, Word::Stuck);
        assert!(verdict.cause.contains("mail.sent, paid"), "{verdict:?}");
        assert!(verdict.next.contains("add a route") && verdict.next.contains("a default route"), "{verdict:?}");
        look.routes = vec![TopicPattern::parse("mail.#").unwrap()];
        assert!(at_once(&look).unwrap().next.contains("add a route"), "one of them still lacks a route");
        look.routes = vec![TopicPattern::every()];
        assert!(at_once(&look).unwrap().next.contains("restart the relay if"), "the relay may be an older one");
    }

    #[test]
    fn what_waits_behind_a_held_key_alone_is_stuck_until_an_operator_decides() {
        let mut look = look(7, 100);
        look.store.holding = Measured::Exact(1);
        (look.store.set_aside, look.store.held_back) = (Measured::Exact(7), Measured::Exact(7));
        look.store.held = vec![postrider_core::HeldKey {
            key: postrider_core::Key::unchecked("customer-42"),
            by: postrider_core::MessageId(Uuid::nil()),
            since: Duration::from_secs(9),
            waiting: Measured::Exact(7),
        }];
        let verdict = at_once(&look).unwrap();
        assert_eq!(verdict.word, Word::Stuck);
        assert!(verdict.cause.contains("customer-42") && verdict.cause.contains("7 messages"), "{verdict:?}");
        assert!(verdict.next.contains("postrider dead replay --key customer-42"), "{verdict:?}");
        look.store.pending = Measured::Exact(9);
        assert_eq!(at_once(&look), None, "others are due: two looks tell whether they move");
    }

    #[test]
    fn an_oldest_message_that_stays_the_oldest_is_no_progress_however_much_is_due() {
        let second = Duration::from_secs(1);
        assert_eq!(compared(&look(10, 100), &look(12, 101), second).word, Word::Stuck);
        assert_eq!(compared(&look(10, 100), &look(12, 3), second).word, Word::Moving);
        assert_eq!(compared(&look(10, 100), &look(9, 101), second).word, Word::Moving);
    }

    #[test]
    fn a_relay_that_cannot_be_asked_leaves_it_open_unless_failures_are_recorded() {
        let unasked = |errors: &[&str]| {
            let mut look = look(10, 100);
            look.relay = Err("refused".to_owned());
            look.store.recent_errors = errors.iter().map(|error| (*error).to_owned()).collect();
            look
        };
        let mut later = unasked(&[]);
        later.store.oldest_age = Some(Duration::from_secs(101));
        assert_eq!(compared(&unasked(&[]), &later, Duration::from_secs(1)).word, Word::Unknown);
        let mut later = unasked(&["events: connection refused"]);
        later.store.oldest_age = Some(Duration::from_secs(101));
        let verdict = compared(&unasked(&[]), &later, Duration::from_secs(1));
        assert_eq!(verdict.word, Word::Stuck);
        assert!(verdict.cause.contains("connection refused"));
    }
}
