//! Which relay has which lanes, in few words.

use postrider_core::{Lane, LaneStatus, MemberStatus, StoreStatus};
use uuid::Uuid;

use crate::config::values::spoken;
use crate::output::table::{Table, visible};

/// The members, each with its id, so that two of one name can be told apart, and the lanes and terms it holds.
pub(crate) fn members(store: &StoreStatus) -> String {
    let mut table = Table::new(&["relay", "id", "lease left", "lanes", "terms", "which"]);
    for member in &store.members {
        let mine: Vec<&LaneStatus> = owned_by(store, member.id).collect();
        let left = if member.lease_left.is_zero() { "expired".to_owned() } else { spoken(member.lease_left) };
        table.row([
            member.name.clone(),
            member.id.to_string(),
            left,
            mine.len().to_string(),
            terms(&mine),
            ranges(mine.iter().map(|lane| lane.lane)),
        ]);
    }
    table.render()
}

/// How many lanes have an owner, and which have none among the members.
pub(crate) fn owners(store: &StoreStatus) -> String {
    let owned = store.lanes.iter().filter(|lane| lane.owner.is_some()).count();
    let is_member = |owner: Uuid| store.members.iter().any(|member| member.id == owner);
    let free = ranges(store.lanes.iter().filter(|lane| !lane.owner.is_some_and(is_member)).map(|lane| lane.lane));
    let free = if free.is_empty() { free } else { format!("; of no relay: {free}") };
    format!("{owned} of {} have an owner{free}", store.lanes.len())
}

/// Which messages wait for each other, where it is not those of a key; with one order of all of them who leads, and how
/// many could take over.
pub(crate) fn order(store: &StoreStatus, ordering: &str) -> Option<String> {
    match ordering {
        "none" => Some("none: messages overtake each other".to_owned()),
        "everything" => {
            let leads = |member: &&MemberStatus| owned_by(store, member.id).next().is_some();
            let living = store.members.iter().filter(|member| !member.lease_left.is_zero());
            let (leaders, standbys): (Vec<_>, Vec<_>) = living.partition(leads);
            let leader = leaders.first().map_or("no relay".to_owned(), |leader| visible(&leader.name));
            Some(format!("of all messages: {leader} leads, {} standing by", standbys.len()))
        }
        _ => None,
    }
}

/// The lanes of one relay, in order.
pub(crate) fn owned_by(store: &StoreStatus, owner: Uuid) -> impl Iterator<Item = &LaneStatus> {
    store.lanes.iter().filter(move |lane| lane.owner == Some(owner))
}

fn terms(lanes: &[&LaneStatus]) -> String {
    let numbers = || lanes.iter().map(|lane| lane.term.0);
    match (numbers().min(), numbers().max()) {
        (Some(least), Some(most)) if least == most => least.to_string(),
        (Some(least), Some(most)) => format!("{least} to {most}"),
        _ => String::new(),
    }
}

/// Numbers in order, neighbours drawn together: `0-3 7`.
fn ranges(lanes: impl Iterator<Item = Lane>) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for Lane(lane) in lanes {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(lane) => *last = lane,
            _ => runs.push((lane, lane)),
        }
    }
    let shown =
        runs.iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use postrider_core::Term;

    use super::*;

    fn status(owners: &[Option<u128>]) -> StoreStatus {
        let lane = |(lane, owner): (usize, &Option<u128>)| LaneStatus {
            lane: Lane(u16::try_from(lane).unwrap()),
            owner: owner.map(Uuid::from_u128),
            term: Term(i64::try_from(lane).unwrap()),
        };
        let member = |n: u128| MemberStatus {
            id: Uuid::from_u128(n),
            name: "twin".to_owned(),
            lease_left: Duration::from_secs(n as u64),
        };
        StoreStatus {
            members: vec![member(0), member(5)],
            lanes: owners.iter().enumerate().map(lane).collect(),
            ..StoreStatus::default()
        }
    }

    #[test]
    fn two_relays_of_one_name_are_told_apart_with_their_lanes_and_terms() {
        let shown = members(&status(&[Some(5), Some(5), Some(0), Some(5), None]));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].contains("00000000-0000-0000-0000-000000000000") && lines[1].contains("expired"), "{shown}");
        assert!(lines[1].ends_with("1      2       2"), "{shown}");
        assert!(lines[2].contains("000000000005") && lines[2].ends_with("3      0 to 3  0-1 3"), "{shown}");
    }

    #[test]
    fn an_order_that_is_not_that_of_the_keys_is_told_with_its_leader() {
        let led = status(&[Some(5)]);
        assert_eq!(order(&led, "everything").unwrap(), "of all messages: twin leads, 0 standing by");
        let free = status(&[None]);
        assert_eq!(order(&free, "everything").unwrap(), "of all messages: no relay leads, 1 standing by");
        assert_eq!(order(&led, "none").unwrap(), "none: messages overtake each other");
        assert_eq!(order(&led, "key"), None);
    }

    #[test]
    fn lanes_of_nobody_and_of_the_dead_are_named() {
        assert_eq!(owners(&status(&[Some(5), Some(0)])), "2 of 2 have an owner");
        assert_eq!(owners(&status(&[Some(5), None, Some(9), Some(0)])), "3 of 4 have an owner; of no relay: 1-2");
    }
}
