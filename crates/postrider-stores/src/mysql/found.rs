//! Rows that were found, and fetching those that fit.

use std::collections::{BTreeMap, BTreeSet};

use mysql_async::Row as Raw;
use postrider_core::{
    Closed, DestinationName, HeldLane, Lane, LaneCount, MAX_PAYLOAD, Result, Room, Row, RowId, Start,
};

use super::columns::Columns;
use super::decode::{self, Depth, lane, names};
use super::link::Link;
use super::read_sql::{ANY_EXCEPTION, BEFORE_ALL, BEFORE_KEY, LOAD, LOAD_HEAD};
use crate::page::Filling;

/// The bytes of a key that the index of exceptions holds; no message has a longer one.
pub(super) const INDEXED: usize = 600;
/// Exceptional rows that are looked at before later rows are held to wait for everything.
const MOST_EXCEPTIONS: usize = 33;
/// Numbers of one statement.
const MANY: usize = 500;
/// Keys of one statement.
const KEYS: usize = 100;
/// What the server sends with a row beside its contents, at most.
const ENVELOPE: usize = 16 << 10;

/// A row that was found but not fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) id: i64,
    pub(super) lane: Lane,
    pub(super) weight: usize,
    /// Whether it is pending, and neither delayed any more nor to be tried again.
    pub(super) ordinary: bool,
}

impl Found {
    pub(super) fn read(row: Raw) -> (Self, Columns) {
        let columns = Columns::new(row);
        let weight = columns.integer(2).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let id = columns.integer(0).unwrap_or(0);
        (Self { id, lane: lane(&columns, 1), weight, ordinary: columns.is_true(3) }, columns)
    }

    pub(super) fn all(rows: Vec<Raw>) -> Vec<Self> {
        rows.into_iter().map(|row| Self::read(row).0).collect()
    }
}

/// Found rows that fit the room of a page.
#[derive(Debug)]
pub(super) struct Gathering {
    filling: Filling,
    found: Vec<Found>,
    full: bool,
}

impl Gathering {
    pub(super) fn new(room: Room) -> Self {
        Self { filling: Filling::new(room), found: Vec::new(), full: false }
    }

    /// Takes a row, if it fits.
    pub(super) fn admit(&mut self, found: Found) -> bool {
        // What is too heavy to be a message is not fetched, so it takes no room.
        let weight = if found.weight > MAX_PAYLOAD + (4 << 20) { 0 } else { found.weight };
        if !self.full && self.filling.admit(weight) {
            self.found.push(found);
            return true;
        }
        self.full = true;
        false
    }

    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Fetches the rows in the order in which they were admitted; of lanes that start carefully only the heads. Those that
    /// are no longer in one of these states are missing.
    pub(super) async fn load(self, link: &mut Link, held: &[HeldLane], states: &str) -> Result<Vec<Row>> {
        if self.found.is_empty() {
            return Ok(Vec::new());
        }
        let packet = link.packet().await?;
        let careful: BTreeSet<Lane> =
            held.iter().filter(|held| held.start == Start::Careful).map(|held| held.lane).collect();
        let too_heavy =
            |found: &Found| found.weight.saturating_add(ENVELOPE) > packet || found.weight > MAX_PAYLOAD + (4 << 20);
        let mut rows: BTreeMap<i64, Row> = BTreeMap::new();
        for (depth, wanted) in [
            (Depth::Whole, self.found.iter().filter(|found| !careful.contains(&found.lane)).collect::<Vec<_>>()),
            (Depth::Head, self.found.iter().filter(|found| careful.contains(&found.lane)).collect()),
        ] {
            let (heavy, light): (Vec<&Found>, Vec<&Found>) = wanted.into_iter().partition(|found| too_heavy(found));
            for some in light.chunks(MANY) {
                for columns in load(link, depth, some, states).await? {
                    rows.insert(columns.integer(0).unwrap_or(0), decode::row(columns, depth));
                }
            }
            for some in heavy.chunks(MANY) {
                for columns in load(link, Depth::Head, some, states).await? {
                    rows.insert(columns.integer(0).unwrap_or(0), decode::oversized(columns, packet));
                }
            }
        }
        Ok(self.found.iter().filter_map(|found| rows.remove(&found.id)).collect())
    }
}

async fn load(link: &mut Link, depth: Depth, some: &[&Found], states: &str) -> Result<Vec<Columns>> {
    let sql = match depth {
        Depth::Whole => LOAD,
        Depth::Head => LOAD_HEAD,
    };
    let sql = link.options().names.fill(sql).replace("<ids>", &numbers(some.iter().map(|found| found.id)));
    let rows = link.text("fetching messages", &sql.replace("<states>", states)).await?;
    Ok(rows.into_iter().map(Columns::new).collect())
}

/// Numbers as a list of a statement.
pub(super) fn numbers(numbers: impl IntoIterator<Item = i64>) -> String {
    let mut text = String::new();
    for number in numbers {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&number.to_string());
    }
    text
}

/// Marks the rows that stand behind an exceptional row of their key, or behind any where all have one order. It costs one
/// look where nothing is exceptional.
pub(super) async fn close(link: &mut Link, lanes: LaneCount, rows: &mut [Row]) -> Result<()> {
    let doing = "looking at what stands before messages";
    let touched: BTreeSet<Lane> = rows.iter().map(|row| row.lane).collect();
    if touched.is_empty() {
        return Ok(());
    }
    let names = link.options().names.clone();
    let any = names.fill(ANY_EXCEPTION).replace("<lanes>", &numbers(touched.iter().map(|lane| i64::from(lane.0))));
    if link.text(doing, &any).await?.is_empty() {
        return Ok(());
    }
    if lanes == LaneCount::ONE {
        let highest = rows.iter().map(|row| row.id.0).max().unwrap_or(0);
        let before = link.query(doing, &names.fill(BEFORE_ALL), (highest, MOST_EXCEPTIONS)).await?;
        let before: Vec<Exception> = before.into_iter().map(|row| exception(&Columns::new(row), 0)).collect();
        rows.iter_mut().for_each(|row| row.closed = behind(row.id, &before));
        return Ok(());
    }
    // Of each key the highest row: what stands before the others is among what stands before that.
    let mut highest: BTreeMap<(Lane, String), i64> = BTreeMap::new();
    for row in rows.iter() {
        if let Some(key) = row.key() {
            let id = highest.entry((row.lane, key.as_str().to_owned())).or_insert(row.id.0);
            *id = row.id.0.max(*id);
        }
    }
    let keys: Vec<((Lane, String), i64)> = highest.into_iter().collect();
    let mut exceptions: BTreeMap<(Lane, &str), Vec<Exception>> = BTreeMap::new();
    let one = names.fill(BEFORE_KEY).replace("<limit>", &MOST_EXCEPTIONS.to_string());
    for some in keys.chunks(KEYS) {
        let each = some.iter().enumerate().map(|(place, ((lane, key), id))| {
            let key = indexed(key).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let sql = one.replace("<place>", &place.to_string()).replace("<lane>", &lane.0.to_string());
            sql.replace("<key>", &key).replace("<id>", &id.to_string())
        });
        let sql = each.collect::<Vec<_>>().join(" union all ");
        for row in link.text(doing, &sql).await? {
            let columns = Columns::new(row);
            let place = columns.integer(0).and_then(|place| usize::try_from(place).ok());
            if let Some(((lane, key), _)) = place.and_then(|place| some.get(place)) {
                exceptions.entry((*lane, key)).or_default().push(exception(&columns, 1));
            }
        }
    }
    for before in exceptions.values_mut() {
        before.sort_by_key(|(id, _)| *id);
    }
    for row in rows {
        let before = row.key().and_then(|key| exceptions.get(&(row.lane, key.as_str())));
        if let Some(before) = before {
            row.closed = behind(row.id, before);
        }
    }
    Ok(())
}

/// The bytes of a key as the index of exceptions has them.
pub(super) fn indexed(key: &str) -> &[u8] {
    let bytes = key.as_bytes();
    bytes.get(..INDEXED).unwrap_or(bytes)
}

/// An exceptional row and what it still owes; none for everything.
type Exception = (RowId, Option<Vec<DestinationName>>);

fn exception(columns: &Columns, place: usize) -> Exception {
    (RowId(columns.integer(place).unwrap_or(0)), columns.text(place + 1).and_then(names))
}

fn behind(id: RowId, exceptions: &[Exception]) -> Closed {
    let mut owed = BTreeSet::new();
    let mut seen = 0;
    for (_, destinations) in exceptions.iter().take_while(|(before, _)| *before < id) {
        seen += 1;
        match destinations {
            Some(destinations) => owed.extend(destinations.iter().cloned()),
            None => return Closed::ForAll,
        }
    }
    match (owed.is_empty(), seen == MOST_EXCEPTIONS) {
        (_, true) => Closed::ForMany(owed.into_iter().collect()),
        (true, false) => Closed::Open,
        (false, false) => Closed::For(owed.into_iter().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owes(id: i64, name: Option<&str>) -> Exception {
        (RowId(id), name.map(|name| vec![DestinationName::new(name)]))
    }

    #[test]
    fn a_row_is_closed_for_what_the_rows_before_it_owe() {
        let before = [owes(1, Some("a")), owes(3, Some("b")), owes(5, None)];
        let only = |names: &[&str]| Closed::For(names.iter().map(|name| DestinationName::new(name)).collect());
        let of = |id| behind(RowId(id), &before);
        assert_eq!([of(1), of(2), of(4), of(6)], [Closed::Open, only(&["a"]), only(&["a", "b"]), Closed::ForAll]);
    }

    #[test]
    fn behind_more_than_are_looked_at_more_than_these_may_have_to_be_waited_for() {
        let mut before: Vec<Exception> = (0..33).map(|id| owes(id, Some("a"))).collect();
        assert_eq!(behind(RowId(100), &before), Closed::ForMany(vec![DestinationName::new("a")]));
        before[7] = owes(7, None);
        assert_eq!(behind(RowId(100), &before), Closed::ForAll);
    }
}
