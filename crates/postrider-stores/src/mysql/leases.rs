//! Members and lanes. The expiry lives in the member's row only; every clock is the database's.

use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{HeldLane, Lane, Leases, RelayId, Renewal, Result, Start, Term};
use uuid::Uuid;

use super::columns::Columns;
use super::decode::lane;
use super::found::numbers;
use super::link::Link;
use super::read_sql::now;
use crate::failures::micros;

const JOIN: &str = concat!("insert into {relay} (id, name, expires_at) values (?, ?, ", now!(), " + ?)");

const RENEW: &str = concat!("update {relay} set expires_at = ", now!(), " + ? where id = ?");

const EXPIRED: &str = concat!("select id from {relay} where expires_at < ", now!());

/// By the primary key; the row lock decides against a renewal that comes late.
const EVICT: &str = concat!("delete from {relay} where id = ? and expires_at < ", now!());

const ORPHANS: &str = "\
select l.lane, l.owner from {lane} l left join {relay} r on r.id = l.owner
 where l.owner is not null and r.id is null order by l.lane";

/// An owner without a member never comes back: ids are never used again. A lane whose settle is in flight is skipped
/// and freed by the next call.
const LOCK_ORPHANS: &str = "\
select lane from {lane} force index (primary) where lane in (<lanes>) order by lane for update skip locked";
const FREE: &str = "update {lane} set owner = null where lane = ? and owner = ?";

/// The member's row is locked until the commit, so that nobody evicts it meanwhile.
const ALIVE: &str = concat!("select id from {relay} where id = ? and expires_at > ", now!(), " lock in share mode");

const ANY_FREE: &str = "select lane from {lane} where owner is null order by rand() limit ?";

/// The condition under which a lane is taken is a plain column of the locked row. A locking statement sees what is
/// committed now, whatever the list was made from.
const LOCK_FREE: &str = "\
select lane from {lane} force index (primary)
 where lane in (<lanes>) and owner is null order by lane for update skip locked";

/// Assignments see those before them: `clean` is read before it is set.
const ACQUIRE: &str = "\
update {lane} force index (primary) set owner = ?, term = term + 1, careful = not clean, clean = 0
 where lane in (<lanes>) and owner is null";

const ACQUIRED: &str = "select lane, term, careful from {lane} where lane in (<lanes>) and owner = ? order by lane";

/// With the term, so that a release that takes effect late leaves a lane alone that was acquired again.
const RELEASE: &str =
    "update {lane} set owner = null, clean = ?, careful = 0 where lane = ? and owner = ? and term = ?";

const MEMBERS: &str = concat!("select id from {relay} where expires_at > ", now!(), " order by id");

const OWNED: &str = "select lane, term, careful from {lane} where owner = ? order by lane";

const LEAVE: &str = "delete from {relay} where id = ?";

/// The keeper of members and lanes.
#[derive(Debug)]
pub(super) struct MysqlLeases {
    link: Link,
}

impl MysqlLeases {
    pub(super) fn new(link: Link) -> Self {
        Self { link }
    }

    fn sql(&self, sql: &str) -> String {
        self.link.options().names.fill(sql)
    }

    /// Frees the lanes whose owners are no members; how many.
    async fn free(&mut self) -> Result<usize> {
        let doing = "freeing the lanes of evicted relays";
        let orphans = self.link.query(doing, &self.sql(ORPHANS), ()).await?;
        let orphans: Vec<(Lane, String)> = orphans
            .into_iter()
            .map(Columns::new)
            .filter_map(|row| Some((lane(&row, 0), row.text(1)?.to_owned())))
            .collect();
        if orphans.is_empty() {
            return Ok(0);
        }
        let lanes = numbers(orphans.iter().map(|(lane, _)| i64::from(lane.0)));
        let (lock, free) = (self.sql(LOCK_ORPHANS).replace("<lanes>", &lanes), self.sql(FREE));
        let mut work = self.link.begin(doing).await?;
        let locked: Vec<Lane> = work.text(&lock).await?.into_iter().map(|row| lane(&Columns::new(row), 0)).collect();
        let mut freed = 0;
        for (lane, owner) in orphans.iter().filter(|(lane, _)| locked.contains(lane)) {
            freed += work.execute(&free, (lane.0, owner)).await?;
        }
        work.commit().await?;
        Ok(usize::try_from(freed).unwrap_or(usize::MAX))
    }
}

fn held(row: &Columns) -> HeldLane {
    let start = if row.is_true(2) { Start::Careful } else { Start::Clean };
    HeldLane { lane: lane(row, 0), term: Term(row.integer(1).unwrap_or(0)), start }
}

#[async_trait]
impl Leases for MysqlLeases {
    async fn join(&mut self, me: RelayId, name: &str, ttl: Duration) -> Result<()> {
        let sql = self.sql(JOIN);
        self.link.execute("joining the relays", &sql, (me.to_string(), name, micros(ttl))).await?;
        Ok(())
    }

    async fn renew(&mut self, me: RelayId, ttl: Duration) -> Result<Renewal> {
        let sql = self.sql(RENEW);
        let renewed = self.link.execute("renewing the lease", &sql, (micros(ttl), me.to_string())).await?;
        Ok(if renewed == 0 { Renewal::Evicted } else { Renewal::Renewed })
    }

    async fn evict(&mut self) -> Result<usize> {
        let doing = "evicting expired relays";
        let (expired, evict) = (self.sql(EXPIRED), self.sql(EVICT));
        for row in self.link.query(doing, &expired, ()).await? {
            if let Some(id) = Columns::new(row).text(0) {
                self.link.execute(doing, &evict, (id,)).await?;
            }
        }
        self.free().await
    }

    async fn members(&mut self) -> Result<Vec<RelayId>> {
        let sql = self.sql(MEMBERS);
        let rows = self.link.query("looking for the other relays", &sql, ()).await?;
        // A foreign hand may have written what is no id; such a row is evicted like any other when it expires.
        let id = |row| Uuid::parse_str(Columns::new(row).text(0)?).ok().map(RelayId);
        Ok(rows.into_iter().filter_map(id).collect())
    }

    async fn owned(&mut self, me: RelayId) -> Result<Vec<HeldLane>> {
        let sql = self.sql(OWNED);
        let rows = self.link.query("reading the lanes held", &sql, (me.to_string(),)).await?;
        Ok(rows.into_iter().map(|row| held(&Columns::new(row))).collect())
    }

    async fn acquire(&mut self, me: RelayId, want: u16) -> Result<Vec<HeldLane>> {
        let doing = "acquiring lanes";
        let me = me.to_string();
        if want == 0 {
            return Ok(Vec::new());
        }
        let free = self.link.query(doing, &self.sql(ANY_FREE), (want,)).await?;
        if free.is_empty() {
            return Ok(Vec::new());
        }
        let list =
            |rows: Vec<mysql_async::Row>| numbers(rows.into_iter().map(|row| i64::from(lane(&Columns::new(row), 0).0)));
        let free = list(free);
        let (alive, lock) = (self.sql(ALIVE), self.sql(LOCK_FREE).replace("<lanes>", &free));
        let (acquire, acquired) = (self.sql(ACQUIRE), self.sql(ACQUIRED));
        let mut work = self.link.begin(doing).await?;
        if work.query(&alive, (&me,)).await?.is_empty() {
            work.undo().await?;
            return Ok(Vec::new());
        }
        let locked = list(work.text(&lock).await?);
        if locked.is_empty() {
            work.undo().await?;
            return Ok(Vec::new());
        }
        work.execute(&acquire.replace("<lanes>", &locked), (&me,)).await?;
        let rows = work.query(&acquired.replace("<lanes>", &locked), (&me,)).await?;
        work.commit().await?;
        Ok(rows.into_iter().map(|row| held(&Columns::new(row))).collect())
    }

    async fn release(&mut self, me: RelayId, lanes: &[HeldLane]) -> Result<Vec<Lane>> {
        let (sql, me) = (self.sql(RELEASE), me.to_string());
        let mut work = self.link.begin("releasing lanes").await?;
        let mut released = Vec::with_capacity(lanes.len());
        for held in lanes {
            let clean = held.start == Start::Clean;
            if work.execute(&sql, (clean, held.lane.0, &me, held.term.0)).await? > 0 {
                released.push(held.lane);
            }
        }
        work.commit().await?;
        Ok(released)
    }

    async fn leave(&mut self, me: RelayId) -> Result<()> {
        let sql = self.sql(LEAVE);
        self.link.execute("leaving the relays", &sql, (me.to_string(),)).await?;
        // What it still held had no last settle: it is freed as after a death.
        self.free().await?;
        Ok(())
    }
}
