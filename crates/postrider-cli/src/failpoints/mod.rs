//! Named points at which a test makes this process die, hang or fail: one before and one after every step of the relay,
//! of its leases, of retention and of a migration, and those inside the stores.
//!
//! Only a build with the feature `failpoints` has them. The variable `FAILPOINTS` says what happens where, as
//! [`postrider_stores::points::arm`] reads it; with `FAILPOINTS=list` the process prints the name of every point and ends.

mod broker;
mod operator;
mod store;

use std::io::Write;
use std::process::ExitCode;

use postrider_core::{Error, ErrorKind, Result};
use postrider_stores::points::{self, Fault};

pub(crate) use broker::pointed as broker;
pub(crate) use store::pointed as store;

const VARIABLE: &str = "FAILPOINTS";

/// The steps that have a point before and a point after them.
const STEPS: [&str; 21] = [
    "open",
    "migrate",
    "join",
    "renew",
    "evict",
    "owned",
    "members",
    "acquire",
    "release",
    "leave",
    "read",
    "due",
    "key",
    "walk",
    "sweep",
    "load",
    "check",
    "publish",
    "settle",
    "count",
    "retention",
];

/// Does what the variable asks for; some when that is all that this process is to do.
pub(crate) fn begin() -> Option<ExitCode> {
    let asked = std::env::var(VARIABLE).ok()?;
    if asked == "list" {
        let steps = STEPS.iter().flat_map(|step| [format!("{step}.before"), format!("{step}.after")]);
        let names: Vec<String> = steps.chain(points::names().map(str::to_owned)).collect();
        let written = writeln!(std::io::stdout(), "{}", names.join("\n"));
        return Some(if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let wrong = points::arm(&asked).err()?;
    drop(writeln!(std::io::stderr(), "{VARIABLE}: {wrong}"));
    Some(ExitCode::FAILURE)
}

/// A step of this name between its two points, `NAME.before` and `NAME.after`. A failure that is asked for at the second
/// leaves open whether the step was taken.
pub(crate) async fn step<T>(name: &str, step: impl Future<Output = Result<T>>) -> Result<T> {
    reach(&format!("{name}.before"), ErrorKind::Unavailable).await?;
    let done = step.await?;
    reach(&format!("{name}.after"), ErrorKind::Unknown).await?;
    Ok(done)
}

async fn reach(point: &str, kind: ErrorKind) -> Result<()> {
    match points::reached(point) {
        None | Some(Fault::Abort) => Ok(()),
        Some(Fault::Delay(time)) => {
            tokio::time::sleep(time).await;
            Ok(())
        }
        Some(Fault::Error) => Err(Error::new(kind, format!("failpoint {point}"))),
    }
}
