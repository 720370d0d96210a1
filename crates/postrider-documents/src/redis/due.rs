//! Finding what is due, in the order of the names, without holding up the server.
//!
//! There are two ways. By moment: read every member that is due, and keep the first names. By name: walk along the names and
//! keep those that are due. The server tells how many are due and how many there are, and the way that reads fewer is taken:
//! a few of many are found by moment, and of many that are due a page is found by name. Each command reads a piece. The last
//! member of one is where the next begins, which holds whatever is written meanwhile.

use std::collections::BTreeSet;

use postrider_core::{Collection, DocumentKey, Result, Timestamp};
use redis::pipe;

use super::classify::{misunderstood, unprepared};
use super::keys::{Keys, behind, digits, from_behind, named_by_moment, named_by_name};
use super::pool::Lent;
use super::store::{RedisDocuments, at_a_primary};
use crate::doing::Doing;
use crate::found::named;

/// How many members one command reads.
const PIECE: usize = 1000;
const DOING: Doing = Doing::Reading("finding what is due");

/// Which way reads fewer members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ByMoment,
    ByName,
}

/// By moment all that are due are read; by name as many as it takes to meet a page of them, where they are spread evenly.
fn shorter(due: usize, all: usize, at_most: usize) -> Way {
    let by_name = at_most.saturating_mul(all) / due.max(1);
    if due <= PIECE.max(by_name) { Way::ByMoment } else { Way::ByName }
}

/// One question.
struct Search<'a> {
    keys: &'a Keys,
    by: Timestamp,
    after: &'a str,
    at_most: usize,
}

impl RedisDocuments {
    pub(super) async fn find_due(
        &self,
        collection: &Collection,
        by: Timestamp,
        after: &str,
        at_most: usize,
    ) -> Result<Vec<DocumentKey>> {
        if at_most == 0 {
            return Ok(Vec::new());
        }
        let keys = self.keys(collection.as_str());
        let mut asked = pipe();
        asked.cmd("ZLEXCOUNT").arg(&keys.due).arg("-").arg(behind(by));
        asked.cmd("ZCARD").arg(&keys.due);
        at_a_primary(&mut asked, &keys);
        let mut lent = self.pool.lend().await?;
        let (due, all, is_prepared, _): (usize, usize, bool, i64) = lent.ask(DOING, &asked).await?;
        if !is_prepared {
            return Err(unprepared(DOING, &self.pool.options));
        }
        let search = Search { keys: &keys, by, after, at_most };
        let names = match shorter(due, all, at_most) {
            Way::ByMoment => self.by_moment(&mut lent, &search).await?,
            Way::ByName => self.by_name(&mut lent, &search).await?,
        };
        lent.give_back();
        names.iter().map(|name| named(collection, name)).collect()
    }

    async fn by_moment(&self, lent: &mut Lent<'_>, search: &Search<'_>) -> Result<BTreeSet<String>> {
        let (end, mut from) = (behind(search.by).into_bytes(), b"-".to_vec());
        let mut names = BTreeSet::new();
        loop {
            let members = piece(lent, &search.keys.due, &from, &end).await?;
            for member in &members {
                let name = named_by_moment(member).ok_or_else(|| misunderstood(DOING, &self.pool.options))?;
                if name > search.after {
                    names.insert(name.to_owned());
                }
                if names.len() > search.at_most {
                    names.pop_last();
                }
            }
            match members.last() {
                Some(last) if members.len() == PIECE => from = [b"(", last.as_slice()].concat(),
                _ => return Ok(names),
            }
        }
    }

    async fn by_name(&self, lent: &mut Lent<'_>, search: &Search<'_>) -> Result<BTreeSet<String>> {
        let (by, mut from) = (digits(Some(search.by)), from_behind(search.after));
        let mut names = BTreeSet::new();
        loop {
            let members = piece(lent, &search.keys.names, &from, b"+").await?;
            for member in &members {
                let (name, moment) = named_by_name(member).ok_or_else(|| misunderstood(DOING, &self.pool.options))?;
                if moment <= by.as_str() {
                    names.insert(name.to_owned());
                }
                if names.len() == search.at_most {
                    return Ok(names);
                }
            }
            match members.last() {
                Some(last) if members.len() == PIECE => from = [b"(", last.as_slice()].concat(),
                _ => return Ok(names),
            }
        }
    }
}

async fn piece(lent: &mut Lent<'_>, index: &str, from: &[u8], end: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut asked = pipe();
    asked.cmd("ZRANGEBYLEX").arg(index).arg(from).arg(end).arg("LIMIT").arg(0).arg(PIECE);
    let (members,): (Vec<Vec<u8>>,) = lent.ask(DOING, &asked).await?;
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_of_many_are_found_by_moment_and_a_page_of_many_by_name() {
        for (due, all, at_most, way) in [
            (0, 0, 500, Way::ByMoment),
            (500, 10_000_000, 500, Way::ByMoment),
            (50_000, 10_000_000, 500, Way::ByMoment),
            (1_400_000, 10_000_000, 500, Way::ByName),
            (10_000_000, 10_000_000, 500, Way::ByName),
            (5_000, 5_000, usize::MAX, Way::ByMoment),
        ] {
            assert_eq!(shorter(due, all, at_most), way, "{due} of {all}, {at_most} a page");
        }
    }
}
