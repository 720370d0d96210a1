//! Recording outcomes: one fenced transaction per batch.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use postrider_core::{
    DestinationName, Error, ErrorKind, HeldLane, Lane, MessageId, Outcome, RelayId, Result, RowId, RowState, Settled,
    Settlement, Settler, Timestamp,
};

use super::columns::Columns;
use super::decode::{id, lane};
use super::found::numbers;
use super::link::{Link, Work};
use super::settle_sql::{DEAD, LOCK_LANES, LOCK_ROWS, NOW, REMEMBER, REMOVE, REMOVE_LOCKED, RETRY, SET_ASIDE, SUSPECT};
use crate::History;
use crate::failures::{appended, counted, micros};

/// Numbers of one statement.
const MANY: usize = 500;
/// How often a batch that met a deadlock is tried: nothing of it was done.
const TRIES: u32 = 4;
/// A hundred years: what is further away would not fit the column.
const FARTHEST: i64 = 3_155_760_000_000_000;

/// The writer of outcomes.
#[derive(Debug)]
pub(super) struct MysqlSettler {
    link: Link,
}

impl MysqlSettler {
    pub(super) fn new(link: Link) -> Self {
        Self { link }
    }

    async fn once(&mut self, me: RelayId, leases: &[HeldLane], batch: &[Settlement]) -> Result<Settled> {
        let kept = self.link.options().history == History::Kept;
        let quiet = batch.iter().all(|one| match one.outcome {
            Outcome::Delivered => !kept,
            Outcome::Dropped => true,
            Outcome::Retry { .. }
            | Outcome::SetAside { .. }
            | Outcome::Suspected { .. }
            | Outcome::Holding { .. }
            | Outcome::Forward { .. }
            | Outcome::Dead { .. } => false,
        });
        if quiet && let Some(settled) = self.remove(me, leases, batch).await? {
            return Ok(settled);
        }
        self.record(me, leases, batch).await
    }

    /// Rows that all go; none when one of them was not there, or has its id in another form: which one it was is only told by
    /// looking first.
    async fn remove(&mut self, me: RelayId, leases: &[HeldLane], batch: &[Settlement]) -> Result<Option<Settled>> {
        let names = self.link.options().names.clone();
        let mut work = self.link.begin("settling").await?;
        let held = fence(&mut work, &names.fill(LOCK_LANES), me, leases, batch).await?;
        let rows: Vec<(i64, MessageId)> = of(&held, batch).filter_map(|one| Some((one.row.0, one.message?))).collect();
        if rows.len() < of(&held, batch).count() {
            work.undo().await?;
            return Ok(None);
        }
        let sql = names.fill(REMOVE).replace("<lanes>", &list(&held));
        let mut removed = 0;
        for some in rows.chunks(MANY) {
            let sql = sql.replace("<ids>", &numbers(some.iter().map(|(row, _)| *row)));
            removed += work.execute_text(&sql.replace("<messages>", &texts(some.iter().map(|(_, id)| *id)))).await?;
        }
        if usize::try_from(removed).unwrap_or(usize::MAX) == rows.len() {
            work.commit().await?;
            let rows = rows.into_iter().map(|(row, _)| RowId(row)).collect();
            return Ok(Some(Settled { rows, lanes: held.into_iter().collect() }));
        }
        work.undo().await?;
        Ok(None)
    }

    /// Rows of every outcome, looked at and locked before they are changed.
    async fn record(&mut self, me: RelayId, leases: &[HeldLane], batch: &[Settlement]) -> Result<Settled> {
        let (names, history) = (self.link.options().names.clone(), self.link.options().history);
        let mut work = self.link.begin("settling").await?;
        let held = fence(&mut work, &names.fill(LOCK_LANES), me, leases, batch).await?;
        let wanted: Vec<&Settlement> = of(&held, batch).collect();
        let sql = names.fill(LOCK_ROWS).replace("<lanes>", &list(&held));
        let mut found: BTreeMap<i64, (Option<MessageId>, Option<String>)> = BTreeMap::new();
        for some in wanted.chunks(MANY) {
            let ids = numbers(some.iter().map(|one| one.row.0));
            for row in work.text(&sql.replace("<ids>", &ids)).await? {
                let columns = Columns::new(row);
                let message = id(columns.text(1));
                found.insert(columns.integer(0).unwrap_or(0), (message, columns.text(2).map(str::to_owned)));
            }
        }
        let is_there = |one: &&Settlement| found.get(&one.row.0).is_some_and(|(message, _)| one.is_for(*message));
        let there: Vec<&Settlement> = wanted.into_iter().filter(is_there).collect();
        let now =
            work.query(&names.fill(NOW), ()).await?.into_iter().next().and_then(|row| Columns::new(row).integer(0));
        let now = Timestamp(now.unwrap_or(0));
        let mut groups: BTreeMap<Group, Vec<i64>> = BTreeMap::new();
        for one in &there {
            let id = one.row.0;
            if let Some(group) = Group::of(one, history) {
                groups.entry(group).or_default().push(id);
                continue;
            }
            let before = found.get(&id).and_then(|(_, errors)| errors.as_deref());
            alone(&mut work, &names, one, before, me, now).await?;
        }
        for (group, ids) in groups {
            for some in ids.chunks(MANY) {
                together(&mut work, &names, &group, &numbers(some.iter().copied()), &list(&held)).await?;
            }
        }
        work.commit().await?;
        Ok(Settled { rows: there.iter().map(|one| one.row).collect(), lanes: held.into_iter().collect() })
    }
}

/// Outcomes that are recorded alike by one statement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    /// Into the history after so many attempts, and gone.
    Remembered(u32),
    Gone,
    SetAside(Option<String>, u16),
    Suspected(u16),
}

impl Group {
    fn of(one: &Settlement, history: History) -> Option<Self> {
        match &one.outcome {
            Outcome::Delivered if history == History::Kept => Some(Self::Remembered(one.attempt.0)),
            Outcome::Delivered | Outcome::Dropped => Some(Self::Gone),
            Outcome::SetAside { waiting_for } => Some(Self::SetAside(waiting_for.as_deref().map(array), one.suspicion)),
            Outcome::Suspected { suspicion } => Some(Self::Suspected(*suspicion)),
            Outcome::Retry { .. } | Outcome::Holding { .. } | Outcome::Forward { .. } | Outcome::Dead { .. } => None,
        }
    }
}

/// Locks the lanes of a batch that are still held under these terms.
async fn fence(
    work: &mut Work<'_>,
    sql: &str,
    me: RelayId,
    leases: &[HeldLane],
    batch: &[Settlement],
) -> Result<BTreeSet<Lane>> {
    let touched: BTreeSet<Lane> = batch.iter().map(|one| one.lane).collect();
    let wanted: BTreeMap<Lane, i64> =
        leases.iter().filter(|held| touched.contains(&held.lane)).map(|held| (held.lane, held.term.0)).collect();
    if wanted.is_empty() {
        return Ok(BTreeSet::new());
    }
    let sql = sql.replace("<lanes>", &numbers(wanted.keys().map(|lane| i64::from(lane.0))));
    let found = work.text(&sql.replace("<me>", &me.to_string())).await?.into_iter().map(Columns::new);
    let found = found.filter(|row| wanted.get(&lane(row, 0)).copied() == row.integer(1));
    Ok(found.map(|row| lane(&row, 0)).collect())
}

/// The settlements of lanes that are held.
fn of<'b>(held: &'b BTreeSet<Lane>, batch: &'b [Settlement]) -> impl Iterator<Item = &'b Settlement> {
    batch.iter().filter(|one| held.contains(&one.lane))
}

fn list(lanes: &BTreeSet<Lane>) -> String {
    // No lane has this number: an empty list is no list.
    let lanes = lanes.iter().map(|lane| i64::from(lane.0));
    numbers(lanes.chain([65_535]))
}

/// Records one outcome for rows that are locked.
async fn together(work: &mut Work<'_>, names: &super::Names, group: &Group, ids: &str, lanes: &str) -> Result<()> {
    let fill = |sql: &str| names.fill(sql).replace("<ids>", ids).replace("<lanes>", lanes);
    match group {
        Group::Remembered(attempts) => {
            work.execute_text(&fill(REMEMBER).replace("<attempts>", &counted(*attempts).to_string())).await?;
            work.execute_text(&fill(REMOVE_LOCKED)).await?;
        }
        Group::Gone => {
            work.execute_text(&fill(REMOVE_LOCKED)).await?;
        }
        Group::SetAside(owed, suspicion) => {
            let sql = fill(SET_ASIDE).replace("<owed>", &literal(owed.as_deref()));
            work.execute_text(&sql.replace("<suspicion>", &number(*suspicion).to_string())).await?;
        }
        Group::Suspected(suspicion) => {
            work.execute_text(&fill(SUSPECT).replace("<suspicion>", &number(*suspicion).to_string())).await?;
        }
    }
    Ok(())
}

/// Records the outcome of one row that is locked.
async fn alone(
    work: &mut Work<'_>,
    names: &super::Names,
    one: &Settlement,
    before: Option<&str>,
    me: RelayId,
    now: Timestamp,
) -> Result<()> {
    match &one.outcome {
        Outcome::Retry { after, attempts, waiting_for, progress, failures }
        | Outcome::Forward { after, attempts, waiting_for, progress, failures, .. } => {
            let reason = match one.outcome {
                Outcome::Forward { reason, .. } => Some(reason.code()),
                _ => None,
            };
            let errors = appended(before, now, me, one.attempt, failures);
            let (owed, progress) = (waiting_for.as_deref().map(array), object(progress));
            let after = micros(*after).min(FARTHEST);
            let params = (after, counted(*attempts), owed, progress, errors, reason, number(one.suspicion), one.row.0);
            work.execute(&names.fill(RETRY), params).await?;
        }
        Outcome::Dead { reason, attempts, waiting_for, failures }
        | Outcome::Holding { reason, attempts, waiting_for, failures } => {
            let holds = matches!(one.outcome, Outcome::Holding { .. });
            let state = if holds { RowState::Holding } else { RowState::Dead };
            let errors = appended(before, now, me, one.attempt, failures);
            let (owed, tried) = (waiting_for.as_deref().map(array), !failures.is_empty());
            let params = (state.code(), counted(*attempts), owed, errors, tried, reason.code(), one.row.0);
            work.execute(&names.fill(DEAD), params).await?;
        }
        Outcome::Delivered | Outcome::Dropped | Outcome::SetAside { .. } | Outcome::Suspected { .. } => {}
    }
    Ok(())
}

/// Ids as a statement takes them, in the form in which everything of Postrider's writes them.
fn texts(ids: impl Iterator<Item = MessageId>) -> String {
    let mut text = String::new();
    for id in ids {
        text.push_str(if text.is_empty() { "'" } else { ",'" });
        text.push_str(&id.to_string());
        text.push('\'');
    }
    text
}

/// A text as a statement takes it, whatever is in it.
fn literal(text: Option<&str>) -> String {
    let hexadecimal = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    text.map_or_else(|| "null".to_owned(), |text| format!("_utf8mb4 x'{}'", hexadecimal(text)))
}

fn array(names: &[DestinationName]) -> String {
    let names: Vec<&str> = names.iter().map(DestinationName::as_str).collect();
    serde_json::Value::from(names).to_string()
}

fn object(progress: &BTreeMap<DestinationName, u32>) -> Option<String> {
    let counts: serde_json::Map<String, serde_json::Value> =
        progress.iter().map(|(name, n)| (name.to_string(), (*n).into())).collect();
    (!counts.is_empty()).then(|| serde_json::Value::Object(counts).to_string())
}

fn number(suspicion: u16) -> i16 {
    i16::try_from(suspicion).unwrap_or(i16::MAX)
}

#[async_trait]
impl Settler for MysqlSettler {
    async fn settle(&mut self, me: RelayId, leases: &[HeldLane], batch: &[Settlement]) -> Result<Settled> {
        let mut tries = 0;
        loop {
            let error: Error = match self.once(me, leases, batch).await {
                Ok(settled) => return Ok(settled),
                Err(error) => error,
            };
            tries += 1;
            if tries >= TRIES || error.kind() != ErrorKind::Unavailable || !self.link.met_deadlock() {
                return Err(error);
            }
            tracing::debug!(%error, tries, "a settle met a deadlock, of which nothing is kept, and is done again");
        }
    }
}
