//! Named points at which a test makes this process die, hang or fail.
//!
//! Only a build with the feature `failpoints` has them; every other build has no code of them at all. Whoever owns the
//! process arms points and carries out what is asked for at those of its own; the points of this crate stand before the
//! commits of SQLite, with the write lock held.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What is asked for at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process dies there, without any handler or destructor.
    Abort,
    /// The step hangs for so long, while everything else goes on.
    Delay(Duration),
    /// The step fails.
    Error,
}

/// The points of this crate, each with what the transaction before whose commit it stands is doing.
const COMMITS: [(&str, &str); 9] = [
    ("join.commit", "joining the relays"),
    ("renew.commit", "renewing the lease"),
    ("evict.commit", "evicting expired relays"),
    ("acquire.commit", "acquiring lanes"),
    ("release.commit", "releasing lanes"),
    ("leave.commit", "leaving the relays"),
    ("settle.commit", "settling"),
    ("retention.commit", "removing what is past its retention"),
    ("migrate.commit", "migrating the store"),
];

static ARMED: Mutex<Vec<(String, Fault)>> = Mutex::new(Vec::new());

/// The names of the points of this crate.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMITS.iter().map(|(name, _)| *name)
}

/// Asks for faults, each at the first time that its point is reached: `NAME=abort`, `NAME=error`, or `NAME=3000` to hang
/// for so many milliseconds; several are joined by `;`.
///
/// # Errors
/// What cannot be read, in words.
pub fn arm(asked: &str) -> Result<(), String> {
    let mut faults = Vec::new();
    for one in asked.split(';').filter(|one| !one.is_empty()) {
        let (name, what) = one.split_once('=').ok_or_else(|| format!("{one:?}: expected NAME=FAULT"))?;
        let fault = match (what, what.parse()) {
            ("abort", _) => Fault::Abort,
            ("error", _) => Fault::Error,
            (_, Ok(milliseconds)) => Fault::Delay(Duration::from_millis(milliseconds)),
            _ => return Err(format!("{what:?}: expected abort, error or milliseconds")),
        };
        faults.push((name.to_owned(), fault));
    }
    *ARMED.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    Ok(())
}

/// What is to happen now that this point is reached. It is said on standard error, and a process that is to die does so
/// here.
pub fn reached(name: &str) -> Option<Fault> {
    let mut armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
    let place = armed.iter().position(|(known, _)| known == name)?;
    let (_, fault) = armed.swap_remove(place);
    eprintln!("failpoint {name}: {fault:?}");
    if fault == Fault::Abort {
        std::process::abort();
    }
    Some(fault)
}

/// The same for the commit of a transaction that is doing this.
#[cfg(feature = "sqlite")]
pub(crate) fn before_commit(doing: &str) -> Option<Fault> {
    COMMITS.iter().find(|(_, known)| *known == doing).and_then(|(name, _)| reached(name))
}
