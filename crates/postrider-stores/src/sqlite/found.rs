//! Rows that were found, and loading those that fit.

use std::collections::{BTreeMap, BTreeSet};

use postrider_core::{
    Closed, DestinationName, HeldLane, Key, Lane, LaneCount, MessageId, Page, Room, Row, RowId, Start,
};
use rusqlite::types::ValueRef;
use uuid::Uuid;

use super::link::{Done, Statements};
use super::row::{HEAVIEST, columns, columns_of_head, decode, decode_head, lane, names, oversized};
use crate::page::Filling;

/// What it takes to know a row's lane and weight without reading its payload; the next column is the statement's own.
macro_rules! columns_of_found {
    ($rest:literal) => {
        concat!(
            "select id, key, message_id,
  coalesce(octet_length(payload), 0) + coalesce(octet_length(topic), 0) + coalesce(octet_length(key), 0)
  + coalesce(octet_length(headers), 0) + coalesce(octet_length(attributes), 0)
  + coalesce(octet_length(content_type), 0) + coalesce(octet_length(retry), 0)
  + coalesce(octet_length(waiting_for), 0) + coalesce(octet_length(progress), 0), ",
            $rest
        )
    };
}
pub(super) use columns_of_found;

const LOAD: &str = columns!("where id = ?1");

/// What is read of a row in a lane whose owner died: not its payload, which is the last column of the table.
const LOAD_HEAD: &str = columns_of_head!("where id = ?1");

const ANY_EXCEPTION: &str = r#"select 1 from "{p}outbox" indexed by "{p}outbox_exceptional"
where (state in (2, 3) or next_attempt_at is not null) limit 1"#;

const EXCEPTIONS: &str = r#"select id, waiting_for from "{p}outbox" indexed by "{p}outbox_exceptional"
where (state in (2, 3) or next_attempt_at is not null) and key = ?1 and id < ?2 and state <> 1 order by id limit ?3"#;

/// The same of all rows, where they have one order. They are sorted out of the index of exceptions: by the primary key
/// the walk would pass every ordinary row.
const EXCEPTIONS_OF_ALL: &str = r#"select id, waiting_for from "{p}outbox" where id in (
  select id from "{p}outbox" indexed by "{p}outbox_exceptional"
  where (state in (2, 3) or next_attempt_at is not null) and id < ?1 and state <> 1 order by id limit ?2)
order by id"#;

/// Exceptional rows that are looked at before later rows are held to wait for everything.
const MOST_EXCEPTIONS: usize = 64;

/// A row that was found but not loaded.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) id: RowId,
    /// Whether the statement's own column was true.
    pub(super) wanted: bool,
    key: Option<String>,
    message_id: Option<MessageId>,
    weight: usize,
}

impl Found {
    pub(super) fn read(row: &rusqlite::Row<'_>) -> Done<Self> {
        let text = |index| -> Done<Option<String>> {
            Ok(match row.get_ref(index)? {
                ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok().map(str::to_owned),
                ValueRef::Null | ValueRef::Blob(_) | ValueRef::Integer(_) | ValueRef::Real(_) => None,
            })
        };
        let message_id = text(2)?.and_then(|text| Uuid::parse_str(&text).ok()).map(MessageId);
        let wanted = matches!(row.get_ref(4)?, ValueRef::Integer(n) if n != 0);
        let weight = usize::try_from(row.get::<_, i64>(3)?).unwrap_or(usize::MAX);
        Ok(Self { id: RowId(row.get(0)?), wanted, key: text(1)?, message_id, weight })
    }

    /// The statement's own column as a moment; the end of time for what is none.
    pub(super) fn due(&self, row: &rusqlite::Row<'_>) -> Done<i64> {
        Ok(match row.get_ref(4)? {
            ValueRef::Integer(at) => at,
            ValueRef::Null | ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_) => i64::MAX,
        })
    }

    pub(super) fn lane(&self, lanes: LaneCount) -> Lane {
        let id = self.message_id.map(|id| id.to_string());
        lane(self.key.as_deref(), id.as_deref(), self.id, lanes)
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
        // What is too heavy to be a message is not loaded, so it takes no room.
        let weight = if found.weight > HEAVIEST { 0 } else { found.weight };
        if self.filling.admit(weight) {
            self.found.push(found);
            return true;
        }
        self.full = true;
        false
    }

    /// Loads the rows, all of them open; of lanes that start carefully only the heads.
    pub(super) fn load(self, statements: &Statements<'_>, lanes: LaneCount, held: &[HeldLane]) -> Done<Page> {
        let careful: BTreeSet<Lane> =
            held.iter().filter(|held| held.start == Start::Careful).map(|held| held.lane).collect();
        let now = statements.now()?;
        let mut rows = Vec::with_capacity(self.found.len());
        for found in self.found {
            if found.weight > HEAVIEST {
                let lane = found.lane(lanes);
                let key = found.key.map(Key::unchecked);
                rows.push(oversized(found.id, lane, key, found.message_id, found.weight));
            } else if !careful.is_empty() && careful.contains(&found.lane(lanes)) {
                if let Some(row) = statements.first(LOAD_HEAD, [found.id.0], decode_head)? {
                    rows.push(row.into_row(lanes, found.weight, now));
                }
            } else if let Some(row) = statements.first(LOAD, [found.id.0], decode)? {
                rows.push(row.into_row(lanes, found.weight, now));
            }
        }
        Ok(Page { rows, more: self.full, ..Page::EMPTY })
    }
}

/// Marks the rows that stand behind an exceptional row of their key, or behind any where all have one order. It costs one
/// look-up per distinct key, and none where nothing is exceptional.
pub(super) fn close(statements: &Statements<'_>, lanes: LaneCount, rows: &mut [Row]) -> Done<()> {
    if rows.is_empty() || statements.first(ANY_EXCEPTION, [], |_| Ok(()))?.is_none() {
        return Ok(());
    }
    let most = i64::try_from(MOST_EXCEPTIONS).unwrap_or(i64::MAX);
    if lanes == LaneCount::ONE {
        let highest = rows.iter().map(|row| row.id.0).max().unwrap_or(0);
        let before = statements.all(EXCEPTIONS_OF_ALL, rusqlite::params![highest, most], exception)?;
        rows.iter_mut().for_each(|row| row.closed = behind(row.id, &before));
        return Ok(());
    }
    let mut highest: BTreeMap<Key, RowId> = BTreeMap::new();
    for row in rows.iter() {
        if let Some(key) = row.key() {
            let id = highest.entry(key.clone()).or_insert(row.id);
            *id = row.id.max(*id);
        }
    }
    let mut exceptions = BTreeMap::new();
    for (key, id) in highest {
        let before = statements.all(EXCEPTIONS, rusqlite::params![key.as_str(), id.0, most], exception)?;
        exceptions.insert(key, before);
    }
    for row in rows {
        if let Some(before) = row.key().and_then(|key| exceptions.get(key)) {
            row.closed = behind(row.id, before);
        }
    }
    Ok(())
}

/// An exceptional row, and what it still owes; none for everything.
fn exception(row: &rusqlite::Row<'_>) -> Done<(RowId, Option<Vec<DestinationName>>)> {
    let owed = match row.get_ref(1)? {
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok().and_then(|text| names(text).ok()),
        ValueRef::Null | ValueRef::Blob(_) | ValueRef::Integer(_) | ValueRef::Real(_) => None,
    };
    Ok((RowId(row.get(0)?), owed))
}

fn behind(id: RowId, exceptions: &[(RowId, Option<Vec<DestinationName>>)]) -> Closed {
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
