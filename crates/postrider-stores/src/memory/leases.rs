//! Members and lanes.

use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{HeldLane, Lane, Leases, RelayId, Renewal, Result, Start, Term, Timestamp};

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
        Ok(orphans.map(|lease| lease.owner = None).count())
    }

    async fn members(&mut self) -> Result<Vec<RelayId>> {
        let tables = self.0.lock();
        let now = tables.now();
        Ok(tables.members.iter().filter(|(_, member)| member.expires_at > now).map(|(id, _)| *id).collect())
    }

    async fn owned(&mut self, me: RelayId) -> Result<Vec<HeldLane>> {
        let tables = self.0.lock();
        let mine = tables.leases.iter().filter(|(_, lease)| lease.owner == Some(me));
        Ok(mine.map(|(lane, lease)| HeldLane { lane: *lane, term: lease.term, start: lease.start }).collect())
    }

    async fn acquire(&mut self, me: RelayId, want: u16) -> Result<Vec<HeldLane>> {
        let mut tables = self.0.lock();
        let now = tables.now();
        if tables.members.get(&me).is_none_or(|member| member.expires_at <= now) {
            return Ok(Vec::new());
        }
        let free = tables.leases.iter_mut().filter(|(_, lease)| lease.owner.is_none());
        let taken = free.take(usize::from(want)).map(|(lane, lease)| {
            lease.owner = Some(me);
            lease.term = Term(lease.term.0 + 1);
            lease.start = if lease.clean { Start::Clean } else { Start::Careful };
            lease.clean = false;
            HeldLane { lane: *lane, term: lease.term, start: lease.start }
        });
        Ok(taken.collect())
    }

    async fn release(&mut self, me: RelayId, lanes: &[HeldLane]) -> Result<Vec<Lane>> {
        let mut tables = self.0.lock();
        let mut released = Vec::new();
        for held in lanes.iter().filter(|held| tables.holds(me, **held)).copied().collect::<Vec<_>>() {
            if let Some(lease) = tables.leases.get_mut(&held.lane) {
                lease.owner = None;
                lease.clean = held.start == Start::Clean;
                released.push(held.lane);
            }
        }
        Ok(released)
    }

    async fn leave(&mut self, me: RelayId) -> Result<()> {
        let mut tables = self.0.lock();
        tables.members.remove(&me);
        for lease in tables.leases.values_mut().filter(|lease| lease.owner == Some(me)) {
            lease.owner = None;
        }
        Ok(())
    }
}

fn in_future(tables: &Tables, ttl: Duration) -> Timestamp {
    Timestamp(tables.now().0.saturating_add(micros(ttl)))
}
