//! Finding rows: the difference between two snapshots.
//!
//! What has been read is remembered in [`Cohorts`], bound to the life of the server and to the connection: an error,
//! a cancelled call, a lost connection or another life forgets it, and the lanes are read anew from the table.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use postrider_core::{Closed, HeldLane, Key, Lane, LaneCount, Page, Result, Room, Row, RowId, Source, Start};
use tokio_postgres::types::Type;

use super::cohort::{Cohort, Cohorts, Walk};
use super::decode::{self, Glance, get};
use super::hot_pages::{HotPages, Which};
use super::link::{Link, Parameter, Purpose};
use super::read_sql::{
    ANY_EXCEPTION, DUE, EXCEPTIONAL_KEYS, GLANCE, KEY, LAST_ID, LOAD, MARK_BOOT, NOTHING_UNTIL, OBSERVE, Pages,
    RESTAMP, SWEEP,
};
use super::readers::Shared;
use super::snapshot::{Life, Snapshot};
use crate::stride::Stride;

/// Row numbers looked at by one statement where the planner cannot be told to walk the primary key.
const SPAN: i64 = 64_000;
/// So many looks in a row take the server for the one that it was: the connection stands, but somebody may have put other
/// tables in the place of these.
const MOST_GLANCES: u32 = 64;
/// Where statements of a sweep pass nothing, they follow each other so long within one step.
const LONGEST_STEP: Duration = Duration::from_millis(2);
/// What takes as long as the way to the server and back.
const NOTHING: &str = "select 1";
/// What tells whether the planner is told to walk.
const SETTINGS: &str = "\
select current_setting('enable_seqscan') = 'off' and current_setting('enable_bitmapscan') = 'off'
       and current_setting('enable_sort') = 'off' as walks";

/// The statements with their names in place.
#[derive(Debug)]
struct Statements {
    observe: String,
    mark_boot: String,
    restamp: String,
    glance: String,
    last_id: String,
    nothing_until: String,
    due: String,
    key: String,
    keys: String,
    sweep: String,
    load: String,
}

/// The reader.
#[derive(Debug)]
pub(super) struct PostgresSource {
    link: Link,
    lanes: LaneCount,
    sql: Statements,
    hot: HotPages,
    cohorts: Cohorts,
    life: Option<Life>,
    /// How far one statement may go; none where the planner walks.
    span: Option<i64>,
    /// The connection on which the cohorts tell the truth: none while a read runs, so that one that ends early is not
    /// believed.
    trusted: Option<u64>,
    /// Looks since the server's life was last seen.
    glances: u32,
    stride: Stride,
    /// The last id there was when the sweep began that is under way.
    sweep_end: Option<i64>,
}

/// Whether a page took all there was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Everything was taken.
    None,
    /// There is more.
    Some,
}

impl PostgresSource {
    pub(super) fn new(link: Link, lanes: LaneCount, exceptions: Shared) -> Self {
        let names = &link.options().names;
        let pages = |pages: Pages| names.fill(pages.of(lanes));
        let hot = HotPages::new(names, lanes, exceptions);
        let sql = Statements {
            observe: names.fill(OBSERVE),
            mark_boot: names.fill(MARK_BOOT),
            restamp: names.fill(RESTAMP),
            glance: names.fill(GLANCE),
            last_id: names.fill(LAST_ID),
            nothing_until: names.fill(NOTHING_UNTIL),
            due: pages(DUE),
            key: pages(KEY),
            keys: names.fill(if lanes == LaneCount::ONE { ANY_EXCEPTION } else { EXCEPTIONAL_KEYS }),
            sweep: pages(SWEEP),
            load: pages(LOAD),
        };
        Self {
            link,
            lanes,
            sql,
            hot,
            cohorts: Cohorts::default(),
            life: None,
            span: None,
            trusted: None,
            glances: 0,
            stride: Stride::first(Duration::ZERO),
            sweep_end: None,
        }
    }

    pub(super) const PURPOSE: Purpose = Purpose::Hot;

    /// The present, and whether it continues what is known.
    async fn observe(&mut self) -> Result<(Snapshot, bool)> {
        self.glances = 0;
        let (mut life, mut now) = self.look().await?;
        if life.boot.is_empty() {
            self.link.execute("marking the server's life", &self.sql.mark_boot, &[]).await?;
            (life, now) = self.look().await?;
        }
        let known = self.life.replace(life.clone());
        let continued = known.is_none_or(|known| known == life) && !self.cohorts.are_ahead_of(&now);
        Ok((now, continued))
    }

    async fn look(&mut self) -> Result<(Life, Snapshot)> {
        let row = self.link.query_one_often("reading the present snapshot", &self.sql.observe, &[]).await?;
        let boot: Option<String> = get(&row, "boot")?;
        let life = Life { boot: boot.unwrap_or_default(), timeline: get(&row, "timeline")? };
        Ok((life, Snapshot::parse(get(&row, "snapshot")?)?))
    }

    /// What is due once per connection and life, before the first snapshot.
    async fn begin(&mut self) -> Result<()> {
        self.forget();
        let row = self.link.query_one("reading the planner's settings", SETTINGS, &[]).await?;
        let walks: bool = get(&row, "walks")?;
        self.span = (!walks).then_some(SPAN);
        while self.link.execute("restamping rows from the future", &self.sql.restamp, &[]).await? > 0 {}
        Ok(())
    }

    /// Nothing that is known of the table may hold.
    fn forget(&mut self) {
        self.cohorts.forget();
        self.hot.forget();
    }

    async fn read_cohorts(&mut self, now: &Snapshot, room: Room, careful: &[i16]) -> Result<Page> {
        let mut page = Page::EMPTY;
        let mut left = room;
        for place in 0..self.cohorts.list.len() {
            if left.rows == 0 || (left.bytes == 0 && !page.rows.is_empty()) {
                page.more = true;
                break;
            }
            let Some(mut cohort) = self.cohorts.list.get(place).cloned() else { break };
            let (rows, rest) = self.read_cohort(&mut cohort, now, left, careful).await?;
            left.rows = left.rows.saturating_sub(rows.len());
            left.bytes = left.bytes.saturating_sub(rows.iter().map(|row| row.weight).sum());
            page.more |= rest == Rest::Some;
            page.rows.extend(rows);
            if let Some(place) = self.cohorts.list.get_mut(place) {
                *place = cohort;
            }
        }
        self.cohorts.settle();
        Ok(page)
    }

    /// One page of one cohort, which then stands where the page ended.
    async fn read_cohort(
        &mut self,
        cohort: &mut Cohort,
        now: &Snapshot,
        room: Room,
        careful: &[i16],
    ) -> Result<(Vec<Row>, Rest)> {
        if cohort.walk.is_none() {
            match &cohort.read {
                Some(read) if read == now => return Ok((Vec::new(), Rest::None)),
                Some(read) => {
                    let read = read.clone();
                    return self.difference(cohort, &read, now, room, careful).await;
                }
                None => {
                    let end = self.end_of_walk().await?;
                    cohort.walk = Some(Walk { until: now.clone(), last: 0, end });
                }
            }
        }
        self.walk(cohort, room, careful).await
    }

    async fn difference(
        &mut self,
        cohort: &mut Cohort,
        read: &Snapshot,
        now: &Snapshot,
        room: Room,
        careful: &[i16],
    ) -> Result<(Vec<Row>, Rest)> {
        let one_more = Room { rows: room.rows.saturating_add(1), ..room };
        let limit = count(one_more.rows);
        let lanes = cohort.bits();
        let parameters: [Parameter<'_>; 4] =
            [(&lanes, Type::BYTEA), (&read.text(), Type::TEXT), (&now.text(), Type::TEXT), (&limit, Type::INT8)];
        let (rows, fetched) = self
            .hot
            .read(&mut self.link, "reading new rows", Which::Difference, one_more, &parameters, careful)
            .await?;
        self.took(cohort, now, room, rows, fetched).await
    }

    /// The rows of a difference, of which there may be one more than asked for; the cohort then stands where they end.
    async fn took(
        &mut self,
        cohort: &mut Cohort,
        now: &Snapshot,
        room: Room,
        mut rows: Vec<Row>,
        fetched: usize,
    ) -> Result<(Vec<Row>, Rest)> {
        rows.truncate(room.rows);
        if fetched == rows.len() {
            cohort.read = Some(now.clone());
            return Ok((rows, Rest::None));
        }
        let end = self.end_of_walk().await?;
        let last = rows.last().map_or(0, |row| row.id.0);
        cohort.walk = Some(Walk { until: now.clone(), last, end });
        Ok((rows, Rest::Some))
    }

    /// The difference and the present by one statement, where nothing else is to be done: every lane is read up to the same
    /// point, rows are light, and the connection is known. None where more is.
    async fn glance(&mut self, room: Room, careful: &[i16]) -> Result<Option<Page>> {
        let is_steady = self.hot.expects_light(careful) && self.hot.expected.is_small() && room.rows > 0;
        let is_sure = self.link.is_our_own() && self.glances < MOST_GLANCES;
        let [cohort] = self.cohorts.list.as_slice() else { return Ok(None) };
        let (Some(read), None) = (&cohort.read, &cohort.walk) else { return Ok(None) };
        if !is_steady || !is_sure {
            return Ok(None);
        }
        self.glances += 1;
        let mut cohort = cohort.clone();
        let one_more = room.rows.saturating_add(1);
        let (most, limit, lanes) = (count(room.bytes / one_more), count(one_more), cohort.bits());
        let parameters: [Parameter<'_>; 5] = [
            (&most, Type::INT8),
            (&lanes, Type::BYTEA),
            (&read.text(), Type::TEXT),
            (&limit, Type::INT8),
            (&true, Type::BOOL),
        ];
        let mut glance = Glance::default();
        self.link.each_often("looking for new rows", &self.sql.glance, &parameters, |row| glance.add(&row)).await?;
        let (now, rows, found) = glance.end()?;
        if self.cohorts.are_ahead_of(&now) {
            self.forget();
            return Ok(Some(Page { discontinued: true, ..Page::EMPTY }));
        }
        if !self.hot.expected.was_light(&rows, found) {
            return Ok(None);
        }
        let (rows, rest) = self.took(&mut cohort, &now, room, rows, found).await?;
        self.cohorts.list = vec![cohort];
        Ok(Some(Page { more: rest == Rest::Some, rows, ..Page::EMPTY }))
    }

    /// A page, if everything in it came by the connection with which the read began.
    fn believed(&mut self, connection: Option<u64>, mut page: Page) -> Page {
        if page.discontinued {
            return page;
        }
        if connection.is_none() || connection != self.link.standing() {
            // The connection was lost and opened again: the other end may be another server.
            self.forget();
            return Page { more: true, ..Page::EMPTY };
        }
        self.trusted = connection;
        if page.more {
            page.reached = self.cohorts.reached();
        }
        page
    }

    async fn walk(&mut self, cohort: &mut Cohort, room: Room, careful: &[i16]) -> Result<(Vec<Row>, Rest)> {
        let lanes = cohort.bits();
        let Some(walk) = &mut cohort.walk else { return Ok((Vec::new(), Rest::None)) };
        let limit = count(room.rows);
        let last = walk.last;
        let upto = self.span.map_or(i64::MAX, |span| last.saturating_add(span));
        let until = walk.until.text();
        let (rows, fetched) = match &cohort.read {
            Some(read) => {
                let parameters: [Parameter<'_>; 6] = [
                    (&lanes, Type::BYTEA),
                    (&read.text(), Type::TEXT),
                    (&until, Type::TEXT),
                    (&limit, Type::INT8),
                    (&last, Type::INT8),
                    (&upto, Type::INT8),
                ];
                self.hot
                    .read(&mut self.link, "reading on in a large window", Which::Walk, room, &parameters, careful)
                    .await?
            }
            None => {
                let parameters: [Parameter<'_>; 5] = [
                    (&lanes, Type::BYTEA),
                    (&until, Type::TEXT),
                    (&limit, Type::INT8),
                    (&last, Type::INT8),
                    (&upto, Type::INT8),
                ];
                self.hot.read(&mut self.link, "reading the backlog", Which::Backlog, room, &parameters, careful).await?
            }
        };
        let cut = fetched == room.rows || rows.len() < fetched;
        walk.last = match rows.last() {
            Some(row) if cut => row.id.0,
            Some(_) | None => upto,
        };
        if fetched == 0 && walk.last < walk.end {
            walk.last = self.nothing_until(walk.last, walk.end).await?;
        }
        if cut || walk.last < walk.end {
            return Ok((rows, Rest::Some));
        }
        cohort.read = Some(walk.until.clone());
        cohort.walk = None;
        Ok((rows, Rest::None))
    }

    /// Where a walk ends, if it goes in spans.
    async fn end_of_walk(&mut self) -> Result<i64> {
        if self.span.is_none() { Ok(0) } else { self.last_id().await }
    }

    /// The number before the first row behind this one: an old outbox has passed many numbers, and a walk in spans would
    /// look at all of them, also between a dead letter of last year and today.
    async fn nothing_until(&mut self, last: i64, end: i64) -> Result<i64> {
        let parameters: [Parameter<'_>; 2] = [(&last, Type::INT8), (&end, Type::INT8)];
        let row = self.link.query_one("looking for the next row number", &self.sql.nothing_until, &parameters).await?;
        get(&row, "number")
    }

    /// Where a sweep ends that is at this row. The last id is asked for once: it may stand before many rows that are dead.
    async fn end_of_sweep(&mut self, after: RowId) -> Result<i64> {
        if let Some(end) = self.sweep_end.filter(|_| after.0 > 0) {
            return Ok(end);
        }
        let asked = Instant::now();
        self.link.query_one_often("asking for nothing", NOTHING, &[]).await?;
        self.stride = Stride::first(asked.elapsed());
        let end = self.last_id().await?;
        self.sweep_end = Some(end);
        Ok(end)
    }

    async fn last_id(&mut self) -> Result<i64> {
        let row = self.link.query_one("reading the last row number", &self.sql.last_id, &[]).await?;
        get(&row, "coalesce")
    }
}

/// The lanes of which heads are wanted.
fn careful(lanes: &[HeldLane]) -> Vec<i16> {
    lanes.iter().filter(|held| held.start == Start::Careful).map(|held| number(held.lane)).collect()
}

/// A page of a statement that knows its own limit.
fn page(found: &[tokio_postgres::Row], limit: usize) -> Result<Page> {
    let rows = decode::rows(found)?;
    let fetched = decode::fetched(found)?;
    Ok(Page { more: fetched == limit || rows.len() < fetched, rows, ..Page::EMPTY })
}

pub(super) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn number(lane: Lane) -> i16 {
    i16::try_from(lane.0).unwrap_or(i16::MAX)
}

#[async_trait]
impl Source for PostgresSource {
    async fn read(&mut self, lanes: &[HeldLane], room: Room) -> Result<Page> {
        let trusted = self.trusted.take();
        let is_known = trusted.is_some() && trusted == self.link.standing();
        if !is_known {
            self.begin().await?;
        }
        let connection = self.link.standing();
        self.cohorts.follow(lanes);
        self.hot.follow(lanes);
        let careful = careful(lanes);
        if is_known && let Some(page) = self.glance(room, &careful).await? {
            return Ok(self.believed(connection, page));
        }
        // A connection of our own does not outlive the server, and a walk goes towards the snapshot that it began with.
        let until = self.cohorts.walks_towards().filter(|_| is_known && self.link.is_our_own()).cloned();
        let now = match until {
            Some(until) => until,
            None => {
                let (now, continued) = self.observe().await?;
                if !continued {
                    // The next read begins anew, with the life that was just seen.
                    self.forget();
                    return Ok(Page { discontinued: true, ..Page::EMPTY });
                }
                now
            }
        };
        let page = if room.rows == 0 {
            Page { more: !self.cohorts.list.is_empty(), ..Page::EMPTY }
        } else {
            self.read_cohorts(&now, room, &careful).await?
        };
        if !page.rows.is_empty() && !self.link.is_our_own() && !self.observe().await?.1 {
            // Behind a pooler the rows may come from another life than the snapshot up to which they were asked for.
            self.forget();
            return Ok(Page { discontinued: true, ..Page::EMPTY });
        }
        Ok(self.believed(connection, page))
    }

    async fn due(&mut self, lanes: &[HeldLane], room: Room, window: &[RowId]) -> Result<Page> {
        let (bytes, limit, careful) = (count(room.bytes), count(room.rows), careful(lanes));
        let lanes: Vec<i16> = lanes.iter().map(|held| number(held.lane)).collect();
        let window: Vec<i64> = window.iter().map(|row| row.0).collect();
        let parameters: [Parameter<'_>; 5] = [
            (&bytes, Type::INT8),
            (&lanes, Type::INT2_ARRAY),
            (&limit, Type::INT8),
            (&window, Type::INT8_ARRAY),
            (&careful, Type::INT2_ARRAY),
        ];
        let found = self.link.query("reading due rows", &self.sql.due, &parameters).await?;
        let page = page(&found, room.rows)?;
        self.hot.came(&page.rows);
        Ok(page)
    }

    async fn key(&mut self, lane: HeldLane, key: &Key, room: Room) -> Result<Page> {
        let (bytes, limit, careful) = (count(room.bytes), count(room.rows), careful(&[lane]));
        let lane = number(lane.lane);
        let parameters: [Parameter<'_>; 5] = [
            (&bytes, Type::INT8),
            (&lane, Type::INT2),
            (&key.as_str(), Type::TEXT),
            (&limit, Type::INT8),
            (&careful, Type::INT2_ARRAY),
        ];
        let found = self.link.query("reading the waiting rows of a key", &self.sql.key, &parameters).await?;
        let mut page = page(&found, room.rows)?;
        self.hot.came(&page.rows);
        for row in &mut page.rows {
            // What stands before a row of this page is in this page.
            row.closed = Closed::Open;
        }
        Ok(page)
    }

    async fn exceptional_keys(&mut self, lane: Lane, after: Option<&Key>, limit: usize) -> Result<Vec<Key>> {
        if self.lanes == LaneCount::ONE && after.is_some() {
            // Everything stands together: nothing comes after it.
            return Ok(Vec::new());
        }
        let (lane, limit) = (number(lane), count(limit));
        let after = after.map_or("", Key::as_str);
        let parameters: [Parameter<'_>; 3] = [(&lane, Type::INT2), (&after, Type::TEXT), (&limit, Type::INT8)];
        let found = self.link.query_often("reading the waiting keys of a lane", &self.sql.keys, &parameters).await?;
        found.iter().map(|row| get::<String>(row, "key").map(Key::unchecked)).collect()
    }

    async fn sweep(&mut self, lanes: &[HeldLane], after: RowId, room: Room) -> Result<Page> {
        if room.rows == 0 || self.trusted.is_none() || self.trusted != self.link.standing() {
            return Ok(Page::EMPTY);
        }
        let Some(swept) = self.cohorts.at_rest(lanes) else { return Ok(Page::EMPTY) };
        let began = Instant::now();
        let (bits, careful) = (swept.bits(), careful(lanes));
        let (bytes, limit) = (count(room.bytes), count(room.rows));
        // Ids begin at 1.
        let (mut after, end) = (after.0.max(0), self.end_of_sweep(after).await?);
        loop {
            let (upto, started) = (self.stride.from(after, end), Instant::now());
            let parameters: [Parameter<'_>; 7] = [
                (&bytes, Type::INT8),
                (&bits, Type::BYTEA),
                (&swept.read.text(), Type::TEXT),
                (&limit, Type::INT8),
                (&after, Type::INT8),
                (&upto, Type::INT8),
                (&careful, Type::INT2_ARRAY),
            ];
            let found = self.link.query_often("sweeping", &self.sql.sweep, &parameters).await?;
            self.stride = self.stride.next(upto - after, started.elapsed());
            let page = page(&found, room.rows)?;
            after = match page.rows.last() {
                Some(row) if page.more => row.id.0,
                Some(_) | None if upto >= end => i64::MAX,
                Some(_) | None => upto,
            };
            if !page.rows.is_empty() || after == i64::MAX || began.elapsed() > LONGEST_STEP {
                let reached = swept.lanes.keys().map(|lane| (*lane, RowId(after))).collect();
                return Ok(Page { reached, ..page });
            }
        }
    }

    async fn load(&mut self, rows: &[RowId], room: Room) -> Result<Page> {
        let (bytes, limit, nowhere) = (count(room.bytes), count(rows.len()), Vec::<i16>::new());
        let rows: Vec<i64> = rows.iter().map(|row| row.0).collect();
        let parameters: [Parameter<'_>; 4] =
            [(&bytes, Type::INT8), (&rows, Type::INT8_ARRAY), (&limit, Type::INT8), (&nowhere, Type::INT2_ARRAY)];
        let found = self.link.query("reading messages by their rows", &self.sql.load, &parameters).await?;
        let rows = decode::rows(&found)?;
        Ok(Page { more: rows.len() < decode::fetched(&found)?, rows, ..Page::EMPTY })
    }
}
