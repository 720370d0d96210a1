//! Recording outcomes: one fenced statement per batch.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use postrider_core::{
    DestinationName, FailedAttempt, HeldLane, Key, Lane, Outcome, RelayId, Result, RowId, RowState, Settled,
    Settlement, Settler,
};
use serde_json::{Value, json};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::decode::get;
use super::link::{Link, Parameter, Purpose};
use super::readers::Readers;
use super::settle_sql::{MOVE, MOVE_AND_CHANGE, REMOVE, REMOVE_AND_CHANGE, REMOVE_SPAN, SUSPECT};
use super::span::Span;
use crate::History;
use crate::failures::{LONGEST_TEXT, counted, micros};

/// Whether texts of any characters can be stored: `SQL_ASCII` takes all as they are.
const TAKES_EVERY_CHARACTER: &str = "select current_setting('server_encoding') in ('UTF8', 'SQL_ASCII') as takes_all";

/// Which characters the database can store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Characters {
    All,
    /// Its encoding is not Unicode: what it lacks, it refuses with the whole statement (22P05).
    Ascii,
}

/// The writer of outcomes.
#[derive(Debug)]
pub(super) struct PostgresSettler {
    link: Link,
    /// What the database was found to store; asked for when it first matters.
    characters: Option<Characters>,
    /// Who must know of every key that waits.
    readers: Readers,
    /// For batches in which everything was delivered: the quiet path.
    delivered: String,
    /// The same for rows that stand close together.
    span: String,
    mixed: String,
    /// For suspicions, which only a careful start records.
    suspect: String,
    /// For what was dropped where a history is kept: it is no part of it.
    dropped: String,
}

impl PostgresSettler {
    pub(super) const fn purpose(history: History) -> Purpose {
        match history {
            History::Off => Purpose::Hot,
            History::Kept => Purpose::Moving,
        }
    }

    pub(super) fn new(link: Link, readers: Readers) -> Self {
        let options = link.options();
        let (delivered, mixed) = match options.history {
            History::Off => (REMOVE, REMOVE_AND_CHANGE),
            History::Kept => (MOVE, MOVE_AND_CHANGE),
        };
        let [delivered, span, mixed, suspect, dropped] =
            [delivered, REMOVE_SPAN, mixed, SUSPECT, REMOVE].map(|sql| options.names.fill(sql));
        Self { link, characters: None, readers, delivered, span, mixed, suspect, dropped }
    }

    /// The characters in which failures may be told.
    async fn characters(&mut self, batch: &[Settlement]) -> Result<Characters> {
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii() && byte != 0);
        if batch.iter().flat_map(failures).all(|failure| is_plain(&failure.text)) {
            return Ok(Characters::All);
        }
        match self.characters {
            Some(characters) => Ok(characters),
            None => {
                let answer = self.link.query_one("reading the encoding", TAKES_EVERY_CHARACTER, &[]).await?;
                let takes_all: bool = get(&answer, "takes_all")?;
                Ok(*self.characters.insert(if takes_all { Characters::All } else { Characters::Ascii }))
            }
        }
    }

    /// Records suspicions and nothing else.
    async fn suspect(&mut self, me: RelayId, leases: &[HeldLane], rows: &[(&Settlement, u16)]) -> Result<Settled> {
        let (lanes, terms) = touched(leases, rows.iter().map(|(one, _)| one.lane));
        let ids: Vec<i64> = rows.iter().map(|(one, _)| one.row.0).collect();
        let suspicions: Vec<i16> = rows.iter().map(|(_, n)| number(*n)).collect();
        let messages = messages(rows.iter().map(|(one, _)| *one));
        let parameters: [Parameter<'_>; 6] = [
            (&me.0, Type::UUID),
            (&lanes, Type::INT2_ARRAY),
            (&terms, Type::INT8_ARRAY),
            (&ids, Type::INT8_ARRAY),
            (&suspicions, Type::INT2_ARRAY),
            (&messages, Type::UUID_ARRAY),
        ];
        settled(&self.link.query_one("recording suspicion", &self.suspect, &parameters).await?, &[])
    }
}

/// The rows that go on, as the statement takes them.
#[derive(Debug, Default)]
struct Changes {
    ids: Vec<i64>,
    states: Vec<i16>,
    after: Vec<Option<i64>>,
    attempts: Vec<Option<i32>>,
    waiting_for: Vec<Option<String>>,
    progress: Vec<Option<String>>,
    failures: Vec<Option<String>>,
    reasons: Vec<Option<i16>>,
    suspicions: Vec<i16>,
    messages: Vec<Option<Uuid>>,
}

impl Changes {
    fn add(&mut self, me: RelayId, settlement: &Settlement, characters: Characters) {
        let (state, after, attempts, waiting_for, progress, failures, reason) = match &settlement.outcome {
            Outcome::Delivered | Outcome::Dropped | Outcome::Suspected { .. } => return,
            Outcome::Retry { after, attempts, waiting_for, progress, failures } => {
                let progress = Some(object(progress));
                (RowState::Pending, Some(micros(*after)), Some(*attempts), waiting_for, progress, &failures[..], None)
            }
            Outcome::SetAside { waiting_for } => (RowState::SetAside, None, None, waiting_for, None, &[][..], None),
            Outcome::Forward { reason, after, attempts, waiting_for, progress, failures } => {
                let (after, progress) = (Some(micros(*after)), Some(object(progress)));
                (RowState::Pending, after, Some(*attempts), waiting_for, progress, &failures[..], Some(reason.code()))
            }
            Outcome::Holding { reason, attempts, waiting_for, failures } => {
                (RowState::Holding, None, Some(*attempts), waiting_for, None, &failures[..], Some(reason.code()))
            }
            Outcome::Dead { reason, attempts, waiting_for, failures } => {
                (RowState::Dead, None, Some(*attempts), waiting_for, None, &failures[..], Some(reason.code()))
            }
        };
        self.ids.push(settlement.row.0);
        self.states.push(state.code());
        // A hundred years: what is further away would not fit the type.
        self.after.push(after.map(|after| after.min(3_155_760_000_000_000)));
        self.attempts.push(attempts.map(counted));
        self.waiting_for.push(waiting_for.as_deref().map(names));
        self.progress.push(progress);
        self.failures.push((!failures.is_empty()).then(|| unfinished(me, settlement, failures, characters)));
        self.reasons.push(reason);
        self.suspicions.push(number(settlement.suspicion));
        self.messages.push(settlement.message.map(|id| id.0));
    }
}

fn object(progress: &BTreeMap<DestinationName, u32>) -> String {
    let counts = progress.iter().map(|(name, count)| (name.as_str().to_owned(), json!(count)));
    Value::Object(counts.collect()).to_string()
}

fn names(destinations: &[DestinationName]) -> String {
    Value::from(destinations.iter().map(|name| name.as_str()).collect::<Vec<_>>()).to_string()
}

/// The entries of the `errors` column without their time and closing brace, which the database adds.
fn unfinished(me: RelayId, settlement: &Settlement, failures: &[FailedAttempt], characters: Characters) -> String {
    let entry = |failure: &FailedAttempt| {
        // A NUL cannot be read back by the JSON functions of the database.
        let (in_its_place, only_ascii) = match characters {
            Characters::All => ('\u{fffd}', false),
            Characters::Ascii => ('?', true),
        };
        let storable = |c: char| if c == '\0' || (only_ascii && !c.is_ascii()) { in_its_place } else { c };
        let text: String = failure.text.chars().take(LONGEST_TEXT).map(storable).collect();
        let entry = json!({
            "relay": me.to_string(), "attempt": settlement.attempt.0, "destination": failure.destination.as_str(),
            "kind": failure.kind.as_str(), "text": text, "moment": failure.moment,
        });
        let mut text = entry.to_string();
        text.pop();
        text
    };
    Value::from(failures.iter().map(entry).collect::<Vec<_>>()).to_string()
}

/// The lanes that are touched, and the terms under which they are held.
fn touched(leases: &[HeldLane], lanes: impl Iterator<Item = Lane>) -> (Vec<i16>, Vec<i64>) {
    let place = |lane: Lane| usize::from(lane.0);
    let mut is_touched = vec![false; leases.iter().map(|held| place(held.lane) + 1).max().unwrap_or(0)];
    lanes.for_each(|lane| is_touched.get_mut(place(lane)).into_iter().for_each(|touched| *touched = true));
    let held = leases.iter().filter(|held| is_touched.get(place(held.lane)) == Some(&true));
    held.map(|held| (i16::try_from(held.lane.0).unwrap_or(i16::MAX), held.term.0)).unzip()
}

fn number(suspicion: u16) -> i16 {
    i16::try_from(suspicion).unwrap_or(i16::MAX)
}

/// The messages of these, in their order.
fn messages<'s>(of: impl Iterator<Item = &'s Settlement>) -> Vec<Option<Uuid>> {
    of.map(|settlement| settlement.message.map(|id| id.0)).collect()
}

/// The failed attempts that a settlement tells of.
fn failures(settlement: &Settlement) -> &[FailedAttempt] {
    match &settlement.outcome {
        Outcome::Retry { failures, .. }
        | Outcome::Forward { failures, .. }
        | Outcome::Holding { failures, .. }
        | Outcome::Dead { failures, .. } => failures,
        Outcome::Delivered | Outcome::Dropped | Outcome::SetAside { .. } | Outcome::Suspected { .. } => &[],
    }
}

fn suspicion(settlement: &Settlement) -> Option<(&Settlement, u16)> {
    match settlement.outcome {
        Outcome::Suspected { suspicion } => Some((settlement, suspicion)),
        Outcome::Delivered
        | Outcome::Dropped
        | Outcome::Retry { .. }
        | Outcome::SetAside { .. }
        | Outcome::Holding { .. }
        | Outcome::Forward { .. }
        | Outcome::Dead { .. } => None,
    }
}

/// The answers of two statements for one batch, of which the second one touched these lanes. A lane that it did not find
/// held is held no more, whatever the first one found: then what is left of its rows is somebody else's.
fn both(first: Settled, second: Settled, touched: &BTreeSet<Lane>) -> Settled {
    let rows = first.rows.into_iter().chain(second.rows).collect();
    let only_first = first.lanes.into_iter().filter(|lane| !touched.contains(lane));
    Settled { rows, lanes: only_first.chain(second.lanes).collect() }
}

/// What a settling statement answers: without any rows, all that were asked for.
fn settled(answer: &tokio_postgres::Row, asked: &[i64]) -> Result<Settled> {
    let (lanes, ids): (Vec<i16>, Option<Vec<i64>>) = (get(answer, "lanes")?, get(answer, "ids")?);
    let lane = |number: i16| Lane(u16::try_from(number).unwrap_or(0));
    let ids = ids.as_deref().unwrap_or(asked);
    Ok(Settled { rows: ids.iter().copied().map(RowId).collect(), lanes: lanes.into_iter().map(lane).collect() })
}

/// The keys that may wait now.
fn keys(answer: &tokio_postgres::Row) -> Result<Vec<Key>> {
    let keys: Vec<String> = get(answer, "keys")?;
    Ok(keys.into_iter().map(Key::unchecked).collect())
}

#[async_trait]
impl Settler for PostgresSettler {
    async fn settle(&mut self, me: RelayId, leases: &[HeldLane], batch: &[Settlement]) -> Result<Settled> {
        let suspected: Vec<_> = batch.iter().filter_map(suspicion).collect();
        if !suspected.is_empty() {
            let of_these = self.suspect(me, leases, &suspected).await?;
            let rest: Vec<Settlement> = batch.iter().filter(|one| suspicion(one).is_none()).cloned().collect();
            return if rest.is_empty() {
                Ok(of_these)
            } else {
                let touched: BTreeSet<Lane> = rest.iter().map(|settlement| settlement.lane).collect();
                Ok(both(of_these, self.settle(me, leases, &rest).await?, &touched))
            };
        }
        let (lanes, terms) = touched(leases, batch.iter().map(|settlement| settlement.lane));
        let kept = self.link.options().history == History::Kept;
        let are_dropped = || batch.iter().filter(|one| one.outcome == Outcome::Dropped);
        let dropped: Vec<i64> = are_dropped().map(|settlement| settlement.row.0).collect();
        let mut before = Settled::default();
        if kept && !dropped.is_empty() {
            let messages = messages(are_dropped());
            let parameters: [Parameter<'_>; 5] = [
                (&me.0, Type::UUID),
                (&lanes, Type::INT2_ARRAY),
                (&terms, Type::INT8_ARRAY),
                (&dropped, Type::INT8_ARRAY),
                (&messages, Type::UUID_ARRAY),
            ];
            before = settled(&self.link.query_one("settling", &self.dropped, &parameters).await?, &dropped)?;
            if dropped.len() == batch.len() {
                return Ok(before);
            }
        }
        let goes = |outcome: &Outcome| match outcome {
            Outcome::Delivered => true,
            Outcome::Dropped => !kept,
            Outcome::Retry { .. }
            | Outcome::SetAside { .. }
            | Outcome::Suspected { .. }
            | Outcome::Holding { .. }
            | Outcome::Forward { .. }
            | Outcome::Dead { .. } => false,
        };
        let gone = || batch.iter().filter(|settlement| goes(&settlement.outcome));
        let delivered: Vec<i64> = gone().map(|settlement| settlement.row.0).collect();
        let made: Vec<i32> = gone().map(|settlement| counted(settlement.attempt.0)).collect();
        let their_messages = messages(gone());
        let mut changes = Changes::default();
        let characters = self.characters(batch).await?;
        batch.iter().for_each(|settlement| changes.add(me, settlement, characters));

        let mut parameters: Vec<Parameter<'_>> = vec![
            (&me.0, Type::UUID),
            (&lanes, Type::INT2_ARRAY),
            (&terms, Type::INT8_ARRAY),
            (&delivered, Type::INT8_ARRAY),
            (&their_messages, Type::UUID_ARRAY),
        ];
        let quiet = changes.ids.is_empty();
        let span = if quiet && !kept { Span::of(&delivered, &their_messages) } else { None };
        if let Some(span) = span {
            parameters.truncate(3);
            parameters.extend::<[Parameter<'_>; 5]>([
                (&span.first, Type::INT8),
                (&span.last, Type::INT8),
                (&span.bits, Type::BYTEA),
                (&span.count, Type::INT8),
                (&span.messages, Type::UUID_ARRAY),
            ]);
            return settled(&self.link.query_one_often("settling", &self.span, &parameters).await?, &delivered);
        }
        if !quiet || kept {
            parameters.push((&made, Type::INT4_ARRAY));
        }
        if !quiet {
            parameters.extend::<[Parameter<'_>; 10]>([
                (&changes.ids, Type::INT8_ARRAY),
                (&changes.states, Type::INT2_ARRAY),
                (&changes.after, Type::INT8_ARRAY),
                (&changes.attempts, Type::INT4_ARRAY),
                (&changes.waiting_for, Type::TEXT_ARRAY),
                (&changes.progress, Type::TEXT_ARRAY),
                (&changes.failures, Type::TEXT_ARRAY),
                (&changes.reasons, Type::INT2_ARRAY),
                (&changes.suspicions, Type::INT2_ARRAY),
                (&changes.messages, Type::UUID_ARRAY),
            ]);
        }
        let answer = if quiet {
            self.link.query_one_often("settling", &self.delivered, &parameters).await?
        } else {
            let not_told = self.readers.not_told();
            let answer = self.link.query_one("settling", &self.mixed, &parameters).await?;
            not_told.told(&keys(&answer)?);
            answer
        };
        let answer = settled(&answer, &delivered)?;
        before.rows.extend(answer.rows);
        Ok(Settled { lanes: answer.lanes, ..before })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_that_was_lost_between_two_statements_is_not_held() {
        let settled = |rows: &[i64], lanes: &[u16]| Settled {
            rows: rows.iter().copied().map(RowId).collect(),
            lanes: lanes.iter().copied().map(Lane).collect(),
        };
        let all = both(settled(&[1, 2], &[4, 5]), settled(&[3], &[6]), &BTreeSet::from([Lane(5), Lane(6)]));
        assert_eq!(all, settled(&[1, 2, 3], &[4, 6]));
    }
}
