//! Members and lanes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{HeldLane, Lane, Leases, RelayId, Renewal, Result, Start, Term};
use rusqlite::{Row, params};
use uuid::Uuid;

use super::SqliteOptions;
use super::link::{Link, Use};
use crate::failures::micros;

const JOIN: &str = r#"insert into "{p}relay" (id, name, expires_at) values (?1, ?2, ?3)"#;
const RENEW: &str = r#"update "{p}relay" set expires_at = ?2 where id = ?1"#;
const ANY_EXPIRED: &str = r#"select 1 where exists (select 1 from "{p}relay" where expires_at < ?1)
or exists (select 1 from "{p}lane" where owner is not null and owner not in (select id from "{p}relay"))"#;
const EVICT: &str = r#"delete from "{p}relay" where expires_at < ?1"#;
const FREE_ORPHANS: &str = r#"update "{p}lane" set owner = null
where owner is not null and owner not in (select id from "{p}relay")"#;
const MEMBERS: &str = r#"select id from "{p}relay" where expires_at > ?1 order by id"#;
const OWNED: &str = r#"select lane, term, careful from "{p}lane" where owner = ?1 order by lane"#;
const ALIVE: &str = r#"select 1 from "{p}relay" where id = ?1 and expires_at > ?2"#;
const ANY_FREE: &str = r#"select 1 from "{p}lane" where owner is null limit 1"#;
const ACQUIRE: &str = r#"update "{p}lane" set owner = ?1, term = term + 1, careful = not clean, clean = 0
where lane in (select lane from "{p}lane" where owner is null order by lane limit ?2) returning lane, term, careful"#;
const RELEASE: &str = r#"update "{p}lane" set owner = null, clean = ?4, careful = 0
where lane = ?1 and owner = ?2 and term = ?3"#;
const LEAVE: &str = r#"delete from "{p}relay" where id = ?1"#;
const FREE_MINE: &str = r#"update "{p}lane" set owner = null where owner = ?1"#;

/// The keeper of members and lanes.
#[derive(Debug)]
pub(super) struct SqliteLeases {
    link: Link,
}

impl SqliteLeases {
    pub(super) fn new(options: Arc<SqliteOptions>) -> Self {
        Self { link: Link::new(options, Use::Settling) }
    }
}

fn held(row: &Row<'_>) -> rusqlite::Result<HeldLane> {
    let start = if row.get::<_, bool>(2)? { Start::Careful } else { Start::Clean };
    Ok(HeldLane { lane: Lane(row.get(0)?), term: Term(row.get(1)?), start })
}

#[async_trait]
impl Leases for SqliteLeases {
    async fn join(&mut self, me: RelayId, name: &str, ttl: Duration) -> Result<()> {
        let name = name.to_owned();
        let joined = self.link.run(move |session| {
            session.writing("joining the relays", |statements| {
                let expires_at = statements.now()?.0.saturating_add(micros(ttl));
                statements.execute(JOIN, params![me.to_string(), name, expires_at])
            })
        });
        joined.await.map(|_| ())
    }

    async fn renew(&mut self, me: RelayId, ttl: Duration) -> Result<Renewal> {
        let renewed = self.link.run(move |session| {
            session.writing("renewing the lease", |statements| {
                let expires_at = statements.now()?.0.saturating_add(micros(ttl));
                statements.execute(RENEW, params![me.to_string(), expires_at])
            })
        });
        Ok(if renewed.await? == 0 { Renewal::Evicted } else { Renewal::Renewed })
    }

    async fn evict(&mut self) -> Result<usize> {
        let evicted = self.link.run(|session| {
            // Asked without the write lock first: nearly always there is nothing to do.
            let needed = session.reading("looking for expired relays", |statements| {
                statements.first(ANY_EXPIRED, [statements.now()?.0], |_| Ok(()))
            })?;
            if needed.is_none() {
                return Ok(0);
            }
            session.writing("evicting expired relays", |statements| {
                statements.execute(EVICT, [statements.now()?.0])?;
                statements.execute(FREE_ORPHANS, [])
            })
        });
        evicted.await
    }

    async fn members(&mut self) -> Result<Vec<RelayId>> {
        let members = self.link.run(|session| {
            session.reading("looking for the other relays", |statements| {
                let now = statements.now()?;
                statements.all(MEMBERS, [now.0], |row| row.get::<_, String>(0))
            })
        });
        // A foreign hand may have written what is no id; such a row is evicted like any other when it expires.
        Ok(members.await?.iter().filter_map(|id| Uuid::parse_str(id).ok().map(RelayId)).collect())
    }

    async fn owned(&mut self, me: RelayId) -> Result<Vec<HeldLane>> {
        let owned = self.link.run(move |session| {
            session.reading("reading the lanes held", |statements| statements.all(OWNED, [me.to_string()], held))
        });
        owned.await
    }

    async fn acquire(&mut self, me: RelayId, want: u16) -> Result<Vec<HeldLane>> {
        let acquired = self.link.run(move |session| {
            let free =
                session.reading("looking for free lanes", |statements| statements.first(ANY_FREE, [], |_| Ok(())))?;
            if free.is_none() || want == 0 {
                return Ok(Vec::new());
            }
            session.writing("acquiring lanes", |statements| {
                let me = me.to_string();
                if statements.first(ALIVE, params![me, statements.now()?.0], |_| Ok(()))?.is_none() {
                    return Ok(Vec::new());
                }
                statements.all(ACQUIRE, params![me, want], held)
            })
        });
        acquired.await
    }

    async fn release(&mut self, me: RelayId, lanes: &[HeldLane]) -> Result<Vec<Lane>> {
        let lanes = lanes.to_vec();
        let released = self.link.run(move |session| {
            session.writing("releasing lanes", |statements| {
                let mut released = Vec::with_capacity(lanes.len());
                for held in lanes {
                    let clean = held.start == Start::Clean;
                    if statements.execute(RELEASE, params![held.lane.0, me.to_string(), held.term.0, clean])? > 0 {
                        released.push(held.lane);
                    }
                }
                Ok(released)
            })
        });
        released.await
    }

    async fn leave(&mut self, me: RelayId) -> Result<()> {
        let left = self.link.run(move |session| {
            session.writing("leaving the relays", |statements| {
                statements.execute(LEAVE, [me.to_string()])?;
                statements.execute(FREE_MINE, [me.to_string()])
            })
        });
        left.await.map(|_| ())
    }
}
