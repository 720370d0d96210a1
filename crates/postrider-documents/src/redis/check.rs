//! What an answered write is worth at this server: its own settings, as far as they can be seen.

use std::collections::HashMap;

use postrider_core::{Error, ErrorKind, Finding, Level, Result};
use redis::pipe;

use super::classify::unprepared;
use super::keys::prepared;
use super::options::{Encryption, RedisOptions};
use super::pool::Lent;
use super::store::RedisDocuments;
use crate::doing::Doing;
use crate::found::found;

const DOING: Doing = Doing::Reading("looking at the server");
const SETTINGS: [&str; 4] = ["appendonly", "appendfsync", "no-appendfsync-on-rewrite", "maxmemory-policy"];
const UNSEEN: &str = "grant this user `+info +config|get`, or ask who runs the server";

/// What the server tells of itself. A user may be refused either, and a service that others run has often none.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// What `INFO` says.
    told: HashMap<String, String>,
    /// What `CONFIG GET` says.
    set: HashMap<String, String>,
}

impl Seen {
    pub(super) async fn by(lent: &mut Lent<'_>) -> Result<Self> {
        let mut seen = Self::default();
        let mut asked = pipe();
        asked.cmd("INFO");
        if let Ok((told,)) = lent.answer::<(String,)>(DOING, &asked).await? {
            let lines = told.lines().filter_map(|line| line.split_once(':'));
            seen.told = lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        }
        for setting in SETTINGS {
            let mut asked = pipe();
            asked.cmd("CONFIG").arg("GET").arg(setting);
            if let Ok((set,)) = lent.answer::<(HashMap<String, String>,)>(DOING, &asked).await? {
                seen.set.extend(set);
            }
        }
        Ok(seen)
    }

    fn told(&self, what: &str) -> Option<&str> {
        self.told.get(what).map(String::as_str)
    }

    fn set(&self, what: &str) -> Option<&str> {
        self.set.get(what).map(String::as_str)
    }

    fn policy(&self) -> Option<&str> {
        self.set("maxmemory-policy").or_else(|| self.told("maxmemory_policy"))
    }

    fn is_logged(&self) -> Option<bool> {
        let told = || self.told("aof_enabled").map(|enabled| enabled == "1");
        self.set("appendonly").map(|set| set == "yes").or_else(told)
    }
}

impl RedisDocuments {
    pub(super) async fn look(&self) -> Result<Vec<Finding>> {
        let options = &self.pool.options;
        let mut lent = self.pool.lend().await?;
        let mut asked = pipe();
        asked.cmd("EXISTS").arg(prepared(&options.prefix));
        let (is_prepared,): (bool,) = lent.ask(DOING, &asked).await?;
        if !is_prepared {
            return Err(unprepared(DOING, options));
        }
        let (seen, server) = (Seen::by(&mut lent).await?, lent.server().to_owned());
        lent.give_back();
        kept(&seen, options)?;
        self.probe().await?;
        Ok(vec![
            found(Level::Good, "documents", format!("{server}, a primary, which runs scripts that write"), ""),
            durability(&seen),
            eviction(&seen),
            replication(&seen),
            encryption(options),
        ])
    }
}

/// Whether documents stay where they are written.
pub(super) fn kept(seen: &Seen, options: &RedisOptions) -> Result<()> {
    let Some(policy) = seen.policy().filter(|policy| policy.starts_with("allkeys")) else { return Ok(()) };
    let what = format!(
        "the server at {} takes documents away when it is out of memory: maxmemory-policy is {policy}",
        options.place()
    );
    Err(Error::new(ErrorKind::Config, what).advise("set maxmemory-policy noeviction, or use a server that is no cache"))
}

fn durability(seen: &Seen) -> Finding {
    let warning = |text: &str, advice: &str| found(Level::Warning, "durability", text.to_owned(), advice);
    let is_paused = seen.set("no-appendfsync-on-rewrite") == Some("yes");
    match (seen.is_logged(), seen.set("appendfsync")) {
        (None, _) => warning("neither INFO nor CONFIG GET may be asked: it could not be seen", UNSEEN),
        (Some(false), _) => warning(
            "appendonly is no: a crash of the server loses every write since its last snapshot, where it makes any",
            "set appendonly yes and appendfsync always",
        ),
        (Some(true), None) => {
            warning("appendonly is yes, but CONFIG GET may not be asked: appendfsync could not be seen", UNSEEN)
        }
        (Some(true), Some("always")) if is_paused => warning(
            "no-appendfsync-on-rewrite is yes: while the log is rewritten, a crash of the machine loses answered writes",
            "set no-appendfsync-on-rewrite no",
        ),
        (Some(true), Some("always")) => found(
            Level::Good,
            "durability",
            "an answered write is on the disk (appendonly yes, appendfsync always)".to_owned(),
            "",
        ),
        (Some(true), Some("everysec")) => warning(
            "appendfsync is everysec: a crash of the machine loses the writes of about a second",
            "set appendfsync always",
        ),
        (Some(true), Some(_)) => warning(
            "appendfsync is no: a crash of the machine loses what its system had not yet written, half a minute or so",
            "set appendfsync always",
        ),
    }
}

fn eviction(seen: &Seen) -> Finding {
    let warning = |text: String, advice: &str| found(Level::Warning, "eviction", text, advice);
    match seen.policy() {
        Some("noeviction") => {
            found(Level::Good, "eviction", "none: a full server refuses writes (noeviction)".to_owned(), "")
        }
        Some(policy) => warning(
            format!("maxmemory-policy is {policy}: a full server takes away what expires, and no document does"),
            "set maxmemory-policy noeviction, and let nobody give keys under the prefix an expiry",
        ),
        None => warning("neither INFO nor CONFIG GET may be asked: it could not be seen".to_owned(), UNSEEN),
    }
}

fn replication(seen: &Seen) -> Finding {
    match seen.told("connected_slaves") {
        Some("0") => found(Level::Good, "replication", "no replica follows: none takes over".to_owned(), ""),
        Some(replicas) => found(
            Level::Warning,
            "replication",
            format!("{replicas} replicas follow, asynchronously: where one takes over, answered writes can be lost"),
            "take into account that a message is handled again after a failover, or keep documents where none is lost",
        ),
        None => found(
            Level::Warning,
            "replication",
            "INFO may not be asked: whether a replica takes over, and loses answered writes, could not be seen"
                .to_owned(),
            UNSEEN,
        ),
    }
}

fn encryption(options: &RedisOptions) -> Finding {
    match (&options.encryption, options.is_local()) {
        (Encryption::Verified(_), _) => found(Level::Good, "encryption", "TLS, verified".to_owned(), ""),
        (Encryption::Disabled, true) => found(Level::Good, "encryption", "none, on this machine".to_owned(), ""),
        (Encryption::Disabled, false) => {
            found(Level::Warning, "encryption", "none".to_owned(), "use rediss: outside this machine")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(told: &[(&str, &str)], set: &[(&str, &str)]) -> Seen {
        let owned = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        Seen { told: owned(told), set: owned(set) }
    }

    #[test]
    fn only_what_is_on_the_disk_when_it_is_answered_is_good() {
        let always = [("appendonly", "yes"), ("appendfsync", "always"), ("no-appendfsync-on-rewrite", "no")];
        assert_eq!(durability(&seen(&[], &always)).level, Level::Good);
        for (told, set, says) in [
            (&[][..], &[][..], "could not be seen"),
            (&[("aof_enabled", "1")], &[], "could not be seen"),
            (&[("aof_enabled", "0")], &[], "last snapshot"),
            (&[], &[("appendonly", "no"), ("appendfsync", "always")], "last snapshot"),
            (&[], &[("appendonly", "yes"), ("appendfsync", "everysec")], "a second"),
            (&[], &[("appendonly", "yes"), ("appendfsync", "no")], "half a minute"),
            (
                &[],
                &[("appendonly", "yes"), ("appendfsync", "always"), ("no-appendfsync-on-rewrite", "yes")],
                "rewritten",
            ),
        ] {
            let finding = durability(&seen(told, set));
            assert!(finding.level == Level::Warning && finding.found.contains(says), "{finding:?}");
            assert!(!finding.advice.is_empty(), "{finding:?}");
        }
    }

    #[test]
    fn a_cache_is_refused_and_less_than_that_is_told() {
        let options = RedisOptions::new("redis://h/0").unwrap();
        for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
            assert_eq!(
                kept(&seen(&[], &[("maxmemory-policy", policy)]), &options).unwrap_err().kind(),
                ErrorKind::Config
            );
            assert!(kept(&seen(&[("maxmemory_policy", policy)], &[]), &options).is_err());
        }
        for (policy, level) in [("noeviction", Level::Good), ("volatile-lru", Level::Warning)] {
            let seen = seen(&[("maxmemory_policy", policy)], &[]);
            kept(&seen, &options).unwrap();
            assert_eq!(eviction(&seen).level, level);
        }
        assert_eq!(eviction(&Seen::default()).level, Level::Warning);
    }

    #[test]
    fn a_replica_that_may_take_over_is_told() {
        for (told, level) in [
            (&[("connected_slaves", "0")][..], Level::Good),
            (&[("connected_slaves", "2")], Level::Warning),
            (&[], Level::Warning),
        ] {
            assert_eq!(replication(&seen(told, &[])).level, level);
        }
    }
}
