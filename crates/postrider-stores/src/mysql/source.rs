//! Finding rows: by primary key, with the numbers in flight looked for again.
//!
//! What has been read is remembered in [`Cohorts`], bound to the life of the server and to the connection: an error, a
//! cancelled call, a lost connection or another life forgets it, and the lanes are read anew from the table.
//!
//! A read looks behind the end first and at the numbers in flight after that. Whatever was committed before a row that
//! the first look saw began is then seen by one of the two, so that of a key nothing is brought before what it follows.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postrider_core::{HeldLane, Key, Lane, LaneCount, Page, Result, Room, RowId, Source};

use super::cohort::{Cohort, Cohorts};
use super::columns::Columns;
use super::found::{Found, Gathering, close, indexed, numbers};
use super::life::{Life, Look, look};
use super::link::Link;
use super::read_sql::{
    ANY_EXCEPTION, BY_ID, DUE, IN_RANGES, LAST_ID, NEXT, NEXT_KEY, NOTHING_UNTIL, OF_ALL, OF_KEY, PRESENT, SWEEP,
};
use crate::stride::Stride;

/// Rows looked at in one read, so that a walk past dead rows or those of other relays stays short.
const MOST_LOOKED_AT: usize = 20_000;
/// Numbers that are physically there and looked at in one go.
const MOST_PRESENT: usize = 100_000;
/// Numbers below the next one by so many are not drawn by an insert that has yet to write its row.
const RECENT: i64 = 10_000;
/// How often the server's life is looked at: somebody may have put other tables in the place of these.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the numbers in flight are looked for among what is not committed, at most; and what part of the time it
/// may take.
const PROBE_EVERY: Duration = Duration::from_millis(200);
const PROBE_PART: u32 = 20;
/// Where statements of a sweep pass nothing, they follow each other so long within one step.
const LONGEST_STEP: Duration = Duration::from_millis(2);
/// Numbers of one statement.
const MANY: usize = 500;
/// What can be published, and what an operator waits for beside it.
const LIVE: &str = "0, 2";
const EXCEPTIONAL: &str = "0, 2, 3";
const DUE_START: (i64, i64) = (i64::MIN, i64::MIN);

/// The reader of one relay.
#[derive(Debug)]
pub(super) struct MysqlSource {
    link: Link,
    lanes: LaneCount,
    cohorts: Cohorts,
    turn: usize,
    /// Where the reading under way ends, from its second page on.
    until: Option<i64>,
    life: Option<Life>,
    looked: Instant,
    patience: Duration,
    /// When the numbers in flight are looked for again.
    probe_at: Instant,
    /// The connection on which the cohorts tell the truth: none while a read runs, so that one that ends early is not
    /// believed.
    trusted: Option<u64>,
    /// Where the due query goes on, when it has looked at its most without reaching the end.
    due_after: (i64, i64),
    stride: Stride,
}

impl MysqlSource {
    pub(super) fn new(link: Link, lanes: LaneCount) -> Self {
        Self {
            link,
            lanes,
            cohorts: Cohorts::default(),
            turn: 0,
            until: None,
            life: None,
            looked: Instant::now(),
            patience: Duration::MAX,
            probe_at: Instant::now(),
            trusted: None,
            due_after: DUE_START,
            stride: Stride::first(Duration::ZERO),
        }
    }

    fn sql(&self, sql: &str) -> String {
        self.link.options().names.fill(sql)
    }

    /// Looks at the server; whether what is remembered still holds.
    async fn look(&mut self) -> Result<bool> {
        let Look { life, next, patience } = look(&mut self.link).await?;
        (self.looked, self.patience) = (Instant::now(), patience);
        let same = self.life.as_ref().is_none_or(|known| known.is(&life));
        self.life = Some(life);
        Ok(same && next > self.cohorts.highest())
    }

    /// Nothing is known of what was read.
    fn forget(&mut self) {
        self.cohorts.forget();
        self.until = None;
    }

    async fn read_cohorts(&mut self, lanes: &[HeldLane], room: Room) -> Result<Page> {
        self.turn = self.turn.wrapping_add(1);
        let (count, mut gathering, mut more) = (self.cohorts.len(), Gathering::new(room), false);
        for place in 0..count {
            if gathering.is_full() {
                more = true;
                break;
            }
            let index = (place + self.turn) % count;
            let meets = self.cohorts.meets(index);
            let Some(mut cohort) = self.cohorts.get_mut(index).map(std::mem::take) else { break };
            more |= self.read_cohort(&mut cohort, meets, room, &mut gathering).await?;
            if let Some(place) = self.cohorts.get_mut(index) {
                *place = cohort;
            }
        }
        self.cohorts.settle();
        let mut rows = gathering.load(&mut self.link, lanes, "0").await?;
        close(&mut self.link, self.lanes, &mut rows).await?;
        self.probe().await?;
        let more = more || self.cohorts.len() > 1;
        self.until = match self.until.filter(|_| more) {
            None if more => Some(self.last_id().await?),
            until => until,
        };
        let reached = if more { self.cohorts.reached() } else { Default::default() };
        Ok(Page { rows, more, discontinued: false, reached })
    }

    /// One page of one cohort, which then stands where the page ended; whether there is more.
    async fn read_cohort(
        &mut self,
        cohort: &mut Cohort,
        meets: Option<i64>,
        room: Room,
        gathering: &mut Gathering,
    ) -> Result<bool> {
        let settled_below = match cohort.settled_below {
            Some(known) => known,
            None => look(&mut self.link).await?.next.saturating_sub(RECENT),
        };
        cohort.settled_below = Some(settled_below);
        let most = room.rows.saturating_mul(2).clamp(1_000, MOST_LOOKED_AT);
        let until = self.until.map_or(i64::MAX, |until| until.max(cohort.last));
        let end = meets.unwrap_or(until);
        let sql = self.sql(NEXT);
        let found = Found::all(self.link.query("reading new messages", &sql, (cohort.last, end, most)).await?);
        let now = Instant::now();
        if !self.take_late(cohort, gathering).await? {
            // What follows waits: it may stand behind what did not fit.
            return Ok(true);
        }
        let is_all = found.len() < most;
        let mut upto = match (is_all, meets, found.last()) {
            (true, Some(meets), _) => meets,
            (_, _, Some(last)) => last.id,
            (_, None, None) | (false, Some(_), None) => cohort.last,
        };
        let mut fits = true;
        for found in &found {
            if found.ordinary && cohort.lanes.contains_key(&found.lane) && !gathering.admit(*found) {
                (upto, fits) = (found.id - 1, false);
                break;
            }
        }
        let from = cohort.last;
        self.note_in_flight(cohort, from, upto.min(settled_below), &found, now).await?;
        let seen = found.iter().map(|found| found.id);
        cohort.gaps.note(from.max(settled_below), upto, seen, now);
        cohort.last = upto.max(from);
        cohort.at_rest = is_all && fits && meets.is_none();
        Ok(!is_all || !fits)
    }

    /// Brings the rows that were in flight and are committed now; whether all of them fitted.
    async fn take_late(&mut self, cohort: &mut Cohort, gathering: &mut Gathering) -> Result<bool> {
        let mut ranges = cohort.gaps.asked();
        while !ranges.is_empty() {
            let sql = self.sql(IN_RANGES).replace("<ranges>", &condition(&ranges));
            let sql = sql.replace("<limit>", &MOST_LOOKED_AT.to_string());
            let late = Found::all(self.link.text("looking for messages that were in flight", &sql).await?);
            for found in late.iter().filter(|found| found.id <= cohort.last) {
                if !cohort.gaps.contains(found.id) {
                    continue;
                }
                if found.ordinary && cohort.lanes.contains_key(&found.lane) && !gathering.admit(*found) {
                    return Ok(false);
                }
                cohort.gaps.seen(found.id);
            }
            if late.len() < MOST_LOOKED_AT {
                break;
            }
            let passed = late.last().map_or(i64::MAX, |found| found.id);
            ranges.retain(|(_, last)| *last > passed);
            for (first, _) in &mut ranges {
                *first = (*first).max(passed.saturating_add(1));
            }
        }
        Ok(true)
    }

    /// Notes rows that are there, not committed, and were passed over, and the numbers behind them that their statements may
    /// still write.
    async fn note_in_flight(
        &mut self,
        cohort: &mut Cohort,
        from: i64,
        upto: i64,
        found: &[Found],
        now: Instant,
    ) -> Result<()> {
        let seen: BTreeSet<i64> = found.iter().map(|found| found.id).filter(|id| *id <= upto).collect();
        let holes = upto.saturating_sub(from) > i64::try_from(seen.len()).unwrap_or(i64::MAX);
        if upto <= from || !holes {
            return Ok(());
        }
        let (mut after, mut last_before) = (from, None);
        loop {
            let mut present = self.present(&[(after.saturating_add(1), upto)]).await?;
            let is_all = present.len() < MOST_PRESENT;
            cohort.gaps.note_flying(present.iter().copied().filter(|id| !seen.contains(id)), now);
            present.splice(0..0, last_before);
            let Some(&last) = present.last() else { return Ok(()) };
            cohort.gaps.note_reserved(&present, &seen, if is_all { upto } else { last }, now);
            if is_all {
                return Ok(());
            }
            (after, last_before) = (last, Some(last));
        }
    }

    /// Looks for the numbers in flight among what is not committed, from time to time: those that were rolled back are
    /// forgotten.
    async fn probe(&mut self) -> Result<()> {
        let began = Instant::now();
        if began < self.probe_at {
            return Ok(());
        }
        for index in 0..self.cohorts.len() {
            let Some(ranges) = self.cohorts.get(index).map(|cohort| cohort.gaps.asked()) else { break };
            if ranges.is_empty() {
                continue;
            }
            let present = self.present(&ranges).await?;
            let upto = if present.len() < MOST_PRESENT { i64::MAX } else { present.last().copied().unwrap_or(0) };
            if let Some(cohort) = self.cohorts.get_mut(index) {
                cohort.gaps.probed(&present, upto, began, self.patience);
            }
        }
        self.probe_at = Instant::now() + PROBE_EVERY.max(began.elapsed() * PROBE_PART);
        Ok(())
    }

    /// The numbers in these ranges at which a row is physically there.
    async fn present(&mut self, ranges: &[(i64, i64)]) -> Result<Vec<i64>> {
        let sql = self.sql(PRESENT).replace("<ranges>", &condition(ranges));
        let sql = sql.replace("<limit>", &MOST_PRESENT.to_string());
        let rows = self.link.uncommitted("looking for messages in flight", &sql).await?;
        Ok(rows.into_iter().filter_map(|row| Columns::new(row).integer(0)).collect())
    }

    /// A page, if everything in it came by the connection with which the read began.
    fn believed(&mut self, connection: Option<u64>, page: Page) -> Page {
        if connection.is_none() || connection != self.link.standing() {
            // The connection was lost and opened again: the other end may be another server.
            self.forget();
            return Page { more: true, ..Page::EMPTY };
        }
        self.trusted = connection;
        page
    }

    /// Rows that were found for a page, fetched, with what stands before each where that is asked for.
    async fn fetched(&mut self, gathering: Gathering, lanes: &[HeldLane], states: &str) -> Result<Page> {
        let more = gathering.is_full();
        let rows = gathering.load(&mut self.link, lanes, states).await?;
        Ok(Page { rows, more, ..Page::EMPTY })
    }
}

fn condition(ranges: &[(i64, i64)]) -> String {
    let each = ranges.iter().map(|(first, last)| {
        if first == last { format!("id = {first}") } else { format!("id between {first} and {last}") }
    });
    each.collect::<Vec<_>>().join(" or ")
}

fn list(lanes: impl IntoIterator<Item = Lane>) -> String {
    numbers(lanes.into_iter().map(|lane| i64::from(lane.0)))
}

#[async_trait]
impl Source for MysqlSource {
    async fn read(&mut self, lanes: &[HeldLane], room: Room) -> Result<Page> {
        let trusted = self.trusted.take();
        let is_known = trusted.is_some() && trusted == self.link.standing();
        if !is_known {
            self.forget();
        }
        if (!is_known || self.looked.elapsed() >= LOOK_EVERY) && !self.look().await? {
            self.forget();
            return Ok(Page { discontinued: true, ..Page::EMPTY });
        }
        let connection = self.link.standing();
        self.cohorts.follow(lanes);
        let page = if room.rows == 0 || self.cohorts.len() == 0 {
            Page { more: self.cohorts.len() > 0, ..Page::EMPTY }
        } else {
            self.read_cohorts(lanes, room).await?
        };
        Ok(self.believed(connection, page))
    }

    async fn due(&mut self, lanes: &[HeldLane], room: Room, window: &[RowId]) -> Result<Page> {
        if lanes.is_empty() || room.rows == 0 {
            return Ok(Page::EMPTY);
        }
        let held: BTreeSet<Lane> = lanes.iter().map(|held| held.lane).collect();
        let window: BTreeSet<i64> = window.iter().map(|row| row.0).collect();
        let (sql, after) = (self.sql(DUE), self.due_after);
        let rows = self.link.query("reading due messages", &sql, (after.0, after.0, after.1, MOST_LOOKED_AT)).await?;
        let looked_at = rows.len();
        let (mut gathering, mut at) = (Gathering::new(room), after);
        for row in rows {
            let (found, columns) = Found::read(row);
            let wanted = held.contains(&found.lane) && !window.contains(&found.id);
            if wanted && !gathering.admit(found) {
                break;
            }
            at = (columns.integer(4).unwrap_or(i64::MAX), found.id);
        }
        let is_cut = looked_at == MOST_LOOKED_AT;
        // A page that is full begins anew next time: its rows are in the window then.
        self.due_after = if is_cut && !gathering.is_full() { at } else { DUE_START };
        let mut page = self.fetched(gathering, lanes, "0").await?;
        page.more |= is_cut;
        close(&mut self.link, self.lanes, &mut page.rows).await?;
        Ok(page)
    }

    async fn key(&mut self, lane: HeldLane, key: &Key, room: Room) -> Result<Page> {
        let doing = "reading the waiting messages of a key";
        let most = room.rows.min(MOST_LOOKED_AT).saturating_add(1);
        let rows = match (self.lanes == LaneCount::ONE, *key == Key::everything()) {
            (true, true) => self.link.query(doing, &self.sql(OF_ALL), (most,)).await?,
            (false, _) => {
                let bytes = indexed(key.as_str()).to_vec();
                self.link.query(doing, &self.sql(OF_KEY), (lane.lane.0, bytes, most)).await?
            }
            (true, false) => Vec::new(),
        };
        let mut gathering = Gathering::new(room);
        for found in Found::all(rows) {
            if !gathering.admit(found) {
                break;
            }
        }
        // The rows stand behind each other within the page, and nothing stands before it.
        self.fetched(gathering, &[lane], EXCEPTIONAL).await
    }

    async fn exceptional_keys(&mut self, lane: Lane, after: Option<&Key>, limit: usize) -> Result<Vec<Key>> {
        let doing = "walking the waiting keys";
        if self.lanes == LaneCount::ONE {
            if after.is_some() || limit == 0 {
                // Everything stands together: nothing comes after it.
                return Ok(Vec::new());
            }
            let any = self.sql(ANY_EXCEPTION).replace("<lanes>", "0");
            let any = !self.link.text(doing, &any).await?.is_empty();
            return Ok(any.then(Key::everything).into_iter().collect());
        }
        let sql = self.sql(NEXT_KEY);
        let (mut keys, mut at) = (Vec::new(), after.map(|key| indexed(key.as_str()).to_vec()).unwrap_or_default());
        while keys.len() < limit {
            let rows = self.link.query(doing, &sql, (lane.0, at.clone())).await?;
            let Some(next) = rows.into_iter().next().and_then(|row| Columns::new(row).take_bytes(0)) else { break };
            // One that was cut within a character is longer than a message's: its rows are dead letters soon.
            if let Ok(key) = std::str::from_utf8(&next) {
                keys.push(Key::unchecked(key));
            }
            at = next;
        }
        Ok(keys)
    }

    async fn sweep(&mut self, lanes: &[HeldLane], after: RowId, room: Room) -> Result<Page> {
        if room.rows == 0 || self.trusted.is_none() || self.trusted != self.link.standing() {
            return Ok(Page::EMPTY);
        }
        let Some((at_rest, end)) = self.cohorts.at_rest(lanes) else { return Ok(Page::EMPTY) };
        let sql = self.sql(SWEEP).replace("<lanes>", &list(at_rest.iter().copied()));
        let began = Instant::now();
        // Numbers begin at 1.
        let mut after = after.0.max(0);
        loop {
            let (upto, started) = (self.stride.from(after, end).min(end), Instant::now());
            let mut gathering = Gathering::new(room);
            let one_more = room.rows.saturating_add(1);
            let found = Found::all(self.link.query("sweeping", &sql, (after, upto, one_more)).await?);
            self.stride = self.stride.next((upto - after).max(0), started.elapsed());
            let mut passed = upto;
            for found in &found {
                if self.cohorts.awaits(found.lane, found.id) {
                    // It has just been committed: the next read brings it.
                    continue;
                }
                if !gathering.admit(*found) {
                    passed = found.id - 1;
                    break;
                }
            }
            if found.is_empty() && passed < end {
                passed = self.nothing_until(passed, end).await?;
            }
            let nothing = found.is_empty();
            after = if passed >= end { i64::MAX } else { passed };
            if !nothing || after == i64::MAX || began.elapsed() > LONGEST_STEP {
                let mut page = self.fetched(gathering, lanes, "0").await?;
                close(&mut self.link, self.lanes, &mut page.rows).await?;
                page.reached = at_rest.into_iter().map(|lane| (lane, RowId(after))).collect();
                return Ok(page);
            }
        }
    }

    async fn load(&mut self, rows: &[RowId], room: Room) -> Result<Page> {
        let rows: BTreeSet<i64> = rows.iter().map(|row| row.0).collect();
        let rows: Vec<i64> = rows.into_iter().collect();
        let mut gathering = Gathering::new(room);
        for some in rows.chunks(MANY) {
            let sql = self.sql(BY_ID).replace("<ids>", &numbers(some.iter().copied()));
            let found = Found::all(self.link.text("looking for messages by their rows", &sql).await?);
            if !found.into_iter().all(|found| gathering.admit(found)) {
                break;
            }
        }
        self.fetched(gathering, &[], LIVE).await
    }
}

impl MysqlSource {
    async fn last_id(&mut self) -> Result<i64> {
        let sql = self.sql(LAST_ID);
        Ok(self.link.query_one("reading the last row number", &sql, ()).await?.integer(0).unwrap_or(0))
    }

    /// The number before the first row behind this one, up to an end: an old outbox has passed many numbers.
    async fn nothing_until(&mut self, after: i64, end: i64) -> Result<i64> {
        let sql = self.sql(NOTHING_UNTIL);
        let seen = self.link.query_one("looking for the next row number", &sql, (after,)).await?;
        Ok(seen.integer(0).unwrap_or(end).min(end).max(after))
    }
}
