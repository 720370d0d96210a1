//! Members and lanes.

use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{HeldLane, Lane, LaneRecord, Leases, RelayId, Renewal, Result, Timestamp};

use super::MemoryStore;
use super::tables::{Member, Tables};
use crate::failures::micros;

/// The keeper of members and lanes.
#[derive(Debug)]
pub(super) struct MemoryLeases(pub(super) MemoryStore);

#[async_trait]
impl Leases for MemoryLeases {
    async fn join(&mut self, me: RelayId, name: &str, ttl: Duration) -> Result<()> {
        let mut tables = self.0.lock();
        let expires_at = in_future(&tables, ttl);
        tables.members.insert(me, Member { name: name.to_owned(), expires_at });
        Ok(())
    }

    async fn renew(&mut self, me: RelayId, ttl: Duration) -> Result<Renewal> {
        let mut tables = self.0.lock();
        let expires_at = in_future(&tables, ttl);
        Ok(match tables.members.get_mut(&me) {
            Some(member) => {
                member.expires_at = expires_at;
                Renewal::Renewed
            }
            None => Renewal::Evicted,
        })
    }

    async fn evict(&mut self) -> Result<usize> {
        let mut guard = self.0.lock();
        let tables = &mut *guard;
        let now = tables.now();
        tables.members.retain(|_, member| member.expires_at >= now);
        let orphans = tables
            .leases
            .values_mut()
            .filter(|lease| lease.owner.is_some_and(|owner| !tables.members.contains_key(&owner)));
        Ok(orphans.map(LaneRecord::free).count())
    }

    async fn members(&mut self) -> Result<Vec<RelayId>> {
        let tables = self.0.lock();
        let now = tables.now();
        Ok(tables.members.iter().filter(|(_, member)| member.expires_at > now).map(|(id, _)| *id).collect())
    }

    async fn owned(&mut self, me: RelayId) -> Result<Vec<HeldLane>> {
        let tables = self.0.lock();
        let mine = tables.leases.iter().filter(|(_, lease)| lease.owner == Some(me));
        Ok(mine.map(|(lane, record)| record.held(*lane)).collect())
    }

    async fn acquire(&mut self, me: RelayId, want: u16) -> Result<Vec<HeldLane>> {
        let mut tables = self.0.lock();
        let now = tables.now();
        if tables.members.get(&me).is_none_or(|member| member.expires_at <= now) {
            return Ok(Vec::new());
        }
        let taken = tables.leases.iter_mut().filter_map(|(lane, record)| record.acquire(*lane, me));
        Ok(taken.take(usize::from(want)).collect())
    }

    async fn release(&mut self, me: RelayId, lanes: &[HeldLane]) -> Result<Vec<Lane>> {
        let mut tables = self.0.lock();
        let mut released = Vec::new();
        for held in lanes {
            if tables.leases.get_mut(&held.lane).is_some_and(|record| record.release(me, *held)) {
                released.push(held.lane);
            }
        }
        Ok(released)
    }

    async fn leave(&mut self, me: RelayId) -> Result<()> {
        let mut tables = self.0.lock();
        tables.members.remove(&me);
        tables.leases.values_mut().filter(|record| record.owner == Some(me)).for_each(LaneRecord::free);
        Ok(())
    }
}

fn in_future(tables: &Tables, ttl: Duration) -> Timestamp {
    Timestamp(tables.now().0.saturating_add(micros(ttl)))
}
