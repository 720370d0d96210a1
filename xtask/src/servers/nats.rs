//! A NATS server that keeps what it acknowledged when it is killed, which Debian's does not: built by Go's own client, beside
//! Debian's.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::Result;

/// The version that is killed; `crates/postrider-testkit/src/servers/nats.rs` starts the same.
const VERSION: &str = "2.15.3";
/// What the table calls it.
pub const NAME: &str = "nats-server 2.15.3 (go)";

/// Its program, where it is installed.
pub fn found() -> Option<PathBuf> {
    super::caches().map(|cache| cache.join(format!("nats-{VERSION}/nats-server"))).find(|file| file.is_file())
}

/// Builds it in the cache folder.
///
/// # Errors
/// When Go is not here, or does not get it.
pub fn bring() -> Result<()> {
    let cache = super::cache()?;
    let (folder, work) = (cache.join(format!("nats-{VERSION}")), cache.join("nats-being-built"));
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work)?;
    let module = format!("github.com/nats-io/nats-server/v2@v{VERSION}");
    println!("go install {module}");
    let mut command = Command::new("go");
    command.args(["install", &module]).env("GOBIN", &work).current_dir(&work).stdin(Stdio::null());
    let status = command.status().map_err(|error| format!("go: {error}"))?;
    if !status.success() {
        return Err(format!("go install {module}: {status}").into());
    }
    // Whole or not at all: a run that is killed leaves nothing that looks like a server.
    let _ = fs::remove_dir_all(&folder);
    fs::rename(&work, &folder)?;
    Ok(())
}
