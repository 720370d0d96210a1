//! Finding rows.
//!
//! SQLite has one writer, so the order of ids is the order of commits and `id > last` misses nothing. Lanes are
//! computed here, after reading; rows of lanes that are not held are dropped before their payload is read.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use postrider_core::{HeldLane, Key, Lane, LaneCount, Page, Result, Room, RowId, Source};
use rusqlite::params;

use super::SqliteOptions;
use super::cohort::{Changed, Cohorts};
use super::found::{Found, Gathering, close, columns_of_found};
use super::link::{Done, Link, Statements, Use, data_version};

/// Rows looked at in one read, so that a walk past dead rows or those of other relays stays short.
const MOST_LOOKED_AT: i64 = 20_000;
/// Rows passed by one step of a sweep: about a millisecond, and more where payloads lie between.
const STEP_ROWS: i64 = 2_000;
/// Rows with a nonsensical due time brought by one read.
const MOST_NONSENSE: i64 = 64;

/// The last number that was given: lower than one that was seen where numbers begin anew.
const SEQUENCE: &str = "select seq from sqlite_sequence where name = '{p}outbox'";
const LAST: &str = r#"select max(id) from "{p}outbox""#;

/// The state is not in the where clause: rows that are passed over count against the limit, which keeps the walk short.
const NEXT: &str = columns_of_found!(
    r#"state = 0 and next_attempt_at is null and (deliver_at is null or deliver_at <= ?4
  or typeof(deliver_at) <> 'integer') from "{p}outbox" where id > ?1 and id <= ?2 order by id limit ?3"#
);

/// `indexed by` makes it an error, not a full scan, should the condition and the index ever differ.
const DUE: &str = columns_of_found!(
    r#"coalesce(next_attempt_at, deliver_at) from "{p}outbox" indexed by "{p}outbox_due"
where state = 0 and (next_attempt_at is not null or deliver_at is not null)
  and coalesce(next_attempt_at, deliver_at) >= ?2 and coalesce(next_attempt_at, deliver_at) <= ?1
  and (coalesce(next_attempt_at, deliver_at) > ?2 or id > ?3)
order by coalesce(next_attempt_at, deliver_at), id limit ?4"#
);

/// Texts and blobs are greater than every number: a due time that is none is found here.
const DUE_NONSENSE: &str = columns_of_found!(
    r#"0 from "{p}outbox" indexed by "{p}outbox_due"
where state = 0 and (next_attempt_at is not null or deliver_at is not null)
  and coalesce(next_attempt_at, deliver_at) > 9223372036854775807 limit ?1"#
);

const OF_KEY: &str = columns_of_found!(
    r#"state <> 1 from "{p}outbox" indexed by "{p}outbox_exceptional"
where (state in (2, 3) or next_attempt_at is not null) and key = ?1 order by id limit ?2"#
);

/// The same of all keys and of none, where all messages have one order.
const OF_ALL: &str = columns_of_found!(
    r#"state <> 1 from "{p}outbox" where id in (
  select id from "{p}outbox" indexed by "{p}outbox_exceptional"
  where (state in (2, 3) or next_attempt_at is not null) order by id limit ?1)
order by id"#
);
const ANY_OF_ALL: &str = r#"select 1 from "{p}outbox" indexed by "{p}outbox_exceptional"
where (state in (2, 3) or next_attempt_at is not null) and state <> 1 limit 1"#;

/// One seek per key. Blobs sort behind every text: what is below the empty blob is text.
const FIRST_KEY: &str = r#"select key from "{p}outbox" indexed by "{p}outbox_exceptional"
where (state in (2, 3) or next_attempt_at is not null) and key >= '' and key < x'' order by key limit 1"#;
const NEXT_KEY: &str = r#"select key from "{p}outbox" indexed by "{p}outbox_exceptional"
where (state in (2, 3) or next_attempt_at is not null) and key > cast(?1 as text) and key < x'' order by key limit 1"#;

/// Where a step of a sweep ends.
const STEP: &str =
    r#"select max(id) from (select id from "{p}outbox" where id > ?1 and id <= ?2 order by id limit ?3)"#;

const MISSED: &str = columns_of_found!(
    r#"1 from "{p}outbox" where id > ?1 and id <= ?2 and state = 0 and next_attempt_at is null and deliver_at is null
order by id"#
);

const BY_ID: &str = columns_of_found!(r#"state in (0, 2) from "{p}outbox" where id = ?1"#);

/// The reader of one relay.
#[derive(Debug)]
pub(super) struct SqliteSource {
    link: Link,
    lanes: LaneCount,
    cohorts: Cohorts,
    turn: usize,
    /// Where the reading under way ends.
    until: Option<i64>,
    /// The connection and its data version at which everything had been read.
    exhausted: Option<(u64, i64)>,
    /// Where the due query goes on, when it has looked at its most without reaching the end.
    due_after: (i64, i64),
}

impl SqliteSource {
    pub(super) fn new(options: Arc<SqliteOptions>, lanes: LaneCount) -> Self {
        Self {
            link: Link::new(options, Use::Reading),
            lanes,
            cohorts: Cohorts::default(),
            turn: 0,
            until: None,
            exhausted: None,
            due_after: DUE_START,
        }
    }
}

const DUE_START: (i64, i64) = (i64::MIN, i64::MIN);

#[async_trait]
impl Source for SqliteSource {
    async fn read(&mut self, lanes: &[HeldLane], room: Room) -> Result<Page> {
        if self.cohorts.follow(lanes) == Changed::Yes {
            self.exhausted = None;
        }
        if self.cohorts.len() == 0 || room.rows == 0 {
            return Ok(Page::EMPTY);
        }
        let opened = self.link.opened();
        let exhausted = self.exhausted.filter(|(connection, _)| *connection == opened).map(|(_, version)| version);
        self.turn = self.turn.wrapping_add(1);
        let (cohorts, turn, until) = (self.cohorts.clone(), self.turn, self.until);
        let (walk, count) = (Walk { cohorts, turn, until, room, held: lanes.to_vec() }, self.lanes);
        let read = self.link.run(move |session| {
            // Before the rows: a commit in between makes the next call read again.
            let version = data_version(session)?;
            if exhausted == Some(version) {
                return Ok(None);
            }
            let walked = session.reading("reading new messages", |statements| walk.step(statements, count))?;
            Ok(Some((version, walked)))
        });
        let Some((version, Walked { cohorts, page, until, rest })) = read.await? else { return Ok(Page::EMPTY) };
        let is_exhausted = !page.more && rest == Rest::None && cohorts.len() == 1;
        self.exhausted = is_exhausted.then_some((self.link.opened(), version));
        self.until = page.more.then_some(until);
        self.cohorts = cohorts;
        Ok(page)
    }

    async fn due(&mut self, lanes: &[HeldLane], room: Room, window: &[RowId]) -> Result<Page> {
        if lanes.is_empty() || room.rows == 0 {
            return Ok(Page::EMPTY);
        }
        let held: BTreeSet<Lane> = lanes.iter().map(|held| held.lane).collect();
        let window: BTreeSet<RowId> = window.iter().copied().collect();
        let (count, after, leases) = (self.lanes, self.due_after, lanes.to_vec());
        let read = self.link.run(move |session| {
            session.reading("reading due messages", |statements| {
                let wanted = |found: &Found| held.contains(&found.lane(count)) && !window.contains(&found.id);
                due(statements, count, room, after, &leases, wanted)
            })
        });
        let (page, after) = read.await?;
        self.due_after = after;
        Ok(page)
    }

    async fn key(&mut self, lane: HeldLane, key: &Key, room: Room) -> Result<Page> {
        let (key, count) = (key.clone(), self.lanes);
        let read = self.link.run(move |session| {
            session.reading("reading the messages of a key", |statements| {
                let most = i64::try_from(room.rows).unwrap_or(MOST_LOOKED_AT).min(MOST_LOOKED_AT).saturating_add(1);
                let mut gathering = Gathering::new(room);
                let take = |row: &rusqlite::Row<'_>| {
                    let found = Found::read(row)?;
                    Ok(!found.wanted || found.lane(count) != lane.lane || gathering.admit(found))
                };
                match (count == LaneCount::ONE, key == Key::everything()) {
                    (true, true) => statements.each(OF_ALL, params![most], take)?,
                    (false, _) => statements.each(OF_KEY, params![key.as_str(), most], take)?,
                    (true, false) => true,
                };
                // The rows stand behind each other within the page, and nothing stands before it.
                gathering.load(statements, count, &[lane])
            })
        });
        read.await
    }

    async fn exceptional_keys(&mut self, lane: Lane, after: Option<&Key>, limit: usize) -> Result<Vec<Key>> {
        let (after, count) = (after.map(|key| key.as_str().as_bytes().to_vec()), self.lanes);
        let read = self.link.run(move |session| {
            session.reading("walking the waiting keys", |statements| {
                if count == LaneCount::ONE {
                    let any = after.is_none() && statements.first(ANY_OF_ALL, [], |_| Ok(()))?.is_some();
                    return Ok(any.then(Key::everything).into_iter().take(limit).collect());
                }
                let (mut keys, mut at) = (Vec::new(), after);
                while keys.len() < limit {
                    let raw = |row: &rusqlite::Row<'_>| Ok(row.get_ref(0)?.as_bytes().unwrap_or_default().to_vec());
                    let next = match &at {
                        Some(at) => statements.first(NEXT_KEY, [at], raw)?,
                        None => statements.first(FIRST_KEY, [], raw)?,
                    };
                    let Some(next) = next else { break };
                    if let Ok(text) = std::str::from_utf8(&next)
                        && postrider_core::lane_of(text, count) == lane
                    {
                        keys.push(Key::unchecked(text));
                    }
                    at = Some(next);
                }
                Ok(keys)
            })
        });
        read.await
    }

    async fn sweep(&mut self, lanes: &[HeldLane], after: RowId, room: Room) -> Result<Page> {
        let highest = self.cohorts.highest();
        let at_rest: BTreeSet<Lane> =
            lanes.iter().map(|held| held.lane).filter(|lane| self.cohorts.last(*lane) == Some(highest)).collect();
        if at_rest.is_empty() || room.rows == 0 {
            return Ok(Page::EMPTY);
        }
        let (count, held) = (self.lanes, lanes.to_vec());
        let read = self.link.run(move |session| {
            session.reading("sweeping", |statements| {
                let bounds = params![after.0, highest, STEP_ROWS];
                let upto = statements.first(STEP, bounds, |row| row.get::<_, Option<i64>>(0))?.flatten();
                let (mut gathering, mut passed) = (Gathering::new(room), after.0);
                let all = statements.each(MISSED, params![after.0, upto.unwrap_or(after.0)], |row| {
                    let found = Found::read(row)?;
                    let id = found.id.0;
                    let fits = !at_rest.contains(&found.lane(count)) || gathering.admit(found);
                    passed = if fits { id } else { passed };
                    Ok(fits)
                })?;
                let mut page = gathering.load(statements, count, &held)?;
                close(statements, count, &mut page.rows)?;
                let reached = RowId(if all { upto.unwrap_or(i64::MAX) } else { passed });
                page.reached = at_rest.into_iter().map(|lane| (lane, reached)).collect();
                Ok(page)
            })
        });
        read.await
    }

    async fn load(&mut self, rows: &[RowId], room: Room) -> Result<Page> {
        let (rows, count): (BTreeSet<RowId>, _) = (rows.iter().copied().collect(), self.lanes);
        let read = self.link.run(move |session| {
            session.reading("reading messages by their rows", |statements| {
                let mut gathering = Gathering::new(room);
                for row in rows {
                    let found = statements.first(BY_ID, [row.0], Found::read)?;
                    if found.is_some_and(|found| found.wanted && !gathering.admit(found)) {
                        break;
                    }
                }
                gathering.load(statements, count, &[])
            })
        });
        read.await
    }
}

/// One read of new rows: some of each cohort, beginning with another one each time.
struct Walk {
    cohorts: Cohorts,
    turn: usize,
    /// Where the reading under way ends; none where this read begins one.
    until: Option<i64>,
    room: Room,
    held: Vec<HeldLane>,
}

/// What came of it.
struct Walked {
    cohorts: Cohorts,
    page: Page,
    until: i64,
    rest: Rest,
}

/// Whether anything lies behind the end of the reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    None,
    Some,
}

impl Walk {
    fn step(mut self, statements: &Statements<'_>, lanes: LaneCount) -> Done<Walked> {
        let sequence: i64 = statements.first(SEQUENCE, [], |row| row.get(0))?.unwrap_or(0);
        if sequence < self.cohorts.highest() {
            // An older state of the file was restored: its ids will be given again.
            self.cohorts.restart();
            let page = Page { discontinued: true, more: true, ..Page::EMPTY };
            return Ok(Walked { cohorts: self.cohorts, page, until: sequence, rest: Rest::Some });
        }
        // Ids are given in the order of the commits: what is committed from now on lies behind it.
        let end = statements.first(LAST, [], |row| row.get::<_, Option<i64>>(0))?.flatten().unwrap_or(0);
        let until = self.until.unwrap_or(end).max(self.cohorts.highest());
        let rest = if until < end { Rest::Some } else { Rest::None };
        let now = statements.now()?;
        let most = i64::try_from(self.room.rows.saturating_mul(4)).unwrap_or(i64::MAX).clamp(1_000, MOST_LOOKED_AT);
        let mut gathering = Gathering::new(self.room);
        let mut short = false;
        let cohorts = self.cohorts.len();
        for index in (0..cohorts).map(|place| (place + self.turn) % cohorts) {
            let Some(cohort) = self.cohorts.get(index) else { continue };
            let (from, to) = (cohort.last, self.cohorts.meets(index).unwrap_or(until));
            let mut looked_at = 0;
            let mut last = from;
            let full = !statements.each(NEXT, params![from, to, most, now.0], |row| {
                let found = Found::read(row)?;
                let id = found.id.0;
                if found.wanted && cohort.lanes.contains_key(&found.lane(lanes)) && !gathering.admit(found) {
                    return Ok(false);
                }
                (last, looked_at) = (id, looked_at + 1);
                Ok(true)
            })?;
            if full || looked_at == most {
                short = true;
            } else {
                last = to;
            }
            self.cohorts.advance(index, last);
        }
        self.cohorts.settle();
        let mut page = gathering.load(statements, lanes, &self.held)?;
        page.more = short || self.cohorts.len() > 1;
        if page.more {
            page.reached = self.cohorts.reached();
        }
        close(statements, lanes, &mut page.rows)?;
        Ok(Walked { cohorts: self.cohorts, page, until, rest })
    }
}

fn due(
    statements: &Statements<'_>,
    lanes: LaneCount,
    room: Room,
    after: (i64, i64),
    held: &[HeldLane],
    wanted: impl Fn(&Found) -> bool,
) -> Done<(Page, (i64, i64))> {
    let now = statements.now()?;
    let mut gathering = Gathering::new(room);
    let (mut looked_at, mut at) = (0, after);
    let all = statements.each(DUE, params![now.0, after.0, after.1, MOST_LOOKED_AT], |row| {
        let found = Found::read(row)?;
        at = (found.due(row)?, found.id.0);
        looked_at += 1;
        Ok(!wanted(&found) || gathering.admit(found))
    })?;
    let exhausted = all && looked_at < MOST_LOOKED_AT;
    if all {
        statements.each(DUE_NONSENSE, [MOST_NONSENSE], |row| {
            let found = Found::read(row)?;
            Ok(!wanted(&found) || gathering.admit(found))
        })?;
    }
    let mut page = gathering.load(statements, lanes, held)?;
    page.more |= !exhausted;
    close(statements, lanes, &mut page.rows)?;
    // A page that is full begins anew next time: its rows are in the window then.
    Ok((page, if all && !exhausted { at } else { DUE_START }))
}
