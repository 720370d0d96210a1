//! Members and lanes.

use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{HeldLane, Lane, LaneRecord, Leases, RelayId, Renewal, Result};

use crate::JournalStore;
use crate::tables::{Member, micros};

/// The keeper of members and lanes.
#[derive(Debug)]
pub struct JournalLeases(pub JournalStore);

#[async_trait]
impl Leases for JournalLeases {
    async fn join(&mut self, me: RelayId, name: &str, ttl: Duration) -> Result<()> {
        let mut tables = self.0.lock();
        let expires_at = tables.now().0.saturating_add(micros(ttl));
        tables.members.insert(me, Member { name: name.to_owned(), expires_at });
        Ok(())
    }

    async fn renew(&mut self, me: RelayId, ttl: Duration) -> Result<Renewal> {
        let mut tables = self.0.lock();
        let expires_at = tables.now().0.saturating_add(micros(ttl));
        let Some(member) = tables.members.get_mut(&me) else { return Ok(Renewal::Evicted) };
        member.expires_at = expires_at;
        Ok(Renewal::Renewed)
    }

    async fn evict(&mut self) -> Result<usize> {
        let mut tables = self.0.lock();
        let now = tables.now().0;
        tables.members.retain(|_, member| member.expires_at >= now);
        let is_orphan = |record: &LaneRecord| record.owner.is_some_and(|owner| !tables.members.contains_key(&owner));
        let orphans: Vec<Lane> =
            tables.leases.iter().filter(|(_, record)| is_orphan(record)).map(|(lane, _)| *lane).collect();
        orphans.iter().try_for_each(|lane| tables.change_lane(*lane, LaneRecord::free))?;
        Ok(orphans.len())
    }

    async fn members(&mut self) -> Result<Vec<RelayId>> {
        let tables = self.0.lock();
        let now = tables.now().0;
        Ok(tables.members.iter().filter(|(_, member)| member.expires_at > now).map(|(id, _)| *id).collect())
    }

    async fn owned(&mut self, me: RelayId) -> Result<Vec<HeldLane>> {
        let tables = self.0.lock();
        let mine = tables.leases.iter().filter(|(_, record)| record.owner == Some(me));
        Ok(mine.map(|(lane, record)| record.held(*lane)).collect())
    }

    async fn acquire(&mut self, me: RelayId, want: u16) -> Result<Vec<HeldLane>> {
        let mut tables = self.0.lock();
        let now = tables.now().0;
        if tables.members.get(&me).is_none_or(|member| member.expires_at <= now) {
            return Ok(Vec::new());
        }
        let free = tables.leases.iter().filter(|(_, record)| record.owner.is_none()).map(|(lane, _)| *lane);
        let free: Vec<Lane> = free.take(usize::from(want)).collect();
        let mut held = Vec::new();
        for lane in free {
            held.extend(tables.change_lane(lane, |record| record.acquire(lane, me))?);
        }
        Ok(held)
    }

    async fn release(&mut self, me: RelayId, lanes: &[HeldLane]) -> Result<Vec<Lane>> {
        let mut tables = self.0.lock();
        let mut released = Vec::new();
        for held in lanes {
            if tables.change_lane(held.lane, |record| record.release(me, *held))? {
                released.push(held.lane);
            }
        }
        Ok(released)
    }

    async fn leave(&mut self, me: RelayId) -> Result<()> {
        let mut tables = self.0.lock();
        tables.members.remove(&me);
        let mine = tables.leases.iter().filter(|(_, record)| record.owner == Some(me)).map(|(lane, _)| *lane);
        let mine: Vec<Lane> = mine.collect();
        mine.iter().try_for_each(|lane| tables.change_lane(*lane, LaneRecord::free))
    }
}
