//! The pages of the hot path, each in the form that costs least.
//!
//! Rows are taken to be light, of which a whole page fits the room whatever it holds. From the first one that is not, pages
//! are exact until one has only light rows; so they are while heads are wanted, and where all messages have one order.
//!
//! Of a light page of many rows, only those look for what stands before them whose keys may have exceptional rows; see
//! [`exceptions`](super::exceptions). In a small one each row looks: that is little, and one statement is less than two.

use std::collections::BTreeMap;

use postrider_core::{Closed, HeldLane, Key, LaneCount, Result, Retrying, Room, Row, RowId, RowState};
use tokio_postgres::types::Type;

use super::decode::{self, LightPage, get};
use super::exceptions::{Next, Place, STEP};
use super::expected::Expected;
use super::link::{Link, Parameter};
use super::names::Names;
use super::read_sql::{BACKLOG, CLOSED, DIFFERENCE, EXCEPTIONAL_PLACES, Hot, WALK};
use super::readers::Shared;
use super::source::{count, number};

/// Which of them.
#[derive(Debug, Clone, Copy)]
pub(super) enum Which {
    Difference,
    Walk,
    Backlog,
}

/// A statement of the hot path in its three forms, with its names in place.
#[derive(Debug)]
struct HotStatement {
    exact: String,
    light: String,
    bare: String,
}

/// See the module.
#[derive(Debug)]
pub(super) struct HotPages {
    lanes: LaneCount,
    difference: HotStatement,
    walk: HotStatement,
    backlog: HotStatement,
    closed: String,
    places: String,
    pub(super) expected: Expected,
    exceptions: Shared,
}

impl HotPages {
    pub(super) fn new(names: &Names, lanes: LaneCount, exceptions: Shared) -> Self {
        let hot = |Hot { exact, light, bare }: Hot| HotStatement {
            exact: names.fill(exact.of(lanes)),
            light: names.fill(light),
            bare: names.fill(bare),
        };
        Self {
            lanes,
            difference: hot(DIFFERENCE),
            walk: hot(WALK),
            backlog: hot(BACKLOG),
            closed: names.fill(CLOSED),
            places: names.fill(EXCEPTIONAL_PLACES),
            expected: Expected::NOTHING,
            exceptions,
        }
    }

    /// The lanes of the next pages.
    pub(super) fn follow(&self, lanes: &[HeldLane]) {
        self.exceptions.get().follow(lanes);
    }

    /// The server may be another one.
    pub(super) fn forget(&self) {
        self.exceptions.get().forget();
    }

    /// Rows that came in another way. Of the exceptional ones an operator may have made some so.
    pub(super) fn came(&self, rows: &[Row]) {
        let mut exceptions = self.exceptions.get();
        let exceptional = |row: &&Row| row.state != RowState::Pending || row.retrying == Retrying::Yes;
        rows.iter().filter(exceptional).filter_map(Row::key).for_each(|key| exceptions.put(key));
    }

    /// Whether a light page can bring what is wanted, as far as is known.
    pub(super) fn expects_light(&self, careful: &[i16]) -> bool {
        self.expected.is_light() && careful.is_empty() && self.lanes != LaneCount::ONE
    }

    /// One page of a statement: its rows, and how many its inner statement found. The parameters begin at `$2`.
    pub(super) async fn read(
        &mut self,
        link: &mut Link,
        doing: &str,
        which: Which,
        room: Room,
        parameters: &[Parameter<'_>],
        careful: &[i16],
    ) -> Result<(Vec<Row>, usize)> {
        let share = room.bytes / room.rows.max(1);
        if self.expects_light(careful) {
            let (rows, found) = self.light(link, doing, which, room, parameters).await?;
            if self.expected.was_light(&rows, found) {
                return Ok((rows, found));
            }
        }
        let bytes = count(room.bytes);
        let mut all: Vec<Parameter<'_>> = vec![(&bytes, Type::INT8)];
        all.extend_from_slice(parameters);
        all.push((&careful, Type::INT2_ARRAY));
        let found = link.query(doing, &self.statement(which).exact, &all).await?;
        let fetched = decode::fetched(&found)?;
        let rows = decode::rows(&found)?;
        self.expected.was_exact(&rows, fetched, share);
        Ok((rows, fetched))
    }

    fn statement(&self, which: Which) -> &HotStatement {
        match which {
            Which::Difference => &self.difference,
            Which::Walk => &self.walk,
            Which::Backlog => &self.backlog,
        }
    }

    async fn light(
        &self,
        link: &mut Link,
        doing: &str,
        which: Which,
        room: Room,
        parameters: &[Parameter<'_>],
    ) -> Result<(Vec<Row>, usize)> {
        let is_small = self.expected.is_small();
        let knows = !is_small && self.knows_exceptions(link).await?;
        let most = count(room.bytes / room.rows.max(1));
        let mut all: Vec<Parameter<'_>> = vec![(&most, Type::INT8)];
        all.extend_from_slice(parameters);
        let HotStatement { light, bare, .. } = self.statement(which);
        let mut page = LightPage::with_capacity(self.expected.found().min(room.rows));
        if !knows {
            all.push((&is_small, Type::BOOL));
            link.each_often(doing, light, &all, |row| page.add(&row)).await?;
            return page.end();
        }
        link.each_often(doing, bare, &all, |row| page.add(&row)).await?;
        let (mut rows, found) = page.end()?;
        self.close(link, &mut rows).await?;
        Ok((rows, found))
    }

    /// Whether the keys that have exceptional rows are known; they are walked a step further where not.
    async fn knows_exceptions(&self, link: &mut Link) -> Result<bool> {
        let next = self.exceptions.get().next();
        let (lanes, from) = match next {
            Next::Known => return Ok(true),
            Next::Unknown => return Ok(false),
            Next::Step(lanes, from) => (lanes, from),
        };
        let lanes: Vec<i16> = lanes.into_iter().map(number).collect();
        let (key, limit) = (from.key.as_str(), count(STEP));
        let parameters: [Parameter<'_>; 4] =
            [(&lanes, Type::INT2_ARRAY), (&from.lane, Type::INT8), (&key, Type::TEXT), (&limit, Type::INT8)];
        let found = link.query_often("looking for keys with waiting rows", &self.places, &parameters).await?;
        let place = |row| Ok(Place { lane: get(row, "place")?, key: Key::unchecked(get::<&str>(row, "key")?) });
        let places = found.iter().map(place).collect::<Result<_>>()?;
        Ok(self.exceptions.get().walked(from, places))
    }

    /// Looks for what stands before those rows that may have something there.
    async fn close(&self, link: &mut Link, rows: &mut [Row]) -> Result<()> {
        let asked: Vec<i64> = {
            let exceptions = self.exceptions.get();
            rows.iter().filter(|row| exceptions.may_close(row.key())).map(|row| row.id.0).collect()
        };
        if asked.is_empty() {
            return Ok(());
        }
        let parameters: [Parameter<'_>; 1] = [(&asked, Type::INT8_ARRAY)];
        let found = link.query_often("looking for what waits before new rows", &self.closed, &parameters).await?;
        let closed = found.iter().map(decode::closed_of).filter(|of| !matches!(of, Ok((_, Closed::Open))));
        let mut closed = closed.collect::<Result<BTreeMap<RowId, Closed>>>()?;
        self.exceptions.get().were_open(asked.len() - closed.len());
        for row in rows {
            row.closed = closed.remove(&row.id).unwrap_or(Closed::Open);
        }
        Ok(())
    }
}
