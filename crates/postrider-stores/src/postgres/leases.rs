//! Members and lanes. The expiry lives in the member's row only; every clock is the database's.

use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Error, ErrorKind, HeldLane, Lane, Leases, RelayId, Renewal, Result, Start, Term};
use tokio_postgres::types::Type;

use super::decode::get;
use super::link::{Link, Purpose};
use crate::failures::micros;

/// `clock_timestamp()` and never `now()`, which stands still within a transaction.
const JOIN: &str = "\
insert into {relay} (id, name, expires_at) values ($1, $2, clock_timestamp() + $3 * interval '1 microsecond')";

const RENEW: &str = "\
update {relay} set expires_at = clock_timestamp() + $2 * interval '1 microsecond' where id = $1";

/// The row lock decides against a renewal that comes late.
const EVICT: &str = "delete from {relay} where expires_at < clock_timestamp()";

/// The owners without a member are an array, and no condition that is not checked again after a lock was waited for; a
/// lane whose settle is in flight is skipped and freed by the next call.
const FREE: &str = "\
with f as materialized (
  select lane from {lane}
   where owner = any(array(select distinct l.owner from {lane} l
                            where l.owner is not null and not exists (select from {relay} r where r.id = l.owner)))
   for update skip locked)
update {lane} l set owner = null from f where l.lane = f.lane";

/// The condition under which a lane is taken is a plain column of the locked row: a condition on another table is not
/// checked again after a concurrent acquire committed, and gave one lane two owners.
const ACQUIRE: &str = "\
with c as materialized (
  select lane from {lane} where owner is null order by random() limit greatest($2, 0) for update skip locked),
m as materialized (
  select id from {relay} where id = $1 and expires_at > clock_timestamp() for key share)
update {lane} l set owner = m.id, term = term + 1, careful = not clean, clean = false
  from c, m where l.lane = c.lane returning l.lane, l.term, l.careful";

/// With the term, so that a release that takes effect late leaves a lane alone that was acquired again. `$4` are the
/// lanes whose next owner is to start carefully.
const RELEASE: &str = "\
with f as materialized (
  select lane from {lane}
   where owner = $1 and (lane, term) in (select * from unnest($2::smallint[], $3::bigint[])) for update)
update {lane} l set owner = null, clean = l.lane <> all($4::smallint[]) from f where l.lane = f.lane and l.owner = $1 returning l.lane";

const MEMBERS: &str = "select id from {relay} where expires_at > clock_timestamp() order by id";

const OWNED: &str = "select lane, term, careful from {lane} where owner = $1 order by lane";

const LEAVE: &str = "delete from {relay} where id = $1";

/// The keeper of members and lanes.
#[derive(Debug)]
pub(super) struct PostgresLeases {
    link: Link,
    join: String,
    renew: String,
    evict: String,
    free: String,
    acquire: String,
    members: String,
    owned: String,
    release: String,
    leave: String,
}

impl PostgresLeases {
    pub(super) const PURPOSE: Purpose = Purpose::Cold;

    pub(super) fn new(link: Link) -> Self {
        let names = &link.options().names;
        let [join, renew, evict, free, acquire, members, owned, release, leave] =
            [JOIN, RENEW, EVICT, FREE, ACQUIRE, MEMBERS, OWNED, RELEASE, LEAVE].map(|sql| names.fill(sql));
        Self { link, join, renew, evict, free, acquire, members, owned, release, leave }
    }
}

fn lane(row: &tokio_postgres::Row) -> Result<Lane> {
    let number: i16 = get(row, "lane")?;
    let unknown = || Error::new(ErrorKind::Config, format!("lane {number} of the lane table is not a lane"));
    u16::try_from(number).map(Lane).map_err(|_| unknown())
}

fn held(row: &tokio_postgres::Row) -> Result<HeldLane> {
    let careful: bool = get(row, "careful")?;
    let start = if careful { Start::Careful } else { Start::Clean };
    Ok(HeldLane { lane: lane(row)?, term: Term(get(row, "term")?), start })
}

#[async_trait]
impl Leases for PostgresLeases {
    async fn join(&mut self, me: RelayId, name: &str, ttl: Duration) -> Result<()> {
        let (ttl, name) = (micros(ttl), name.replace('\0', ""));
        self.link
            .execute("joining the relays", &self.join, &[(&me.0, Type::UUID), (&name, Type::TEXT), (&ttl, Type::INT8)])
            .await?;
        Ok(())
    }

    async fn renew(&mut self, me: RelayId, ttl: Duration) -> Result<Renewal> {
        let ttl = micros(ttl);
        let renewed =
            self.link.execute("renewing the lease", &self.renew, &[(&me.0, Type::UUID), (&ttl, Type::INT8)]).await?;
        Ok(if renewed == 0 { Renewal::Evicted } else { Renewal::Renewed })
    }

    async fn evict(&mut self) -> Result<usize> {
        self.link.execute("evicting expired relays", &self.evict, &[]).await?;
        let freed = self.link.execute("freeing the lanes of evicted relays", &self.free, &[]).await?;
        Ok(usize::try_from(freed).unwrap_or(usize::MAX))
    }

    async fn members(&mut self) -> Result<Vec<RelayId>> {
        let rows = self.link.query("looking for the other relays", &self.members, &[]).await?;
        rows.iter().map(|row| get(row, "id").map(RelayId)).collect()
    }

    async fn owned(&mut self, me: RelayId) -> Result<Vec<HeldLane>> {
        let rows = self.link.query("reading the lanes held", &self.owned, &[(&me.0, Type::UUID)]).await?;
        rows.iter().map(held).collect()
    }

    async fn acquire(&mut self, me: RelayId, want: u16) -> Result<Vec<HeldLane>> {
        let want = i64::from(want);
        let rows =
            self.link.query("acquiring lanes", &self.acquire, &[(&me.0, Type::UUID), (&want, Type::INT8)]).await?;
        let mut held = rows.iter().map(held).collect::<Result<Vec<_>>>()?;
        held.sort_by_key(|held| held.lane);
        Ok(held)
    }

    async fn release(&mut self, me: RelayId, lanes: &[HeldLane]) -> Result<Vec<Lane>> {
        let number = |held: &HeldLane| i16::try_from(held.lane.0).unwrap_or(i16::MAX);
        let terms: Vec<i64> = lanes.iter().map(|held| held.term.0).collect();
        let careful: Vec<i16> = lanes.iter().filter(|held| held.start == Start::Careful).map(number).collect();
        let lanes: Vec<i16> = lanes.iter().map(number).collect();
        let rows = self
            .link
            .query(
                "releasing lanes",
                &self.release,
                &[
                    (&me.0, Type::UUID),
                    (&lanes, Type::INT2_ARRAY),
                    (&terms, Type::INT8_ARRAY),
                    (&careful, Type::INT2_ARRAY),
                ],
            )
            .await?;
        rows.iter().map(lane).collect()
    }

    async fn leave(&mut self, me: RelayId) -> Result<()> {
        self.link.execute("leaving the relays", &self.leave, &[(&me.0, Type::UUID)]).await?;
        // What it still held had no last settle: it is freed as after a death.
        self.link.execute("freeing the lanes of a relay that left", &self.free, &[]).await?;
        Ok(())
    }
}
